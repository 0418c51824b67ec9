//! Low-water marks of a queue in shared memory, see [`xqueue_core::marks::groups`]. They are not raised while a
//! prepared transaction might have changed the table, because its end is not reported.

use crate::parts::slot::QueueGuard;
use xqueue_core::marks::candidate::{Handed, More, Read, Refill};
use xqueue_core::marks::groups::{Copied, Marks};
use xqueue_core::marks::mark::Start;
use xqueue_core::marks::priorities::KnownPriorities;
use xqueue_core::marks::rings::Rings;
use xqueue_core::position::{Group, Position};
use xqueue_core::transaction::MarkChange;

/// Mutable view of a queue's marks and rings.
pub struct QueueMarks<'q> {
    marks: Marks<'q>,
    rings: Rings<'q>,
    /// A prepared transaction might have changed the table.
    is_prepared: bool,
}

impl QueueGuard {
    pub fn marks(&mut self) -> QueueMarks<'_> {
        let is_prepared = self.prepared.is_possible();
        let candidates = self.apart.candidates.each_mut().map(|candidates| &mut **candidates);
        QueueMarks {
            marks: Marks::of(&mut self.queue.marks, self.apart.marks),
            rings: Rings { states: &mut self.queue.rings, candidates },
            is_prepared,
        }
    }

    /// Returns a copy of all marks.
    pub fn copy_marks(&self) -> Copied {
        self.queue.marks.copy(self.apart.marks)
    }
}

impl QueueMarks<'_> {
    /// Returns the position from which to search for this many tasks. With `may_raise` the caller can be asked to raise
    /// the mark.
    pub fn start(&mut self, group: Group, tasks: u32, may_raise: bool, now: i64) -> Start {
        let may_raise = may_raise && !self.is_prepared;
        self.marks.start(group, tasks, may_raise, now)
    }

    /// Ends the raise that `start` began at `since`. `found`: the position of the group's first task; None if the
    /// search failed.
    pub fn end_raise(&mut self, group: Group, since: i64, found: Option<Position>) {
        let found = found.filter(|_| !self.is_prepared);
        self.marks.end_raise(group, since, found);
    }

    /// Returns the mark, or the first position if the group has no mark.
    pub fn marked(&mut self, group: Group) -> Position {
        self.marks.marked(group)
    }

    /// Hands out the next candidate of a group, see [`Rings::hand_out`](xqueue_core::marks::rings::Rings::hand_out).
    pub fn hand_out(&mut self, group: Group, more: &mut More, now: i64) -> Handed {
        match self.is_prepared {
            true => Handed::default(),
            false => {
                let mut handed = self.rings.hand_out(group, more, now);
                if let Some(refill) = &mut handed.refill {
                    refill.mark = self.marked(group);
                }
                handed
            }
        }
    }

    /// Ends a ring's refill, which has read these tasks.
    pub fn end_refill(&mut self, refill: &Refill, read: &Read, now: i64) {
        self.rings.end_refill(refill, read, now);
    }

    /// Notes that a take has passed over a row that was being changed.
    pub fn leave_out(&mut self, of: &Handed) {
        self.rings.leave_out(of);
    }

    /// Notes that a take has passed over a row that another transaction has locked.
    pub fn pass_over(&mut self, of: &Handed, locker: Option<u32>, now: i64) {
        self.rings.pass_over(of, locker, now);
    }

    /// Notes that one of the transactions whose locks were in the way has ended.
    pub fn locker_ended(&mut self, of: &Handed, locker: u32) {
        self.rings.locker_ended(of, locker);
    }

    /// Notes that a take does not look at the candidates that it was handed out.
    pub fn give_up(&mut self, of: &Handed) {
        self.rings.give_up(of);
    }

    /// Discards all rings.
    pub fn discard_rings(&mut self) {
        self.rings.discard();
    }

    /// Returns the priorities that ready tasks can have, in one tube if it is given. `into`: an empty list with room
    /// for all. With `may_scan` the caller sees everything that others have committed, and can be asked for a priority
    /// scan.
    pub fn known_priorities(
        &mut self,
        tube: Option<u64>,
        into: Vec<i64>,
        may_scan: bool,
        now: i64,
    ) -> KnownPriorities {
        let may_scan = may_scan && !self.is_prepared;
        let mut known = self.marks.known_priorities(tube, into, may_scan, now);
        if let KnownPriorities::All(priorities) = &mut known
            && may_scan
            && tube.is_none()
        {
            self.put_empty_ones_last(priorities, now);
        }
        known
    }

    /// Moves to the end the priorities that, according to their ring, have no tasks except those held by takes in
    /// progress, which can give them up. Priorities whose mark is due to be raised keep their position.
    fn put_empty_ones_last(&mut self, priorities: &mut [i64], now: i64) {
        let mut count = 0;
        for place in 0..priorities.len() {
            let priority = priorities[place];
            let group = Group::Ready { tube: None, priority: Some(priority) };
            if !self.rings.knows_none(group, now) || self.marks.pass_by(group) {
                priorities[count..=place].rotate_right(1);
                count += 1;
            }
        }
    }

    /// Ends a priority scan begun at `since`. `found`: the priorities of ready tasks; None if the scan failed or found
    /// too many.
    pub fn end_priority_scan(&mut self, since: i64, found: Option<&[i64]>) {
        let found = found.filter(|_| !self.is_prepared);
        self.marks.end_priority_scan(since, found);
    }

    /// Discards the marks after changes that were possibly not reported.
    pub fn forget(&mut self) {
        self.marks.forget();
        self.rings.discard();
    }

    /// Applies the changes of a committed transaction. `forgets`: some of them were not reported row by row.
    pub(in crate::parts) fn lower(&mut self, change: &MarkChange, forgets: bool) {
        if forgets {
            return self.forget();
        }
        for (group, position) in change.lowest.by_group() {
            self.marks.lower(group, position);
            self.rings.lower(group, position);
        }
    }
}
