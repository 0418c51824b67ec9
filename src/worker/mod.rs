//! The background workers: a launcher, one metrics worker, a database worker for each database with the extension, and
//! job workers that run user code for them.

mod ages;
pub mod database;
mod definitions;
pub mod graphite;
pub mod job;
pub mod job_worker;
mod known;
pub mod launcher;
pub mod leases;
pub mod maintenance;
pub mod means;
mod metrics;
mod prepared;
mod recounts;
mod resting;
mod unending;
mod work;

use crate::server::worker;

/// Registers the launcher and the metrics worker, which the server keeps running.
pub fn init() {
    worker::start_with_server("xqueue launcher", "xqueue_launcher_main");
    worker::start_with_server("xqueue metrics", "xqueue_metrics_main");
}
