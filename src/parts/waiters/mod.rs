//! Consumers and producers that wait.

pub mod change;
pub mod line;
#[allow(unsafe_code, reason = "shared memory")]
mod shared;
pub mod token;
mod traced;
pub mod wait;
mod wake;

pub use change::Change;
pub use line::Want;
pub use shared::*;
pub use traced::note_look;
pub use wake::{Cause, Offer};
