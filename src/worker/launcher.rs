//! The launcher: starts database workers and job workers in the order in which they are needed, and terminates job
//! workers that take too long.

use crate::background_worker;
use crate::error::Error;
use crate::parts::schedule::launch::{self, Request, Turn};
use crate::parts::schedule::workers::{DATABASES, WorkerAssignment};
use crate::parts::schedule::{WorkKind, requests};
use crate::parts::slot;
use crate::server::{catalog, latch, process, relation, time, worker, xact};
use crate::settings;
use pgrx::PgSqlErrorCode;
use std::time::{Duration, Instant};
use xqueue_core::pause::{Limits, Pause};
use xqueue_core::slot_id::SlotId;

/// Retry pauses while the server has no free worker slot. The end of xqueue's workers is reported to the launcher, but
/// not that of other background processes.
const RETRY_PAUSES: Limits = (Duration::from_millis(5), Duration::from_secs(1));
/// Pauses between checks of a database that accepts no connections.
const CLOSED_PAUSES: Limits = (Duration::from_secs(1), Duration::from_secs(1));
/// Pauses between checks of a database that another session has locked, for example to rename it.
const LOCKED_PAUSES: Limits = (Duration::from_millis(20), Duration::from_secs(1));
/// Maximum sleep while workers are starting or databases wait, because the system clock can be set.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Databases beyond the limit are reported after waiting this long for another database to be forgotten.
const LEFT_OUT_AFTER: Duration = Duration::from_secs(10);

const NO_SLOT: &str = "there is no background worker for its tasks: raise max_worker_processes";
const NO_SLOT_TO_COUNT: &str =
    "there is no background worker to count its tasks: raise max_worker_processes";
const STAY: &str = "Its delayed, overdue and abandoned tasks stay as they are.";

background_worker!(xqueue_launcher_main => main);

fn main(_argument: u32) {
    worker::handle_signals();
    worker::connect(None);
    launch::register_launcher();
    let mut unlisted = Unlisted::new();
    let mut retry = Pause::NONE;
    loop {
        worker::reload_settings();
        unlisted.admit();
        let (late, deaf) = launch::stop_late();
        deaf.into_iter().for_each(|database| requests::request(database, |_| {}));
        let unmet = meet_all();
        launch::note_unmet(&unmet);
        for (of, is_new) in launch::starving(&unmet) {
            complain(of, is_new);
        }
        launch::unreachable().into_iter().for_each(complain_of_failure);
        match unmet.is_empty() {
            true => retry = Pause::NONE,
            false => retry.begin(time::now(), RETRY_PAUSES),
        }
        let retry_left = (!unmet.is_empty()).then(|| retry.left(time::now()));
        let next = launch::next().map(|at| time::until(at).min(CLOCK_INTERVAL));
        let pauses = [retry_left, late.map(time::until), next, unlisted.pause()];
        latch::wait(latch::Reason::Work, pauses.into_iter().flatten().min(), false);
    }
}

/// Starts the requested workers in order. Returns the requests that wait for a worker slot.
fn meet_all() -> Vec<Request> {
    let mut unmet = vec![];
    let mut is_full = false;
    for request in launch::requests() {
        if is_full || meet(request) == Turn::NoSlot {
            is_full |= request.of.is_database();
            unmet.push(request);
        }
    }
    unmet
}

/// Starts a worker if it is the turn of its request.
fn meet(request: Request) -> Turn {
    let Request { id, of, .. } = request;
    if of.is_database()
        && let Some(pauses) = pauses(of.database)
    {
        launch::put_off(id, pauses);
        return Turn::Later;
    }
    match launch::begin_start(request, settings::max_job_workers()) {
        Turn::Now => {}
        turn => {
            if turn == Turn::Later {
                launch::make_room(of);
            }
            return turn;
        }
    }
    let (name, function) = match of {
        _ if of.is_database() => ("xqueue worker", "xqueue_database_main"),
        _ if of.is_count() => ("xqueue recount", "xqueue_job_main"),
        _ => ("xqueue job worker", "xqueue_job_main"),
    };
    let has_started = worker::start(name, function, id.0, process::pid());
    launch::end_start(id, has_started);
    if has_started { Turn::Now } else { Turn::NoSlot }
}

/// Shows in the queues of a job worker that there is no worker slot for it. Writes this to the log if it is new.
fn complain(of: WorkerAssignment, is_new: bool) {
    let slots = match of {
        _ if of.is_database() => vec![],
        _ if of.is_count() => slot::find(of.database, of.counts).into_iter().collect(),
        _ => slot::of_job_worker(of.database, of.owner).into_iter().map(|(id, _)| id).collect(),
    };
    slots.iter().for_each(|slot| show(*slot, of));
    if !is_new {
        return;
    }
    let database = name_of(of.database);
    let message = match slots
        .first()
        .and_then(|slot| slot::lock(*slot))
        .map(|slot| slot.shown.names())
    {
        None if !of.is_database() => return,
        None => format!("xqueue: no background worker for database \"{database}\""),
        Some(names) => {
            let [_, schema, table] = names.map(|name| name.read());
            format!(
                "xqueue: no background worker for queues of database \"{database}\" that are slow or run code of their \
                 owners, for example \"{schema}.{table}\" ({} in all)",
                slots.len()
            )
        }
    };
    Error::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_RESOURCES, message)
        .detail(STAY)
        .hint("Raise max_worker_processes in postgresql.conf and restart the server.")
        .warn();
}

/// Shows in a queue that there is no worker slot for its job worker.
fn show(slot: SlotId, of: WorkerAssignment) {
    let now = time::now();
    let Some(mut slot) = slot::lock(slot).filter(|slot| !slot.shown.has_error()) else { return };
    if of.is_count() {
        slot.fail(WorkKind::Recount, NO_SLOT_TO_COUNT);
    } else if slot.schedule.needed_at(now, true) <= now {
        slot.fail(WorkKind::Timed, NO_SLOT);
    }
}

/// Logs that no worker can connect to a database. Each worker that tried has logged the reason.
fn complain_of_failure(database: u32) {
    let name = name_of(database);
    Error::new(
        PgSqlErrorCode::ERRCODE_CONNECTION_FAILURE,
        format!("xqueue: no worker can connect to database \"{name}\""),
    )
    .detail(STAY)
    .hint("The message before this one says why. A worker tries again, less and less often, at least once a minute.")
    .warn();
}

fn name_of(database: u32) -> String {
    xact::try_in_transaction(|| catalog::database_name(database.into())).unwrap_or_default()
}

/// Returns the pauses for a database to which no worker can connect at present, so that none takes a worker slot. If
/// this cannot be found out, the worker itself tries to connect.
fn pauses(database: u32) -> Option<Limits> {
    let pauses = xact::try_in_transaction(|| {
        let is_open = catalog::connectable_databases().contains(&database);
        let is_free = is_open && relation::try_lock_database(database);
        (!is_free).then_some(if is_open { LOCKED_PAUSES } else { CLOSED_PAUSES })
    });
    pauses.unwrap_or_default()
}

/// Databases that can have the extension and have no entry yet. Their workers check this, and leave if it is missing.
/// At the start these are all databases, later the databases refused because there were too many.
struct Unlisted {
    databases: Vec<u32>,
    /// When the last database was admitted; None once the remaining databases have been reported.
    admitted: Option<Instant>,
}

impl Unlisted {
    fn new() -> Unlisted {
        Unlisted { databases: all_databases(), admitted: Some(Instant::now()) }
    }

    /// Admits databases while there is room, and reports the remaining ones after a while.
    fn admit(&mut self) {
        if self.databases.is_empty() && requests::has_room_for_refused() {
            self.databases = all_databases();
        }
        let is_admitted = |database: &u32| requests::want_database_worker(*database, false);
        while self.databases.pop_if(|database| is_admitted(database)).is_some() {
            self.admitted = Some(Instant::now());
        }
        if self.pause().is_some_and(|left| left.is_zero()) {
            self.admitted = None;
            let message = format!("xqueue: databases without a worker: {}", self.databases.len());
            Error::new(PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, message)
                .detail(format!("No more than {DATABASES} databases have one."))
                .hint("Drop the extension in databases without queues: others then get a worker.")
                .warn();
        }
    }

    /// Returns the time until the remaining databases are reported.
    fn pause(&self) -> Option<Duration> {
        let admitted = self.admitted.filter(|_| !self.databases.is_empty())?;
        Some(LEFT_OUT_AFTER.saturating_sub(admitted.elapsed()))
    }
}

fn all_databases() -> Vec<u32> {
    let databases = xact::try_in_transaction(catalog::connectable_databases);
    databases.unwrap_or_else(|failure| {
        failure.warn("read the databases");
        vec![]
    })
}
