//! The candidate ring of a group: the tasks that takes are given next. One take reads them ahead (a refill), so that
//! many consumers do not each search the index and walk over the tasks that the others are taking.
//!
//! A take is handed candidates under the lock of the queue's slot, then looks at their rows, and reports to the ring each
//! row that it passes over. A candidate is a hint: the take changes a row only if the row still exists and is ready. The
//! take that is handed a refill reads further tasks from the index and adds them to the ring.
//!
//! A queue has several rings, see [`crate::marks::rings`], and groups overlap, such as all tasks and the tasks of one
//! tube. The claim of a take is in src/parts/marks/claim.rs, its work in src/write/direct/ahead.rs.
//!
//! Invariant, for each ring: each task of the group that is ready, visible to all and before `end` is in one of three
//! situations. It is a candidate; it was handed out, by any ring, to a take that has not ended; or its row was locked or
//! being changed when a take or a refill reached it. In brackets: the flaw of the model tests/models/src/ring that breaks
//! the rule, or the test that holds it. The invariant survives these races:
//!
//! 1. A transaction that has taken a candidate is rolled back: all rings are discarded, because another ring can have
//!    passed over the task. The next refill starts at the mark. [`NoUndo`, `UndoInOneRing`]
//! 2. A take ends without a look at the rows of all its candidates: its claim discards all rings. If it gives them up in
//!    order, it discards its own ring. [`NoAbandon`; tests/races/specs/race_ahead.spec]
//! 3. A take looks at its candidates under a snapshot that is older than the hand-out, and does not see a task that is
//!    ready: the take renews its snapshot after each hand-out. [`OldSnapshot`]
//! 4. A row lock that a take skipped is released: the ring records the locking transaction, and a take that finds it
//!    ended discards the ring. [`LockForgotten`; `many_locks_in_turn` in tests/tests/order/ahead.rs]
//! 5. A change that a take or refill skipped leaves the task ready. Nothing reports this: an empty ring is read anew after
//!    a pause, and each ring once in `TRUSTED_FOR`. [`what_was_being_changed_may_be_left` in ring/tests.rs]
//! 6. A task becomes ready before `end`: the candidates behind it are cut off. [`NoLower`]
//! 7. A commit overlaps a refill: the refill's snapshot sees earlier commits; later ones lower `floor`, and the refill
//!    ignores the tasks that it found from there on. The refill's mark is read when it begins. [`ReadBeforeHandOut`;
//!    tests/races/specs/race_ahead_mark.spec]
//! 8. A refill takes too long, or the ring is discarded meanwhile: `end_refill` compares the refill's number and
//!    ignores the result. [`an_abandoned_refill_changes_nothing` in ring/tests.rs]
//! 9. Two rings hand out the same task to two takes: the second take skips it because the first is taking it.
//!    [`takes_of_overlapping_groups_are_in_order` in rings.rs]
//! 10. A prepared transaction ends without a report: no candidate is handed out while one might have changed the table.
//!     [`a_task_of_a_prepared_transaction` in tests/tests/order/ahead.rs]
//! 11. A task behind the last candidate shares its position: the refill begins at that position, and can read the last
//!     candidate again. [`equal_values` in tests/tests/order/by_column_random.rs]
//!
//! A ring can cost more than it saves. If keys are random and few tasks are ready, nearly each put cuts the ring, and
//! each refill walks over the dead entries of half the index. So a ring has to hand out several candidates for each cut,
//! or takes search the index without it for a time.
//!
//! Candidates are stored apart from the state and are not touched while the ring is empty.

use crate::marks::candidate::{Candidate, Candidates, Handed, LOCKERS, More, ROOM, Read, Refill};
use crate::position::{FIRST, Group, LAST, Position};

/// A refill begins when the ring has this number of candidates or fewer.
const LOW: usize = ROOM / 2;
/// A ring older than this (µs) is refilled from the mark, in case a change was not reported.
pub const TRUSTED_FOR: i64 = 1_000_000;
/// At most 1/100 of the time goes to re-reading tasks that an earlier refill or take skipped.
const READING_AT_MOST: i64 = 100;
/// A ring that takes have not used for this time (µs) can be bound to another group.
pub const IDLE_AFTER: i64 = 100_000;
/// Time (µs) for which a ring is not used after a take skipped a lock whose holder could not be recorded.
pub const DISTRUSTED_FOR: i64 = 10_000;
/// A ring is worth its refills if it hands out this number of candidates for each cut.
const PER_CUT: u32 = 8;
/// Maximum debt of a ring. Beyond it, the ring is not used for a time.
const DEBT: u32 = 8 * PER_CUT;
/// That time (µs).
pub const PAUSED_FOR: i64 = 1_000_000;
/// A refill older than this (µs) is considered abandoned.
pub const LOST_AFTER: i64 = 10_000_000;

/// State of a ring, without its candidates.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    first: u32,
    count: u32,
    pub(super) group: Group,
    /// Position behind the last candidate; FIRST: nothing is known.
    end: Position,
    /// First position at which a task became ready during a refill.
    floor: Position,
    /// Number of the last refill, whether it is in progress, and its start.
    refill: u64,
    is_being_refilled: bool,
    refilled_since: i64,
    /// Time of the last refill that started at the mark, and its duration (µs).
    begun: i64,
    reading: i64,
    /// Time of the last take.
    pub(super) used: i64,
    paused_until: i64,
    /// The last refill has reached the end of the index, and no task has become ready behind `end` since.
    is_exhausted: bool,
    /// A refill or take has skipped tasks that were being changed.
    has_left_out: bool,
    /// Number of candidates that the ring has yet to hand out to be worth its cuts.
    owed: u32,
    /// It has been refilled since the last cut that counts.
    is_refilled: bool,
    /// Transactions whose locked rows takes have skipped; 0: unused.
    lockers: [u32; LOCKERS],
}

/// Mutable view of a ring.
pub struct CandidateRing<'q> {
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
            reading: 0,
            used: 0,
            paused_until: i64::MIN,
            is_exhausted: false,
            has_left_out: false,
            owed: 0,
            is_refilled: false,
            lockers: [0; LOCKERS],
        }
    }
}

impl State {
    /// Returns whether the ring can be bound to another group.
    pub(super) fn is_idle(&self, now: i64) -> bool {
        let is_unused = self.count == 0 || !is_within(self.used, now, IDLE_AFTER);
        is_unused && !self.is_being_refilled(now)
    }

    fn is_being_refilled(&self, now: i64) -> bool {
        self.is_being_refilled && is_within(self.refilled_since, now, LOST_AFTER)
    }

    /// Discards all candidates and abandons a refill in progress.
    pub fn discard(&mut self) {
        (self.count, self.end, self.is_being_refilled) = (0, FIRST, false);
        (self.is_exhausted, self.has_left_out, self.lockers) = (false, false, [0; LOCKERS]);
    }

    /// Returns whether every ready task of the group is held by a take in progress.
    pub(super) fn knows_none(&self, now: i64) -> bool {
        let is_trusted = is_within(self.begun, now, TRUSTED_FOR);
        let is_sure = !self.has_left_out && self.lockers == [0; LOCKERS];
        self.count == 0 && self.is_exhausted && is_sure && is_trusted
    }

    /// Binds the ring to a group.
    pub(super) fn bind(&mut self, group: Group) {
        self.discard();
        (self.group, self.paused_until, self.owed) = (group, i64::MIN, 0);
    }

    /// Returns whether it is time to re-read skipped tasks. The scan starts at the mark and can be long.
    fn is_to_be_read_anew(&self, now: i64) -> bool {
        let rest = self.reading.saturating_mul(READING_AT_MOST);
        self.has_left_out && !self.is_being_refilled(now) && !is_within(self.begun, now, rest)
    }

    /// Records that a take has skipped a row that was being changed.
    pub fn leave_out(&mut self) {
        self.has_left_out = true;
    }

    /// Records that a take has skipped a row that this transaction has locked; None: the transaction is unknown.
    pub fn pass_over(&mut self, locker: Option<u32>, now: i64) {
        let Some(locker) = locker else { return self.pause(now, DISTRUSTED_FOR) };
        if self.lockers.contains(&locker) {
            return;
        }
        match self.lockers.iter_mut().find(|known| **known == 0) {
            Some(free) => *free = locker,
            None => self.pause(now, DISTRUSTED_FOR),
        }
    }

    /// Discards the ring and does not use it for this time.
    fn pause(&mut self, now: i64, time: i64) {
        self.discard();
        self.paused_until = now + time;
    }

    fn is_paused(&self, now: i64) -> bool {
        now < self.paused_until && is_within(self.paused_until, now, PAUSED_FOR)
    }

    /// Discards the ring after this transaction has ended: the row that it had locked can come first. Does nothing if
    /// another take has already discarded the ring.
    pub fn locker_ended(&mut self, locker: u32) {
        if self.lockers.contains(&locker) {
            self.discard();
        }
    }
}

impl CandidateRing<'_> {
    /// Hands out the next candidate, further ones for a take of several tasks, and a refill if one is due.
    pub fn hand_out(&mut self, more: &mut More, now: i64) -> Handed {
        if self.state.owed > DEBT {
            self.state.owed = DEBT;
            self.state.pause(now, PAUSED_FOR);
        }
        if self.state.is_paused(now) {
            return Handed::default();
        }
        let is_first_read = self.state.end == FIRST && self.state.is_being_refilled(now);
        if !is_within(self.state.begun, now, TRUSTED_FOR) && !is_first_read {
            self.state.discard();
        }
        self.state.used = now;
        let candidate = self.pop();
        while more.has_room()
            && let Some(next) = self.pop()
        {
            more.candidates.push(next);
        }
        if candidate.is_none() && self.state.is_to_be_read_anew(now) {
            self.state.discard();
        }
        let (refill, lockers) = (self.begin_refill(now), self.state.lockers);
        Handed { candidate, refill, lockers, ..Handed::default() }
    }

    fn pop(&mut self) -> Option<Candidate> {
        self.state.count = self.state.count.checked_sub(1)?;
        self.state.owed = self.state.owed.saturating_sub(1);
        let first = self.candidates.0[self.state.first as usize];
        self.state.first = (self.state.first + 1) % ROOM as u32;
        Some(first)
    }

    fn begin_refill(&mut self, now: i64) -> Option<Refill> {
        let state = &mut *self.state;
        if state.is_exhausted || state.count as usize > LOW || state.is_being_refilled(now) {
            return None;
        }
        if state.end == FIRST {
            state.begun = now;
        }
        state.refill += 1;
        (state.is_being_refilled, state.refilled_since, state.floor) = (true, now, LAST);
        let room = ROOM - state.count as usize;
        Some(Refill { from: state.end, mark: FIRST, room, ring: 0, number: state.refill })
    }

    /// Ends a refill. It has found all ready tasks of the group in order, up to the last one, except those that were
    /// being changed. If it has found fewer than it had room for, there are no more.
    pub fn end_refill(&mut self, refill: &Refill, read: &Read, now: i64) {
        if !self.state.is_being_refilled || self.state.refill != refill.number {
            return;
        }
        (self.state.is_being_refilled, self.state.is_refilled) = (false, true);
        if refill.from == FIRST {
            let since = self.state.refilled_since;
            (self.state.begun, self.state.reading) = (now, now.saturating_sub(since).max(1));
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

    /// Records that a task of a group has become ready at this position.
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
        // Further cuts before the next refill cost nothing.
        if std::mem::take(&mut self.state.is_refilled) {
            self.state.owed = (self.state.owed + PER_CUT).min(DEBT + 1);
        }
    }

    fn last(&self) -> Option<&Candidate> {
        let last = self.state.count.checked_sub(1)?;
        Some(&self.candidates.0[(self.state.first + last) as usize % ROOM])
    }
}

/// Returns whether at most this time has passed. Uses the absolute difference: each process read the clock before it
/// locked the ring, and the clock can have been set back.
fn is_within(since: i64, now: i64, time: i64) -> bool {
    now.checked_sub(since).is_some_and(|passed| passed.unsigned_abs() <= time.unsigned_abs())
}

#[cfg(test)]
#[path = "ring/tests.rs"]
mod tests;
