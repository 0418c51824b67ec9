//! The background workers: a launcher, one for each database that has the extension, those that run code
//! of users for it, and one for the metrics of all of them.

mod crew;
pub mod database;
pub mod graphite;
pub mod job;
pub mod job_worker;
pub mod launcher;
pub mod leases;
pub mod maintenance;
pub mod metrics;
mod orphans;
mod pool;
mod prepared;
mod recounter;
mod recounts;
mod retry;
mod shares;
mod slowness;
mod turns;
mod work;

use crate::server::worker;

/// Has the server start those that are always there.
pub fn init() {
    worker::start_with_server("xqueue launcher", "xqueue_launcher_main");
    worker::start_with_server("xqueue metrics", "xqueue_metrics_main");
}
