//! The candidate rings of a queue. Each is bound to one group, so that takes of several tubes and priorities have one
//! each. A group without a ring gets the idle ring that has been unused for the longest time. While no ring is idle,
//! the group searches the index.
//! The protocol is that of [`crate::marks::ring`].

use crate::marks::candidate::{Candidates, Handed, More, Read, Refill};
use crate::marks::ring::{CandidateRing, State};
use crate::position::{Group, Position};

/// Number of rings of a queue.
pub const RINGS: usize = 4;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct States<const COUNT: usize = RINGS>([State; COUNT]);

/// Mutable view of the rings.
pub struct Rings<'q, const COUNT: usize = RINGS> {
    pub states: &'q mut States<COUNT>,
    pub candidates: [&'q mut Candidates; COUNT],
}

impl<const COUNT: usize> Default for States<COUNT> {
    fn default() -> Self {
        States([State::default(); COUNT])
    }
}

impl<const COUNT: usize> Rings<'_, COUNT> {
    /// Hands out the next candidate of a group, further ones for a take of several tasks, and a refill if one is due.
    pub fn hand_out(&mut self, group: Group, more: &mut More, now: i64) -> Handed {
        let Some(number) = self.number_of(group, now) else { return Handed::default() };
        let mut handed = self.ring(number).hand_out(more, now);
        handed.ring = number;
        if let Some(refill) = &mut handed.refill {
            refill.ring = number;
        }
        handed
    }

    /// Returns the number of a group's ring. Binds an idle ring to a group without a ring.
    fn number_of(&mut self, group: Group, now: i64) -> Option<usize> {
        let states = &mut self.states.0;
        let known = states.iter().position(|state| state.group == group);
        known.or_else(|| {
            let idle = states.iter_mut().enumerate().filter(|(_, state)| state.is_idle(now));
            let (number, state) = idle.min_by_key(|(_, state)| state.used)?;
            state.bind(group);
            Some(number)
        })
    }

    fn ring(&mut self, number: usize) -> CandidateRing<'_> {
        CandidateRing { state: &mut self.states.0[number], candidates: self.candidates[number] }
    }

    /// Ends a refill, see [`CandidateRing::end_refill`].
    pub fn end_refill(&mut self, refill: &Refill, read: &Read, now: i64) {
        self.ring(refill.ring).end_refill(refill, read, now);
    }

    /// Returns whether every ready task of a group is held by a take in progress.
    pub fn knows_none(&mut self, group: Group, now: i64) -> bool {
        let mut states = self.states.0.iter_mut();
        let empty = states.find(|state| state.group == group && state.knows_none(now));
        empty.map(|state| state.used = now).is_some()
    }

    /// Records that the take has skipped a row that was being changed.
    pub fn leave_out(&mut self, of: &Handed) {
        self.states.0[of.ring].leave_out();
    }

    /// Records that a task of a group has become ready at this position.
    pub fn lower(&mut self, group: Group, position: Position) {
        (0..COUNT).for_each(|number| self.ring(number).lower(group, position));
    }

    /// Records that the take has skipped a row that a transaction has locked, see [`State::pass_over`].
    pub fn pass_over(&mut self, of: &Handed, locker: Option<u32>, now: i64) {
        self.states.0[of.ring].pass_over(locker, now);
    }

    /// Records that one of the transactions in `lockers` has ended, see [`State::locker_ended`].
    pub fn locker_ended(&mut self, of: &Handed, locker: u32) {
        self.states.0[of.ring].locker_ended(locker);
    }

    /// Discards the ring of a take that neither reads its candidate nor has changed anything because of it.
    pub fn give_up(&mut self, of: &Handed) {
        self.states.0[of.ring].discard();
    }

    /// Discards all rings.
    pub fn discard(&mut self) {
        self.states.0.iter_mut().for_each(State::discard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::candidate::Candidate;
    use crate::marks::ring::IDLE_AFTER;
    use crate::position::FIRST;
    use crate::row_id::RowId;
    use proptest::option;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Default)]
    struct Own {
        states: States,
        candidates: [Candidates; RINGS],
    }

    impl Own {
        fn all(&mut self) -> Rings<'_> {
            Rings { states: &mut self.states, candidates: self.candidates.each_mut() }
        }

        fn hand_out(&mut self, group: Group, now: i64) -> Handed {
            self.all().hand_out(group, &mut More::besides_one(1), now)
        }

        fn next(&mut self, group: Group, now: i64) -> Option<Position> {
            self.hand_out(group, now).candidate.map(|candidate| candidate.position())
        }

        fn fill(&mut self, group: Group, positions: &[Position], now: i64) {
            let handed = self.hand_out(group, now);
            self.all().end_refill(&handed.refill.expect("a refill"), &read(positions), now);
        }
    }

    fn read(positions: &[Position]) -> Read {
        let candidate = |position: &Position| Candidate::new(*position, RowId::default());
        Read { found: positions.iter().map(candidate).collect(), has_left_out: false }
    }

    fn of(tube: impl Into<Option<u64>>, priority: impl Into<Option<i64>>) -> Group {
        Group::Ready { tube: tube.into(), priority: priority.into() }
    }

    #[test]
    fn each_group_has_its_ring() {
        let mut rings = Own::default();
        rings.fill(of(1, None), &[3, 5], 7);
        rings.fill(Group::ALL, &[2, 3, 4], 8);
        rings.fill(of(None, 9), &[4], 9);
        let next = [Group::ALL, of(1, None), Group::ALL, of(None, 9), of(1, None)];
        let found: Vec<_> =
            next.into_iter().zip(10..).map(|(of, now)| rings.next(of, now)).collect();
        assert_eq!(found, [Some(2), Some(3), Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn the_ring_that_was_not_used_for_longest_gives_way_once_it_is_idle() {
        let mut rings = Own::default();
        let tubes = 1..=RINGS as u64;
        tubes.clone().for_each(|tube| rings.fill(of(tube, None), &[3, 5, 6], 7 + tube as i64));
        assert_eq!(rings.next(of(1, None), 20), Some(3));
        assert_eq!(rings.hand_out(of(9, None), 21), Handed::default(), "all are in use");
        let now = 9 + IDLE_AFTER + 1;
        let handed = rings.hand_out(of(9, None), now);
        assert_eq!(handed.refill.map(|refill| refill.from), Some(FIRST));
        // The other rings are unchanged.
        let found: Vec<_> = tubes.map(|tube| rings.next(of(tube, None), now)).collect();
        assert_eq!(found, [Some(5), None, Some(3), Some(3)]);
    }

    #[test]
    fn what_becomes_ready_concerns_all_rings_that_it_may_be_in() {
        let mut rings = Own::default();
        let groups = [Group::ALL, of(1, None), of(1, 5), of(2, None)];
        groups.iter().for_each(|group| rings.fill(*group, &[3, 8], 7));
        rings.all().lower(of(1, 6), 4);
        let second = |rings: &mut Own, group| (rings.next(group, 8), rings.next(group, 9));
        let found = groups.map(|group| second(&mut rings, group));
        assert_eq!(
            found,
            [(Some(3), None), (Some(3), None), (Some(3), Some(8)), (Some(3), Some(8))]
        );
        rings.all().discard();
        let from = groups.map(|group| rings.hand_out(group, 11).refill.map(|refill| refill.from));
        assert_eq!(from, [Some(FIRST); RINGS]);
    }

    #[test]
    fn what_a_take_meets_concerns_the_ring_that_it_was_handed_the_task_by() {
        let mut rings = Own::default();
        rings.fill(Group::ALL, &[3, 4, 5], 7);
        rings.fill(of(1, None), &[3, 4, 5], 7);
        let handed = rings.hand_out(of(1, None), 8);
        rings.all().pass_over(&handed, Some(77), 8);
        let (whole, tube) = (rings.hand_out(Group::ALL, 9), rings.hand_out(of(1, None), 9));
        assert_eq!((whole.lockers[0], tube.lockers[0]), (0, 77));
        rings.all().locker_ended(&tube, 1);
        assert_eq!(rings.hand_out(of(1, None), 9).lockers, tube.lockers);
        rings.all().locker_ended(&tube, 77);
        assert_eq!((rings.next(of(1, None), 10), rings.next(Group::ALL, 10)), (None, Some(4)));
        rings.all().give_up(&whole);
        assert_eq!(rings.next(Group::ALL, 11), None);
    }

    /// Events of tasks at distinct positions. Takes of all tubes and priorities make groups overlap.
    #[derive(Clone, Debug)]
    enum Step {
        Put(usize),
        /// A take is handed a candidate; a take ends its refill; a take reads its candidate.
        HandOut(Group, usize),
        Read(prop::sample::Index),
        End(prop::sample::Index),
        /// A take commits or is rolled back.
        Commit(prop::sample::Index),
        RollBack(prop::sample::Index),
        /// Begins or ends a change by hand, which is not reported: the task is ready before and after it.
        Change(usize),
        Wait,
    }

    const TASKS: usize = 12;

    fn group_of(task: usize) -> Group {
        of(task as u64 % 3, task as i64 / 3 % 2)
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let index = any::<prop::sample::Index>;
        let group = (option::of(0..3u64), option::of(0..2i64))
            .prop_map(|(tube, priority)| of(tube, priority));
        let step = prop_oneof![
            4 => (0..TASKS).prop_map(Step::Put),
            5 => (group, 1..4usize).prop_map(|(group, tasks)| Step::HandOut(group, tasks)),
            4 => index().prop_map(Step::Read),
            6 => index().prop_map(Step::End),
            3 => index().prop_map(Step::Commit),
            1 => index().prop_map(Step::RollBack),
            1 => (0..TASKS).prop_map(Step::Change),
            1 => Just(Step::Wait),
        ];
        prop::collection::vec(step, 0..150)
    }

    /// A take between the moment it was handed something and its read.
    struct Take {
        group: Group,
        handed: Handed,
        hands: Vec<usize>,
        read: Option<Read>,
        /// Tasks of the group that have been free since it was handed something.
        free: BTreeSet<usize>,
    }

    fn is_in_hands(takes: &[Take], task: usize) -> bool {
        takes.iter().any(|take| take.hands.contains(&task))
    }

    fn pick<T>(from: &[T], index: &prop::sample::Index) -> Option<usize> {
        (!from.is_empty()).then(|| index.index(from.len()))
    }

    proptest! {
        /// No take is given a task while an earlier one of its group is free all along.
        #[test]
        fn takes_of_overlapping_groups_are_in_order(steps in steps()) {
            let (mut rings, mut now) = (Own::default(), 1);
            let (mut ready, mut takes, mut taken) = (BTreeSet::new(), Vec::<Take>::new(), Vec::new());
            let (mut being_changed, mut changed) = (BTreeSet::new(), BTreeSet::new());
            for step in steps {
                now += 1;
                match step {
                    Step::Put(task) => {
                        if !taken.contains(&task) && ready.insert(task) {
                            rings.all().lower(group_of(task), task as Position + 1);
                        }
                    }
                    Step::HandOut(group, tasks) => {
                        let knows_none = rings.all().knows_none(group, now);
                        let mut more = More::besides_one(tasks);
                        let handed = rings.all().hand_out(group, &mut more, now);
                        let all = handed.candidate.into_iter().chain(more.take());
                        let hands = all.map(|candidate| candidate.position() as usize - 1).collect();
                        let is_free = |task: &usize| {
                            group.meets(group_of(*task))
                                && !is_in_hands(&takes, *task)
                                && !being_changed.contains(task)
                        };
                        let free: BTreeSet<usize> = ready.iter().copied().filter(is_free).collect();
                        prop_assert!(!knows_none || free.is_empty(), "there are some: {:?}", free);
                        // A task that was being changed can be found late.
                        let free = free.difference(&changed).copied().collect();
                        takes.push(Take { group, handed, hands, read: None, free });
                    }
                    Step::Read(index) => {
                        let Some(at) = pick(&takes, &index) else { continue };
                        let Some(refill) = takes[at].handed.refill else { continue };
                        let group = takes[at].group;
                        let at_least = |task: &usize| *task as Position + 1 >= refill.from;
                        let of_group = ready.iter().copied().filter(|task| group.meets(group_of(*task)));
                        let (left_out, found): (Vec<_>, Vec<_>) =
                            of_group.filter(at_least).partition(|task| being_changed.contains(task));
                        let found: Vec<_> = found.into_iter().map(|task| task as Position + 1).collect();
                        let read = Read { has_left_out: !left_out.is_empty(), ..read(&found) };
                        takes[at].read = Some(read);
                    }
                    Step::End(index) => {
                        let Some(at) = pick(&takes, &index) else { continue };
                        let Take { handed, hands, read, mut free, .. } = takes.swap_remove(at);
                        if let Some(refill) = handed.refill {
                            let Some(read) = read else {
                                rings.all().discard();
                                continue;
                            };
                            rings.all().end_refill(&refill, &read, now);
                        }
                        for task in hands {
                            if being_changed.contains(&task) {
                                rings.all().leave_out(&handed);
                            } else if ready.remove(&task) {
                                free.remove(&task);
                                let is_passed = |other: &&usize| {
                                    ready.contains(other) && !is_in_hands(&takes, **other)
                                };
                                let passed = free.range(..task).find(is_passed);
                                prop_assert_eq!(passed, None, "passed for {}", task);
                                taken.push(task);
                            }
                        }
                    }
                    Step::Commit(index) => {
                        pick(&taken, &index).map(|at| taken.swap_remove(at));
                    }
                    Step::RollBack(index) => {
                        if let Some(at) = pick(&taken, &index) {
                            ready.insert(taken.swap_remove(at));
                            rings.all().discard();
                            // The task was not free all along.
                            takes.iter_mut().for_each(|take| take.free.retain(|task| ready.contains(task)));
                        }
                    }
                    Step::Change(task) => {
                        if !being_changed.remove(&task) && ready.contains(&task) {
                            being_changed.insert(task);
                            changed.insert(task);
                            takes.iter_mut().for_each(|take| take.free.retain(|free| *free != task));
                        }
                    }
                    Step::Wait => now += IDLE_AFTER + 1,
                }
                // A task is free all along only if no other take has it at any time.
                for take in &mut takes {
                    take.free.retain(|task| ready.contains(task));
                }
            }
        }
    }
}
