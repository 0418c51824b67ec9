//! When and by which process the worker acts.

pub mod change;
#[allow(unsafe_code, reason = "shared memory")]
pub mod databases;
#[allow(unsafe_code, reason = "shared memory")]
pub mod jobs;
#[allow(unsafe_code, reason = "shared memory")]
pub mod orders;

pub use change::Change;
