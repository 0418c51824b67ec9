//! Changes of a transaction that concern waiting processes.

use crate::change::{Outcome, StateAndTube};
use crate::status::Status;

/// Maximum number of tubes whose ready tasks are counted separately. Tasks of further tubes are counted without their
/// tube.
pub const TUBES_NOTED: usize = 256;

/// Maximum outcomes recorded per transaction; beyond it all watchers recheck.
const ENDED_NOTED: usize = 100_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaiterChange {
    /// Tasks that became ready: the number of consumers to wake at commit.
    pub made_ready: Ready,
    /// Tasks that ceased to be ready: the number of consumers to wake at rollback.
    pub unmade_ready: Ready,
    /// Outcomes of tasks, by the hash of the key; None for a task that is to be processed again.
    pub ended: Vec<(u64, Option<Outcome>)>,
    /// There are more outcomes than recorded.
    pub ended_more: bool,
}

/// Numbers of tasks that became ready, or ceased to be, by tube.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready(Vec<(Option<u64>, u32)>);

impl WaiterChange {
    /// Records that a task changed its state or tube. `old` is None for an insertion, `new` for a deletion.
    pub fn change(&mut self, old: Option<StateAndTube>, new: Option<StateAndTube>) {
        let is_ready = |place: Option<StateAndTube>| {
            place.is_some_and(|place| place.status == Status::Ready && !place.is_in_subqueue())
        };
        let hash = |place: Option<StateAndTube>| Some(place?.tube?.hash);
        let (was_ready, is_ready) = (is_ready(old), is_ready(new));
        let has_moved = old.zip(new).is_some_and(|(old, new)| old.tube != new.tube);
        if is_ready && (!was_ready || has_moved) {
            self.made_ready.add(hash(new), 1);
        }
        if was_ready && (!is_ready || has_moved) {
            self.unmade_ready.add(hash(old), 1);
        }
    }

    /// Records the outcome of the task whose key has this hash; None if the task is to be processed again.
    pub fn end(&mut self, hash: u64, outcome: Option<Outcome>) {
        if self.ended.len() < ENDED_NOTED {
            self.ended.push((hash, outcome));
        } else {
            self.ended_more = true;
        }
    }

    /// Returns the report to a watcher of the task whose key has this hash: the outcome, `Some(None)` if it has to check
    /// itself, or None if it learns nothing. `all`: all tasks were deleted.
    pub fn report(&self, hash: u64, all: bool) -> Option<Option<Outcome>> {
        let last = self.ended.iter().rev().find(|(key, _)| *key == hash);
        match last.and_then(|(_, outcome)| *outcome) {
            Some(outcome) => Some(Some(outcome)),
            None if all => Some(Some(Outcome::Deleted)),
            None => self.ended_more.then_some(None),
        }
    }

    pub fn absorb(&mut self, later: &WaiterChange) {
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

    /// Returns the numbers by tube; None for tasks without a tube.
    pub fn by_tube(&self) -> impl Iterator<Item = (Option<u64>, u32)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_learns_the_last_of_a_tasks_outcomes() {
        let mut change = WaiterChange::default();
        change.end(1, Some(Outcome::Buried));
        change.end(2, Some(Outcome::Buried));
        let later = WaiterChange { ended: vec![(1, None)], ..WaiterChange::default() };
        change.absorb(&later);
        change.end(2, Some(Outcome::Acked));
        assert_eq!(change.report(1, false), None, "it is to be processed again");
        assert_eq!(change.report(2, false), Some(Some(Outcome::Acked)));
        assert_eq!(change.report(3, false), None);
        assert_eq!(change.report(1, true), Some(Some(Outcome::Deleted)));
        change.ended_more = true;
        assert_eq!(change.report(3, false), Some(None));
    }
}
