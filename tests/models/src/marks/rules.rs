//! What each step does to a mark: written once more, apart from the extension's own [`Mark`]. The exploration compares
//! both at each step that it takes, and the [replay](super::replay) holds a server's steps against these.

use crate::model::position::{FIRST, LAST, Position};
use crate::parts::marks::mark::{LOST_AFTER, Mark};
use serde::{Deserialize, Deserializer};

/// What matters of a mark.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Limits {
    #[serde(deserialize_with = "position")]
    pub at: Position,
    #[serde(deserialize_with = "position")]
    pub floor: Position,
    /// When the raise began that is under way; 0 if none is.
    pub since: i64,
}

/// Positions are longer than numbers of JSON.
pub fn position<'de, D: Deserializer<'de>>(text: D) -> Result<Position, D::Error> {
    String::deserialize(text)?.parse().map_err(serde::de::Error::custom)
}

impl Limits {
    pub const FORGOTTEN: Limits = Limits { at: FIRST, floor: FIRST, since: 0 };

    pub fn of(mark: &Mark) -> Limits {
        Limits { at: mark.at, floor: mark.floor, since: mark.raised_since() }
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
