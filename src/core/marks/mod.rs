//! Low-water marks of a queue, and the candidate rings on top of them. Everything works on arrays in shared memory.

pub mod candidate;
pub mod groups;
pub mod mark;
pub mod priorities;
pub mod ring;
pub mod rings;
mod table;
#[cfg(test)]
mod tests;
