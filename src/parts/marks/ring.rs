//! The tasks of a group that takes are given next: one take reads them ahead, so that not each of many consumers searches
//! the index and walks over what the others are taking.
//!
//! Invariant: a task of the group that is ready, visible to all and before `end` is a candidate, or was handed out to a take
//! that has not ended, or its row was locked, or being changed, as a take or a refill came to it. What may break that puts the
//! ring aside, and the next refill begins at the mark: a rollback, a take that ends without a look at its candidate, the end of
//! such a lock. What is not told, as that such a change has left the task ready, is found as the ring is put aside once in
//! `TRUSTED_FOR`. A task that becomes ready before `end` cuts off the candidates behind it. Refills treat concurrent
//! commits as the raise of a mark does: those before the look's snapshot are in what it finds, later ones are in `floor`.
//!
//! A candidate is a hint: the take looks whether the row is still there, and ready. Pure.
//!
//! Candidates lie apart from the rest, and are not touched while there are none.

use crate::model::position::{FIRST, Group, LAST, Position};
use crate::parts::marks::candidate::{
    Candidate, Candidates, Handed, LOCKERS, More, ROOM, Read, Refill,
};

/// With this number of candidates or fewer, more are read.
const LOW: usize = ROOM / 2;
/// After this time (µs) it is filled from the mark on, in case that a change was not reported.
pub const TRUSTED_FOR: i64 = 1_000_000;
/// A ring of one group that was not used for this time (µs) may be filled for another.
pub const IDLE_AFTER: i64 = 100_000;
/// For this time (µs) it is not used where it is unknown when a lock ends.
pub const DISTRUSTED_FOR: i64 = 10_000;
/// A refill older than this (µs) is considered abandoned.
pub const LOST_AFTER: i64 = 10_000_000;

/// A ring but for its candidates.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    first: u32,
    count: u32,
    pub(super) group: Group,
    /// FIRST: nothing is known.
    end: Position,
    /// First position at which a task became ready during a refill.
    floor: Position,
    /// Number of the last refill; whether that is in progress, and since when.
    refill: u64,
    is_being_refilled: bool,
    refilled_since: i64,
    /// When it was last filled from the mark on.
    begun: i64,
    /// When a take last came to it.
    pub(super) used: i64,
    distrusted_since: i64,
    /// The last refill has come to the end of the index, and nothing has become ready behind `end` since.
    is_exhausted: bool,
    /// Tasks were left out, or passed over, as they were being changed.
    has_left_out: bool,
    /// Transactions that have locked rows which takes have passed over; 0: none.
    lockers: [u32; LOCKERS],
}

/// A ring whose state may be changed.
pub struct Ring<'q> {
    pub state: &'q mut State,
    pub candidates: &'q mut Candidates,
}

impl Default for State {
    fn default() -> Self {
        State {
            first: 0,
            count: 0,
            group: Group::ALL,
            end: FIRST,
            floor: LAST,
            refill: 0,
            is_being_refilled: false,
            refilled_since: 0,
            begun: 0,
            used: 0,
            distrusted_since: i64::MIN,
            is_exhausted: false,
            has_left_out: false,
            lockers: [0; LOCKERS],
        }
    }
}

impl State {
    /// Returns whether another group may have the ring.
    pub(super) fn is_idle(&self, now: i64) -> bool {
        let is_unused = self.count == 0 || !is_within(self.used, now, IDLE_AFTER);
        is_unused && !self.is_being_refilled(now)
    }

    fn is_being_refilled(&self, now: i64) -> bool {
        self.is_being_refilled && is_within(self.refilled_since, now, LOST_AFTER)
    }

    /// Forgets all candidates, and abandons a refill in progress.
    pub fn put_aside(&mut self) {
        (self.count, self.end, self.is_being_refilled) = (0, FIRST, false);
        (self.is_exhausted, self.has_left_out, self.lockers) = (false, false, [0; LOCKERS]);
    }

    /// Returns whether the group has no tasks but those that takes in progress have.
    pub(super) fn knows_none(&self, now: i64) -> bool {
        let is_trusted = is_within(self.begun, now, TRUSTED_FOR);
        let is_sure = !self.has_left_out && self.lockers == [0; LOCKERS];
        self.count == 0 && self.is_exhausted && is_sure && is_trusted
    }

    /// Gives the ring to a group.
    pub(super) fn bind(&mut self, group: Group) {
        self.put_aside();
        (self.group, self.distrusted_since) = (group, i64::MIN);
    }

    /// A take has passed over a row that was being changed.
    pub fn leave_out(&mut self) {
        self.has_left_out = true;
    }

    /// A take has passed over a row that this transaction has locked; None: it is unknown which.
    pub fn pass_over(&mut self, locker: Option<u32>, now: i64) {
        let Some(locker) = locker else { return self.distrust(now) };
        if self.lockers.contains(&locker) {
            return;
        }
        match self.lockers.iter_mut().find(|known| **known == 0) {
            Some(free) => *free = locker,
            None => self.distrust(now),
        }
    }

    fn distrust(&mut self, now: i64) {
        self.put_aside();
        self.distrusted_since = now;
    }

    /// One of the transactions told with what was handed out has ended: the row that it had locked may come first. Another take
    /// may have seen to that.
    pub fn locker_ended(&mut self, of: &Handed) {
        if self.lockers == of.lockers {
            self.put_aside();
        }
    }
}

impl Ring<'_> {
    /// Hands out the next candidate, with further ones for a take of several tasks, and perhaps a refill.
    pub fn hand_out(&mut self, more: &mut More, now: i64) -> Handed {
        if is_within(self.state.distrusted_since, now, DISTRUSTED_FOR) {
            return Handed::default();
        }
        let is_first_read = self.state.end == FIRST && self.state.is_being_refilled(now);
        if !is_within(self.state.begun, now, TRUSTED_FOR) && !is_first_read {
            self.state.put_aside();
        }
        self.state.used = now;
        let candidate = self.pop();
        while more.has_room()
            && let Some(next) = self.pop()
        {
            more.candidates.push(next);
        }
        let (refill, lockers) = (self.begin_refill(now), self.state.lockers);
        let is_being_read = refill.is_none() && self.state.is_being_refilled(now);
        Handed { candidate, refill, is_being_read, lockers, ..Handed::default() }
    }

    fn pop(&mut self) -> Option<Candidate> {
        self.state.count = self.state.count.checked_sub(1)?;
        let first = self.candidates.0[self.state.first as usize];
        self.state.first = (self.state.first + 1) % ROOM as u32;
        Some(first)
    }

    fn begin_refill(&mut self, now: i64) -> Option<Refill> {
        let state = &mut *self.state;
        if state.is_exhausted || state.count as usize > LOW || state.is_being_refilled(now) {
            return None;
        }
        if state.count == 0 && state.has_left_out {
            state.put_aside();
        }
        if state.end == FIRST {
            state.begun = now;
        }
        state.refill += 1;
        (state.is_being_refilled, state.refilled_since, state.floor) = (true, now, LAST);
        let room = ROOM - state.count as usize;
        Some(Refill { from: state.end, mark: FIRST, room, ring: 0, number: state.refill })
    }

    /// Ends a refill, which has found these tasks: all of the group that are ready, in order, up to the last, but for those that
    /// were being changed. Fewer than it had room for: there are no more.
    pub fn end_refill(&mut self, refill: &Refill, read: &Read, now: i64) {
        if !self.state.is_being_refilled || self.state.refill != refill.number {
            return;
        }
        self.state.is_being_refilled = false;
        if refill.from == FIRST {
            self.state.begun = now;
        }
        let floor = self.state.floor;
        self.state.is_exhausted = read.found.len() < refill.room && floor == LAST;
        self.state.has_left_out |= read.has_left_out;
        let before = read.found.iter().take_while(|candidate| candidate.position() < floor);
        before.for_each(|candidate| self.push(*candidate));
    }

    fn push(&mut self, candidate: Candidate) {
        let State { first, count, .. } = *self.state;
        if (count as usize) < ROOM {
            self.candidates.0[(first + count) as usize % ROOM] = candidate;
            self.state.count += 1;
            self.state.end = candidate.position() + 1;
        }
    }

    /// A task of a group has become ready at this position.
    pub fn lower(&mut self, group: Group, position: Position) {
        if !self.state.group.meets(group) {
            return;
        }
        self.state.floor = self.state.floor.min(position);
        self.state.is_exhausted = false;
        if position >= self.state.end {
            return;
        }
        while self.last().is_some_and(|last| last.position() >= position) {
            self.state.count -= 1;
        }
        self.state.end = position;
    }

    fn last(&self) -> Option<&Candidate> {
        let last = self.state.count.checked_sub(1)?;
        Some(&self.candidates.0[(self.state.first + last) as usize % ROOM])
    }
}

/// Returns whether no more than this time has passed. Each process has read the clock before it came to the ring, and it may
/// have been set back.
fn is_within(since: i64, now: i64, time: i64) -> bool {
    now.checked_sub(since).is_some_and(|passed| passed.unsigned_abs() <= time.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::row_id::RowId;

    fn candidates(positions: impl IntoIterator<Item = Position>) -> Vec<Candidate> {
        let candidate = |position| Candidate::new(position, RowId::new(position as u32, 1));
        positions.into_iter().map(candidate).collect()
    }

    #[derive(Default)]
    struct Own {
        state: State,
        candidates: Candidates,
    }

    impl Own {
        fn ring(&mut self) -> Ring<'_> {
            Ring { state: &mut self.state, candidates: &mut self.candidates }
        }

        fn hand_out(&mut self, now: i64) -> Handed {
            self.ring().hand_out(&mut More::besides_one(1), now)
        }

        fn end_refill(&mut self, refill: &Refill, found: &[Candidate], now: i64) {
            let read = Read { found: found.to_vec(), has_left_out: false };
            self.ring().end_refill(refill, &read, now);
        }

        fn lower(&mut self, group: Group, position: Position) {
            self.ring().lower(group, position);
        }
    }

    fn filled(positions: impl IntoIterator<Item = Position>) -> Own {
        let mut ring = Own::default();
        let handed = ring.hand_out(7);
        ring.end_refill(&handed.refill.unwrap(), &candidates(positions), 7);
        ring
    }

    fn next(ring: &mut Own, now: i64) -> Option<Position> {
        ring.hand_out(now).candidate.map(|candidate| candidate.position())
    }

    fn of(tube: impl Into<Option<u64>>, priority: impl Into<Option<i64>>) -> Group {
        Group::Ready { tube: tube.into(), priority: priority.into() }
    }

    #[test]
    fn candidates_are_handed_out_in_order_once() {
        let mut ring = filled([3, 5, 9]);
        let handed: Vec<_> = (8..12).map(|now| next(&mut ring, now)).collect();
        assert_eq!(handed, [Some(3), Some(5), Some(9), None]);
        let row = filled([u128::MAX >> 1]).hand_out(8).candidate.unwrap();
        assert_eq!(row.position(), u128::MAX >> 1);
    }

    #[test]
    fn a_take_of_several_tasks_is_handed_several() {
        let mut ring = filled([3, 5, 9, 11]);
        let mut more = More::besides_one(3);
        let first = ring.ring().hand_out(&mut more, 8).candidate.unwrap();
        let more = more.take().map(|candidate| candidate.position());
        assert_eq!((first.position(), more.collect::<Vec<_>>()), (3, vec![5, 9]));
        let mut more = More::besides_one(3);
        assert!(ring.ring().hand_out(&mut more, 9).candidate.is_some());
        assert_eq!((more.take().count(), next(&mut ring, 10)), (0, None));
    }

    #[test]
    fn a_refill_goes_on_where_the_last_one_ended() {
        let mut ring = filled((0..ROOM as u128).map(|position| 10 + position));
        let refill = |now| {
            let handed = ring.hand_out(now);
            handed.candidate.map(|_| handed.refill)
        };
        let refills: Vec<_> = (8..).map_while(refill).collect();
        assert_eq!(refills.len(), ROOM);
        let due: Vec<_> = refills.iter().flatten().collect();
        assert_eq!((due.len(), due[0].from, due[0].room), (1, 10 + ROOM as u128, ROOM - LOW));
        // Only one at a time, unless it takes too long.
        assert_eq!(ring.hand_out(900).refill, None);
        ring.end_refill(due[0], &candidates([500, 501]), 7);
        assert_eq!((next(&mut ring, 901), next(&mut ring, 902)), (Some(500), Some(501)));
    }

    #[test]
    fn a_ring_that_is_exhausted_is_not_refilled_until_a_task_is_ready() {
        let mut ring = filled([3]);
        assert_eq!(ring.hand_out(8).refill, None);
        ring.lower(of(1, 2), 7);
        let refill = ring.hand_out(9).refill.unwrap();
        assert_eq!(refill.from, 4);
        ring.end_refill(&refill, &[], 7);
        assert_eq!(ring.hand_out(10), Handed::default());
    }

    #[test]
    fn an_earlier_task_cuts_off_those_behind_it() {
        let mut ring = filled([3, 5, 9]);
        ring.lower(Group::ALL, 7);
        ring.lower(Group::ALL, 8);
        let first = ring.hand_out(8);
        assert_eq!(first.refill.map(|refill| refill.from), Some(7));
        assert_eq!((next(&mut ring, 9), next(&mut ring, 10)), (Some(5), None));
        ring.end_refill(&first.refill.unwrap(), &candidates([7, 8, 9]), 7);
        assert_eq!([11, 12, 13].map(|now| next(&mut ring, now)), [Some(7), Some(8), Some(9)]);
    }

    #[test]
    fn what_becomes_ready_during_a_refill_is_not_missed() {
        let mut ring = Own::default();
        let refill = ring.hand_out(7).refill.unwrap();
        ring.lower(Group::ALL, 6);
        ring.end_refill(&refill, &candidates([3, 5, 9]), 7);
        let second = ring.hand_out(8);
        assert_eq!(second.candidate.map(|candidate| candidate.position()), Some(3));
        assert_eq!(second.refill.map(|refill| refill.from), Some(6));
    }

    #[test]
    fn a_ring_put_aside_begins_at_the_mark() {
        let mut ring = filled([3, 5, 9]);
        ring.lower(Group::ALL, 11);
        let refill = ring.hand_out(8).refill.unwrap();
        ring.state.put_aside();
        ring.end_refill(&refill, &candidates([11]), 7);
        let handed = ring.hand_out(8);
        assert_eq!(
            (handed.candidate, handed.refill.map(|refill| refill.from)),
            (None, Some(FIRST))
        );
        let mut old = filled([3, 5]);
        assert_eq!(next(&mut old, 8 + TRUSTED_FOR), None, "it is too old");
    }

    #[test]
    fn a_ring_that_is_given_to_a_group_knows_nothing() {
        let mut ring = filled([3, 5]);
        assert!(!ring.state.is_idle(8) && ring.state.is_idle(8 + IDLE_AFTER));
        ring.lower(Group::Buried, 1);
        assert_eq!(next(&mut ring, 9), Some(3));
        ring.state.bind(of(1, None));
        let handed = ring.hand_out(10);
        let from = handed.refill.map(|refill| refill.from);
        assert_eq!((handed.candidate, from), (None, Some(FIRST)));
        assert!(!ring.state.is_idle(11), "it is being refilled");
        ring.end_refill(&handed.refill.unwrap(), &candidates([5]), 12);
        // Tasks of other tubes do not concern it.
        ring.lower(of(2, 7), 4);
        assert_eq!(next(&mut ring, 13), Some(5));
    }

    #[test]
    fn locks_in_the_way_are_told_until_they_are_too_many() {
        let mut ring = filled([3, 5]);
        (1..=LOCKERS as u32).for_each(|locker| ring.state.pass_over(Some(locker), 8));
        ring.state.pass_over(Some(1), 8);
        let handed = ring.hand_out(9);
        assert_eq!((handed.lockers, handed.candidate.is_some()), ([1, 2, 3, 4], true));
        ring.state.pass_over(Some(99), 10);
        assert_eq!(ring.hand_out(11), Handed::default());
        assert!(ring.hand_out(11 + DISTRUSTED_FOR).refill.is_some());
        ring.state.pass_over(None, 12 + DISTRUSTED_FOR);
        assert_eq!(ring.hand_out(13 + DISTRUSTED_FOR), Handed::default());
    }

    #[test]
    fn none_is_left_once_all_are_handed_out() {
        let mut ring = filled([3, 5]);
        let knows_none = |ring: &Own| ring.state.knows_none(9);
        assert_eq!((next(&mut ring, 8), knows_none(&ring)), (Some(3), false));
        assert_eq!((next(&mut ring, 8), knows_none(&ring)), (Some(5), true));
        assert!(!ring.state.knows_none(8 + TRUSTED_FOR));
        ring.lower(Group::ALL, 9);
        assert!(!knows_none(&ring));
        let refill = ring.hand_out(9).refill.unwrap();
        assert!(!knows_none(&ring));
        ring.end_refill(&refill, &[], 9);
        assert!(knows_none(&ring));
        ring.state.pass_over(Some(1), 9);
        assert!(!knows_none(&ring), "a lock may end");
    }

    #[test]
    fn what_was_being_changed_may_be_left() {
        let mut ring = filled([3]);
        assert_eq!(next(&mut ring, 8), Some(3));
        ring.state.leave_out();
        assert!(!ring.state.knows_none(9));
        // The next refill looks at it again.
        ring.lower(Group::ALL, 7);
        let refill = ring.hand_out(9).refill.unwrap();
        assert_eq!(refill.from, FIRST);
        ring.ring().end_refill(&refill, &Read { found: vec![], has_left_out: true }, 9);
        assert!(!ring.state.knows_none(9));
        ring.lower(Group::ALL, 8);
        let refill = ring.hand_out(9).refill.unwrap();
        assert_eq!(refill.from, FIRST);
        ring.end_refill(&refill, &[], 9);
        assert!(ring.state.knows_none(9));
    }

    #[test]
    fn a_clock_that_is_set_back_ends_all_terms() {
        let mut ring = filled([3, 5]);
        ring.state.pass_over(None, 8);
        let handed = ring.hand_out(-1_000_000_000);
        assert!(handed.refill.is_some());
        ring.end_refill(&handed.refill.unwrap(), &candidates([3]), -999_999_999);
        // Another process had read the clock before.
        assert_eq!(next(&mut ring, -1_000_000_000), Some(3));
    }

    #[test]
    fn an_abandoned_refill_changes_nothing() {
        let mut ring = Own::default();
        let refill = ring.hand_out(7).refill.unwrap();
        let second = ring.hand_out(8 + LOST_AFTER).refill.unwrap();
        ring.end_refill(&refill, &candidates([3]), 7);
        ring.end_refill(&second, &candidates([4]), 8 + LOST_AFTER);
        assert_eq!(next(&mut ring, 9 + LOST_AFTER), Some(4));
    }
}
