//! Sub-queues.

pub mod change;
pub mod pool;
#[allow(unsafe_code, reason = "shared memory")]
mod shared;
mod traced;

pub use shared::*;
