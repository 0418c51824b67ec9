//! Recounting large queues beside the worker, which has more urgent things to do.

use crate::background_worker;
use crate::pg::relation::{self, Lock, Relation};
use crate::pg::{callbacks, injection, transaction, worker};
use crate::recount;
use crate::registry;
use crate::shmem::{databases, queues};
use pgrx::pg_sys::Oid;

/// Up to so many pages the worker counts itself: some milliseconds.
pub const PAGES_COUNTED_BY_WORKER: u32 = 1000;

/// Starts a process that counts what has to be counted in a database, unless one runs.
pub fn start(database: u32) {
    if databases::claim_recounter(database)
        && !worker::start("xqueue recount", "xqueue_recount_main", database)
    {
        databases::release_recounter(database);
    }
}

background_worker!(xqueue_recount_main => main);

fn main(database: u32) {
    callbacks::at_exit(release_on_exit, database);
    worker::handle_signals();
    worker::connect(Some(database));
    injection::point(c"xqueue-recounter-begins");
    for (slot, table) in queues::all(Some(database)) {
        let needed = queues::lock(slot).is_some_and(|slot| slot.needs_recount());
        if needed && !databases::is_occupied(database) {
            recount(Oid::from(table), None);
        }
    }
}

fn release_on_exit(database: u32) {
    databases::release_recounter(database);
}

/// What came of a recount.
pub enum Recounted {
    Done,
    /// Someone needs the table for himself, or too many recounts are running.
    Later,
    /// It has more pages than the limit.
    TooLarge,
}

/// Counts the tasks of a queue whose table has no more pages than `limit`. What comes to nothing
/// is asked for again by the claim that is dropped.
pub fn recount(table: Oid, limit: Option<u32>) -> Recounted {
    let counted = transaction::try_in_transaction(|| {
        if !registry::try_lock() || !relation::try_lock(table, Lock::AccessShare) {
            return Recounted::Later;
        }
        let pages = Relation::open(table, Lock::None).map_or(0, |relation| relation.pages());
        if limit.is_some_and(|limit| pages > limit) {
            return Recounted::TooLarge;
        }
        let queue = match registry::find(table) {
            Ok(Some(queue)) => queue,
            Ok(None) => return Recounted::Done,
            Err(_) => return Recounted::Later,
        };
        match recount::count(&queue, true) {
            Some((tasks, mut slot)) => {
                slot.set_counted(&tasks);
                slot.nudge_for_counted();
                Recounted::Done
            }
            None => Recounted::Later,
        }
    });
    counted.unwrap_or(Recounted::Later)
}
