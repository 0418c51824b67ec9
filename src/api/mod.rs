//! The functions that SQL calls, by who calls them.

pub mod argument;
pub mod check;
pub mod consumer;
pub mod creator;
pub mod monitor;
pub mod producer;
