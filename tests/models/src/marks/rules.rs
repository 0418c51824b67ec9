//! The effect of each step on a mark, stated a second time, independently of the extension's [`Mark`]. The exploration
//! compares both at each step.

use xqueue_core::marks::mark::{LOST_AFTER, Mark};
use xqueue_core::position::{LAST, Position};

/// The fields of a mark that the rules compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub at: Position,
    pub floor: Position,
    /// Start of the raise in progress, or 0.
    pub since: i64,
}

impl Limits {
    pub fn of(mark: &Mark) -> Limits {
        Limits { at: mark.at, floor: mark.floor, since: mark.raised_since }
    }

    pub fn lowered(self, to: Position) -> Limits {
        Limits { at: self.at.min(to), floor: self.floor.min(to), ..self }
    }

    /// Begins a raise. Returns None if another raise is in progress.
    pub fn begun(self, now: i64) -> Option<Limits> {
        let is_alone = self.since == 0 || now - self.since > LOST_AFTER;
        is_alone.then_some(Limits { at: self.at, floor: LAST, since: now })
    }

    /// Ends the raise that began at `since`, unless the mark has been forgotten or the raise was considered abandoned
    /// meanwhile.
    pub fn ended(self, since: i64, found: Option<Position>) -> Limits {
        if self.since != since {
            return self;
        }
        let at = found.map_or(self.at, |found| found.min(self.floor));
        Limits { at, since: 0, ..self }
    }
}
