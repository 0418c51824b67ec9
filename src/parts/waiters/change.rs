//! For which waiting processes the open transaction has done something.

use crate::model::change::{Outcome, Place};
use crate::model::status::Status;

/// Maximum number of tubes of which a transaction notes how many of their tasks came to be ready; those of more tubes are
/// noted without their tube.
pub const TUBES_NOTED: usize = 256;

/// Maximum number of outcomes noted for each transaction; beyond it all that wait for one look again.
const ENDED_NOTED: usize = 100_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Tasks that came to be ready: so many waiting consumers are woken at commit.
    pub made_ready: Ready,
    /// Tasks that ceased to be ready: so many waiting consumers are woken at rollback.
    pub unmade_ready: Ready,
    /// What has become of tasks that may be waited for, by the number that stands for the key.
    pub ended: Vec<(u64, Outcome)>,
    /// There were more than are noted.
    pub ended_more: bool,
}

/// A number of tasks that came to be ready, or ceased to be, by tube.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready(Vec<(Option<u64>, u32)>);

impl Change {
    /// A task has come from one place to another, or from or to nowhere.
    pub fn change(&mut self, old: Option<Place>, new: Option<Place>) {
        let is_ready = |place: Option<Place>| {
            place.is_some_and(|place| place.status == Status::Ready && !place.is_in_lane())
        };
        let hash = |place: Option<Place>| Some(place?.tube?.hash);
        let (was_ready, is_ready) = (is_ready(old), is_ready(new));
        let has_moved = old.zip(new).is_some_and(|(old, new)| old.tube != new.tube);
        if is_ready && (!was_ready || has_moved) {
            self.made_ready.add(hash(new), 1);
        }
        if was_ready && (!is_ready || has_moved) {
            self.unmade_ready.add(hash(old), 1);
        }
    }

    /// Notes what has become of the task with the key that `hash` stands for.
    pub fn end(&mut self, hash: impl FnOnce() -> u64, outcome: Outcome) {
        if self.ended.len() < ENDED_NOTED {
            self.ended.push((hash(), outcome));
        } else {
            self.ended_more = true;
        }
    }

    pub fn absorb(&mut self, later: &Change) {
        self.made_ready.absorb(&later.made_ready);
        self.unmade_ready.absorb(&later.unmade_ready);
        let room = ENDED_NOTED.saturating_sub(self.ended.len()).min(later.ended.len());
        self.ended.extend_from_slice(&later.ended[..room]);
        self.ended_more |= later.ended_more || room < later.ended.len();
    }
}

impl Ready {
    pub fn add(&mut self, tube: Option<u64>, count: u32) {
        let at = |tube: Option<u64>| self.0.iter().position(|(known, _)| *known == tube);
        let is_full = self.0.len() >= TUBES_NOTED;
        let (place, tube) = match at(tube) {
            None if is_full => (at(None), None),
            place => (place, tube),
        };
        match place {
            Some(place) => self.0[place].1 = self.0[place].1.saturating_add(count),
            None => self.0.push((tube, count)),
        }
    }

    pub fn absorb(&mut self, later: &Ready) {
        later.0.iter().for_each(|(tube, count)| self.add(*tube, *count));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers by tube; None where the queue has none.
    pub fn by_tube(&self) -> impl Iterator<Item = (Option<u64>, u32)> {
        self.0.iter().copied()
    }
}
