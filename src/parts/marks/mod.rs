//! Low-water marks.

mod by_tube;
pub mod change;
pub mod groups;
pub mod mark;
pub mod priorities;
mod shared;
mod table;
#[cfg(test)]
mod tests;
pub mod traced;

pub use change::Change;
