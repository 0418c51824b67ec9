//! Leases: which session holds which tasks.

#[allow(unsafe_code, reason = "shared memory")]
pub mod departed;
#[allow(unsafe_code, reason = "shared memory")]
pub mod epoch;
pub mod held;
mod keepalive;
pub mod session;
#[allow(unsafe_code, reason = "shared memory")]
pub mod sessions;
pub mod shared;
pub mod store;
