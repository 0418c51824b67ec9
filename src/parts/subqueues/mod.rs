//! Sub-queues, of each of which only one task is in flight at a time.

pub mod change;
pub mod pool;
#[allow(unsafe_code, reason = "shared memory")]
mod shared;

pub use shared::*;
