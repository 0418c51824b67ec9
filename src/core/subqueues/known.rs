//! What looks have found out about sub-queues.

use crate::level::{LAST as LAST_LEVEL, Level, UNKNOWN};
use crate::position::{FIRST, LAST, Position};
use crate::slot_id::SlotId;
use crate::subqueues::entries::{Pool, State};

/// Clear sub-queues: shared memory knows each of their taken tasks, so a claim need not look for others.
impl Pool<'_> {
    pub fn is_clear(&mut self, id: SlotId, subqueue: u64) -> bool {
        self.known(id, subqueue).is_some_and(|link| self.entry(link).clear)
    }

    /// Returns whether shared memory knows a taken task of the sub-queue.
    pub fn is_busy(&mut self, id: SlotId, subqueue: u64) -> bool {
        self.known(id, subqueue).is_some_and(|link| self.entry(link).state == State::Busy)
    }

    /// Makes a claimed sub-queue clear: the transaction has taken a task of it and seen that no other is taken.
    pub fn set_clear(&mut self, id: SlotId, subqueue: u64) {
        let is_sure = self.ring(id).is_some_and(|ring| !ring.unclaimed);
        if let Some(link) = self.known(id, subqueue).filter(|_| is_sure) {
            let entry = self.entry(link);
            entry.clear = !entry.unclaimed;
        }
    }

    /// Makes a sub-queue not clear: a task was taken without claiming it. When that task comes back, this is reported
    /// after it is visible: the transaction that has claimed the sub-queue may have taken it by then, and the sub-
    /// queue would be freed in its place.
    pub fn take_unclaimed(&mut self, id: SlotId, subqueue: u64) {
        if let Some(link) = self.known(id, subqueue) {
            let entry = self.entry(link);
            (entry.clear, entry.unclaimed) = (false, true);
        } else if let Some(ring) = self.ring(id) {
            ring.unclaimed = true;
        }
    }

    pub(super) fn known(&mut self, id: SlotId, subqueue: u64) -> Option<u32> {
        self.ring(id)?;
        self.find(id.index, subqueue)
    }
}

/// Marks and levels: no ready or waiting task of a sub-queue stands before its mark, which keeps a take from walking
/// over the index entries of earlier tasks, nor has one a lesser level.
impl Pool<'_> {
    /// Returns the mark of a sub-queue.
    pub fn mark(&mut self, id: SlotId, subqueue: u64) -> Position {
        self.known(id, subqueue).map_or(FIRST, |link| self.entry(link).mark)
    }

    /// Begins a look for the first task of a claimed sub-queue.
    pub fn begin_look(&mut self, id: SlotId, subqueue: u64) -> Position {
        if let Some(link) = self.known(id, subqueue) {
            let entry = self.entry(link);
            (entry.floor, entry.level_floor) = (LAST, LAST_LEVEL);
        }
        self.mark(id, subqueue)
    }

    /// Returns the level of a sub-queue in the ring. That of a claimed one is beyond what was taken.
    pub fn level(&mut self, id: SlotId, subqueue: u64) -> Level {
        let entry = self.known(id, subqueue).map(|link| *self.entry(link));
        let waits = entry.filter(|entry| entry.state == State::Waiting);
        waits.map_or(UNKNOWN, |entry| entry.level)
    }

    /// Returns the least level of the sub-queues in the ring.
    pub fn least(&mut self, id: SlotId) -> Option<Level> {
        self.first_of_ring(id).map(|(_, level)| level)
    }

    /// Ends the look, which has found in a snapshot of its own that the first task stands at `first`, and none has a
    /// lesser level.
    pub fn end_look(&mut self, id: SlotId, subqueue: u64, first: Position, level: Level) {
        if let Some(link) = self.known(id, subqueue) {
            let entry = self.entry(link);
            entry.mark = first.min(entry.floor);
            let level = level.min(entry.level_floor);
            self.set_level(link, level);
        }
    }

    /// Lowers mark and level of a sub-queue to tasks that became ready or waiting, from `least` on and of no lesser
    /// level.
    pub(super) fn lower(&mut self, id: SlotId, subqueue: u64, least: Position, level: Level) {
        if let Some(link) = self.known(id, subqueue) {
            let entry = self.entry(link);
            (entry.mark, entry.floor) = (entry.mark.min(least), entry.floor.min(least));
            entry.level_floor = entry.level_floor.min(level);
            let level = entry.level.min(level);
            self.set_level(link, level);
        }
    }
}
