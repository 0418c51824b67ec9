//! Schedule: when the worker has to act for a queue, and which process does it.

pub mod change;
#[allow(unsafe_code, reason = "shared memory")]
pub mod databases;
#[allow(unsafe_code, reason = "shared memory")]
pub mod jobs;
#[allow(unsafe_code, reason = "shared memory")]
pub mod orders;
pub mod shared;

pub use change::Change;
pub use shared::NEVER;

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

    pub fn due(&self) -> i64 {
        self.schedule.due
    }
}
