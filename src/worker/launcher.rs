//! The launcher: starts the workers of databases and their job workers in the order in which they are needed, and ends job workers
//! that take too long.

use crate::background_worker;
use crate::error::Error;
use crate::parts::schedule::Kind;
use crate::parts::schedule::databases;
use crate::parts::schedule::jobs::{self, Assignment};
use crate::parts::schedule::requests::{self, Of, Request, Turn};
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::server::{catalog, latch, process, time, worker, xact};
use crate::settings;
use pgrx::PgSqlErrorCode;
use std::time::{Duration, Instant};

/// Before the next try while the server has no free worker slot: doubled each time, up to a limit. The end of a
/// worker is reported; that of other background processes is not.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Interval of tries to start workers that are not needed yet, while some have left their worker slots to others.
const FILL_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum time between looks at the clock while workers are starting or databases wait, because the clock may be set.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Databases that have waited for this long for one to be forgotten are reported.
const LEFT_OUT_AFTER: Duration = Duration::from_secs(10);
/// Queues whose job worker has waited for a worker slot for this long (µs) say so.
const SHOWN_AFTER: i64 = 1_000_000;

const NO_SLOT: &str = "there is no background worker for its tasks: raise max_worker_processes";
const NO_SLOT_TO_COUNT: &str =
    "there is no background worker to count its tasks: raise max_worker_processes";
const STAY: &str = "Its delayed, overdue and abandoned tasks stay as they are.";
const RAISE: &str = "Raise max_worker_processes in postgresql.conf and restart the server.";

background_worker!(xqueue_launcher_main => main);

fn main(_argument: u32) {
    worker::handle_signals();
    worker::connect(None);
    requests::register_launcher();
    let mut unlisted = Unlisted::new();
    let mut retry_pause = Duration::ZERO;
    let mut filled = Instant::now();
    loop {
        worker::reload_settings();
        unlisted.admit();
        let (late, deaf) = requests::stop_late();
        deaf.into_iter().for_each(|database| databases::request(database, |_| {}));
        let unmet = meet_all();
        requests::note_unmet(&unmet);
        requests::waiting_jobs(&unmet, SHOWN_AFTER).into_iter().for_each(show);
        requests::starving(&unmet).into_iter().for_each(|(of, job)| complain(of, job));
        requests::unreachable().into_iter().for_each(complain_of_failure);
        if !unmet.is_empty() {
            retry_pause = (retry_pause * 2).clamp(RETRY_PAUSES.0, RETRY_PAUSES.1);
            // Not before there has been a worker slot for all that is needed.
            filled = Instant::now();
        } else {
            retry_pause = Duration::ZERO;
            if filled.elapsed() >= FILL_INTERVAL {
                fill();
                filled = Instant::now();
            }
        }
        let retry = (!unmet.is_empty()).then_some(retry_pause);
        let late = late.map(|left| Duration::from_micros(left as u64));
        let pauses = [retry, late, pause(), unlisted.pause()];
        latch::wait(latch::Reason::Work, pauses.into_iter().flatten().min(), false);
    }
}

/// Starts the workers that are needed, in the order of the requests; returns the requests that wait for a worker slot.
fn meet_all() -> Vec<Request> {
    let mut unmet = vec![];
    let mut is_full = false;
    for request in requests::all() {
        if is_full {
            unmet.push(request);
            continue;
        }
        match meet(request.of, false) {
            Turn::Now | Turn::Later => {}
            Turn::NoSlot => {
                is_full = matches!(request.of, Of::Database(_));
                unmet.push(request);
            }
        }
    }
    unmet
}

/// Starts a worker, if it is its turn; `is_early`: before it is needed. `NoSlot` if the server has no worker slot for it.
fn meet(of: Of, is_early: bool) -> Turn {
    if let Of::Database(database) = of
        && !is_connectable(database)
    {
        requests::put_off(database);
        return Turn::Later;
    }
    match requests::begin_start(of, settings::max_job_workers(), is_early) {
        Turn::Now => {}
        Turn::Later => {
            if let Of::Job(id) = of {
                requests::make_room(id);
            }
            return Turn::Later;
        }
        Turn::NoSlot => return Turn::NoSlot,
    }
    let (name, function, argument) = match of {
        Of::Database(database) => ("xqueue worker", "xqueue_database_main", database),
        Of::Job(id) if requests::counts(id) => ("xqueue recount", "xqueue_job_main", id.0),
        Of::Job(id) => ("xqueue job worker", "xqueue_job_main", id.0),
    };
    let has_started = worker::start(name, function, argument, process::pid());
    requests::end_start(of, has_started);
    if has_started { Turn::Now } else { Turn::NoSlot }
}

/// Starts workers that have left their worker slots to others, while there are free ones.
fn fill() {
    while let Some(database) = requests::resting() {
        if meet(Of::Database(database), true) != Turn::Now {
            return;
        }
    }
}

/// How long nothing has to be done; None: until something happens.
fn pause() -> Option<Duration> {
    let left = |at: i64| Duration::from_micros(at.saturating_sub(time::now()).max(0) as u64);
    let next = requests::next().map(|at| left(at).min(CLOCK_INTERVAL));
    let rests = requests::resting().map(|_| FILL_INTERVAL);
    let is_starting = requests::are_starting().then_some(CLOCK_INTERVAL);
    [next, rests, is_starting].into_iter().flatten().min()
}

/// Shows in the queues of a job worker that there is no worker slot for it.
fn show(job: Assignment) {
    let now = time::now();
    for slot in slots_of(job) {
        let Some(mut slot) = slot::lock(slot).filter(|slot| !slot.has_error()) else { continue };
        match job.counts {
            Some(_) => slot.fail(Kind::Recount, NO_SLOT_TO_COUNT),
            None if slot.needed_at(now, true) <= now => slot.fail(Kind::Timed, NO_SLOT),
            None => {}
        }
    }
}

fn slots_of(job: Assignment) -> Vec<SlotId> {
    match job.counts {
        Some(table) => slot::find(job.database, table).into_iter().collect(),
        None => {
            jobs::queues_of(job.database, job.owner).into_iter().map(|(slot, _)| slot).collect()
        }
    }
}

/// Says in the log that there is no worker slot for a worker.
fn complain(of: Of, job: Option<Assignment>) {
    let database = match (of, job) {
        (Of::Database(database), _) => database,
        (_, Some(job)) => job.database,
        _ => return,
    };
    let name = xact::try_in_transaction(|| catalog::database_name(database.into()));
    let name = name.unwrap_or_default();
    let message = match job {
        None => format!("xqueue: no background worker for database \"{name}\""),
        Some(job) => {
            let slots = slots_of(job);
            let names = slots.first().and_then(|slot| slot::lock(*slot)).map(|slot| slot.names());
            let Some(names) = names else { return };
            let [_, schema, table] = names.map(|name| name.read());
            format!(
                "xqueue: no background worker for queues of database \"{name}\" that are slow or run code of their \
                 owners, as \"{schema}.{table}\" ({} in all)",
                slots.len()
            )
        }
    };
    Error::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_RESOURCES, message)
        .detail(STAY)
        .hint(RAISE)
        .warn();
}

/// Says in the log that no worker can connect to a database; why is said there as well, by each that has tried.
fn complain_of_failure(database: u32) {
    let name = xact::try_in_transaction(|| catalog::database_name(database.into()));
    Error::new(
        PgSqlErrorCode::ERRCODE_CONNECTION_FAILURE,
        format!("xqueue: no worker can connect to database \"{}\"", name.unwrap_or_default()),
    )
    .detail(STAY)
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
                format!("xqueue: databases without a worker: {}", self.databases.len()),
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
