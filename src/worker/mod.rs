//! The background workers: a launcher, one for each database with the extension, job workers that run user code for
//! it, and one for the metrics of all databases.

mod ages;
mod authors;
mod crew;
pub mod database;
mod definitions;
pub mod graphite;
mod healing;
pub mod job;
pub mod job_worker;
pub mod launcher;
pub mod leases;
pub mod maintenance;
pub mod means;
mod metrics;
mod orphans;
mod pool;
mod prepared;
mod recounter;
mod recounts;
mod resting;
mod retry;
mod shares;
mod slowness;
mod turns;
mod unending;
mod work;

use crate::server::worker;

/// Registers the permanent ones with the server.
pub fn init() {
    worker::start_with_server("xqueue launcher", "xqueue_launcher_main");
    worker::start_with_server("xqueue metrics", "xqueue_metrics_main");
}
