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
/// Databases that have waited for this long for one to be forgotten are reported.
const LEFT_OUT_AFTER: Duration = Duration::from_secs(10);

background_worker!(xqueue_launcher_main => main);

fn main(_argument: u32) {
    worker::handle_signals();
    worker::connect(None);
    databases::register_launcher();
    let mut unlisted = Unlisted::new();
    let mut retry_pause = Duration::ZERO;
    let mut filled = Instant::now();
    loop {
        unlisted.admit();
        let waiting = meet_claims();
        databases::has_no_place(&waiting);
        databases::starving().into_iter().for_each(complain);
        databases::unreachable().into_iter().for_each(complain_of_failure);
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
        latch::wait(
            latch::Reason::Work,
            retry.into_iter().chain(pause()).chain(unlisted.pause()).min(),
            false,
        );
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
    if !is_connectable(database) {
        databases::put_off(database);
        return true;
    }
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

/// Says in the log that no worker can connect to a database; why is said there as well, by each that has tried.
fn complain_of_failure(database: u32) {
    let name = xact::try_in_transaction(|| catalog::database_name(database.into()));
    Error::new(
        PgSqlErrorCode::ERRCODE_CONNECTION_FAILURE,
        format!("xqueue: no worker can connect to database \"{}\"", name.unwrap_or_default()),
    )
    .detail("Its delayed, overdue and abandoned tasks stay as they are.")
    .hint("The message before this one says why. A worker tries again, less and less often, at least once a minute.")
    .warn();
}

/// Returns whether a database accepts connections. If that cannot be found out, its worker finds out.
fn is_connectable(database: u32) -> bool {
    let connectable = xact::try_in_transaction(catalog::connectable_databases);
    connectable.map_or(true, |connectable| connectable.contains(&database))
}

/// Databases that may have the extension and are in no list yet: a worker finds out, and leaves if one has not. At first
/// these are all; later those that were refused because there were too many.
struct Unlisted {
    databases: Vec<u32>,
    /// When the last one was admitted.
    admitted: Instant,
    /// It was reported in the log that some are left out.
    is_reported: bool,
}

impl Unlisted {
    fn new() -> Unlisted {
        Unlisted { databases: all_databases(), admitted: Instant::now(), is_reported: false }
    }

    /// Admits as many as there is room for.
    fn admit(&mut self) {
        if self.databases.is_empty() && databases::has_room_for_refused() {
            self.databases = all_databases();
        }
        while self.databases.last().is_some_and(|database| databases::want_worker(*database, false))
        {
            self.databases.pop();
            self.admitted = Instant::now();
        }
        if self.databases.is_empty() {
            self.is_reported = false;
        } else if self.admitted.elapsed() >= LEFT_OUT_AFTER
            && !std::mem::replace(&mut self.is_reported, true)
        {
            Error::new(
                PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("xqueue: {} databases are without a worker", self.databases.len()),
            )
            .detail(format!("No more than {} databases have one.", databases::LIMIT))
            .hint("Drop the extension where it is not used: others get a worker then.")
            .warn();
        }
    }

    /// How long until it is to be reported that some are left out.
    fn pause(&self) -> Option<Duration> {
        let is_waiting = !self.databases.is_empty() && !self.is_reported;
        is_waiting.then(|| LEFT_OUT_AFTER.saturating_sub(self.admitted.elapsed()))
    }
}

fn all_databases() -> Vec<u32> {
    let databases = xact::try_in_transaction(catalog::connectable_databases);
    databases.unwrap_or_else(|failure| {
        failure.warn("read the databases");
        vec![]
    })
}
