//! Effects of other commands on queues: tables dropped, altered and restored, the extension created and dropped,
//! databases needed exclusively, prepared transactions resolved.

pub mod altered;
mod labels;
pub mod places;
mod restored;

use crate::ddl::altered::Altered;
use crate::error::OrRaise;
use crate::parts::leases::session;
use crate::parts::schedule::requests;
use crate::parts::slot;
use crate::server::callbacks::{self, ObjectEvent, TransactionEvent};
use crate::server::command::{Command, Purpose};
use crate::server::context::Remedy;
use crate::server::{catalog, latch, privileges, process, shared_memory, xact};
use crate::{queue, transaction};
use pgrx::pg_sys::Oid;
use std::cell::Cell;
use std::time::{Duration, Instant};
use xqueue_core::statement::UPDATE_TRIGGER;

/// Maximum wait of a command for the worker to leave the database that the command needs; then the command continues
/// and can fail.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

pub fn object_changed(event: ObjectEvent, object: Oid) {
    if !shared_memory::is_available() {
        return;
    }
    let slot_of = |table: Oid| slot::find(process::database().into(), table.into());
    match event {
        ObjectEvent::TableChanged => {
            if let Some(slot) = slot_of(object) {
                transaction::note_table(slot);
                places::note_owner(slot, object);
            }
        }
        ObjectEvent::TableDropped => {
            if let Some(slot) = slot_of(object) {
                transaction::note(slot, |delta| delta.table.dropped = Some(true));
                transaction::note_registry_change();
            } else if catalog::table_of_index(object).and_then(slot_of).is_some() {
                // A queue can need the dropped index.
                transaction::note_registry_change();
            }
        }
        ObjectEvent::SchemaChanged | ObjectEvent::SubscriptionChanged => {
            transaction::note_registry_change()
        }
        ObjectEvent::TriggerChanged => altered::note(Altered::Trigger(object)),
        ObjectEvent::TriggerDropped => {
            if let Some(table) = catalog::table_of_trigger(object)
                && let Some(slot) = slot_of(table)
            {
                transaction::note(slot, |delta| delta.table.redefined = true);
                altered::note(Altered::Table(table));
            }
        }
        // A new extension is not in the catalogs yet.
        ObjectEvent::ExtensionChanged => transaction::note_extension(catalog::is_own(object)),
        // The new database can be a copy of a database that has the extension.
        ObjectEvent::DatabaseCreated => transaction::note_created_database(object.into()),
        ObjectEvent::DatabaseDropped => transaction::note_dropped_database(object.into()),
    }
}

/// Checks the results of DDL before commit or prepare: the owners of altered tables, whether the extension is installed
/// now, and whether triggers report every change.
pub fn transaction_ended(event: TransactionEvent) {
    match event {
        TransactionEvent::PreCommit | TransactionEvent::PrePrepare => settle(),
        TransactionEvent::Commit | TransactionEvent::Prepare | TransactionEvent::Abort => {
            altered::forget_since(0);
        }
    }
}

fn settle() {
    if transaction::has_altered_tables() {
        places::settle().or_raise();
    }
    if transaction::has_changed_extension() {
        transaction::note_installed(catalog::is_installed());
    }
    if transaction::has_altered_triggers() {
        for (slot, tracked) in altered::settle() {
            transaction::note(slot, |delta| {
                (delta.counters.tracked, delta.counters.recount) = (Some(tracked), true)
            });
        }
    }
}

thread_local! {
    /// The database that the running command needs exclusively.
    static OCCUPIED: Cell<Option<u32>> = const { Cell::new(None) };
    static EXIT_WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Makes the extension's workers leave a database that a command needs exclusively. Does nothing if the server would
/// refuse the command to the current role.
pub fn before_command(command: &Command) {
    if let Command::OccupyDatabase { name, purpose } = command
        && shared_memory::is_available()
        && xact::is_open()
        && let Some(database) = catalog::find_database(name)
        && may_occupy(database, *purpose)
    {
        if !EXIT_WATCHED.replace(true) {
            callbacks::at_exit(vacate_on_exit, 0);
        }
        requests::occupy(database.into());
        OCCUPIED.set(Some(database.into()));
        let deadline = Instant::now() + LEAVE_TIMEOUT;
        while requests::has_workers(database.into()) && Instant::now() < deadline {
            latch::wait(latch::Reason::Other, Some(Duration::from_millis(5)), false);
        }
    }
}

/// Returns whether the server would let the current role use a database for this purpose.
fn may_occupy(database: Oid, purpose: Purpose) -> bool {
    let owns = || privileges::owns_database(database);
    match purpose {
        Purpose::Drop | Purpose::Move => owns(),
        Purpose::Rename => owns() && privileges::may_create_database(),
        Purpose::Copy => {
            privileges::may_create_database() && (catalog::is_template(database) || owns())
        }
    }
}

/// Returns the remedy for a user whose change of a queue column's type the server refuses.
pub fn remedy(command: &Command) -> Option<Remedy> {
    let Command::AlterColumnType(table) = command else { return None };
    queue::read(*table).ok().flatten()?;
    let name = catalog::quote_literal(&queue::display_name(*table));
    let hint = format!(
        "The table is a queue. In one transaction: SELECT xqueue.downgrade({name}); alter the column; \
         SELECT xqueue.upgrade({name}, options); where options is the definition that \
         xqueue.upgrade({name}, dry_run => true) shows before, without \"queue\" and \"key\"."
    );
    Some(Remedy { trigger: UPDATE_TRIGGER, hint })
}

pub fn after_command(command: &Command, succeeded: bool) {
    if !shared_memory::is_available() {
        return;
    }
    match command {
        Command::ResolvePrepared if succeeded => {
            requests::request(process::database().into(), |requests| {
                requests.prepared = true;
                requests.registry = true;
                requests.sessions = true;
            });
        }
        Command::DiscardAll if succeeded => session::end(),
        Command::OccupyDatabase { .. } => vacate(),
        Command::RenameLabel(renamed) if succeeded => labels::follow(renamed).or_raise(),
        Command::ResolvePrepared
        | Command::DiscardAll
        | Command::RenameLabel(_)
        | Command::AlterColumnType(_) => {}
    }
}

fn vacate() {
    if let Some(database) = OCCUPIED.take() {
        requests::vacate(database);
    }
}

/// Releases the database if the backend is terminated during the command, before `after_command`.
fn vacate_on_exit(_argument: u32) {
    vacate();
}
