//! When and by which process the worker acts.

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
    /// The worker has to act at `instant`. True if that is earlier than it knew.
    pub fn lower_due(&mut self, instant: i64) -> bool {
        let earlier = instant < self.schedule.due;
        self.schedule.due = self.schedule.due.min(instant);
        earlier
    }

    /// Forgets when the worker has to act; it looks into the table next. Whoever commits an
    /// instant meanwhile is not forgotten.
    pub fn forget_due(&mut self) {
        self.schedule.due = NEVER;
    }

    pub fn due(&self) -> i64 {
        self.schedule.due
    }
}
