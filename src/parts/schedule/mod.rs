//! Schedule: when there is something to do for a queue, and which process does it.

pub mod change;
#[allow(unsafe_code, reason = "shared memory")]
pub mod databases;
pub mod jobs;
mod process;
mod queue;
pub mod requests;
pub mod status;

pub use change::Change;
pub use queue::{Kind, NEVER, Shared};
