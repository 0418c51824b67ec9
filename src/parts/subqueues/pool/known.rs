//! What is known of lanes from the looks into them.

use crate::model::level::{LAST as LAST_LEVEL, Level, UNKNOWN};
use crate::model::position::{FIRST, LAST, Position};
use crate::parts::slot_id::SlotId;
use crate::parts::subqueues::pool::entries::{Pool, State};

/// Lanes that are clear: shared memory knows of every task of theirs that is taken. Who claims such a lane
/// need not look whether one is.
impl Pool<'_> {
    pub fn is_clear(&mut self, id: SlotId, lane: u64) -> bool {
        self.known(id, lane).is_some_and(|link| self.entry(link).clear)
    }

    /// Whether shared memory knows of a task of the lane that is taken.
    pub fn is_busy(&mut self, id: SlotId, lane: u64) -> bool {
        self.known(id, lane).is_some_and(|link| self.entry(link).state == State::Busy)
    }

    /// The transaction that has claimed the lane has taken a task of it, and seen that no other is taken.
    pub fn set_clear(&mut self, id: SlotId, lane: u64) {
        let is_sure = self.ring(id).is_some_and(|ring| !ring.unclaimed);
        if let Some(link) = self.known(id, lane).filter(|_| is_sure) {
            let entry = self.entry(link);
            entry.clear = !entry.unclaimed;
        }
    }

    /// A task was taken without the lane, which is not clear from here on. When the task comes back that is
    /// told after it can be seen: it may have been taken by then by who has claimed the lane, and the lane would be
    /// freed in its place.
    pub fn take_unclaimed(&mut self, id: SlotId, lane: u64) {
        if let Some(link) = self.known(id, lane) {
            let entry = self.entry(link);
            (entry.clear, entry.unclaimed) = (false, true);
        } else if let Some(ring) = self.ring(id) {
            ring.unclaimed = true;
        }
    }

    pub(super) fn known(&mut self, id: SlotId, lane: u64) -> Option<u32> {
        self.ring(id)?;
        self.find(id.index, lane)
    }
}

/// Marks and levels: no task in the line of a lane stands before its mark, which keeps a take from walking over
/// what earlier takes have left behind in the index, nor has one a lesser level.
impl Pool<'_> {
    /// The mark of a lane.
    pub fn mark(&mut self, id: SlotId, lane: u64) -> Position {
        self.known(id, lane).map_or(FIRST, |link| self.entry(link).mark)
    }

    /// Begins a look for the first task of a lane that the caller has for itself.
    pub fn begin_look(&mut self, id: SlotId, lane: u64) -> Position {
        if let Some(link) = self.known(id, lane) {
            let entry = self.entry(link);
            (entry.floor, entry.level_floor) = (LAST, LAST_LEVEL);
        }
        self.mark(id, lane)
    }

    /// The level of a lane in the ring. That of a claimed one is beyond what its claimer has taken.
    pub fn level(&mut self, id: SlotId, lane: u64) -> Level {
        let entry = self.known(id, lane).map(|link| *self.entry(link));
        let waits = entry.filter(|entry| entry.state == State::Waiting);
        waits.map_or(UNKNOWN, |entry| entry.level)
    }

    /// The least level of the lanes in the ring.
    pub fn least(&mut self, id: SlotId) -> Option<Level> {
        self.first_of_ring(id).map(|(_, level)| level)
    }

    /// The look, in a snapshot of its own, has found that the first task stands at `first`, and none of a
    /// lesser level.
    pub fn end_look(&mut self, id: SlotId, lane: u64, first: Position, level: Level) {
        if let Some(link) = self.known(id, lane) {
            let entry = self.entry(link);
            entry.mark = first.min(entry.floor);
            let level = level.min(entry.level_floor);
            self.set_level(link, level);
        }
    }

    /// Tasks from `least` on, and none of a lesser level, have come to be ready or to wait in a lane.
    pub(super) fn lower(&mut self, id: SlotId, lane: u64, least: Position, level: Level) {
        if let Some(link) = self.known(id, lane) {
            let entry = self.entry(link);
            (entry.mark, entry.floor) = (entry.mark.min(least), entry.floor.min(least));
            entry.level_floor = entry.level_floor.min(level);
            let level = entry.level.min(level);
            self.set_level(link, level);
        }
    }
}
