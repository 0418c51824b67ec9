//! The shared state of queues, part by part: everything that processes know about a queue beyond its rows, and the
//! locks that guard it. `xqueue_core::transaction` holds the pending changes that one transaction makes to each part.

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
