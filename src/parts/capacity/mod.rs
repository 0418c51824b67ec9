//! Room under a queue's capacity.

pub mod change;
mod shared;

pub use change::{Change, Growth};
pub use shared::*;
