//! How many tasks a queue has in each state, and what has been done to them.

pub mod change;
mod exact;
#[allow(unsafe_code, reason = "shared memory")]
pub mod recount;
pub mod statistics;

pub use change::Change;
