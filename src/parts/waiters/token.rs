//! Passing on wake tokens. If row security or a picking function makes tasks depend on the consumer, an unsuccessful
//! check says nothing about other consumers.
//!
//! Invariant: for one wake-up each consumer is woken at most once, and no wake-up is lost while a consumer that could
//! use it waits.
//!
//! 1. Wake-ups are numbered, and each waiting consumer records the last wake-up before its check began. The check sees
//!    everything committed before that wake-up. So a token goes to the first consumer whose check began before the last
//!    wake-up. If there is no such consumer, the token has gone round the whole wait queue and ends.
//! 2. Tokens are not tied to tasks. The task of a token can go to the holder of a later one, whose own task became
//!    visible too late for the first holder's check. So an unsuccessful check does not use up its token if there was a
//!    wake-up since it began. The consumer checks again with the token, or passes it on if it has received another one
//!    meanwhile.
//! 3. A consumer of any task can take a task of another tube than the one that it was woken for. Possibly no other
//!    consumer was woken for its own task. If consumers of single tubes wait, its token goes on. A consumer of one tube
//!    that comes too late for its task wakes a consumer of any task: another task can be left.
//!    [`a_consumer_that_takes_from_another_tube_passes_its_wake_up_on` in tests/tests/order/tubes.rs]

use crate::parts::schedule::NEVER;
use crate::parts::slot::QueueGuard;
use crate::parts::waiters::shared::{Entry, Waiters, own};
use crate::parts::waiters::wait_queue::Want;
use crate::parts::waiters::wake::{Offer, WakeToken};
use crate::server::time;
use std::sync::atomic::Ordering;
use xqueue_core::status::Status;

/// The consequences of an unsuccessful check.
pub struct LookEnd {
    /// There was a wake-up since the check began.
    pub has_changed: bool,
    /// The check might have missed a task, and the consumer has no further wake-up of its own.
    pub looks_again: bool,
    /// Token for the next check.
    pub kept: Option<WakeToken>,
}

impl Waiters<'_> {
    pub(super) fn next_token(&mut self, offer: Offer) -> WakeToken {
        self.slot.waiters.wakes += 1;
        WakeToken { offer, number: self.slot.waiters.wakes }
    }

    /// Passes on a token that this process has not used. `by_caller`: other consumers can find tasks that its check did
    /// not find. Otherwise all consumers find the same tasks, and the first in the wait queue is next.
    pub fn hand_on(&mut self, token: WakeToken, by_caller: bool) {
        match by_caller {
            true => self.pass_on(token, |want| want.accepts(token.offer)),
            false => self.wake(1, token.offer),
        }
    }

    /// Offers a task of a sub-queue to the next consumer whose check began before the last wake-up.
    pub fn offer_again(&mut self, subqueue: u64) {
        let offer = Offer { tube: Some(subqueue) };
        let token = WakeToken { offer, number: self.slot.waiters.wakes };
        self.pass_on(token, |want| want.accepts(offer));
    }

    /// Passes a token on to the next of these consumers whose check began before the last wake-up, unless nothing is
    /// ready.
    fn pass_on(&mut self, token: WakeToken, is_for: impl Fn(Want) -> bool) {
        let is_empty =
            self.slot.counters.is_exact() && self.slot.counters.tasks[Status::Ready as usize] == 0;
        if is_empty || token.is_nudge() {
            return;
        }
        let token = WakeToken { number: self.slot.waiters.wakes, ..token };
        let mut link = self.slot.waiters.head;
        while let Some(&mut Entry { next, want, seen, .. }) = self.standing(link) {
            if is_for(want) && seen < token.number {
                return self.notify(link - 1, token);
            }
            link = next;
        }
    }

    /// Ends an unsuccessful check by this process, which had `token` for it. `by_caller`: other consumers can find
    /// tasks that it did not find.
    pub fn end_look(&mut self, token: Option<WakeToken>, by_caller: bool) -> LookEnd {
        let wakes = self.slot.waiters.wakes;
        let mut is_choosy = false;
        let has_changed = self.own_entry().is_some_and(|entry| {
            is_choosy = entry.want != Want::Any;
            entry.by_caller = by_caller;
            std::mem::replace(&mut entry.seen, wakes) != wakes
        });
        let looks_again = has_changed && !own().woken.load(Ordering::Relaxed);
        let kept = token.filter(|_| looks_again && !by_caller);
        match token {
            Some(token) if by_caller || has_changed && !looks_again => {
                self.pass_on(token, |want| want.accepts(token.offer));
            }
            Some(token) if is_choosy && !has_changed => {
                self.pass_on(token, |want| want == Want::Any);
            }
            _ => {}
        }
        LookEnd { has_changed, looks_again, kept }
    }

    /// Wakes consumers that wait although tasks are ready, and makes them search from the first position.
    pub fn nudge_for_ready(&mut self) {
        let now = time::now();
        if self.slot.has_idle_consumers(now) {
            self.slot.marks().forget();
            self.nudge(self.slot.ready(), now);
        }
    }

    /// Wakes such consumers after a recount, for tasks whose arrival was not reported.
    pub fn nudge_for_counted(&mut self) {
        if self.slot.has_idle_consumers(time::now()) {
            self.slot.marks().forget();
            self.nudge(self.slot.ready(), NEVER);
        }
    }

    /// Wakes the first `count` consumers that want any task. A consumer of one tube, or of tasks that depend on the
    /// consumer, is woken if a wake-up was unsuccessful, at growing intervals: the row might have been locked.
    fn nudge(&mut self, count: u32, now: i64) {
        let (mut left, mut link) = (count, self.slot.waiters.head);
        while let Some(&mut Entry { next, want, nudge_at, by_caller, .. }) = self.standing(link) {
            let is_due = nudge_at <= now;
            match want {
                Want::Any if by_caller && is_due => {}
                Want::Any if !by_caller && left > 0 => left -= 1,
                Want::Tube(_) if is_due => {}
                _ => {
                    link = next;
                    continue;
                }
            }
            self.notify(link - 1, WakeToken::NUDGE);
            link = next;
        }
    }
}

impl QueueGuard {
    /// Returns whether consumers wait although there are ready tasks and the queue is not paused.
    pub fn has_idle_consumers(&self, now: i64) -> bool {
        self.waiters.consumers() > 0 && self.has_ready() && self.waiters.paused_until <= now
    }
}
