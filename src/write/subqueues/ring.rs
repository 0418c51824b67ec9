//! Completes a ring by searching the table for sub-queues, for example after the start of the server.

use crate::parts::subqueues;
use crate::queue::{Arguments, Queue, Statement};
use crate::server::spi::Spi;
use crate::server::value::Value;
use crate::server::xact;
use crate::transaction;
use crate::write::start;
use crate::write::subqueues::{Search, Take};
use xqueue_core::level::{self, Level};
use xqueue_core::statement::Parameter;
use xqueue_core::subqueues::{Offered, Scan};

/// Number of sub-queues that one statement reads while a ring is incomplete.
const SUBQUEUES_PER_SCAN: i32 = 100;

/// Number of times that the end of the index has to be reached: twice, because another process might have begun the
/// pass in the middle.
const ENDS: u32 = 2;

impl Take<'_> {
    /// Fills an incomplete ring until it has a sub-queue besides the `vain` ones that the take has already tried.
    pub(super) fn find_subqueues(&self, spi: &Spi, search: &mut Search, vain: u32) {
        let slot = self.queue.slot;
        let searches_all = start::searches_all(self.queue);
        // The ring lists the sub-queues that the queue had before this transaction.
        let anew = searches_all.then_some(Scan { from: i64::MIN, invalidations: 0 });
        let begin = || anew.or_else(|| subqueues::begin_scan(slot));
        let mut part = search.part.take().or_else(begin);
        if part.is_none() || search.ends >= ENDS {
            search.looks = 0;
            return;
        }
        // Changes that only this transaction sees can be rolled back. Neither an old snapshot nor a part of the rows
        // completes a ring.
        let pending = transaction::pending_subqueues(slot);
        let sees_part = xact::has_fixed_snapshot()
            || searches_all
            || pending.more
            || self.queue.has_row_security
            || self.queue.may_be_changing();
        let mut queued = 0;
        if search.ends == 0 {
            let seen_otherwise = pending.iter().filter(|(_, change)| change.is_seen_otherwise());
            let offered = seen_otherwise
                .map(|(subqueue, _)| subqueues::offer(slot, subqueue, level::UNKNOWN));
            queued = offered.filter(|offered| *offered == Offered::Queued).count();
        }
        while let Some(scan) = part.filter(|_| search.ends < ENDS) {
            let (found, next) = subqueues_from(spi, self.queue, scan.from);
            for Takeable { subqueue, level } in found {
                match subqueues::offer(slot, subqueue, level) {
                    Offered::Queued => queued += 1,
                    Offered::NoRoom => search.spare.push(subqueue),
                    Offered::Known => {}
                }
            }
            search.ends += u32::from(next.is_none());
            if sees_part {
                search.part = Some(Scan { from: next.unwrap_or(i64::MIN), ..scan });
            } else {
                subqueues::end_scan(slot, scan, next);
            }
            search.looks = subqueues::waiting(slot);
            if search.looks > vain || queued > 0 || !search.spare.is_empty() {
                return;
            }
            part = search.part.or_else(|| subqueues::begin_scan(slot));
        }
        search.looks = 0;
    }

    /// Offers all sub-queues that the transaction sees. For a serializable transaction the server only knows conflicts with
    /// what was read, and a sub-queue that was not read can have a more urgent task.
    pub(super) fn read_all(&self, spi: &Spi) {
        let mut from = Some(i64::MIN);
        while let Some(start) = from {
            let (found, next) = subqueues_from(spi, self.queue, start);
            for Takeable { subqueue, level } in found {
                subqueues::offer(self.queue.slot, subqueue, level);
            }
            from = next;
        }
    }

    /// Completes the ring, so that the least level is known. If that is impossible, because of the snapshot or for lack
    /// of room, the order is that of the known sub-queues.
    pub(super) fn complete_ring(&self, spi: &Spi) {
        let slot = self.queue.slot;
        let mut part = subqueues::begin_scan_in_room(slot);
        if part.is_none() {
            return;
        }
        let pending = transaction::pending_subqueues(slot);
        let searches_all = start::searches_all(self.queue);
        if searches_all
            || xact::has_fixed_snapshot()
            || pending.more
            || self.queue.may_be_changing()
        {
            return;
        }
        // Changes that only this transaction sees can be rolled back.
        for (subqueue, _) in pending.iter().filter(|(_, change)| change.is_seen_otherwise()) {
            subqueues::offer(slot, subqueue, level::UNKNOWN);
        }
        let mut ends = 0;
        while let Some(scan) = part.filter(|_| ends < ENDS) {
            let (found, next) = subqueues_from(spi, self.queue, scan.from);
            for Takeable { subqueue, level } in found {
                subqueues::offer(slot, subqueue, level);
            }
            ends += u32::from(next.is_none());
            subqueues::end_scan(slot, scan, next);
            part = subqueues::begin_scan_in_room(slot);
        }
    }
}

/// A sub-queue that has a task to take.
struct Takeable {
    subqueue: u64,
    /// The level of its first task.
    level: Level,
}

/// Returns some sub-queues of the table that have a task to take, and where to continue.
fn subqueues_from(spi: &Spi, queue: &Queue, from: i64) -> (Vec<Takeable>, Option<i64>) {
    let mut arguments = Arguments::of(Parameter::Subqueue, Value::int8(from));
    arguments.set(Parameter::Limit, Value::int4(SUBQUEUES_PER_SCAN));
    let rows = queue.run(spi, &Statement::Subqueues, &arguments);
    let subqueue = |row| rows.value(row, 1).map(|subqueue| subqueue.to_integer());
    let level = |row| rows.value(row, 3).filter(|_| queue.has_levels());
    let level = |row| level(row).map_or(level::UNKNOWN, |level| level.to_integer());
    let is_takeable = |row: &usize| rows.value(*row, 2).is_some_and(|flag| flag.to_bool());
    let takeable = |row| Some(Takeable { subqueue: subqueue(row)? as u64, level: level(row) });
    let found = (0..rows.len()).filter(is_takeable).filter_map(takeable).collect();
    let last = rows.len().checked_sub(1).filter(|last| last + 1 == SUBQUEUES_PER_SCAN as usize);
    (found, last.and_then(subqueue).and_then(|subqueue| subqueue.checked_add(1)))
}
