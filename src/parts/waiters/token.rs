//! Wake tokens that go on. Where the tasks that a consumer gets depend on who it is, by row security or by a
//! function that picks, its look in vain says nothing of the others.
//!
//! Wake-ups are numbered, and each consumer in line notes the last before its look began. A look sees what
//! was committed before the wake-ups up to there, so a token goes to the first whose look began before the last
//! wake-up. When there is none it has been round the line, and ends: for one wake-up each consumer is woken once at
//! the most.
//!
//! Tokens are not tied to tasks: the task of one may go to the holder of a later one, whose own task the look of
//! the first came too early for. So a look in vain does not use a token up if there was a wake-up since it began: the
//! consumer looks again with it, or, if it has been given another meanwhile, passes it on.

use crate::model::status::Status;
use crate::parts::schedule::NEVER;
use crate::parts::slot::QueueGuard;
use crate::parts::waiters::line::Want;
use crate::parts::waiters::shared::{Entry, own};
use crate::parts::waiters::wake::{Cause, Offer, WakeToken};
use crate::server::time;
use serde_json::json;
use std::sync::atomic::Ordering;

/// What follows from a look in vain.
pub struct LookEnd {
    /// There was a wake-up since it began.
    pub has_changed: bool,
    /// It may have missed a task, and no wake-up of its own is to come.
    pub looks_again: bool,
    /// The token for that look.
    pub kept: Option<WakeToken>,
}

impl QueueGuard {
    pub(in crate::parts) fn next_token(
        &mut self,
        offer: Offer,
        cause: Cause,
        count: u32,
    ) -> WakeToken {
        self.waiters.wakes += 1;
        self.note_step("Wake", || json!({ "why": format!("{cause:?}"), "count": count }));
        WakeToken { offer, number: self.waiters.wakes }
    }

    /// Passes a token on that this process has not used. `by_caller`: others may find what its look
    /// has not, or would not have; else all find the same, and it is the first's turn again.
    pub fn hand_on(&mut self, token: WakeToken, by_caller: bool) {
        match by_caller {
            true => self.pass_on(token),
            false => self.wake(Cause::HandOn, 1, token.offer),
        }
    }

    /// Passes a token on to the next whose look began before the last wake-up, unless nothing is ready.
    fn pass_on(&mut self, token: WakeToken) {
        let is_empty = self.is_exact() && self.counters.tasks[Status::Ready as usize] == 0;
        self.note_step("PassOn", || json!({ "number": token.number, "is_empty": is_empty }));
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

    /// A look of this process, for which it had a `token`, has come to nothing. `by_caller`: others may find
    /// what it did not.
    pub fn end_look(&mut self, token: Option<WakeToken>, by_caller: bool) -> LookEnd {
        let wakes = self.waiters.wakes;
        let has_changed = self.own_entry().is_some_and(|entry| {
            entry.by_caller = by_caller;
            std::mem::replace(&mut entry.seen, wakes) != wakes
        });
        let looks_again = has_changed && !own().woken.load(Ordering::Relaxed);
        let kept = token.filter(|_| looks_again && !by_caller);
        self.note_step("EndVain", || {
            json!({
                "token": token.map(WakeToken::number),
                "kept": kept.map(WakeToken::number),
                "by_caller": by_caller,
                "looks_again": looks_again,
            })
        });
        if let Some(token) = token.filter(|_| by_caller || has_changed && !looks_again) {
            self.pass_on(token);
        }
        LookEnd { has_changed, looks_again, kept }
    }

    /// Wakes consumers that wait beside ready tasks: they had better look everywhere.
    pub fn nudge_for_ready(&mut self) {
        let now = time::now();
        if self.has_idle_consumers(now) {
            self.forget_marks();
            self.nudge(self.ready(), now);
        }
    }

    /// The same once the tasks were counted, for those that nobody had told of.
    pub fn nudge_for_counted(&mut self) {
        if self.has_idle_consumers(time::now()) {
            self.forget_marks();
            self.nudge(self.ready(), NEVER);
        }
    }

    /// Wakes the first `count` consumers that take any task. Those who want one tube's, or what there is for
    /// them, are woken if a wake-up of theirs has come to nothing, less and less often: someone may
    /// have had the task's row locked.
    fn nudge(&mut self, count: u32, now: i64) {
        self.note_step("Nudge", || json!({}));
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

    /// Whether consumers wait beside ready tasks, and not because the queue is paused.
    pub fn has_idle_consumers(&self, now: i64) -> bool {
        self.waiters.consumers() > 0 && self.has_ready() && self.waiters.paused_until <= now
    }
}
