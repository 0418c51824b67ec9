//! Metrics for monitoring systems. Pure: no PostgreSQL, no sockets.

mod family;
mod graphite;
mod open_metrics;
#[cfg(test)]
mod tests;

pub use family::{Counters, Measured, MeasuredWorker, families};
pub(crate) use graphite::fnv1a;
pub use graphite::{first_datagram, graphite_lines};
pub use open_metrics::open_metrics;
