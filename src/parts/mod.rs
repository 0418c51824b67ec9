//! State of queues beyond rows, by part: what processes share, with the locks that guard it. What a transaction changes
//! of each part is `xqueue_core::transaction`.

pub mod capacity;
#[allow(unsafe_code, reason = "shared memory")]
pub mod clock;
mod commit;
pub mod counters;
pub mod layout;
pub mod leases;
pub mod locks;
pub mod marks;
mod prepared;
pub mod schedule;
pub mod shortcuts;
#[allow(unsafe_code, reason = "shared memory")]
pub mod slot;
pub mod subqueues;
pub mod table;
pub mod waiters;
