//! Consumers and producers that wait.

#[allow(unsafe_code, reason = "shared memory")]
mod shared;
pub mod token;
mod traced;
pub mod wait;

pub use shared::*;
pub use traced::{Cause, note_look};
