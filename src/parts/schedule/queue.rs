//! A queue's part of the schedule, guarded by the queue's lock: when the next work is due, which worker does it, and
//! when failed work is retried. A worker that ends leaves no state outside this part and the table.

use crate::parts::slot::QueueGuard;
use crate::server::time;
use std::time::Duration;
use xqueue_core::pause::{Limits, Pause};

/// Never: later than all instants.
pub const NEVER: i64 = i64::MAX;

#[repr(C)]
pub struct Schedule {
    /// Next instant at which a worker acts; `NEVER` if it has nothing to do.
    due: i64,
    /// The owner whose job worker serves the queue; 0 if the database worker does.
    job_owner: u32,
    /// All taken tasks have to be compared with the live sessions.
    sweep: bool,
    retries: [Retry; 4],
}

/// The kinds of work, each with a pause of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// Tasks that are due at an instant.
    Timed,
    /// Giving back tasks of ended sessions.
    Orphans,
    Recount,
    /// Due tasks that refuse to be changed by statements. Tasks that fall due meanwhile are `Timed`.
    Refused,
}

/// When to retry a kind of work.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Retry {
    pause: Pause,
    /// The queue's error comes from this kind.
    has_failed: bool,
}

impl Schedule {
    /// Returns the initial state: a worker acts immediately, because the table is unknown.
    pub(in crate::parts) fn at_once() -> Schedule {
        Schedule { due: i64::MIN, job_owner: 0, sweep: true, retries: [Retry::default(); 4] }
    }

    /// Makes a worker act at `instant` at the latest. Returns true if that is earlier than before.
    pub fn lower_due(&mut self, instant: i64) -> bool {
        let earlier = instant < self.due;
        self.due = self.due.min(instant);
        earlier
    }

    /// Forgets when a worker has to act; the caller scans the table next. An instant that a transaction commits
    /// meanwhile is kept.
    pub fn forget_due(&mut self) {
        self.due = NEVER;
    }

    pub fn due(&self) -> i64 {
        self.due
    }

    /// Requests a comparison of all taken tasks with the live sessions, without a pause: an earlier failure can concern
    /// tasks of other sessions.
    pub fn ask_for_sweep(&mut self) {
        self.sweep = true;
        self.retries[WorkKind::Orphans as usize].pause.end();
    }

    /// Leaves the comparison to another worker, which makes it after the same pause.
    pub fn leave_sweep(&mut self) {
        self.sweep = true;
    }

    /// Takes the request; the caller makes the comparison.
    pub fn take_sweep(&mut self) -> bool {
        std::mem::take(&mut self.sweep)
    }

    /// Ends all pauses, because the table was altered: failed work is retried immediately.
    pub fn end_pauses(&mut self) {
        if self.longest_retry() != 0 {
            self.retries.iter_mut().for_each(|retry| retry.pause.end());
            self.look_for_all();
        }
    }

    /// Requests a full rescan, because a worker can have ended in the middle of its work.
    pub fn look_for_all(&mut self) {
        self.lower_due(i64::MIN);
        self.ask_for_sweep();
    }

    /// Gives the queue to the job worker of an owner, or, with 0, to the database worker.
    pub fn set_job_owner(&mut self, owner: u32) {
        self.job_owner = owner;
    }

    pub fn job_owner(&self) -> u32 {
        self.job_owner
    }

    /// Returns when the queue needs work; `NEVER` if it needs none. `is_settled`: the worker knows no session that can
    /// have left tasks.
    pub fn needed_at(&self, now: i64, is_settled: bool) -> i64 {
        let after = |kind: WorkKind, at: i64| {
            at.max(self.retries[kind as usize].pause.end_at(now).max(now))
        };
        let at_once = |is_wanted, kind| if is_wanted { after(kind, now) } else { NEVER };
        let refused = at_once(self.has_failed(WorkKind::Refused), WorkKind::Refused);
        let timed = match self.due.min(refused) {
            NEVER => NEVER,
            due => after(WorkKind::Timed, due),
        };
        timed.min(at_once(!is_settled || self.sweep, WorkKind::Orphans))
    }

    /// Returns how long work of a kind has to wait.
    pub fn retry_left(&self, kind: WorkKind, now: i64) -> Duration {
        self.retries[kind as usize].pause.left(now)
    }

    /// Returns whether work of a kind has no pause.
    pub fn may_retry(&self, kind: WorkKind, now: i64) -> bool {
        self.retries[kind as usize].pause.is_over(now)
    }

    /// Returns the longest of the last pauses (µs); 0 if all work succeeds.
    pub fn longest_retry(&self) -> i64 {
        self.retries.iter().map(|retry| retry.pause.length).max().unwrap_or_default()
    }

    /// Begins a pause for work of a kind.
    pub fn retry_after(&mut self, kind: WorkKind, now: i64, limits: Limits) {
        self.retries[kind as usize].pause.begin(now, limits);
    }

    /// Resets the pause of work of a kind, so that the next pause is short again.
    pub fn end_retry(&mut self, kind: WorkKind) {
        self.retries[kind as usize].pause = Pause::NONE;
    }

    /// Returns whether work of a kind failed the last time.
    pub fn has_failed(&self, kind: WorkKind) -> bool {
        self.retries[kind as usize].has_failed
    }
}

impl QueueGuard {
    /// Shows why work of a kind has failed.
    pub fn fail(&mut self, kind: WorkKind, message: &str) {
        self.schedule.retries[kind as usize].has_failed = true;
        self.shown().set_error(message, time::now());
    }

    /// Removes the failure of this kind. The queue's error is cleared when no other kind has failed.
    pub fn end_failure(&mut self, kind: WorkKind) {
        let retries = &mut self.schedule.retries;
        let had_failed = std::mem::take(&mut retries[kind as usize].has_failed);
        if had_failed && !retries.iter().any(|retry| retry.has_failed) {
            self.shown.clear_error();
        }
    }
}
