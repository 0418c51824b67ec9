//! Positions at which the open transaction has made tasks ready, or buried them. At commit the low-water marks are
//! lowered to them.

use crate::change::StateAndTube;
use crate::position::{Group, Position};
use crate::status::Status;

/// Maximum number of tubes recorded separately; further tubes are recorded together.
const TUBES_NOTED: usize = 256;

/// Maximum number of groups recorded. Beyond it, tasks are recorded without their tube, so that the entries of whole
/// priorities stay exact.
const GROUPS_NOTED: usize = 2 * TUBES_NOTED;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkChange {
    /// First positions of tasks that became ready or buried.
    pub lowest: Lowest,
    /// Ready or buried tasks have possibly changed their keys or priorities.
    pub moved: bool,
    /// Tasks are no longer buried.
    pub unmade_buried: bool,
}

impl MarkChange {
    /// Records that a task changed its state or tube. `old` is None for an insertion, `new` for a deletion.
    pub fn change(&mut self, old: Option<StateAndTube>, new: Option<StateAndTube>) {
        let status = |place: Option<StateAndTube>| place.map(|place| place.status);
        self.unmade_buried |= status(old) == Some(Status::Buried) && status(new) != status(old);
    }

    pub fn absorb(&mut self, later: &MarkChange) {
        self.moved |= later.moved;
        self.unmade_buried |= later.unmade_buried;
        later.lowest.by_group().for_each(|(group, position)| self.lowest.add(group, position));
    }
}

/// First position at which a task became ready, by tube and priority, or buried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lowest(Vec<(Group, Position)>);

impl Lowest {
    /// Records a task of this group at this position.
    pub fn add(&mut self, group: Group, position: Position) {
        let known = self.0.iter().position(|(known, _)| *known == group);
        match known {
            Some(known) => self.0[known].1 = self.0[known].1.min(position),
            None if self.has_room(group) => self.0.push((group, position)),
            None => self.add(group.wider(), position),
        }
    }

    fn has_room(&self, group: Group) -> bool {
        match group {
            Group::ALL => true,
            Group::Ready { tube: Some(_), .. } => self.0.len() < TUBES_NOTED,
            _ => self.0.len() < GROUPS_NOTED,
        }
    }

    /// Returns the positions by group. A group that is not recorded is part of a wider one.
    pub fn by_group(&self) -> impl Iterator<Item = (Group, Position)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(groups: impl Iterator<Item = (Option<u64>, Option<i64>)>) -> Vec<(Group, Position)> {
        let mut lowest = Lowest::default();
        for (count, (tube, priority)) in (0..).zip(groups) {
            lowest.add(Group::Ready { tube, priority }, 5000 - count);
            lowest.add(Group::Ready { tube, priority }, 9000 - count);
        }
        lowest.by_group().collect()
    }

    fn group(tube: impl Into<Option<u64>>, priority: impl Into<Option<i64>>) -> Group {
        Group::Ready { tube: tube.into(), priority: priority.into() }
    }

    #[test]
    fn of_many_tubes_the_lowest_place_of_the_rest_is_noted() {
        let noted = noted((0..1000).map(|tube| (Some(tube), None)));
        assert_eq!(noted.len(), TUBES_NOTED + 1);
        assert_eq!(noted[0], (group(0, None), 5000));
        assert_eq!(noted[TUBES_NOTED], (Group::ALL, 4001));
    }

    #[test]
    fn of_many_tubes_the_rest_is_noted_by_priority() {
        let noted = noted((0..1000).map(|tube| (Some(tube), Some(tube as i64 % 2))));
        assert_eq!(noted.len(), TUBES_NOTED + 2);
        assert_eq!(noted[255], (group(255, 1), 4745));
        assert_eq!(noted[TUBES_NOTED..], [(group(None, 0), 4002), (group(None, 1), 4001)]);
    }

    #[test]
    fn of_many_priorities_the_lowest_place_of_the_rest_is_noted() {
        let noted = noted((0..1000).map(|level| (Some(level), Some(level as i64))));
        assert_eq!(noted.len(), GROUPS_NOTED + 1);
        assert_eq!(noted[TUBES_NOTED], (group(None, 256), 4744));
        assert_eq!(noted[GROUPS_NOTED], (Group::ALL, 4001));
        assert!(!noted.iter().any(|(group, _)| *group == Group::Buried));
    }

    #[test]
    fn what_is_buried_is_noted_beside_many_tubes() {
        let mut lowest = Lowest::default();
        (0..1000).for_each(|tube| lowest.add(group(tube, 7), 100));
        lowest.add(Group::Buried, 8);
        lowest.add(Group::Buried, 9);
        assert_eq!(lowest.by_group().last(), Some((Group::Buried, 8)));
    }
}
