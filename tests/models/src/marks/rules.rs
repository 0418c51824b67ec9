//! What each step does to a mark: written once more, apart from the extension's own [`Mark`]. The exploration compares
//! both at each step that it takes.

use xqueue_core::marks::mark::{LOST_AFTER, Mark};
use xqueue_core::position::{LAST, Position};

/// What matters of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub at: Position,
    pub floor: Position,
    /// When the raise began that is under way; 0 if none is.
    pub since: i64,
}

impl Limits {
    pub fn of(mark: &Mark) -> Limits {
        Limits { at: mark.at, floor: mark.floor, since: mark.raised_since }
    }

    pub fn lowered(self, to: Position) -> Limits {
        Limits { at: self.at.min(to), floor: self.floor.min(to), ..self }
    }

    /// A raise begins: None if another is under way.
    pub fn begun(self, now: i64) -> Option<Limits> {
        let is_alone = self.since == 0 || now - self.since > LOST_AFTER;
        is_alone.then_some(Limits { at: self.at, floor: LAST, since: now })
    }

    /// The raise ends that began at `since`, unless the mark has been forgotten since, or the raise given up for lost.
    pub fn ended(self, since: i64, found: Option<Position>) -> Limits {
        if self.since != since {
            return self;
        }
        let at = found.map_or(self.at, |found| found.min(self.floor));
        Limits { at, since: 0, ..self }
    }
}
