//! Triggers created, dropped, enabled or disabled by the open transaction: the queue's counters miss table changes made
//! without them.

use crate::parts::slot;
use crate::queue;
use crate::queue::triggers::Tracking;
use crate::server::allocator::staying;
use crate::server::relation::{self, LockMode};
use crate::server::{catalog, process, subscription, xact};
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use xqueue_core::slot_id::SlotId;

/// A change of triggers.
#[derive(Clone, Copy)]
pub enum Altered {
    /// A trigger created, enabled or disabled; its table cannot be looked up before the command ends.
    Trigger(Oid),
    /// A table that lost a trigger.
    Table(Oid),
}

thread_local! {
    static NOTED: RefCell<Vec<Altered>> = const { RefCell::new(Vec::new()) };
}

pub fn note(altered: Altered) {
    crate::transaction::note_altered();
    staying(|| NOTED.with_borrow_mut(|noted| noted.push(altered)));
}

/// Returns the number of changes noted so far.
pub fn count() -> usize {
    NOTED.with_borrow(Vec::len)
}

/// Discards changes noted beyond `count`: `upgrade` updates the counters itself.
pub fn forget_since(count: usize) {
    NOTED.with_borrow_mut(|noted| noted.truncate(count));
}

/// Returns the queues whose triggers have changed, and whether these triggers now report every change of the table.
/// Must be called before the transaction commits.
pub fn settle() -> Vec<(SlotId, bool)> {
    let noted = NOTED.take();
    if !noted.is_empty() {
        xact::see_own_changes();
    }
    noted.into_iter().filter_map(settled).collect()
}

fn settled(altered: Altered) -> Option<(SlotId, bool)> {
    let table = match altered {
        Altered::Trigger(trigger) => catalog::table_of_trigger(trigger)?,
        Altered::Table(table) => table,
    };
    let slot = slot::find(process::database().into(), table.into())?;
    // Another transaction can hold the table by now, for example after a rollback to a savepoint. The worker checks it
    // then.
    let is_locked = relation::try_lock(table, LockMode::AccessShare);
    let queue = if is_locked { queue::find(table).ok().flatten() } else { None };
    let tracking = queue.map_or(Tracking::Nothing, |queue| queue.tracking);
    Some((slot, tracking.is_complete(subscription::copies(table))))
}
