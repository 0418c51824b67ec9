//! Low-water marks.

mod by_tube;
pub mod candidate;
pub mod change;
pub mod claim;
pub mod groups;
pub mod mark;
pub mod priorities;
pub mod ring;
pub mod rings;
mod shared;
mod table;
#[cfg(test)]
mod tests;

pub use change::Change;
