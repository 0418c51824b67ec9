//! Sub-queues.

pub mod change;
pub mod pool;
#[allow(unsafe_code, reason = "shared memory")]
mod shared;

pub use shared::*;
