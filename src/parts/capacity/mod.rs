//! Room under a queue's capacity.

mod shared;

pub use shared::*;
