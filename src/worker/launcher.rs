//! The launcher: keeps a worker running in each database that has the extension. Where the server has fewer places for
//! workers, databases take turns, and a worker runs where there is something to do.

use crate::background_worker;
use crate::error::Error;
use crate::parts::schedule::databases;
use crate::parts::schedule::rota::{Claim, Purpose};
use crate::server::{catalog, latch, time, worker, xact};
use pgrx::PgSqlErrorCode;
use std::time::{Duration, Instant};

/// Before the next try while the server has no place for another worker: doubled each time, up to a limit. The end of a
/// worker is reported; that of other background processes is not.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Interval of tries to start workers that are not needed yet, while some have given their places up.
const FILL_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum time between looks at the clock while workers are starting or databases wait, as the clock may be set.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

background_worker!(xqueue_launcher_main => main);

fn main(_argument: u32) {
    worker::handle_signals();
    worker::connect(None);
    databases::register_launcher();
    want_workers();
    let mut retry_pause = Duration::ZERO;
    let mut filled = Instant::now();
    loop {
        let waiting = meet_claims();
        databases::has_no_place(&waiting);
        databases::starving().into_iter().for_each(complain);
        if !waiting.is_empty() {
            retry_pause = (retry_pause * 2).clamp(RETRY_PAUSES.0, RETRY_PAUSES.1);
            // Not before there has been a place for all that is needed.
            filled = Instant::now();
        } else {
            retry_pause = Duration::ZERO;
            if filled.elapsed() >= FILL_INTERVAL {
                fill();
                filled = Instant::now();
            }
        }
        let retry = (!waiting.is_empty()).then_some(retry_pause);
        latch::wait(latch::Reason::Work, retry.into_iter().chain(pause()).min(), false);
        worker::reload_settings();
    }
}

/// Starts the workers that are needed, in the order of the claims; returns the claims that wait, as there is no place.
fn meet_claims() -> Vec<Claim> {
    let mut claims = databases::claims();
    let waits = |claim: &Claim| match claim.purpose {
        Purpose::Worker => !start(claim.database),
        Purpose::Job => databases::keep_place(claim.database),
    };
    let met = claims.iter().position(waits).unwrap_or(claims.len());
    claims.split_off(met)
}

/// Starts a worker, unless none is to be started any more. False if the server has no place for it.
fn start(database: u32) -> bool {
    if !databases::begin_start(database) {
        return true;
    }
    let notify = databases::launcher_pid();
    let has_started = worker::start("xqueue worker", "xqueue_database_main", database, notify);
    match has_started {
        true => databases::has_place(),
        false => databases::not_started(database),
    }
    has_started
}

/// Starts workers that have given their places up, while there are free places.
fn fill() {
    while databases::resting().is_some_and(start) {}
}

/// How long nothing has to be done; None: until something happens.
fn pause() -> Option<Duration> {
    let left = |at: i64| Duration::from_micros(at.saturating_sub(time::now()).max(0) as u64);
    let next = databases::next_claim().map(left);
    let kept = databases::kept_until().map(left);
    let rests = databases::resting().map(|_| FILL_INTERVAL);
    let is_starting = databases::are_starting().then_some(CLOCK_INTERVAL);
    let next = next.map(|next| next.min(CLOCK_INTERVAL));
    [next, kept, rests, is_starting].into_iter().flatten().min()
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
