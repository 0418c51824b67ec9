//! Schedule: when the worker has to act for a queue, and which process does it.

pub mod change;
#[allow(unsafe_code, reason = "shared memory")]
pub mod databases;
pub mod job_claim;
#[allow(unsafe_code, reason = "shared memory")]
pub mod jobs;
#[allow(unsafe_code, reason = "shared memory")]
pub mod orders;
pub mod rota;
pub mod shared;

pub use change::Change;
pub use shared::{KeptPause, NEVER};

use crate::parts::slot::QueueGuard;

impl QueueGuard {
    /// Makes the worker act at `instant` at the latest. True if that is earlier than before.
    pub fn lower_due(&mut self, instant: i64) -> bool {
        let earlier = instant < self.schedule.due;
        self.schedule.due = self.schedule.due.min(instant);
        earlier
    }

    /// Forgets when the worker has to act; the caller looks into the table next. An instant that a transaction
    /// commits meanwhile is kept.
    pub fn forget_due(&mut self) {
        self.schedule.due = NEVER;
    }

    /// Keeps the pause after failures for the next worker.
    pub fn keep_pause(&mut self, kept: Option<KeptPause>) {
        self.schedule.kept = kept;
    }

    /// Notes whether counting the tasks takes long, also for the next worker.
    pub fn set_counts_apart(&mut self, is_slow: bool) {
        self.schedule.counts_apart = is_slow;
    }

    pub fn counts_apart(&self) -> bool {
        self.schedule.counts_apart
    }

    pub fn kept_pause(&self) -> Option<KeptPause> {
        self.schedule.kept
    }

    pub fn due(&self) -> i64 {
        self.schedule.due
    }
}
