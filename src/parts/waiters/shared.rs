//! Those who wait for a task, for the end of one, or for room: a line for each queue, first come,
//! first served.
//!
//! A wake-up is a token: the consumer at the head is taken out of the line and woken; if it ends
//! without having used the token, it passes it on. Producers are woken with their room reserved, so
//! that nobody comes before them.
//!
//! Where the tasks that a consumer gets depend on who it is, by row security or by a function that
//! picks, a look in vain says nothing of the others: see [`super::token`].

use crate::model::change::Outcome;
use crate::parts::slot::QueueGuard;
use crate::parts::waiters::change::Change;
use crate::parts::waiters::line::Want;
use crate::parts::waiters::wake::{Cause, Offer, WakeToken};
use crate::server::shared_memory::{Shared, Zeroed};
use crate::server::{latch, process};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const NO_QUEUE: u32 = u32::MAX;

/// A process as it waits, read and changed by [`QueueGuard::entry`] only, but for what is atomic.
#[repr(C)]
pub struct Waiter {
    /// The queue in whose line this process stands, `NO_QUEUE` if in none. Stored under the lock of that queue.
    queue: AtomicU32,
    /// Taken out of the line by a wake-up that has not been used yet. Stored under the same lock, read without.
    pub(super) woken: AtomicBool,
    entry: UnsafeCell<Entry>,
}

// SAFETY: the entry is guarded by the lock of the queue that `queue` names; where it names none, the process itself
// is the only one that uses it.
unsafe impl Sync for Waiter {}

/// A process's place in a line. Links are process indexes plus one, 0 being none.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) want: Want,
    pub(super) token: WakeToken,
    /// How many wake-ups there had been when its last look began.
    pub(super) seen: u64,
    /// Others may find what that look did not.
    pub(super) by_caller: bool,
    pub(super) outcome: Option<Outcome>,
    /// Room that has been reserved for this process, which it has not taken over yet.
    pub(super) granted: i64,
    /// It stands in front of all newcomers.
    pub(super) precedes: bool,
    pub(super) pid: i32,
    pub(super) since: i64,
    /// When to look again without a wake-up, after one that came to nothing.
    pub(super) nudge_at: i64,
    pub(super) session: [u8; 16],
}

/// Someone who waits, for the views `xqueue.consumers` and `xqueue.producers`.
pub struct Waiting {
    pub want: Want,
    pub pid: i32,
    pub since: i64,
    pub session: [u8; 16],
}

impl Waiter {
    /// Of a process that has just been given memory: it stands in no line.
    pub(in crate::parts) fn reset(&self) {
        self.queue.store(NO_QUEUE, Ordering::Relaxed);
    }
}

// SAFETY: numbers, bools, and cells of enums and options whose zeros are their first.
unsafe impl Zeroed for Waiter {}

pub(in crate::parts) static WAITERS: Shared<Waiter> = Shared::new();

/// No process stands in line at first.
pub(in crate::parts) fn fill() {
    WAITERS.get().iter().for_each(Waiter::reset);
}

fn waiter(process: u32) -> &'static Waiter {
    let waiters = WAITERS.get();
    &waiters[process as usize % waiters.len()]
}

pub(super) fn own() -> &'static Waiter {
    waiter(process::index())
}

impl QueueGuard {
    /// Puts this process into the line, behind all who have waited since an earlier instant.
    /// `nudge_at`: when to be woken again though nothing has happened, `NEVER` if not at all.
    /// `precedes`: in front of all who are newcomers, as they may be waiting for its end.
    /// `by_caller`: others may find what its looks do not.
    pub fn join_line(
        &mut self,
        since: i64,
        session: [u8; 16],
        (want, precedes, by_caller): (Want, bool, bool),
        nudge_at: i64,
    ) {
        if own().queue.load(Ordering::Relaxed) != NO_QUEUE {
            return;
        }
        // Newcomers belong at the end, those who come back near the head. Producers do not come back.
        let belongs_at_end = matches!(want, Want::Room(_))
            || self.standing(self.waiters.tail).is_none_or(|last| last.since <= since);
        let mut next = if belongs_at_end && !precedes { 0 } else { self.waiters.head };
        let is_before = |other: &Entry| other.precedes || !precedes && other.since <= since;
        while let Some(other) = self.standing(next).filter(|other| is_before(other)) {
            next = other.next;
        }
        let last = self.waiters.tail;
        let previous = self.standing(next).map_or(last, |follower| follower.previous);
        let seen = self.waiters.wakes;
        let Some(entry) = self.own_entry() else { return };
        *entry = Entry {
            previous,
            next,
            want,
            token: WakeToken::NUDGE,
            seen,
            by_caller,
            outcome: None,
            granted: 0,
            precedes,
            pid: process::pid(),
            since,
            nudge_at,
            session,
        };
        own().woken.store(false, Ordering::Relaxed);
        own().queue.store(self.index(), Ordering::Relaxed);
        let link = process::index() + 1;
        match self.standing(previous) {
            Some(leader) => leader.next = link,
            None => self.waiters.head = link,
        }
        match self.standing(next) {
            Some(follower) => follower.previous = link,
            None => self.waiters.tail = link,
        }
        self.waiters.count(want, |count| count + 1);
        self.grant();
    }

    /// Takes this process out of the line. If it had been woken meanwhile, it gets the wake-up,
    /// which it has either used or has to pass on, with whether others may find what it does not; room
    /// that it has not taken over is given back.
    pub fn leave_line(&mut self) -> Option<(WakeToken, bool)> {
        let process = process::index();
        if self.standing(process + 1).is_some() {
            self.unlink(process);
        }
        let was_woken = own().woken.swap(false, Ordering::Relaxed);
        let entry = self.own_entry()?;
        let (want, token) = (entry.want, (entry.token, entry.by_caller));
        if matches!(want, Want::Room(_)) {
            self.capacity.reserved -= std::mem::take(&mut entry.granted);
            // It may have stood before others that need less.
            self.grant();
        }
        (was_woken && want.is_for_task()).then_some(token)
    }

    /// What this process has been given when it was taken out of the line.
    pub fn token(&mut self) -> WakeToken {
        self.own_entry().map_or(WakeToken::NUDGE, |entry| entry.token)
    }

    /// Wakes the first `count` consumers in the line that want what there is. If nobody knows what
    /// that is and some want only one tube, all look for themselves.
    pub fn wake(&mut self, cause: Cause, count: u32, offer: Offer) {
        let token = self.next_token(offer, cause, count);
        let everyone = offer.tube.is_none() && self.waiters.choosy > 0;
        let mut left = if everyone && count > 0 { u32::MAX } else { count };
        let mut link = self.waiters.head;
        while left > 0
            && let Some(&mut Entry { next, want, .. }) = self.standing(link)
        {
            if want.accepts(offer) {
                self.notify(link - 1, token, None);
                left -= 1;
            }
            link = next;
        }
    }

    /// The pause is over: wakes those whose turn it is.
    pub(in crate::parts) fn wake_for_ready(&mut self) {
        self.waiters.paused_until = i64::MIN;
        match self.is_exact() && self.knows_all_lanes() {
            true => self.wake(Cause::PauseOver, self.ready(), Offer { tube: None }),
            false => self.wake_everyone(),
        }
    }

    /// This process waits for the end of a pause.
    pub fn note_pause(&mut self, until: i64) {
        self.waiters.paused_until = until;
    }

    /// A pause is over, which everyone in line notices at the same instant: whoever comes first wakes
    /// those whose turn it is.
    pub fn end_pause(&mut self, until: i64) {
        if self.waiters.paused_until == until {
            self.wake_for_ready();
        }
    }

    /// Wakes everyone to look again.
    pub fn wake_everyone(&mut self) {
        let token = self.next_token(Offer { tube: None }, Cause::Redefined, u32::MAX);
        self.tell_end(None, None);
        let mut link = self.waiters.head;
        while let Some(&mut Entry { next, want, .. }) = self.standing(link) {
            if want.is_for_task() {
                self.notify(link - 1, token, None);
            }
            link = next;
        }
    }

    /// Reserves room for the producers in the order of their line, until there is not enough for
    /// the next, and wakes them.
    pub fn grant(&mut self) {
        let mut link = if self.waiters.producers > 0 { self.waiters.head } else { 0 };
        while let Some(&mut Entry { next, want, .. }) = self.standing(link) {
            if let Want::Room(tasks) = want {
                if !self.has_room(tasks) {
                    return;
                }
                self.capacity.reserved += tasks;
                if let Some(entry) = self.standing(link) {
                    entry.granted = tasks;
                }
                self.notify(link - 1, WakeToken::NUDGE, None);
            }
            link = next;
        }
    }

    /// Wakes the producers that wait for more room than there can ever be, without any.
    pub(in crate::parts) fn turn_away(&mut self, capacity: i64) {
        let mut link = if self.waiters.producers > 0 { self.waiters.head } else { 0 };
        while let Some(&mut Entry { next, want, .. }) = self.standing(link) {
            if matches!(want, Want::Room(tasks) if tasks > capacity) {
                self.notify(link - 1, WakeToken::NUDGE, None);
            }
            link = next;
        }
    }

    /// Takes over the room that has been reserved for this process, if any: it is its own to give
    /// back from now on.
    pub fn take_grant(&mut self) -> i64 {
        self.own_entry().map_or(0, |entry| std::mem::take(&mut entry.granted))
    }

    /// Sends everyone away: the queue is gone.
    pub fn dismiss_everyone(&mut self) {
        while self.waiters.head != 0 {
            self.notify(self.waiters.head - 1, WakeToken::NUDGE, None);
        }
    }

    /// Tells what has become of tasks in a transaction that has committed. `all`: whatever there was is deleted.
    pub(in crate::parts) fn tell_ends(&mut self, change: &Change, all: bool) {
        for (hash, outcome) in &change.ended {
            self.tell_end(Some(*hash), Some(*outcome));
        }
        if all {
            self.tell_end(None, Some(Outcome::Deleted));
        } else if change.ended_more {
            self.tell_end(None, None);
        }
    }

    /// Tells those who wait for the end of a task what has become of it; without `hash`, all who
    /// wait for the end of any; without outcome, they look for themselves, and stay in line so as
    /// to miss nothing.
    pub fn tell_end(&mut self, hash: Option<u64>, outcome: Option<Outcome>) {
        let mut link = if self.waiters.watchers > 0 { self.waiters.head } else { 0 };
        while let Some(&mut Entry { next, want, .. }) = self.standing(link) {
            if let Want::End(wanted) = want
                && hash.is_none_or(|hash| hash == wanted)
            {
                match outcome {
                    Some(_) => self.notify(link - 1, WakeToken::NUDGE, outcome),
                    None => {
                        waiter(link - 1).woken.store(true, Ordering::Release);
                        latch::wake(link - 1);
                    }
                }
            }
            link = next;
        }
    }

    /// What this process, which waits for the end of a task, has been told since it last asked: the
    /// outcome, or to look for itself.
    pub fn news(&mut self) -> Option<Option<Outcome>> {
        if !own().woken.load(Ordering::Relaxed) {
            return None;
        }
        let outcome = self.own_entry()?.outcome;
        if outcome.is_none() {
            own().woken.store(false, Ordering::Relaxed);
        }
        Some(outcome)
    }

    /// Those who wait for what is `wanted`, in their order.
    pub fn waiting(&mut self, wanted: fn(Want) -> bool, into: &mut Vec<Waiting>) {
        let mut link = self.waiters.head;
        while into.len() < into.capacity()
            && let Some(&mut Entry { pid, since, session, next, want, .. }) = self.standing(link)
        {
            if wanted(want) {
                into.push(Waiting { want, pid, since, session });
            }
            link = next;
        }
    }

    /// Takes a process out of the line and wakes it.
    pub(super) fn notify(&mut self, process: u32, token: WakeToken, outcome: Option<Outcome>) {
        if let Some(entry) = self.standing(process + 1) {
            (entry.token, entry.outcome) = (token, outcome);
            self.unlink(process);
            waiter(process).woken.store(true, Ordering::Release);
            self.note_woken(process, token);
            latch::wake(process);
        }
    }

    fn unlink(&mut self, process: u32) {
        let link = process + 1;
        let Some(&mut Entry { previous, next, want, .. }) = self.standing(link) else { return };
        match self.standing(previous) {
            Some(leader) => leader.next = next,
            None => self.waiters.head = next,
        }
        match self.standing(next) {
            Some(follower) => follower.previous = previous,
            None => self.waiters.tail = previous,
        }
        waiter(process).queue.store(NO_QUEUE, Ordering::Release);
        self.waiters.count(want, |count| count - 1);
    }

    /// The entry of the process that a link of this queue's line leads to. None at the end of the line.
    pub(super) fn standing(&mut self, link: u32) -> Option<&mut Entry> {
        let process = link.checked_sub(1)?;
        let stands_here = waiter(process).queue.load(Ordering::Relaxed) == self.index();
        if stands_here { self.entry(process) } else { None }
    }

    /// The entry of this process, which stands in this line or in none.
    pub(super) fn own_entry(&mut self) -> Option<&mut Entry> {
        self.entry(process::index())
    }

    /// The entry of a process that stands in this line, or of this process if it stands in none.
    fn entry(&mut self, process: u32) -> Option<&mut Entry> {
        let waiter = waiter(process);
        let is_mine = match waiter.queue.load(Ordering::Acquire) {
            NO_QUEUE => process == process::index(),
            queue => queue == self.index(),
        };
        // SAFETY: this queue's lock is held exclusively, for as long as the guard is borrowed: nobody else uses the
        // entry of a process in its line, and `queue` changes under that lock. What is in no line is its
        // process's own, which borrows one guard at a time.
        is_mine.then(|| unsafe { &mut *waiter.entry.get() })
    }
}

/// Whether this process has been taken out of the line since it joined.
pub fn was_woken() -> bool {
    own().woken.load(Ordering::Acquire)
}

impl QueueGuard {
    pub fn has_producers(&self) -> bool {
        self.waiters.producers > 0
    }
}
