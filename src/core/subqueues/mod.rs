//! Decides which sub-queue a take scans next. Works on arrays in shared memory.
//!
//! A sub-queue is identified by the hash of its label; labels with the same hash share one. Each queue has a *ring* of
//! sub-queues to scan, in the order in which they were last served. The cost of a take therefore does not grow with the
//! number of sub-queues or tasks. A sub-queue has an entry in one of these states, or no entry if it is not known to
//! have a task:
//!
//! * waiting: it is in the ring;
//! * claimed: a transaction looks for its first task, or has taken it and not ended yet;
//! * busy: one of its tasks is taken; it is scanned again when that task comes back or ends;
//! * idle: it had nothing to take; the entry is kept while there is room.
//!
//! Only a transaction that has claimed a sub-queue takes a task of it, or the one that settles its taken task. So at
//! most one task of a sub-queue is taken. A claimant looks for taken tasks in the table unless the entry is *clear*.
//!
//! Invariant: a sub-queue whose first task can be taken is in the ring or claimed, or the ring is *incomplete*. A take
//! that finds an incomplete ring empty looks for sub-queues in the table's index. A sub-queue in the ring without a
//! task is harmless: a take that finds nothing there drops it. The invariant survives these races:
//!
//! 1. A task arrives while the sub-queue is claimed: the commit makes the entry `dirty`, and the sub-queue returns to
//!    the ring when the claimant gives it back.
//! 2. A taken task comes back before the callback of the transaction that claimed the sub-queue. The entry is then
//!    `settled`, and the sub-queue returns to the ring instead of becoming busy.
//! 3. The return of a taken task is visible before it is reported. The sub-queue is not clear then, see
//!    [`Pool::set_clear`], and the next claimant looks for taken tasks again.
//! 4. There is no room for an entry: the ring becomes incomplete. A pass that began earlier does not make it complete
//!    again.
//!
//! With priorities the ring is ordered by *level* first. The level of an entry is at most the least priority number of
//! its tasks. A commit lowers the level to the tasks that it added. A scan raises it to the first task that it found,
//! unless a lesser one arrived during the scan. A take can therefore find the first task of the next sub-queue at a
//! greater level than the entry said. If other sub-queues in the ring come before that level, the take gives the
//! sub-queue back with its new level and tries the next one.

mod entries;
mod known;
mod levels;
#[cfg(test)]
mod tests;

use crate::level::{LAST as LAST_LEVEL, Level, UNKNOWN};
use crate::position::{FIRST, LAST};
use crate::slot_id::SlotId;
use crate::transaction::SubqueueChange;
pub use entries::{Entry, Header, Pool, SubqueueRing};
use entries::{List, State};

/// Destination of a sub-queue that a transaction has claimed and not taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// The front of its level: the take is undone.
    Front,
    /// The tail of its level: its first task cannot be taken now.
    Tail,
    /// Out of the ring: it has nothing to take.
    Away,
}

/// Reason why a sub-queue cannot be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another transaction has claimed it, or one of its tasks is taken.
    InUse,
    /// There are more sub-queues than shared memory has room for.
    NoRoom,
}

/// Result of offering a sub-queue to a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    Queued,
    /// The sub-queue is already in the ring, claimed or busy.
    Known,
    /// The sub-queue is not in the ring, which is incomplete.
    NoRoom,
}

/// The sub-queue that was next in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub subqueue: u64,
    /// Level of the sub-queue's entry: no task of it has a lesser one.
    pub level: Level,
    /// Least level of the sub-queues still in the ring, if there are any.
    pub others: Option<Level>,
}

impl Next {
    /// Returns the greatest level at which the first task of this sub-queue is taken before the others, and before
    /// `own`, which only the caller knows. A task at the level of the entry has its turn. A task at a greater level
    /// comes after the tasks that are already at that level.
    pub fn limit(&self, own: Option<Level>) -> Level {
        let before_others = self.others.map_or(LAST_LEVEL, |others| others.saturating_sub(1));
        self.level.max(before_others.min(own.unwrap_or(LAST_LEVEL)))
    }
}

/// Part of a pass over the table's index, which finds a queue's sub-queues and makes its ring complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// First sub-queue of this part.
    pub from: i64,
    pub invalidations: u64,
}

impl Pool<'_> {
    /// Prepares the ring of a queue that is new in its slot: no sub-queue is known.
    pub fn open(&mut self, id: SlotId) {
        self.empty(id.index);
        self.rings[id.index as usize] = SubqueueRing::new(id.generation);
    }

    /// Frees all entries of a queue that no longer exists.
    pub fn close(&mut self, id: SlotId) {
        if self.ring(id).is_some() {
            self.empty(id.index);
            self.rings[id.index as usize] = SubqueueRing::default();
        }
    }

    /// Discards the known sub-queues of a queue, for instance after unreported changes.
    pub fn reset(&mut self, id: SlotId) {
        if self.ring(id).is_none() {
            return;
        }
        let waits = |pool: &Self| pool.first_waiting(id.index);
        while let Some(link) = waits(self).or_else(|| self.first(id.index, List::Idle)) {
            self.remove(link);
        }
        let mut next = self.first(id.index, List::Away);
        while let Some(link) = next {
            next = self.after(link);
            let entry = self.entry(link);
            match entry.state {
                State::Claimed => {
                    (entry.dirty, entry.mark, entry.floor) = (true, FIRST, FIRST);
                    (entry.level, entry.level_floor) = (UNKNOWN, UNKNOWN);
                    entry.clear = false;
                }
                _ => self.remove(link),
            }
        }
        self.invalidate(id);
    }

    /// Returns the next sub-queue.
    pub fn next(&mut self, id: SlotId) -> Option<u64> {
        let (link, _) = self.first_of_ring(id)?;
        Some(self.entry(link).subqueue)
    }

    fn first_of_ring(&mut self, id: SlotId) -> Option<(u32, Level)> {
        self.ring(id)?;
        let link = self.first_waiting(id.index)?;
        Some((link, self.entry(link).level))
    }

    /// Claims the next sub-queue.
    pub fn claim_next(&mut self, id: SlotId) -> Option<Next> {
        let (link, level) = self.first_of_ring(id)?;
        self.mark_claimed(link);
        let others = self.first_of_ring(id).map(|(_, level)| level);
        Some(Next { subqueue: self.entry(link).subqueue, level, others })
    }

    /// Claims a sub-queue out of its turn.
    pub fn claim(&mut self, id: SlotId, subqueue: u64) -> Result<u64, Refusal> {
        if self.ring(id).is_none() {
            return Err(Refusal::InUse);
        }
        let link = match self.find(id.index, subqueue) {
            Some(link) if self.is_free(link) => link,
            Some(_) => return Err(Refusal::InUse),
            None => self.add(id.index, subqueue, UNKNOWN, State::Claimed).ok_or(Refusal::NoRoom)?,
        };
        self.mark_claimed(link);
        Ok(subqueue)
    }

    /// Claims a sub-queue unless the remaining entries are reserved: one for the first claim of each process.
    pub fn claim_if_room(&mut self, id: SlotId, subqueue: u64) -> Result<u64, Refusal> {
        let is_known = self.known(id, subqueue).is_some_and(|link| !self.is_idle(link));
        if is_known || self.has_room() { self.claim(id, subqueue) } else { Err(Refusal::NoRoom) }
    }

    /// Returns whether a sub-queue is not claimed and no task of it is known to be taken.
    fn is_free(&mut self, link: u32) -> bool {
        matches!(self.entry(link).state, State::Waiting | State::Idle)
    }

    fn is_waiting(&mut self, id: SlotId, subqueue: u64) -> bool {
        let link = self.known(id, subqueue);
        link.is_some_and(|link| self.entry(link).state == State::Waiting)
    }

    fn is_idle(&mut self, link: u32) -> bool {
        self.entry(link).state == State::Idle
    }

    fn mark_claimed(&mut self, link: u32) {
        self.place(link, State::Claimed, Back::Tail);
        let entry = self.entry(link);
        (entry.dirty, entry.settled) = (false, false);
    }

    /// Gives back a claimed sub-queue. Returns whether a consumer has to be woken for it.
    pub fn give_back(&mut self, id: SlotId, subqueue: u64, to: Back) -> bool {
        let Some(link) = self.claimed(id, subqueue) else { return false };
        let dirty = self.entry(link).dirty;
        match to {
            Back::Away if dirty => self.queue(id, link, Back::Tail),
            Back::Away => self.place(link, State::Idle, Back::Tail),
            to => self.queue(id, link, to),
        }
        to == Back::Front || dirty
    }

    /// Undoes the changes of a transaction or subtransaction. Returns whether a consumer has to be woken.
    pub fn undo(&mut self, id: SlotId, subqueue: u64, change: &SubqueueChange) -> bool {
        self.lower(id, subqueue, LAST, change.taken_level);
        if change.claimed {
            return self.give_back(id, subqueue, Back::Front);
        }
        // A consumer possibly found the first task locked.
        change.lost && self.is_waiting(id, subqueue)
    }

    /// Applies the changes of a transaction in a sub-queue. Returns whether a consumer has to be woken.
    pub fn commit(&mut self, id: SlotId, subqueue: u64, change: &SubqueueChange) -> bool {
        if self.ring(id).is_none() || change.is_none() {
            return false;
        }
        self.lower(id, subqueue, change.least, change.level);
        if change.claimed {
            return self.commit_claim(id, subqueue, change);
        }
        let found = self.find(id.index, subqueue);
        let state = found.map(|link| self.entry(link).state);
        match (found, state) {
            (Some(link), Some(State::Busy)) if change.taken < 0 => {
                self.queue(id, link, Back::Tail);
                true
            }
            (Some(link), Some(State::Claimed)) => {
                let entry = self.entry(link);
                entry.dirty = true;
                entry.settled |= change.taken < 0;
                false
            }
            (None, _) | (_, Some(State::Idle)) if change.taken < 0 || change.offers => {
                // A sub-queue without an entry can have other tasks of a lesser level. It can be behind a task that has
                // been in flight since before a restart, or that had no room for an entry.
                let is_known = found.is_some();
                let level = if change.taken < 0 || !is_known { UNKNOWN } else { change.level };
                self.offer(id, subqueue, level) != Offered::Known
            }
            // A consumer waits although the sub-queue is in the ring: it found the first task locked or another one
            // taken, or scanned a moment too early.
            (Some(_), Some(State::Waiting)) => change.offers || change.lost || change.taken < 0,
            _ => false,
        }
    }

    /// Ends the claim of a transaction.
    fn commit_claim(&mut self, id: SlotId, subqueue: u64, change: &SubqueueChange) -> bool {
        let Some(link) = self.claimed(id, subqueue) else { return false };
        let is_busy = change.taken > 0 && !self.entry(link).settled;
        if !is_busy {
            self.queue(id, link, Back::Tail);
        } else if self.has_room() {
            self.place(link, State::Busy, Back::Tail);
        } else {
            // No entry is needed: a scan finds the taken task.
            self.remove(link);
        }
        !is_busy
    }

    /// Adds a sub-queue to the ring, unless it is there, claimed or busy. It can have something to take, at this level
    /// or greater ones.
    pub fn offer(&mut self, id: SlotId, subqueue: u64, level: Level) -> Offered {
        if self.ring(id).is_none() {
            return Offered::Known;
        }
        let known = self.find(id.index, subqueue);
        if let Some(link) = known {
            let level = self.entry(link).level.min(level);
            self.set_level(link, level);
        }
        if known.is_some_and(|link| !self.is_idle(link)) {
            return Offered::Known;
        }
        if self.has_room() {
            match known {
                Some(link) => self.place(link, State::Waiting, Back::Tail),
                None => _ = self.add(id.index, subqueue, level, State::Waiting),
            }
            return Offered::Queued;
        }
        if let Some(link) = known {
            self.remove(link);
        }
        self.invalidate(id);
        Offered::NoRoom
    }

    /// Moves an entry to the ring, unless the room is needed for claims.
    fn queue(&mut self, id: SlotId, link: u32, to: Back) {
        if self.has_room() {
            self.place(link, State::Waiting, to);
        } else {
            self.remove(link);
            self.invalidate(id);
        }
    }

    /// Makes the ring incomplete.
    pub fn invalidate(&mut self, id: SlotId) {
        if let Some(ring) = self.ring(id) {
            ring.incomplete = true;
            ring.invalidations += 1;
        }
    }

    /// Returns the number of sub-queues in the ring.
    pub fn waiting(&mut self, id: SlotId) -> u32 {
        self.ring(id).map_or(0, |ring| ring.waiting)
    }

    /// Returns whether a sub-queue that is not claimed can have a task to take.
    pub fn may_have_some(&mut self, id: SlotId) -> bool {
        self.ring(id).is_some_and(|ring| ring.waiting > 0 || ring.incomplete)
    }

    /// Returns whether a sub-queue is known to have something to take, or can be among the unknown ones.
    pub fn knows(&mut self, id: SlotId, subqueue: u64) -> bool {
        let Some(ring) = self.ring(id) else { return false };
        let state = |pool: &mut Self, link| pool.entry(link).state;
        ring.incomplete
            || self
                .find(id.index, subqueue)
                .is_some_and(|link| matches!(state(self, link), State::Waiting | State::Claimed))
    }

    /// Begins a part of a pass; None if the ring is complete.
    pub fn begin_scan(&mut self, id: SlotId) -> Option<Scan> {
        let ring = self.ring(id).filter(|ring| ring.incomplete)?;
        Some(Scan { from: ring.cursor, invalidations: ring.invalidations })
    }

    /// Ends a part of a pass. The next part begins at the sub-queue `next`; None ends the pass. The ring is then
    /// complete, unless it has become incomplete again since the pass began.
    pub fn end_scan(&mut self, id: SlotId, scan: Scan, next: Option<i64>) {
        let Some(ring) = self.ring(id).filter(|ring| ring.cursor == scan.from) else { return };
        if scan.from == i64::MIN {
            ring.pass = scan.invalidations;
        }
        ring.cursor = next.unwrap_or(i64::MIN);
        if next.is_none() && ring.pass == ring.invalidations {
            ring.incomplete = false;
        }
    }
}
