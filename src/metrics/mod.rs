//! Formats counters for monitoring systems. Pure: no PostgreSQL, no sockets.

mod graphite;
mod open_metrics;
#[cfg(test)]
mod tests;

pub use graphite::{Sample, graphite_lines};
pub use open_metrics::{Counters, open_metrics};
