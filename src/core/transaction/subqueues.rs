//! Changes of a transaction in the sub-queues of a queue, see [`crate::subqueues`].

use crate::change::StateAndTube;
use crate::level::{LAST as LAST_LEVEL, Level};
use crate::position::{LAST, Position};
use crate::status::Status;
use std::collections::HashMap;

/// Changes in one sub-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubqueueChange {
    /// Change of the number of taken tasks.
    pub taken: i32,
    /// A task has possibly become takeable.
    pub offers: bool,
    /// A ready or waiting task has left its state or its position.
    pub lost: bool,
    /// This transaction has claimed the sub-queue.
    pub claimed: bool,
    /// This transaction has found no further task since it took the last one.
    pub exhausted: bool,
    /// First position at which a task became ready or waiting; LAST if no task did.
    pub least: Position,
    /// Least level at which a task became ready or waiting; LAST_LEVEL if no task did.
    pub level: Level,
    /// Position of the task taken last; None if no task was taken.
    pub first: Option<Position>,
    /// Least level of the tasks taken; LAST_LEVEL if no task was taken.
    pub taken_level: Level,
}

impl Default for SubqueueChange {
    fn default() -> SubqueueChange {
        SubqueueChange::NONE
    }
}

impl SubqueueChange {
    pub const NONE: SubqueueChange = SubqueueChange {
        taken: 0,
        offers: false,
        lost: false,
        claimed: false,
        exhausted: false,
        least: LAST,
        level: LAST_LEVEL,
        first: None,
        taken_level: LAST_LEVEL,
    };

    pub fn absorb(&mut self, later: &SubqueueChange) {
        self.taken += later.taken;
        self.offers |= later.offers;
        self.lost |= later.lost;
        self.claimed |= later.claimed;
        self.exhausted = later.exhausted;
        self.least = self.least.min(later.least);
        self.level = self.level.min(later.level);
        self.taken_level = self.taken_level.min(later.taken_level);
        self.first = later.first.or(self.first);
    }

    /// Records a task that became ready or waiting at this position and level.
    fn stand(&mut self, position: Position, level: Level) {
        (self.least, self.level) = (self.least.min(position), self.level.min(level));
    }

    /// Returns whether the change does not concern other processes.
    pub fn is_none(&self) -> bool {
        !self.claimed && !self.is_seen_otherwise()
    }

    /// Returns whether this transaction sees the sub-queue differently from others.
    pub fn is_seen_otherwise(&self) -> bool {
        self.taken != 0 || self.offers || self.lost || self.least != LAST
    }

    /// Returns whether this transaction has claimed the sub-queue, or settled its taken task, and has nothing in
    /// flight.
    pub fn is_own(&self) -> bool {
        if self.claimed { self.taken <= 0 } else { self.taken < 0 }
    }

    /// Returns whether `is_own` is true and another task can be found.
    pub fn is_left(&self) -> bool {
        self.is_own() && !self.exhausted
    }
}

/// Changes in the sub-queues of a queue, in the order in which they were touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubqueueChanges {
    changes: Vec<(u64, SubqueueChange)>,
    places: HashMap<u64, usize>,
    /// More sub-queues have changes than are recorded.
    pub more: bool,
}

/// Maximum number of sub-queues recorded, not counting claimed ones.
pub const SUBQUEUES_NOTED: usize = 100_000;

impl SubqueueChanges {
    /// Records that a task changed its state or tube. `old` is None for an insertion, `new` for a deletion. `position`
    /// and `level` belong to the task.
    pub fn change(
        &mut self,
        old: Option<StateAndTube>,
        new: Option<StateAndTube>,
        (position, level): (Position, Level),
    ) {
        let in_subqueue = |place: Option<StateAndTube>| {
            let place = place?;
            place.subqueue().map(|subqueue| (subqueue, place.status))
        };
        let (old, new) = (in_subqueue(old), in_subqueue(new));
        let is_open = |status| matches!(status, Status::Ready | Status::Waiting);
        if let Some((subqueue, status)) = old
            && old != new
        {
            self.note(subqueue, |change| match status {
                Status::Taken => change.taken -= 1,
                // A ready task behind the waiting one has possibly become the first.
                Status::Waiting => (change.offers, change.lost) = (true, true),
                Status::Ready => change.lost = true,
                Status::Buried | Status::Zombie | Status::Done => {}
            });
        }
        let Some((subqueue, status)) = new else { return };
        if is_open(status) {
            self.note(subqueue, |change| {
                // A waiting task that stays has a new position, which can be behind a ready one.
                change.offers |= status == Status::Ready || old == new;
                change.stand(position, level);
            });
        } else if status == Status::Taken && old != new {
            self.note(subqueue, |change| {
                (change.taken, change.first) = (change.taken + 1, Some(position));
                change.taken_level = change.taken_level.min(level);
            });
        }
    }

    /// Records a new position of a task that keeps its state and tube.
    pub fn moved(&mut self, place: StateAndTube, (position, level): (Position, Level)) {
        if let Some(subqueue) = place.subqueue()
            && matches!(place.status, Status::Ready | Status::Waiting)
        {
            self.note(subqueue, |change| {
                (change.offers, change.lost) = (true, true);
                change.stand(position, level);
            });
        }
    }

    fn note(&mut self, subqueue: u64, note: impl FnOnce(&mut SubqueueChange)) {
        if self.changes.len() < SUBQUEUES_NOTED || self.places.contains_key(&subqueue) {
            let change = self.at(subqueue);
            note(change);
            change.exhausted = false;
        } else {
            self.more = true;
        }
    }

    fn at(&mut self, subqueue: u64) -> &mut SubqueueChange {
        let place = *self.places.entry(subqueue).or_insert(self.changes.len());
        if place == self.changes.len() {
            self.changes.push((subqueue, SubqueueChange::default()));
        }
        &mut self.changes[place].1
    }

    /// Records a claim that `claim` makes. Memory is reserved first, so that the record cannot fail after the claim.
    pub fn claim<E>(&mut self, claim: impl FnOnce() -> Result<u64, E>) -> Result<u64, E> {
        self.changes.reserve(1);
        self.places.reserve(1);
        let subqueue = claim()?;
        self.at(subqueue).claimed = true;
        Ok(subqueue)
    }

    /// Records that a claimed sub-queue has been given back.
    pub fn unclaim(&mut self, subqueue: u64) {
        self.at(subqueue).claimed = false;
    }

    /// Records that a claimed sub-queue has nothing more to take.
    pub fn exhaust(&mut self, subqueue: u64) {
        self.at(subqueue).exhausted = true;
    }

    /// Returns whether a transaction with these changes has taken a task of a sub-queue.
    pub fn has_taken(&self) -> bool {
        self.changes.iter().any(|(_, change)| change.taken > 0)
    }

    /// Returns whether a transaction with these changes has claimed a sub-queue, or taken a task of one.
    pub fn holds_any(&self) -> bool {
        self.changes.iter().any(|(_, change)| change.claimed || change.taken > 0)
    }

    pub fn contains(&self, subqueue: u64) -> bool {
        self.more || self.places.contains_key(&subqueue)
    }

    /// Adds the changes of a sub-queue to a sum.
    pub fn add_to(&self, known: &mut SubqueueChange, subqueue: u64) {
        match self.find(subqueue) {
            Some(later) => known.absorb(later),
            // An unrecorded task can have arrived since the sub-queue was exhausted.
            None => known.exhausted &= !self.more,
        }
    }

    /// Returns the recorded changes of a sub-queue.
    fn find(&self, subqueue: u64) -> Option<&SubqueueChange> {
        self.places.get(&subqueue).map(|place| &self.changes[*place].1)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &SubqueueChange)> {
        self.changes.iter().map(|(subqueue, change)| (*subqueue, change))
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.more
    }

    pub fn absorb(&mut self, later: &SubqueueChanges) {
        for (subqueue, change) in later.iter() {
            if change.claimed {
                self.at(subqueue).absorb(change);
            } else {
                let exhausted = change.exhausted;
                self.note(subqueue, |known| known.absorb(change));
                if self.places.contains_key(&subqueue) {
                    self.at(subqueue).exhausted = exhausted;
                }
            }
        }
        if later.more {
            let others =
                self.changes.iter_mut().filter(|(subqueue, _)| later.find(*subqueue).is_none());
            others.for_each(|(_, change)| change.exhausted = false);
            self.more = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Tube;

    impl SubqueueChanges {
        pub fn get(&self, subqueue: u64) -> SubqueueChange {
            self.find(subqueue).copied().unwrap_or_default()
        }
    }

    fn at(status: Status, subqueue: u64) -> Option<StateAndTube> {
        in_order(status, subqueue, true)
    }

    fn in_order(status: Status, subqueue: u64, is_strict: bool) -> Option<StateAndTube> {
        Some(StateAndTube {
            status,
            tube: Some(Tube { hash: subqueue, counted: None, is_subqueue: true, is_strict }),
        })
    }

    #[test]
    fn a_task_that_waits_is_in_no_line_unless_that_is_strict() {
        let at = |status| in_order(status, 7, false);
        let mut subqueues = SubqueueChanges::default();
        for (old, new) in [
            (None, at(Status::Waiting)),
            (at(Status::Waiting), at(Status::Waiting)),
            (at(Status::Waiting), at(Status::Buried)),
            (at(Status::Waiting), None),
        ] {
            subqueues.change(old, new, (5, 0));
        }
        subqueues.moved(at(Status::Waiting).expect("a place"), (5, 0));
        assert_eq!(subqueues.get(7), SubqueueChange::default());
        subqueues.change(at(Status::Waiting), at(Status::Ready), (5, 0));
        assert!(subqueues.get(7).offers && subqueues.get(7).least == 5 && !subqueues.get(7).lost);
        subqueues.change(at(Status::Taken), at(Status::Waiting), (5, 0));
        assert_eq!(subqueues.get(7).taken, -1);
    }

    #[test]
    fn a_task_taken_and_settled_leaves_the_subqueue_as_it_was() {
        let mut subqueues = SubqueueChanges::default();
        subqueues.change(at(Status::Ready, 7), at(Status::Taken, 7), (1, 0));
        assert_eq!((subqueues.get(7).taken, subqueues.get(7).offers), (1, false));
        assert!(!subqueues.get(7).is_left());
        subqueues.change(at(Status::Taken, 7), None, (1, 0));
        assert_eq!(subqueues.get(7).taken, 0);
        assert!(!subqueues.get(7).is_left());
        subqueues.claim(|| Ok::<_, ()>(7)).expect("claimed");
        assert!(subqueues.get(7).is_left());
    }

    #[test]
    fn the_place_of_the_last_take_is_known_beside_an_ack() {
        let mut subqueues = SubqueueChanges::default();
        subqueues.change(at(Status::Taken, 7), None, (1, 0));
        subqueues.change(at(Status::Ready, 7), at(Status::Taken, 7), (2, 0));
        let mut sum = SubqueueChange::default();
        sum.absorb(&subqueues.get(7));
        assert_eq!((sum.taken, sum.first), (0, Some(2)));
    }

    #[test]
    fn what_comes_to_be_first_is_offered() {
        for (old, new) in [
            (None, at(Status::Ready, 1)),
            (at(Status::Waiting, 1), None),
            (at(Status::Waiting, 1), at(Status::Buried, 1)),
            (at(Status::Waiting, 1), at(Status::Waiting, 1)),
            (at(Status::Ready, 1), at(Status::Ready, 1)),
            (at(Status::Waiting, 1), at(Status::Waiting, 2)),
        ] {
            let mut subqueues = SubqueueChanges::default();
            subqueues.change(old, new, (5, 0));
            assert!(subqueues.get(1).offers, "{old:?} -> {new:?}");
        }
        let mut subqueues = SubqueueChanges::default();
        subqueues.change(None, at(Status::Waiting, 1), (5, 0));
        subqueues.change(at(Status::Ready, 2), at(Status::Buried, 2), (5, 0));
        assert!(!subqueues.get(1).offers && !subqueues.get(2).offers);
        assert_eq!((subqueues.get(1).least, subqueues.get(2).least), (5, LAST));
        assert!(subqueues.get(2).lost && !subqueues.get(1).lost);
    }

    #[test]
    fn a_claim_is_noted_however_many_subqueues_there_are() {
        let mut subqueues = SubqueueChanges::default();
        for subqueue in 0..SUBQUEUES_NOTED as u64 + 10 {
            subqueues.change(None, at(Status::Ready, subqueue), (5, 0));
        }
        assert!(subqueues.more);
        let last = SUBQUEUES_NOTED as u64 + 9;
        subqueues.claim(|| Ok::<_, ()>(last)).expect("claimed");
        assert!(subqueues.get(last).claimed);
        let mut outer = subqueues.clone();
        let mut inner = SubqueueChanges::default();
        inner.claim(|| Ok::<_, ()>(last + 1)).expect("claimed");
        outer.absorb(&inner);
        assert!(outer.get(last + 1).claimed);
    }
}
