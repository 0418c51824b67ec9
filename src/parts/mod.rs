//! State of queues beyond rows, by part. Each part has a `change` (what a transaction has done; pure) and a `shared`
//! (its piece of shared memory, with the lock that guards it).

mod assignments;
pub mod capacity;
#[allow(unsafe_code, reason = "shared memory")]
pub mod clock;
mod commit;
pub mod counters;
pub mod delta;
pub mod layout;
pub mod leases;
pub mod locks;
pub mod marks;
mod prepared;
pub mod schedule;
pub mod shortcuts;
#[allow(unsafe_code, reason = "shared memory")]
pub mod slot;
pub mod slot_id;
pub mod subqueues;
pub mod table;
pub mod waiters;
