//! Which session holds which tasks.

pub mod change;
#[allow(unsafe_code, reason = "shared memory")]
pub mod departed;
#[allow(unsafe_code, reason = "shared memory")]
pub mod epoch;
pub mod given;
pub mod held;
pub mod session;
#[allow(unsafe_code, reason = "shared memory")]
pub mod sessions;
pub mod store;

pub use change::Change;
