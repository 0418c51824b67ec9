//! Recounts of a database's queues: which tables are counted, when, and by which process.
//!
//! 1. The database worker counts for a short time in each round: first the tables that a caller waits for, then the
//!    tables of all owners in turn.
//! 2. A job worker counts a table that is too large for that, without a time limit.
//!
//! So neither a huge table nor slow rows delay other queues.

use crate::parts::schedule::workers::WorkerAssignment;
use crate::parts::schedule::{WorkKind, requests};
use crate::parts::slot;
use crate::queue;
use crate::queue::recount::{self, Counted, RecountPurpose, Stopped};
use crate::server::relation::{self, LockMode, Relation};
use crate::server::worker::Timeout;
use crate::server::{injection, process, time, xact};
use crate::worker::known::KnownQueue;
use crate::worker::maintenance::BUSY_PAUSES;
use pgrx::pg_sys::Oid;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use xqueue_core::pause::Limits;
use xqueue_core::slot_id::SlotId;

/// Time limit of a recount in the database worker, and the total after which no further recount begins in a round.
const LIMIT: Duration = Duration::from_millis(100);
/// A table with more pages is counted by a job worker.
const MOST_PAGES: u32 = 1000;
/// Retry pauses for a table that another command needed exclusively. Its unfinished recount is lost.
const PAUSES: Limits = (Duration::from_millis(100), Duration::from_secs(60));

pub struct Recounts {
    database: u32,
    /// The limit has left some tables to the next round.
    is_cut_off: bool,
}

impl Recounts {
    pub fn of(database: u32) -> Recounts {
        Recounts { database, is_cut_off: false }
    }

    /// Counts the tables that need it, except those that prepared transactions have changed.
    pub fn work(&mut self, queues: &HashMap<Oid, KnownQueue>, unsettled: &HashSet<Oid>) {
        let begun = Instant::now();
        self.is_cut_off = false;
        for table in self.in_turn(queues, unsettled) {
            if begun.elapsed() >= LIMIT {
                self.is_cut_off = true;
                return;
            }
            let Some(queue) = queues.get(&table) else { continue };
            let counted = count_briefly(table);
            note(queue.slot(), counted);
            if counted == Err(Stopped::TooLong) {
                let (owner, counts) = (queue.owner.into(), table.into());
                requests::want_job_worker(WorkerAssignment {
                    database: self.database,
                    owner,
                    counts,
                });
            }
        }
    }

    /// Returns the tables to be counted now: first the awaited ones, then the first table of each owner, the second of
    /// each, and so on.
    fn in_turn(&self, queues: &HashMap<Oid, KnownQueue>, unsettled: &HashSet<Oid>) -> Vec<Oid> {
        let (mut counts, mut ranked) = (HashMap::<Oid, u32>::new(), vec![]);
        for (table, queue) in self.wanting(queues) {
            let is_due = left(queue).is_some_and(|left| left.is_zero());
            if is_due && !unsettled.contains(&table) {
                let slot = slot::lock(queue.slot());
                let is_awaited = slot.is_some_and(|slot| slot.counters.is_recount_awaited());
                let count = counts.entry(queue.owner).or_default();
                *count += 1;
                ranked.push((!is_awaited, *count, table));
            }
        }
        ranked.sort_unstable_by_key(|(is_later, count, _)| (*is_later, *count));
        ranked.into_iter().map(|(_, _, table)| table).collect()
    }

    /// Returns the queues that need a recount and have no job worker for it.
    fn wanting<'q>(
        &self,
        queues: &'q HashMap<Oid, KnownQueue>,
    ) -> impl Iterator<Item = (Oid, &'q KnownQueue)> {
        let counted = requests::counted(self.database);
        let queues = queues.iter().map(|(table, queue)| (*table, queue));
        let is_counted = move |table: Oid| counted.contains(&u32::from(table));
        queues.filter(move |(table, queue)| left(queue).is_some() && !is_counted(*table))
    }

    /// Returns the time until the next recount; None means wait for a signal.
    pub fn pause(&self, queues: &HashMap<Oid, KnownQueue>) -> Option<Duration> {
        let least = if self.is_cut_off { Duration::ZERO } else { BUSY_PAUSES.1 };
        let wanting = self.wanting(queues).filter_map(|(_, queue)| left(queue));
        wanting.map(|left| left.max(least)).min()
    }
}

/// Returns the time until the queue's recount is due; None if it needs no recount.
fn left(queue: &KnownQueue) -> Option<Duration> {
    let slot = slot::lock(queue.slot()).filter(|slot| slot.counters.needs_recount())?;
    Some(slot.schedule.retry_left(WorkKind::Recount, time::now()))
}

fn note(slot: SlotId, counted: Result<(), Stopped>) {
    slot::with(slot, |slot| match counted {
        Err(Stopped::InTheWay) => slot.schedule.retry_after(WorkKind::Recount, time::now(), PAUSES),
        Err(Stopped::TooLong) => {}
        Ok(()) => {
            slot.schedule.end_retry(WorkKind::Recount);
            slot.end_failure(WorkKind::Recount);
        }
    });
}

/// Counts a table within the limits of the database worker.
fn count_briefly(table: Oid) -> Result<(), Stopped> {
    let counted = xact::try_in_transaction(|| {
        let _limit = Timeout::after(LIMIT);
        count(table, RecountPurpose::RenewBriefly, MOST_PAGES)
    });
    // After an error, a job worker counts again and reports the error.
    counted.unwrap_or(Err(Stopped::TooLong))
}

/// Counts a table without a limit, in a job worker.
pub fn count_at_leisure(table: Oid) {
    injection::point(c"xqueue-recounter-begins");
    let counted = xact::try_in_transaction(|| count(table, RecountPurpose::Renew, u32::MAX));
    let Some(slot) = slot::find(process::database().into(), table.into()) else { return };
    match counted {
        Ok(counted) => note(slot, counted),
        Err(failure) => {
            slot::with(slot, |slot| {
                slot.fail(WorkKind::Recount, &failure.message);
                slot.schedule.retry_after(WorkKind::Recount, time::now(), PAUSES);
            });
        }
    }
}

/// Counts a table, unless another command needs it or the list of queues. If the count does not finish, dropping its
/// claim requests it again.
fn count(table: Oid, purpose: RecountPurpose, most_pages: u32) -> Result<(), Stopped> {
    if !queue::try_lock() || !relation::try_lock_whole(table, LockMode::AccessShare) {
        return Err(Stopped::InTheWay);
    }
    if Relation::open(table, LockMode::None).is_some_and(|relation| relation.pages() > most_pages) {
        return Err(Stopped::TooLong);
    }
    let Some(queue) = queue::find(table).map_err(|_| Stopped::InTheWay)? else { return Ok(()) };
    let Counted { counts, mut slot, .. } = recount::count(&queue, purpose)?;
    slot.counters().set_counted(&counts);
    slot.waiters().nudge_for_counted();
    Ok(())
}
