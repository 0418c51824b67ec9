//! Leases: which session holds which tasks.

#[allow(unsafe_code, reason = "shared memory")]
pub mod departed;
#[allow(unsafe_code, reason = "shared memory")]
pub mod epoch;
pub mod held;
pub mod session;
#[allow(unsafe_code, reason = "shared memory")]
pub mod sessions;
pub mod shared;
pub mod store;

use crate::parts::slot::QueueGuard;

impl QueueGuard {
    /// Returns the queue's invalidation epoch. Disabled triggers do not raise it.
    pub fn epoch(&self) -> u64 {
        self.leases.epoch
    }
}
