//! Results of earlier scans of sub-queues.

use crate::level::{LAST as LAST_LEVEL, Level, UNKNOWN};
use crate::position::{FIRST, LAST, Position};
use crate::slot_id::SlotId;
use crate::subqueues::entries::{Pool, State};

/// A sub-queue is clear if shared memory knows its taken task, or that it has none. Whoever claims it need not look for
/// taken tasks.
impl Pool<'_> {
    pub fn is_clear(&mut self, id: SlotId, subqueue: u64) -> bool {
        self.known(id, subqueue).is_some_and(|link| self.entry(link).clear)
    }

    /// Returns whether shared memory knows a taken task of the sub-queue.
    pub fn is_busy(&mut self, id: SlotId, subqueue: u64) -> bool {
        self.known(id, subqueue).is_some_and(|link| self.entry(link).state == State::Busy)
    }

    /// Makes a claimed sub-queue clear. The claimant has seen that no task of it is taken, and every transaction that it
    /// has seen has reported its changes. The reports that came since the claim concern earlier tasks.
    pub fn set_clear(&mut self, id: SlotId, subqueue: u64) {
        if let Some(link) = self.claimed(id, subqueue) {
            let entry = self.entry(link);
            (entry.clear, entry.settled) = (true, false);
        }
    }

    pub(super) fn known(&mut self, id: SlotId, subqueue: u64) -> Option<u32> {
        self.ring(id)?;
        self.find(id.index, subqueue)
    }
}

/// Marks and levels: no ready or waiting task of a sub-queue stands before its mark or has a lesser level than the
/// entry. The mark keeps a take from walking over the index entries of earlier tasks. A commit during a scan lowers
/// `floor` and `level_floor`, which bound the result of the scan.
impl Pool<'_> {
    /// Returns the mark of a sub-queue.
    pub fn mark(&mut self, id: SlotId, subqueue: u64) -> Position {
        self.known(id, subqueue).map_or(FIRST, |link| self.entry(link).mark)
    }

    /// Begins a scan for the first task of a claimed sub-queue. Returns the position where it starts.
    pub fn begin_look(&mut self, id: SlotId, subqueue: u64) -> Position {
        if let Some(link) = self.known(id, subqueue) {
            let entry = self.entry(link);
            (entry.floor, entry.level_floor) = (LAST, LAST_LEVEL);
        }
        self.mark(id, subqueue)
    }

    /// Returns the level of a sub-queue in the ring, else UNKNOWN: the level of a claimed one is that of the tasks
    /// behind the taken one.
    pub fn level(&mut self, id: SlotId, subqueue: u64) -> Level {
        let entry = self.known(id, subqueue).map(|link| *self.entry(link));
        let waits = entry.filter(|entry| entry.state == State::Waiting);
        waits.map_or(UNKNOWN, |entry| entry.level)
    }

    /// Returns the least level of the sub-queues in the ring.
    pub fn least(&mut self, id: SlotId) -> Option<Level> {
        self.first_of_ring(id).map(|(_, level)| level)
    }

    /// Ends the scan. In a snapshot of its own it has found that the first task stands at `first` and that no task has
    /// a lesser level than `level`.
    pub fn end_look(&mut self, id: SlotId, subqueue: u64, first: Position, level: Level) {
        if let Some(link) = self.known(id, subqueue) {
            let entry = self.entry(link);
            entry.mark = first.min(entry.floor);
            let level = level.min(entry.level_floor);
            self.set_level(link, level);
        }
    }

    /// Lowers mark and level of a sub-queue to tasks that became ready or waiting: all of them stand at or behind
    /// `least`, at this level or greater ones.
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
