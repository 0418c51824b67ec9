//! Low-water marks.

pub mod claim;
mod shared;
