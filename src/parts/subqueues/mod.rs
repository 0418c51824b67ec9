//! Sub-queues: at most one task of each is in flight at a time.

#[allow(unsafe_code, reason = "shared memory")]
mod shared;

pub use shared::*;
