//! Changes of the open transaction to the leases of the connection's own session on tasks of a queue; applied to
//! [`crate::parts::leases::held`] at commit.

use crate::model::position::Position;
use crate::parts::leases::given::Given;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Number of tasks taken by this session.
    pub taken: u32,
    /// Leases that the connection's own session has got and lost.
    pub held: HeldChanges,
    /// Foreign sessions that were given tasks by hand.
    pub given: Given,
}

impl Change {
    pub fn absorb(&mut self, later: &Change) {
        self.taken = self.taken.saturating_add(later.taken);
        self.held.absorb(&later.held);
        self.given.absorb(&later.given);
    }
}

/// Maximum number of tasks recorded by position; the others are only counted.
pub const TASKS_NOTED: usize = 256;

/// Change of one lease, or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldChange {
    /// The session has got the task at this position.
    Got(Position),
    /// The session has lost the task at this position, by any call.
    Lost(Position),
    /// Numbers of tasks taken at unrecorded positions, and lost of all that it had.
    Count { got: u64, lost: u64 },
}

/// All changes, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldChanges(Vec<HeldChange>);

impl HeldChanges {
    /// Records a task that the session has got; None: its position does not identify it.
    pub fn get(&mut self, position: Option<Position>) {
        self.add(position.map_or(HeldChange::Count { got: 1, lost: 0 }, HeldChange::Got));
    }

    /// Records a task that the session has lost.
    pub fn lose(&mut self, position: Option<Position>) {
        self.add(position.map_or(HeldChange::Count { got: 0, lost: 1 }, HeldChange::Lost));
    }

    /// Records numbers of tasks got and lost.
    pub fn count(&mut self, got: u64, lost: u64) {
        match self.0.last_mut() {
            Some(HeldChange::Count { got: sum, lost: sum_lost }) => {
                (*sum, *sum_lost) = (*sum + got, *sum_lost + lost);
            }
            _ => self.0.push(HeldChange::Count { got, lost }),
        }
    }

    fn add(&mut self, change: HeldChange) {
        match change {
            HeldChange::Count { got, lost } => self.count(got, lost),
            HeldChange::Got(_) if self.is_full() => self.count(1, 0),
            HeldChange::Lost(_) if self.is_full() => self.count(0, 1),
            _ => self.0.push(change),
        }
    }

    fn is_full(&self) -> bool {
        self.0.len() >= TASKS_NOTED
    }

    pub fn absorb(&mut self, later: &HeldChanges) {
        later.iter().for_each(|change| self.add(change));
    }

    pub fn iter(&self) -> impl Iterator<Item = HeldChange> {
        self.0.iter().copied()
    }

    /// Returns the numbers of tasks taken and lost.
    pub fn total(&self) -> (u64, u64) {
        self.iter().fold((0, 0), |(got, lost), change| match change {
            HeldChange::Got(_) => (got + 1, lost),
            HeldChange::Lost(_) => (got, lost + 1),
            HeldChange::Count { got: more_got, lost: more_lost } => {
                (got + more_got, lost + more_lost)
            }
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HeldChange::{Count, Got, Lost};

    #[test]
    fn what_happened_is_noted() {
        let (mut changes, mut later) = (HeldChanges::default(), HeldChanges::default());
        changes.get(Some(7));
        changes.count(3, 0);
        changes.get(None);
        later.lose(None);
        later.lose(Some(7));
        changes.absorb(&later);
        let noted: Vec<_> = changes.iter().collect();
        assert_eq!(noted, [Got(7), Count { got: 4, lost: 1 }, Lost(7)]);
    }

    #[test]
    fn of_very_many_the_rest_is_counted() {
        let mut changes = HeldChanges::default();
        (0..1000).for_each(|position| changes.get(Some(position)));
        (0..10).for_each(|position| changes.lose(Some(position)));
        let noted: Vec<_> = changes.iter().collect();
        assert_eq!(noted.len(), TASKS_NOTED + 1);
        assert_eq!((noted[0], noted[TASKS_NOTED]), (Got(0), Count { got: 1000 - 256, lost: 10 }));
    }
}
