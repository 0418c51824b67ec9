//! What a transaction changes of a queue beyond its rows, and what processes share of it, by part. Each part has
//! a `change` (what a transaction has done; pure) and a `shared` (its piece of shared memory).

pub mod capacity;
pub mod counters;
pub mod delta;
pub mod leases;
pub mod marks;
mod prepared;
pub mod schedule;
#[allow(unsafe_code, reason = "shared memory")]
pub mod segment;
#[allow(unsafe_code, reason = "shared memory")]
pub mod slot;
pub mod slot_id;
pub mod subqueues;
#[cfg(feature = "injection_points")]
pub mod traced;
pub mod waiters;
