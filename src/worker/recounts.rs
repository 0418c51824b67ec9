//! Recounts of a database's queues: which, where and when.
//!
//! In each round the database worker counts for a moment only: first what is waited for, then owners in turn. A table
//! that is too large for that is counted by a job worker, for as long as it takes: neither a huge table nor slow rows
//! make others wait.

use crate::parts::schedule::workers::Assignment;
use crate::parts::schedule::{Kind, requests};
use crate::parts::slot;
use crate::queue;
use crate::queue::recount::{self, Counted, Purpose, Stopped};
use crate::server::relation::{self, Lock, Relation};
use crate::server::worker::Timeout;
use crate::server::{injection, process, time, xact};
use crate::worker::known::KnownQueue;
use crate::worker::maintenance::BUSY_PAUSES;
use pgrx::pg_sys::Oid;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use xqueue_core::pause::Limits;
use xqueue_core::slot_id::SlotId;

/// How long a recount may take in the database worker, and after how much of them its round ends.
const LIMIT: Duration = Duration::from_millis(100);
/// A table with more pages is left to a job worker.
const MOST_PAGES: u32 = 1000;
/// Before the next try on a table that was needed exclusively. All that was counted is lost.
const PAUSES: Limits = (Duration::from_millis(100), Duration::from_secs(60));

pub struct Recounts {
    database: u32,
    /// The limit has left some to the next round.
    is_cut_off: bool,
}

impl Recounts {
    pub fn of(database: u32) -> Recounts {
        Recounts { database, is_cut_off: false }
    }

    /// Counts what has to be counted, but for tables that prepared transactions have changed.
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
                requests::want_job_worker(Assignment { database: self.database, owner, counts });
            }
        }
    }

    /// Returns the tables that are to be counted now: first those that are waited for, then the first of each owner,
    /// the second of each, and so on.
    fn in_turn(&self, queues: &HashMap<Oid, KnownQueue>, unsettled: &HashSet<Oid>) -> Vec<Oid> {
        let (mut counts, mut ranked) = (HashMap::<Oid, u32>::new(), vec![]);
        for (table, queue) in self.wanting(queues) {
            let is_due = left(queue).is_some_and(|left| left.is_zero());
            if is_due && !unsettled.contains(&table) {
                let slot = slot::lock(queue.slot());
                let is_awaited = slot.is_some_and(|slot| slot.is_recount_awaited());
                let count = counts.entry(queue.owner).or_default();
                *count += 1;
                ranked.push((!is_awaited, *count, table));
            }
        }
        ranked.sort_unstable_by_key(|(is_later, count, _)| (*is_later, *count));
        ranked.into_iter().map(|(_, _, table)| table).collect()
    }

    /// Returns the queues that have to be counted and that no job worker has.
    fn wanting<'q>(
        &self,
        queues: &'q HashMap<Oid, KnownQueue>,
    ) -> impl Iterator<Item = (Oid, &'q KnownQueue)> {
        let counted = requests::counted(self.database);
        let queues = queues.iter().map(|(table, queue)| (*table, queue));
        let is_counted = move |table: Oid| counted.contains(&u32::from(table));
        queues.filter(move |(table, queue)| left(queue).is_some() && !is_counted(*table))
    }

    /// How long there is nothing to do; None: until something happens.
    pub fn pause(&self, queues: &HashMap<Oid, KnownQueue>) -> Option<Duration> {
        let least = if self.is_cut_off { Duration::ZERO } else { BUSY_PAUSES.1 };
        let wanting = self.wanting(queues).filter_map(|(_, queue)| left(queue));
        wanting.map(|left| left.max(least)).min()
    }
}

/// How long a queue is not to be counted; None: until it has to be.
fn left(queue: &KnownQueue) -> Option<Duration> {
    let slot = slot::lock(queue.slot()).filter(|slot| slot.needs_recount())?;
    Some(slot.retry_left(Kind::Recount, time::now()))
}

fn note(slot: SlotId, counted: Result<(), Stopped>) {
    slot::with(slot, |slot| match counted {
        Err(Stopped::InTheWay) => slot.retry_after(Kind::Recount, time::now(), PAUSES),
        Err(Stopped::TooLong) => {}
        Ok(()) => {
            slot.end_retry(Kind::Recount);
            slot.end_failure(Kind::Recount);
        }
    });
}

/// Counts within a limit.
fn count_briefly(table: Oid) -> Result<(), Stopped> {
    let counted = xact::try_in_transaction(|| {
        let _limit = Timeout::after(LIMIT);
        count(table, Purpose::RenewBriefly, MOST_PAGES)
    });
    // A job worker finds out what is wrong.
    counted.unwrap_or(Err(Stopped::TooLong))
}

/// Counts without a limit, in a job worker.
pub fn count_at_leisure(table: Oid) {
    injection::point(c"xqueue-recounter-begins");
    let counted = xact::try_in_transaction(|| count(table, Purpose::Renew, u32::MAX));
    let Some(slot) = slot::find(process::database().into(), table.into()) else { return };
    match counted {
        Ok(counted) => note(slot, counted),
        Err(failure) => {
            slot::with(slot, |slot| {
                slot.fail(Kind::Recount, &failure.message);
                slot.retry_after(Kind::Recount, time::now(), PAUSES);
            });
        }
    }
}

/// Others may need the table, or the list of queues. What comes to nothing is asked for again by the claim that is
/// dropped.
fn count(table: Oid, purpose: Purpose, most_pages: u32) -> Result<(), Stopped> {
    if !queue::try_lock() || !relation::try_lock_whole(table, Lock::AccessShare) {
        return Err(Stopped::InTheWay);
    }
    if Relation::open(table, Lock::None).is_some_and(|relation| relation.pages() > most_pages) {
        return Err(Stopped::TooLong);
    }
    let Some(queue) = queue::find(table).map_err(|_| Stopped::InTheWay)? else { return Ok(()) };
    let Counted { counts, mut slot, .. } = recount::count(&queue, purpose)?;
    slot.set_counted(&counts);
    slot.nudge_for_counted();
    Ok(())
}
