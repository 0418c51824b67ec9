//! What a transaction changes of a queue beyond its rows, and what processes share of it, by part. Each part has
//! a `change` (what a transaction has done; pure) and a `shared` (its piece of shared memory).

pub mod capacity;
mod commit;
pub mod counters;
pub mod delta;
pub mod layout;
pub mod leases;
pub mod locks;
pub mod marks;
mod prepared;
pub mod schedule;
#[allow(unsafe_code, reason = "shared memory")]
pub mod slot;
pub mod slot_id;
pub mod subqueues;
pub mod table;
pub mod waiters;
