//! Sub-queues, of each of which only one task is in flight at a time.

#[allow(unsafe_code, reason = "shared memory")]
mod shared;

pub use shared::*;
