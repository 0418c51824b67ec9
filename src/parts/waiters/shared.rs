//! Wait queues in shared memory. Processes wait for a task, for the end of a task, or for room, and are served first
//! come, first served.
//!
//! 1. A wake-up is a token: the consumer at the head is removed from the wait queue and woken. A consumer that ends
//!    without using its token passes it on.
//! 2. A producer is woken with its room reserved, so that no other producer can take the room first.
//! 3. If row security or a picking function makes the tasks depend on the consumer, an unsuccessful check says nothing
//!    about other consumers: see [`super::token`].

use crate::parts::slot::QueueGuard;
use crate::parts::waiters::wait_queue::Want;
use crate::parts::waiters::wake::{Offer, WakeToken};
use crate::server::shared_memory::{Shared, Zeroed};
use crate::server::{latch, process};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use xqueue_core::change::Outcome;
use xqueue_core::transaction::WaiterChange;

const NO_QUEUE: u32 = u32::MAX;
/// Every producer waits for more room than this.
const NO_CAPACITY: i64 = i64::MIN;

/// State of a waiting process. Except for the atomics, only [`Waiters::entry`] accesses it.
#[repr(C)]
pub struct Waiter {
    /// The queue in whose wait queue the process is, or `NO_QUEUE`. Stored under that queue's lock.
    queue: AtomicU32,
    /// A wake-up has removed the process from the wait queue and is not used yet. Stored under the same lock, read
    /// without it.
    pub(super) woken: AtomicBool,
    entry: UnsafeCell<Entry>,
}

// SAFETY: the lock of the queue that `queue` names guards the entry. With `NO_QUEUE`, only the process itself uses it.
unsafe impl Sync for Waiter {}

/// A process in a wait queue. Links are process indexes plus one; 0 ends the list.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) want: Want,
    pub(super) token: WakeToken,
    /// Number of the last wake-up before the process's last check began.
    pub(super) seen: u64,
    /// Other consumers can find tasks that this check did not find.
    pub(super) by_caller: bool,
    pub(super) outcome: Option<Outcome>,
    /// Room that was reserved for the process and that it has not taken over yet.
    pub(super) granted: i64,
    /// It stands before all newcomers.
    pub(super) precedes: bool,
    pub(super) pid: i32,
    pub(super) since: i64,
    /// Instant of the next check without a wake-up, after an unsuccessful one.
    pub(super) nudge_at: i64,
    pub(super) session: [u8; 16],
}

/// A waiting process in the views `xqueue.consumers` and `xqueue.producers`.
pub struct Waiting {
    pub want: Want,
    pub pid: i32,
    pub since: i64,
    pub session: [u8; 16],
}

impl Waiter {
    /// Resets the entry of a process that is in no wait queue.
    pub(in crate::parts) fn reset(&self) {
        self.queue.store(NO_QUEUE, Ordering::Relaxed);
    }
}

// SAFETY: numbers, bools, and cells of enums and options whose zeros are their first.
unsafe impl Zeroed for Waiter {}

pub(in crate::parts) static WAITERS: Shared<Waiter> = Shared::new();

/// Initializes all entries: no process waits.
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

/// The processes that wait at a queue.
pub struct Waiters<'q> {
    pub(super) slot: &'q mut QueueGuard,
}

impl QueueGuard {
    pub fn waiters(&mut self) -> Waiters<'_> {
        Waiters { slot: self }
    }
}

impl Waiters<'_> {
    /// Inserts this process into the wait queue, behind all processes that have waited since an earlier instant.
    /// `nudge_at`: when it is to be woken without a wake-up, or `NEVER`. `precedes`: it stands before all newcomers,
    /// which can be waiting for its transaction to end. `by_caller`: other consumers can find tasks that its checks do
    /// not find.
    pub fn join(
        &mut self,
        since: i64,
        session: [u8; 16],
        (want, precedes, by_caller): (Want, bool, bool),
        nudge_at: i64,
    ) {
        if own().queue.load(Ordering::Relaxed) != NO_QUEUE {
            return;
        }
        // Newcomers belong at the tail, returning consumers near the head. Producers do not return.
        let belongs_at_end = matches!(want, Want::Capacity(_))
            || self.standing(self.slot.waiters.tail).is_none_or(|last| last.since <= since);
        let mut next = if belongs_at_end && !precedes { 0 } else { self.slot.waiters.head };
        let is_before = |other: &Entry| other.precedes || !precedes && other.since <= since;
        while let Some(other) = self.standing(next).filter(|other| is_before(other)) {
            next = other.next;
        }
        let last = self.slot.waiters.tail;
        let previous = self.standing(next).map_or(last, |follower| follower.previous);
        let seen = self.slot.waiters.wakes;
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
        own().queue.store(self.slot.index(), Ordering::Relaxed);
        let link = process::index() + 1;
        match self.standing(previous) {
            Some(leader) => leader.next = link,
            None => self.slot.waiters.head = link,
        }
        match self.standing(next) {
            Some(follower) => follower.previous = link,
            None => self.slot.waiters.tail = link,
        }
        self.slot.waiters.count(want, |count| count + 1);
        self.grant();
    }

    /// Removes this process from the wait queue and gives back the room that it has not taken over. Returns the wake-up
    /// that it received meanwhile and has to use or pass on, and whether other consumers can find tasks that it does
    /// not find.
    pub fn leave(&mut self) -> Option<(WakeToken, bool)> {
        let process = process::index();
        if self.standing(process + 1).is_some() {
            self.unlink(process);
        }
        let was_woken = own().woken.swap(false, Ordering::Relaxed);
        let entry = self.own_entry()?;
        let (want, token) = (entry.want, (entry.token, entry.by_caller));
        if matches!(want, Want::Capacity(_)) {
            self.slot.capacity.reserved -= std::mem::take(&mut entry.granted);
            // It might have stood before producers that need less room.
            self.grant();
        }
        (was_woken && want.is_for_task()).then_some(token)
    }

    /// Returns the token that this process got when it was removed from the wait queue.
    pub fn token(&mut self) -> WakeToken {
        self.own_entry().map_or(WakeToken::NUDGE, |entry| entry.token)
    }

    /// Wakes the first `count` consumers that accept the offer. If the tube is unknown and some consumers want a single
    /// tube, all consumers are woken to check.
    pub fn wake(&mut self, count: u32, offer: Offer) {
        let token = self.next_token(offer);
        let everyone = offer.tube.is_none() && self.slot.waiters.has_choosy();
        let mut left = if everyone && count > 0 { u32::MAX } else { count };
        let mut link = self.slot.waiters.head;
        while left > 0
            && let Some(&mut Entry { next, want, .. }) = self.standing(link)
        {
            if want.accepts(offer) {
                self.notify(link - 1, token);
                left -= 1;
            }
            link = next;
        }
    }

    /// Ends the pause and wakes as many consumers as there are tasks.
    pub(in crate::parts) fn wake_for_ready(&mut self) {
        self.slot.waiters.paused_until = i64::MIN;
        match self.slot.counters.is_exact() && self.slot.knows_all_subqueues() {
            true => self.wake(self.slot.ready(), Offer { tube: None }),
            false => self.wake_everyone(),
        }
    }

    /// Records the pause that this process waits out.
    pub fn note_pause(&mut self, until: i64) {
        self.slot.waiters.paused_until = until;
    }

    /// Ends a pause whose end all waiting processes notice at the same instant. The first caller wakes the consumers.
    pub fn end_pause(&mut self, until: i64) {
        if self.slot.waiters.paused_until == until {
            self.wake_for_ready();
        }
    }

    /// Wakes all consumers and watchers to check again.
    pub fn wake_everyone(&mut self) {
        let token = self.next_token(Offer { tube: None });
        self.report(|_| Some(None));
        let mut link = self.slot.waiters.head;
        while let Some(&mut Entry { next, want, .. }) = self.standing(link) {
            if want.is_for_task() {
                self.notify(link - 1, token);
            }
            link = next;
        }
    }

    /// Wakes all processes to check again, after changes that were not reported: also a pause can have ended, and the
    /// capacity can be another one.
    pub fn recheck(&mut self) {
        self.slot.waiters.paused_until = i64::MIN;
        self.wake_everyone();
        self.turn_away(NO_CAPACITY);
    }

    /// Grants room to waiting producers in their order and wakes them, until there is not enough room for the next one.
    pub fn grant(&mut self) {
        let mut link = if self.slot.waiters.producers > 0 { self.slot.waiters.head } else { 0 };
        while let Some(&mut Entry { next, want, .. }) = self.standing(link) {
            if let Want::Capacity(tasks) = want {
                if !self.slot.room().suffices(tasks) {
                    return;
                }
                self.slot.capacity.reserved += tasks;
                if let Some(entry) = self.standing(link) {
                    entry.granted = tasks;
                }
                self.notify(link - 1, WakeToken::NUDGE);
            }
            link = next;
        }
    }

    /// Wakes, without room, the producers that wait for more room than the capacity; they check again.
    pub(in crate::parts) fn turn_away(&mut self, capacity: i64) {
        let mut link = if self.slot.waiters.producers > 0 { self.slot.waiters.head } else { 0 };
        while let Some(&mut Entry { next, want, .. }) = self.standing(link) {
            if matches!(want, Want::Capacity(tasks) if tasks > capacity) {
                self.notify(link - 1, WakeToken::NUDGE);
            }
            link = next;
        }
    }

    /// Takes over the room that was granted to this process, if any. From now on the process has to return it.
    pub fn take_grant(&mut self) -> i64 {
        self.own_entry().map_or(0, |entry| std::mem::take(&mut entry.granted))
    }

    /// Wakes and removes all processes because the queue is gone.
    pub fn dismiss_everyone(&mut self) {
        while self.slot.waiters.head != 0 {
            self.notify(self.slot.waiters.head - 1, WakeToken::NUDGE);
        }
    }

    /// Reports the outcomes of a committed transaction to watchers. `all`: all tasks were deleted.
    pub(in crate::parts) fn report_ends(&mut self, change: &WaiterChange, all: bool) {
        if all || change.ended_more || !change.ended.is_empty() {
            self.report(|hash| change.report(hash, all));
        }
    }

    /// Wakes the watchers for which there is a report, see [`WaiterChange::report`]. They stay in the wait queue so that
    /// they miss none.
    fn report(&mut self, report: impl Fn(u64) -> Option<Option<Outcome>>) {
        let mut link = if self.slot.waiters.watchers > 0 { self.slot.waiters.head } else { 0 };
        while let Some(entry) = self.standing(link) {
            let next = entry.next;
            if let Want::End { hash, is_vague } = entry.want
                && let Some(outcome) = report(hash)
            {
                // A task ends once. Of vague reports the last can be the one of the watched task.
                if is_vague || entry.outcome.is_none() {
                    entry.outcome = outcome.or(entry.outcome);
                }
                waiter(link - 1).woken.store(true, Ordering::Release);
                latch::wake(link - 1);
            }
            link = next;
        }
    }

    /// Returns the report to this process, a watcher, since the last call: the outcome, or None if it has to check
    /// itself.
    pub fn news(&mut self) -> Option<Option<Outcome>> {
        let was_woken = own().woken.swap(false, Ordering::Relaxed);
        let outcome = self.own_entry()?.outcome.take();
        was_woken.then_some(outcome)
    }

    /// Lists the processes whose want is `wanted`, in their order.
    pub fn waiting(&mut self, wanted: fn(Want) -> bool, into: &mut Vec<Waiting>) {
        let mut link = self.slot.waiters.head;
        while into.len() < into.capacity()
            && let Some(&mut Entry { pid, since, session, next, want, .. }) = self.standing(link)
        {
            if wanted(want) {
                into.push(Waiting { want, pid, since, session });
            }
            link = next;
        }
    }

    /// Removes a process from the wait queue and wakes it.
    pub(super) fn notify(&mut self, process: u32, token: WakeToken) {
        if let Some(entry) = self.standing(process + 1) {
            entry.token = token;
            self.unlink(process);
            waiter(process).woken.store(true, Ordering::Release);
            latch::wake(process);
        }
    }

    fn unlink(&mut self, process: u32) {
        let link = process + 1;
        let Some(&mut Entry { previous, next, want, .. }) = self.standing(link) else { return };
        match self.standing(previous) {
            Some(leader) => leader.next = next,
            None => self.slot.waiters.head = next,
        }
        match self.standing(next) {
            Some(follower) => follower.previous = previous,
            None => self.slot.waiters.tail = previous,
        }
        waiter(process).queue.store(NO_QUEUE, Ordering::Release);
        self.slot.waiters.count(want, |count| count - 1);
    }

    /// Returns the entry that a link of this wait queue leads to; None at the end.
    pub(super) fn standing(&mut self, link: u32) -> Option<&mut Entry> {
        let process = link.checked_sub(1)?;
        let stands_here = waiter(process).queue.load(Ordering::Relaxed) == self.slot.index();
        if stands_here { self.entry(process) } else { None }
    }

    /// Returns the entry of this process, which is in this wait queue or in no wait queue.
    pub(super) fn own_entry(&mut self) -> Option<&mut Entry> {
        self.entry(process::index())
    }

    /// Returns the entry of a process in this wait queue, or of this process if it is in no wait queue.
    fn entry(&mut self, process: u32) -> Option<&mut Entry> {
        let waiter = waiter(process);
        let is_mine = match waiter.queue.load(Ordering::Acquire) {
            NO_QUEUE => process == process::index(),
            queue => queue == self.slot.index(),
        };
        // SAFETY: this queue's lock is held exclusively while the guard is borrowed. The entry of a process in its
        // wait queue is used under that lock only, under which `queue` changes as well. A process in no wait queue is
        // the only one that uses its entry, and borrows one guard at a time.
        is_mine.then(|| unsafe { &mut *waiter.entry.get() })
    }
}

/// Returns whether this process has been removed from the wait queue since it joined.
pub fn was_woken() -> bool {
    own().woken.load(Ordering::Acquire)
}
