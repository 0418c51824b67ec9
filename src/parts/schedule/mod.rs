//! Schedule: when a queue needs work, and which process does it.

pub mod launch;
pub mod own;
mod process;
mod queue;
pub mod requests;
pub mod status;
#[allow(unsafe_code, reason = "shared memory")]
pub mod workers;

pub use queue::{NEVER, Schedule, WorkKind};
