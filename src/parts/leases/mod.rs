//! Which session holds which tasks.

pub mod change;
pub mod departed;
pub mod epoch;
pub mod given;
pub mod held;
pub mod session;
#[allow(unsafe_code, reason = "shared memory")]
pub mod sessions;
pub mod store;
