//! Changes of the open transaction, by nesting depth and queue.
//!
//! Modelled on the stack of PostgreSQL's own statistics (pgstat): one level for each nesting depth at which something
//! changed; a released savepoint is added to its parent, a rolled back one is dropped, a TRUNCATE replaces what was
//! there before it.

use crate::model::change::Transitions;
use crate::model::position::{Kind, Position};
use crate::parts::capacity::Growth;
use crate::parts::counters::change::add_all;
use crate::parts::delta::Delta;
use crate::parts::slot_id::SlotId;
use crate::parts::subqueues::change::{LaneChange, LaneChanges};

/// Number of queues whose memory is kept for the next transaction.
const SPARE: usize = 8;

struct Level {
    depth: i32,
    deltas: Vec<(SlotId, Delta)>,
}

/// Changes of the open transaction. Levels are ordered by depth, outermost first.
pub struct Stack {
    levels: Vec<Level>,
    /// Memory of the previous transaction.
    spare: Vec<(SlotId, Delta)>,
}

impl Stack {
    pub const fn new() -> Stack {
        Stack { levels: Vec::new(), spare: Vec::new() }
    }

    /// Returns the changes of `slot` at nesting depth `depth`, to be added to.
    pub fn at(&mut self, depth: i32, slot: SlotId) -> &mut Delta {
        if self.levels.last().is_none_or(|level| level.depth < depth) {
            self.levels.push(Level { depth, deltas: std::mem::take(&mut self.spare) });
        }
        let last = self.levels.len() - 1;
        let deltas = &mut self.levels[last].deltas;
        let position = deltas.iter().position(|(known, _)| *known == slot).unwrap_or_else(|| {
            deltas.push((slot, Delta::default()));
            deltas.len() - 1
        });
        &mut deltas[position].1
    }

    /// Adds the changes of the subtransaction at `depth`, which has committed, to its parent.
    pub fn commit_subtransaction(&mut self, depth: i32) {
        let Some(mut level) = self.levels.pop_if(|level| level.depth >= depth) else { return };
        match self.levels.last_mut() {
            Some(parent) if parent.depth >= depth - 1 => {
                for (slot, delta) in &level.deltas {
                    match parent.deltas.iter_mut().find(|(known, _)| known == slot) {
                        Some((_, into)) => into.absorb(delta),
                        None => parent.deltas.push((*slot, delta.clone())),
                    }
                }
            }
            _ => {
                level.depth = depth - 1;
                self.levels.push(level);
            }
        }
    }

    /// Drops the changes of the subtransaction at `depth`, which is rolled back, and shows them to `undone`.
    pub fn abort_subtransaction(&mut self, depth: i32, mut undone: impl FnMut(SlotId, &Delta)) {
        while let Some(level) = self.levels.pop_if(|level| level.depth >= depth) {
            level.deltas.iter().for_each(|(slot, delta)| undone(*slot, delta));
        }
    }

    /// Shows all changes, outermost first. Allocates nothing.
    pub fn for_each(&self, mut see: impl FnMut(SlotId, &Delta)) {
        for level in &self.levels {
            level.deltas.iter().for_each(|(slot, delta)| see(*slot, delta));
        }
    }

    /// Returns how many tasks, of all queues, the connection's own session has got and lost.
    pub fn held(&self) -> (u64, u64) {
        let (mut got, mut lost) = (0, 0);
        self.for_each(|_, delta| {
            let (more_got, more_lost) = delta.leases.held.total();
            (got, lost) = (got + more_got, lost + more_lost);
        });
        (got, lost)
    }

    /// Returns the queues that were dropped and not made again.
    pub fn dropped(&self) -> Vec<SlotId> {
        let mut dropped = Vec::new();
        self.for_each(|slot, delta| {
            if let Some(is_dropped) = delta.table.dropped {
                dropped.retain(|known| *known != slot);
                dropped.extend(is_dropped.then_some(slot));
            }
        });
        dropped
    }

    /// Returns the previous owners of queues whose tables have been altered.
    pub fn owners_before(&self) -> Vec<(SlotId, u32)> {
        let mut owners: Vec<(SlotId, u32)> = Vec::new();
        self.for_each(|slot, delta| {
            let is_known = owners.iter().any(|(known, _)| *known == slot);
            owners
                .extend(delta.table.owner_before.filter(|_| !is_known).map(|owner| (slot, owner)));
        });
        owners
    }

    /// Returns whether a role that is not a superuser has altered the queue's table.
    pub fn is_altered_by_user(&self, slot: SlotId) -> bool {
        self.of(slot).any(|delta| delta.table.altered_by_user)
    }

    /// Returns the changes of one queue by the whole transaction.
    pub fn total(&self, slot: SlotId) -> Delta {
        let mut total = Delta::default();
        self.for_each(|known, delta| {
            if known == slot {
                total.absorb(delta);
            }
        });
        total
    }

    /// Returns the transitions of one queue's tasks, and the earliest instant of work for tasks that were changed.
    pub fn transitions(&self, slot: SlotId) -> (Transitions, Option<i64>) {
        let mut total = Transitions::default();
        self.of(slot).for_each(|delta| add_all(&mut total, &delta.counters.transitions));
        (total, self.of(slot).filter_map(|delta| delta.schedule.due).min())
    }

    /// Returns the effect on the number of a queue's tasks.
    pub fn growth(&self, slot: SlotId) -> Growth {
        let mut growth = Growth::default();
        self.of(slot).for_each(|delta| growth.absorb(&delta.counters, &delta.capacity));
        growth
    }

    /// Returns whether other transactions may see tasks of a kind where this one does not.
    pub fn hides(&self, slot: SlotId, kind: Kind) -> bool {
        let hides = |delta: &Delta| {
            let has_changed = match kind {
                Kind::Ready => !delta.waiters.unmade_ready.is_empty(),
                Kind::Buried => delta.marks.unmade_buried,
            };
            has_changed || delta.marks.moved || delta.counters.replaces || delta.table.redefined
        };
        self.of(slot).any(hides)
    }

    /// Returns whether the transaction has done what is not reported row by row.
    pub fn has_redefined(&self, slot: SlotId) -> bool {
        self.of(slot)
            .any(|delta| delta.table.redefined || delta.counters.recount || delta.counters.replaces)
    }

    /// Returns the first position at which the transaction has made a task be of a kind.
    pub fn lowest(&self, slot: SlotId, kind: Kind) -> Option<Position> {
        let places = self.of(slot).flat_map(|delta| delta.marks.lowest.by_group());
        places.filter(|(group, _)| kind.may_be_in(*group)).map(|(_, position)| position).min()
    }

    fn of(&self, slot: SlotId) -> impl Iterator<Item = &Delta> {
        let changes = self.levels.iter().flat_map(|level| &level.deltas);
        changes.filter(move |(known, _)| *known == slot).map(|(_, delta)| delta)
    }

    /// Returns the changes of a queue's sub-queues.
    pub fn lanes(&self, slot: SlotId) -> LaneChanges {
        let mut total = LaneChanges::default();
        self.of(slot).for_each(|delta| total.absorb(&delta.subqueues));
        total
    }

    /// Returns those of one sub-queue.
    pub fn lane(&self, slot: SlotId, lane: u64) -> LaneChange {
        let mut total = LaneChange::default();
        self.of(slot).for_each(|delta| delta.subqueues.add_to(&mut total, lane));
        total
    }

    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    pub fn clear(&mut self) {
        let first = self.levels.drain(..).next();
        if let Some(Level { mut deltas, .. }) = first.filter(|level| level.deltas.len() <= SPARE) {
            deltas.clear();
            self.spare = deltas;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::change::{Counts, NOWHERE, OTHER_TUBE, Place, Tube};
    use crate::model::status::Status;
    use crate::parts::subqueues::change::LANES_NOTED;
    use crate::parts::waiters::change::{Ready, TUBES_NOTED};

    const JOBS: SlotId = SlotId { index: 3, generation: 1 };
    const MAIL: SlotId = SlotId { index: 4, generation: 1 };

    fn put(stack: &mut Stack, depth: i32, slot: SlotId) {
        stack.at(depth, slot).change(None, at(Status::Ready));
    }

    fn at(status: Status) -> Option<Place> {
        Some(Place { status, tube: None })
    }

    fn in_tube(status: Status, index: usize) -> Option<Place> {
        let tube = Tube {
            hash: index as u64 + 10,
            counted: Some(index),
            is_lane: false,
            is_strict: false,
        };
        Some(Place { status, tube: Some(tube) })
    }

    #[test]
    fn of_very_many_tubes_some_are_noted_and_all_are_counted() {
        let mut ready = Ready::default();
        for tube in (0..1000).chain(0..10) {
            ready.add(Some(tube), 2);
        }
        let noted: Vec<_> = ready.by_tube().collect();
        assert_eq!(noted.len(), TUBES_NOTED + 1);
        assert_eq!((noted[0], noted[TUBES_NOTED]), ((Some(0), 4), (None, 2 * (1000 - 256))));
    }

    #[test]
    fn a_rolled_back_savepoint_leaves_the_outer_changes() {
        let mut stack = Stack::new();
        put(&mut stack, 1, JOBS);
        put(&mut stack, 2, JOBS);
        put(&mut stack, 3, MAIL);
        stack.commit_subtransaction(3);
        let mut undone = Vec::new();
        stack.abort_subtransaction(2, |slot, delta| undone.push((slot, delta.counters.tasks[0])));
        assert_eq!(undone, [(JOBS, 1), (MAIL, 1)]);
        assert_eq!(stack.total(JOBS).counters.tasks[0], 1);
        assert_eq!(stack.total(MAIL), Delta::default());
    }

    #[test]
    fn a_released_savepoint_becomes_its_parents_even_without_a_parent_record() {
        let mut stack = Stack::new();
        put(&mut stack, 4, JOBS);
        stack.commit_subtransaction(4);
        stack.commit_subtransaction(3);
        assert_eq!(ready(&stack.total(JOBS).waiters.made_ready), [(None, 1)]);
        stack.abort_subtransaction(2, |_, _| {});
        assert_eq!(stack.total(JOBS), Delta::default());
    }

    #[test]
    fn truncate_replaces_what_came_before_and_can_be_rolled_back() {
        let mut stack = Stack::new();
        put(&mut stack, 1, JOBS);
        stack.at(2, JOBS).replace(&Counts::default());
        put(&mut stack, 2, JOBS);
        put(&mut stack, 2, JOBS);
        assert_eq!(stack.total(JOBS).counters.tasks[0], 2);
        assert!(stack.total(JOBS).counters.replaces);
        stack.abort_subtransaction(2, |_, _| {});
        assert_eq!(stack.total(JOBS).counters.tasks[0], 1);
        assert!(!stack.total(JOBS).counters.replaces);
        stack.at(2, JOBS).replace(&Counts::default());
        stack.commit_subtransaction(2);
        assert_eq!(stack.total(JOBS).counters.tasks[0], 0);
        assert!(stack.total(JOBS).counters.replaces);
    }

    #[test]
    fn a_task_put_and_taken_in_one_transaction_counts_once() {
        let mut stack = Stack::new();
        put(&mut stack, 1, JOBS);
        stack.at(1, JOBS).change(at(Status::Ready), at(Status::Taken));
        let total = stack.total(JOBS);
        assert_eq!(total.counters.tasks, [0, 1, 0, 0, 0, 0]);
        assert_eq!(ready(&total.waiters.made_ready), [(None, 1)]);
        assert_eq!(ready(&total.waiters.unmade_ready), [(None, 1)]);
        assert_eq!(total.counters.transitions[NOWHERE][0], 1);
        assert_eq!(total.counters.transitions[0][1], 1);
    }

    fn ready(ready: &Ready) -> Vec<(Option<u64>, u32)> {
        ready.by_tube().collect()
    }

    #[test]
    fn a_task_that_moves_leaves_one_tube_and_enters_another() {
        let mut delta = Delta::default();
        delta.change(None, in_tube(Status::Ready, 0));
        delta.change(in_tube(Status::Ready, 0), in_tube(Status::Waiting, 1));
        delta.change(in_tube(Status::Waiting, 1), in_tube(Status::Ready, 1));
        let [(0, first), (1, second)] = &delta.counters.tubes[..] else {
            panic!("{:?}", delta.counters.tubes)
        };
        assert_eq!((first.tasks, second.tasks[0]), ([0; 6], 1));
        assert_eq!(first.transitions[0][OTHER_TUBE], 1);
        assert_eq!(second.transitions[OTHER_TUBE][2], 1);
        assert_eq!(second.transitions[2][0], 1);
        assert_eq!(delta.counters.tasks, [1, 0, 0, 0, 0, 0]);
        assert_eq!(ready(&delta.waiters.made_ready), [(Some(10), 1), (Some(11), 1)]);
    }

    #[test]
    fn truncate_replaces_the_tubes_too() {
        let mut stack = Stack::new();
        stack.at(1, JOBS).change(None, in_tube(Status::Ready, 3));
        stack.at(2, JOBS).replace(&Counts::default());
        stack.commit_subtransaction(2);
        let total = stack.total(JOBS);
        assert!(total.counters.tubes.iter().all(|(_, tube)| tube.tasks == [0; 6]));
        assert_eq!(total.counters.tubes[0].1.transitions[NOWHERE][0], 1);
    }

    #[test]
    fn what_was_deleted_is_room_until_that_is_rolled_back() {
        let mut stack = Stack::new();
        stack.at(1, JOBS).change(at(Status::Ready), None);
        assert_eq!(stack.growth(JOBS).lacking(1), 0);
        put(&mut stack, 2, JOBS);
        assert_eq!(stack.growth(JOBS).lacking(1), 1);
        stack.at(2, JOBS).capacity.reserved = 3;
        assert_eq!((stack.growth(JOBS).lacking(1), stack.growth(JOBS).surplus()), (-2, 3));
        stack.at(3, JOBS).replace(&Counts::default());
        put(&mut stack, 3, JOBS);
        let growth = stack.growth(JOBS);
        assert_eq!((growth.tasks, growth.replaces, growth.surplus()), (1, true, 2));
        stack.abort_subtransaction(2, |_, _| {});
        assert_eq!(stack.growth(JOBS), Growth { tasks: -1, ..Growth::default() });
    }

    #[test]
    fn what_was_dropped_may_be_there_again() {
        let mut stack = Stack::new();
        stack.at(1, JOBS).table.dropped = Some(true);
        stack.at(2, JOBS).table.dropped = Some(false);
        assert_eq!(stack.total(JOBS).table.dropped, Some(false));
        stack.abort_subtransaction(2, |_, _| {});
        assert_eq!(stack.total(JOBS).table.dropped, Some(true));
    }

    #[test]
    fn the_first_owner_is_the_one_before_the_transaction() {
        let mut stack = Stack::new();
        stack.at(2, JOBS).table.owner_before = Some(7);
        stack.at(3, JOBS).table.owner_before = Some(8);
        stack.commit_subtransaction(3);
        assert_eq!(stack.owners_before(), [(JOBS, 7)]);
        stack.abort_subtransaction(2, |_, _| {});
        assert_eq!(stack.owners_before(), []);
        stack.at(1, MAIL).table.owner_before = Some(9);
        stack.at(2, MAIL).table.owner_before = Some(7);
        assert_eq!(stack.owners_before(), [(MAIL, 9)]);
    }

    #[test]
    fn a_look_in_vain_stays_known_beside_changes_of_other_lanes() {
        let mut stack = Stack::new();
        stack.at(1, JOBS).subqueues.exhaust(7);
        put(&mut stack, 2, JOBS);
        assert!(stack.lane(JOBS, 7).exhausted);
    }

    #[test]
    fn a_look_in_vain_is_not_known_beside_changes_that_are_not_noted() {
        let put = |stack: &mut Stack, depth, lane| {
            let tube = Tube { hash: lane, counted: None, is_lane: true, is_strict: false };
            let place = Some(Place { status: Status::Ready, tube: Some(tube) });
            stack.at(depth, JOBS).subqueues.change(None, place, (5, 0), || 0);
        };
        let mut stack = Stack::new();
        stack.at(1, JOBS).subqueues.exhaust(7);
        stack.at(1, JOBS).subqueues.exhaust(8);
        put(&mut stack, 2, 8);
        stack.at(2, JOBS).subqueues.exhaust(8);
        (0..LANES_NOTED as u64).for_each(|lane| put(&mut stack, 2, 100 + lane));
        assert!(stack.total(JOBS).subqueues.more);
        put(&mut stack, 2, 7);
        let known = |stack: &Stack| [7, 8].map(|lane| stack.lane(JOBS, lane).exhausted);
        let summed = |stack: &Stack| [7, 8].map(|lane| stack.lanes(JOBS).get(lane).exhausted);
        assert_eq!((known(&stack), summed(&stack)), ([false, true], [false, true]));
        stack.commit_subtransaction(2);
        assert_eq!((known(&stack), summed(&stack)), ([false, true], [false, true]));
        stack.at(1, JOBS).subqueues.exhaust(7);
        assert_eq!(known(&stack), [true, true]);
    }

    #[test]
    fn the_earliest_instant_wins() {
        let mut stack = Stack::new();
        stack.at(1, JOBS).schedule.due_at(50);
        stack.at(2, JOBS).schedule.due_at(20);
        stack.commit_subtransaction(2);
        assert_eq!(stack.total(JOBS).schedule.due, Some(20));
    }
}
