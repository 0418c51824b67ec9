//! The launcher: keeps a worker running in each database that has the extension.

use crate::background_worker;
use crate::error::Error;
use crate::parts::schedule::databases;
use crate::server::{catalog, latch, worker, xact};
use pgrx::PgSqlErrorCode;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A worker that keeps failing is not started more often than this.
const START_INTERVAL: Duration = Duration::from_secs(1);
/// When the server has no place for another worker.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// While there is none, the log says so this often.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

background_worker!(xqueue_launcher_main => main);

fn main(_argument: u32) {
    worker::handle_signals();
    worker::connect(None);
    databases::register_launcher();
    want_workers();
    let mut started: HashMap<u32, Instant> = HashMap::new();
    let mut complained: HashMap<u32, Instant> = HashMap::new();
    loop {
        let mut pause = None;
        for database in databases::missing_workers() {
            if started.get(&database).is_some_and(|at| at.elapsed() < START_INTERVAL) {
                databases::not_started(database);
                pause = Some(START_INTERVAL);
            } else if worker::start("xqueue worker", "xqueue_database_main", database) {
                started.insert(database, Instant::now());
                complained.remove(&database);
            } else {
                databases::has_no_place(database);
                pause = Some(RETRY_INTERVAL);
                if complained.get(&database).is_none_or(|at| at.elapsed() >= COMPLAINT_INTERVAL) {
                    complained.insert(database, Instant::now());
                    complain(database);
                }
            }
        }
        if databases::are_starting() {
            pause = Some(pause.unwrap_or(RETRY_INTERVAL));
        }
        latch::wait(latch::Reason::Work, pause, false);
        worker::reload_settings();
    }
}

/// Says in the log that a database has no worker.
fn complain(database: u32) {
    let name = xact::try_in_transaction(|| catalog::database_name(database.into()));
    Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_RESOURCES,
        format!("xqueue: no background worker for database \"{}\"", name.unwrap_or_default()),
    )
    .detail("Its delayed, overdue and abandoned tasks stay as they are.")
    .hint("Raise max_worker_processes in postgresql.conf and restart the server.")
    .warn();
}

/// Any database may have the extension: its worker finds out, and leaves if it has not.
fn want_workers() {
    let databases = xact::try_in_transaction(catalog::connectable_databases);
    match databases {
        Ok(found) => found.into_iter().for_each(|database| databases::want_worker(database, false)),
        Err(failure) => failure.warn("read the databases"),
    }
}
