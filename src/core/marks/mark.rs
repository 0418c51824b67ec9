//! A low-water mark in shared memory, see [`crate::marks::groups`].

use crate::position::{LAST, Position};

/// Number of tasks taken after which a mark is raised.
pub const RAISE_AFTER: u32 = 128;
/// A raise older than this (µs) is considered abandoned.
pub const LOST_AFTER: i64 = 10_000_000;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    pub at: Position,
    /// First position at which a task became ready during a raise.
    pub floor: Position,
    /// Start of the raise in progress; 0: not in progress.
    pub raised_since: i64,
    takes: u32,
}

/// Answer to a take that starts its scan.
#[derive(Clone, Copy, Default)]
pub struct Start {
    /// No task is ready before this position.
    pub from: Position,
    /// The caller has to find the first task and report it by `end_raise`.
    pub raises: bool,
}

impl Mark {
    /// Returns a mark that its second take is due to raise, because its first position is that of a wider group.
    pub fn new(at: Position) -> Mark {
        Mark { at, floor: at, takes: RAISE_AFTER - 1, ..Mark::default() }
    }

    pub fn lower(&mut self, position: Position) {
        self.floor = self.floor.min(position);
        if position >= self.at {
            return;
        }
        // After this task is taken, the scan to the later tasks is long again, so the mark is due to be raised.
        if self.at != LAST {
            self.takes = RAISE_AFTER - 1;
        }
        self.at = position;
    }

    pub fn is_being_raised(&self, now: i64) -> bool {
        // Tolerates a clock that another process read a moment later, or that was set back.
        self.raised_since != 0 && now.abs_diff(self.raised_since) <= LOST_AFTER.unsigned_abs()
    }

    /// Returns where a take of this many tasks starts its scan. With `may_raise` the caller can be asked to raise the
    /// mark.
    pub fn start(&mut self, tasks: u32, may_raise: bool, now: i64) -> Start {
        self.takes = self.takes.saturating_add(tasks);
        let raises = may_raise && self.takes > RAISE_AFTER && !self.is_being_raised(now);
        if raises {
            (self.takes, self.raised_since, self.floor) = (0, now, LAST);
        }
        self.takes = self.takes.min(RAISE_AFTER);
        Start { from: self.at, raises }
    }

    /// Records that a take skips its first scan here because no task is ready. Returns whether the mark is due to be
    /// raised.
    pub fn pass_by(&mut self) -> bool {
        self.takes = self.takes.saturating_add(1).min(RAISE_AFTER);
        self.takes == RAISE_AFTER
    }

    /// Ends the raise that `start` began at `since`.
    pub fn end_raise(&mut self, since: i64, found: Option<Position>) {
        if self.raised_since != since {
            return;
        }
        self.raised_since = 0;
        if let Some(found) = found {
            self.at = found.min(self.floor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_ends_a_raise() {
        let mut mark = Mark::new(5);
        let begun = 1_000 * LOST_AFTER;
        assert!(mark.start(RAISE_AFTER + 1, true, begun).raises);
        for instant in [begun - LOST_AFTER, begun, begun + LOST_AFTER] {
            assert!(mark.is_being_raised(instant));
            assert!(!mark.start(RAISE_AFTER + 1, true, instant).raises);
        }
        assert!(!mark.is_being_raised(begun + LOST_AFTER + 1));
        let set_back = begun - LOST_AFTER - 1;
        assert!(mark.start(RAISE_AFTER + 1, true, set_back).raises);
        mark.end_raise(begun, Some(9));
        assert_eq!(mark.at, 5, "the abandoned one changes nothing");
        mark.end_raise(set_back, Some(7));
        assert_eq!(mark.at, 7);
    }
}
