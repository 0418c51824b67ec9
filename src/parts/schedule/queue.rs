//! A queue's piece of the schedule, under its lock: when the next work is due, whose process does it, and what is tried
//! again after a pause. A worker that ends leaves nothing behind that is not here or in the table.

use crate::parts::slot::QueueGuard;
use std::time::Duration;
use xqueue_core::pause::{Limits, Pause};

/// Never: later than all instants.
pub const NEVER: i64 = i64::MAX;

#[repr(C)]
pub struct Shared {
    /// Next instant at which a worker acts, `NEVER` if there is none.
    due: i64,
    /// The owner whose job worker serves the queue; 0 if the database worker does.
    job_owner: u32,
    /// All taken tasks have to be compared with the live sessions.
    sweep: bool,
    retries: [Retry; 4],
}

/// The kinds of work that have pauses of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What is due at an instant.
    Timed,
    /// Giving back what ended sessions have left.
    Orphans,
    Recount,
    /// Due tasks that refuse to be changed by statements. Those that fall due meanwhile are `Timed`.
    Refused,
}

/// When work of a kind is tried again.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Retry {
    pause: Pause,
    /// The queue's error is of this kind.
    has_failed: bool,
}

impl Shared {
    /// Lets a worker act at once, because nothing is known yet.
    pub(in crate::parts) fn at_once() -> Shared {
        Shared { due: i64::MIN, job_owner: 0, sweep: true, retries: [Retry::default(); 4] }
    }
}

impl QueueGuard {
    /// Makes a worker act at `instant` at the latest. True if that is earlier than before.
    pub fn lower_due(&mut self, instant: i64) -> bool {
        let earlier = instant < self.schedule.due;
        self.schedule.due = self.schedule.due.min(instant);
        earlier
    }

    /// Forgets when a worker has to act; the caller looks into the table next. An instant that a transaction
    /// commits meanwhile is kept.
    pub fn forget_due(&mut self) {
        self.schedule.due = NEVER;
    }

    pub fn due(&self) -> i64 {
        self.schedule.due
    }

    /// Has all taken tasks compared with the live sessions, at once: tasks of other sessions may have failed before.
    pub fn ask_for_sweep(&mut self) {
        self.schedule.sweep = true;
        self.schedule.retries[Kind::Orphans as usize].pause.end();
    }

    /// Leaves it to another worker, which makes it after the same pause.
    pub fn leave_sweep(&mut self) {
        self.schedule.sweep = true;
    }

    /// Takes that request; the caller makes the comparison.
    pub fn take_sweep(&mut self) -> bool {
        std::mem::take(&mut self.schedule.sweep)
    }

    /// Tries again at once what has failed, because the table was altered.
    pub fn end_pauses(&mut self) {
        if self.longest_retry() != 0 {
            self.schedule.retries.iter_mut().for_each(|retry| retry.pause.end());
            self.look_for_all();
        }
    }

    /// Has everything looked for, because a worker may have ended in the middle of its work.
    pub fn look_for_all(&mut self) {
        self.lower_due(i64::MIN);
        self.ask_for_sweep();
    }

    /// Gives the queue to the job worker of an owner; 0: to the database worker.
    pub fn set_job_owner(&mut self, owner: u32) {
        self.schedule.job_owner = owner;
    }

    pub fn job_owner(&self) -> u32 {
        self.schedule.job_owner
    }

    /// Returns when a worker has something to do for the queue; `NEVER` if it has nothing. `is_settled`: it knows of no
    /// session that may have left tasks.
    pub fn needed_at(&self, now: i64, is_settled: bool) -> i64 {
        let after = |kind: Kind, at: i64| {
            at.max(self.schedule.retries[kind as usize].pause.end_at(now).max(now))
        };
        let at_once = |is_wanted, kind| if is_wanted { after(kind, now) } else { NEVER };
        let refused = at_once(self.has_failed(Kind::Refused), Kind::Refused);
        let timed = match self.schedule.due.min(refused) {
            NEVER => NEVER,
            due => after(Kind::Timed, due),
        };
        timed.min(at_once(!is_settled || self.schedule.sweep, Kind::Orphans))
    }

    /// How long work of a kind is not to be tried.
    pub fn retry_left(&self, kind: Kind, now: i64) -> Duration {
        self.schedule.retries[kind as usize].pause.left(now)
    }

    /// Returns whether work of a kind may be tried.
    pub fn may_retry(&self, kind: Kind, now: i64) -> bool {
        self.schedule.retries[kind as usize].pause.is_over(now)
    }

    /// Returns the longest of the last pauses (µs); 0 if all work comes to something.
    pub fn longest_retry(&self) -> i64 {
        self.schedule.retries.iter().map(|retry| retry.pause.length).max().unwrap_or_default()
    }

    /// Tries work of a kind again after a pause.
    pub fn retry_after(&mut self, kind: Kind, now: i64, limits: Limits) {
        self.schedule.retries[kind as usize].pause.begin(now, limits);
    }

    /// Tries work of a kind again at once, and forgets how long the last pause was.
    pub fn end_retry(&mut self, kind: Kind) {
        self.schedule.retries[kind as usize].pause = Pause::NONE;
    }

    /// Shows why work of a kind has failed.
    pub fn fail(&mut self, kind: Kind, message: &str) {
        self.schedule.retries[kind as usize].has_failed = true;
        self.set_error(message);
    }

    /// Returns whether work of a kind has failed the last time.
    pub fn has_failed(&self, kind: Kind) -> bool {
        self.schedule.retries[kind as usize].has_failed
    }

    /// Shows no failure of work of this kind any more.
    pub fn end_failure(&mut self, kind: Kind) {
        let retries = &mut self.schedule.retries;
        let had_failed = std::mem::take(&mut retries[kind as usize].has_failed);
        if had_failed && !retries.iter().any(|retry| retry.has_failed) {
            self.clear_error();
        }
    }
}
