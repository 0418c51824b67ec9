//! Wake tokens that are passed on. Where row security or a picking function makes tasks depend on the consumer, a
//! look in vain says nothing about other consumers.
//!
//! Wake-ups are numbered, and each waiting consumer records the last one before its look began. A look sees what was
//! committed before the wake-ups up to there, so a token goes to the first consumer whose look began before the last
//! wake-up. If there is none, the token has been round the wait queue and ends: for one wake-up each consumer is
//! woken at most once.
//!
//! Tokens are not tied to tasks: the task of one may go to the holder of a later one, whose own task the first look
//! came too early for. So a look in vain does not use up its token if there was a wake-up since it began: the
//! consumer looks again with it, or passes it on if it has got another one meanwhile.

use crate::parts::schedule::NEVER;
use crate::parts::slot::QueueGuard;
use crate::parts::waiters::shared::{Entry, own};
use crate::parts::waiters::wait_queue::Want;
use crate::parts::waiters::wake::{Offer, WakeToken};
use crate::server::time;
use std::sync::atomic::Ordering;
use xqueue_core::status::Status;

/// What follows from a look in vain.
pub struct LookEnd {
    /// There was a wake-up since the look began.
    pub has_changed: bool,
    /// The look may have missed a task, and no further wake-up of the consumer's own is to come.
    pub looks_again: bool,
    /// Token for the next look.
    pub kept: Option<WakeToken>,
}

impl QueueGuard {
    pub(in crate::parts) fn next_token(&mut self, offer: Offer) -> WakeToken {
        self.waiters.wakes += 1;
        WakeToken { offer, number: self.waiters.wakes }
    }

    /// Passes on a token that this process has not used. `by_caller`: other consumers may find what its look has not;
    /// otherwise all find the same, and the first in the wait queue is next.
    pub fn hand_on(&mut self, token: WakeToken, by_caller: bool) {
        match by_caller {
            true => self.pass_on(token),
            false => self.wake(1, token.offer),
        }
    }

    /// Passes a token on to the next consumer whose look began before the last wake-up, unless nothing is ready.
    fn pass_on(&mut self, token: WakeToken) {
        let is_empty = self.is_exact() && self.counters.tasks[Status::Ready as usize] == 0;
        if is_empty || token.is_nudge() {
            return;
        }
        let token = WakeToken { number: self.waiters.wakes, ..token };
        let mut link = self.waiters.head;
        while let Some(&mut Entry { next, want, seen, .. }) = self.standing(link) {
            if want.accepts(token.offer) && seen < token.number {
                return self.notify(link - 1, token, None);
            }
            link = next;
        }
    }

    /// Ends a look in vain of this process, for which it had `token`. `by_caller`: other consumers may find what it
    /// did not.
    pub fn end_look(&mut self, token: Option<WakeToken>, by_caller: bool) -> LookEnd {
        let wakes = self.waiters.wakes;
        let has_changed = self.own_entry().is_some_and(|entry| {
            entry.by_caller = by_caller;
            std::mem::replace(&mut entry.seen, wakes) != wakes
        });
        let looks_again = has_changed && !own().woken.load(Ordering::Relaxed);
        let kept = token.filter(|_| looks_again && !by_caller);
        if let Some(token) = token.filter(|_| by_caller || has_changed && !looks_again) {
            self.pass_on(token);
        }
        LookEnd { has_changed, looks_again, kept }
    }

    /// Wakes consumers that wait although there are ready tasks, to look everywhere.
    pub fn nudge_for_ready(&mut self) {
        let now = time::now();
        if self.has_idle_consumers(now) {
            self.forget_marks();
            self.nudge(self.ready(), now);
        }
    }

    /// Does the same after a recount, for tasks whose arrival was not reported.
    pub fn nudge_for_counted(&mut self) {
        if self.has_idle_consumers(time::now()) {
            self.forget_marks();
            self.nudge(self.ready(), NEVER);
        }
    }

    /// Wakes the first `count` consumers of any task. Consumers of one tube, or of tasks that depend on the consumer,
    /// are woken if a wake-up has come to nothing, ever less often: the row may have been locked.
    fn nudge(&mut self, count: u32, now: i64) {
        let (mut left, mut link) = (count, self.waiters.head);
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
            self.notify(link - 1, WakeToken::NUDGE, None);
            link = next;
        }
    }

    /// Returns whether consumers wait although there are ready tasks and the queue is not paused.
    pub fn has_idle_consumers(&self, now: i64) -> bool {
        self.waiters.consumers() > 0 && self.has_ready() && self.waiters.paused_until <= now
    }
}
