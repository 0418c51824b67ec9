//! The tasks of a group that takes are given next: one take reads them ahead, so that not each of many consumers
//! searches the index and walks over what the others are taking.
//!
//! Invariant: a task of the group that is ready, visible to all and before `end` is a candidate, or was handed out to a
//! take that has not ended, or its row was locked, or being changed, as a take or a refill came to it. What may break
//! that puts the ring aside, and the next refill begins at the mark: a rollback, a take that ends without a look at its
//! candidate, the end of such a lock. What is not told, as that such a change has left the task ready, is found as the
//! ring is put aside once in `TRUSTED_FOR`. A task that becomes ready before `end` cuts off the candidates behind it.
//! Refills treat concurrent commits as the raise of a mark does: those before the look's snapshot are in what it finds,
//! later ones are in `floor`.
//!
//! A candidate is a hint: the take looks whether the row is still there, and ready.
//!
//! Candidates lie apart from the rest, and are not touched while there are none.

use crate::marks::candidate::{Candidate, Candidates, Handed, LOCKERS, More, ROOM, Read, Refill};
use crate::position::{FIRST, Group, LAST, Position};

/// With this number of candidates or fewer, more are read.
const LOW: usize = ROOM / 2;
/// After this time (µs) it is filled from the mark on, in case that a change was not reported.
pub const TRUSTED_FOR: i64 = 1_000_000;
/// Of the time no more than the part of one in this number is spent on reading anew what was left out.
const READING_AT_MOST: i64 = 100;
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
    /// When it was last filled from the mark on, and how long (µs) that took.
    begun: i64,
    reading: i64,
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

    /// Returns whether what was left out is to be looked for again, which may be a long way from the mark on.
    fn is_to_be_read_anew(&self, now: i64) -> bool {
        let rest = self.reading.saturating_mul(READING_AT_MOST);
        self.has_left_out && !self.is_being_refilled(now) && !is_within(self.begun, now, rest)
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

    /// One of the transactions told with what was handed out has ended: the row that it had locked may come first.
    /// Another take may have seen to that.
    pub fn locker_ended(&mut self, of: &Handed) {
        if self.lockers == of.lockers {
            self.put_aside();
        }
    }
}

impl CandidateRing<'_> {
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
        if candidate.is_none() && self.state.is_to_be_read_anew(now) {
            self.state.put_aside();
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
        if state.end == FIRST {
            state.begun = now;
        }
        state.refill += 1;
        (state.is_being_refilled, state.refilled_since, state.floor) = (true, now, LAST);
        let room = ROOM - state.count as usize;
        Some(Refill { from: state.end, mark: FIRST, room, ring: 0, number: state.refill })
    }

    /// Ends a refill, which has found these tasks: all of the group that are ready, in order, up to the last, but for
    /// those that were being changed. Fewer than it had room for: there are no more.
    pub fn end_refill(&mut self, refill: &Refill, read: &Read, now: i64) {
        if !self.state.is_being_refilled || self.state.refill != refill.number {
            return;
        }
        self.state.is_being_refilled = false;
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

/// Returns whether no more than this time has passed. Each process has read the clock before it came to the ring, and
/// it may have been set back.
fn is_within(since: i64, now: i64, time: i64) -> bool {
    now.checked_sub(since).is_some_and(|passed| passed.unsigned_abs() <= time.unsigned_abs())
}

#[cfg(test)]
#[path = "ring/tests.rs"]
mod tests;
