//! The databases with the extension and their workers, in shared memory. One lock, the directory's, guards them, the job
//! workers and the launcher's list.

use crate::parts::locks::{Directory, DirectoryLock, directory};
use crate::parts::schedule::NEVER;
use crate::parts::schedule::jobs::{self, Job};
use crate::parts::schedule::process::{NO_PROCESS, Process, TURN};
use crate::server::shared_memory::{Guarded, Zeroed};
use crate::server::{latch, time};

pub const LIMIT: usize = 256;
/// A database whose worker has failed gets another one no sooner than this after it began (µs).
const START_INTERVAL: i64 = 1_000_000;

/// A database, as the launcher and its worker see it.
#[repr(C)]
pub(super) struct Database {
    pub(super) oid: u32,
    pub(super) worker: Process,
    /// The worker has connected to the database.
    has_connected: bool,
    /// The worker has read the list of queues and made one round.
    pub(super) works: bool,
    /// The launcher has to start a worker.
    pub(super) wanted: bool,
    /// It was reported that no worker can connect.
    pub(super) is_failure_reported: bool,
    /// The last worker left with nothing in hand; the next one need not look for what was lost.
    pub(super) has_rested: bool,
    /// When the worker ended its last round; 0 before.
    pub(super) round_at: i64,
    /// When it has to begin a round unasked; while it makes one, when that began.
    pub(super) due_at: i64,
    /// Number of commands that need the database exclusively: no worker meanwhile.
    pub(super) occupied: u32,
    requests: Requests,
}

/// Requests to the worker of a database.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// The list of queues has changed.
    pub registry: bool,
    /// A full comparison of taken tasks with live sessions is pending.
    pub sweep: bool,
    /// A prepared transaction has been committed or rolled back.
    pub prepared: bool,
    /// Identified sessions have got connections, or lost them unnoticed.
    pub sessions: bool,
    /// The metrics are about to be sent, and need what only the tables say.
    pub metrics: bool,
}

impl Requests {
    const ALL: Requests =
        Requests { registry: true, sweep: true, prepared: true, sessions: true, metrics: false };

    fn or(self, others: Requests) -> Requests {
        Requests {
            registry: self.registry | others.registry,
            sweep: self.sweep | others.sweep,
            prepared: self.prepared | others.prepared,
            sessions: self.sessions | others.sessions,
            metrics: self.metrics | others.metrics,
        }
    }
}

/// All workers but that of the metrics.
#[repr(C)]
pub struct Workers {
    pub(super) launcher: u32,
    /// When the launcher next looks for job workers that have taken too long.
    pub(super) looks_at: i64,
    /// Number of requests for which workers are to leave.
    pub(super) waiting: u32,
    /// Number of workers that have left and may not have ended yet, and when the last one did.
    pub(super) leaving: u32,
    pub(super) left_at: i64,
    /// A database was refused, because there are more than `LIMIT`.
    has_refused: bool,
    pub(super) databases: [Database; LIMIT],
    pub(super) jobs: [Job; jobs::LIMIT],
}

// SAFETY: numbers and bools.
unsafe impl Zeroed for Workers {}

pub(in crate::parts) static WORKERS: Guarded<Workers, DirectoryLock> = Guarded::new();

pub(super) fn workers(directory: &mut Directory) -> &mut Workers {
    &mut WORKERS.get_mut(directory)[0]
}

/// There is no launcher at first.
pub(in crate::parts) fn fill() {
    workers(&mut directory()).launcher = NO_PROCESS;
}

impl Workers {
    pub(super) fn find(&mut self, oid: u32) -> Option<&mut Database> {
        self.databases.iter_mut().find(|database| database.oid == oid)
    }

    fn find_or_add(&mut self, oid: u32) -> Option<&mut Database> {
        let known = self.databases.iter().position(|database| database.oid == oid);
        let index = known.or_else(|| self.databases.iter().position(|known| known.oid == 0))?;
        let database = &mut self.databases[index];
        if database.oid == 0 {
            *database = Database::of(oid);
        }
        Some(database)
    }

    pub(super) fn wake_launcher(&self) {
        if self.launcher != NO_PROCESS {
            latch::wake(self.launcher);
        }
    }

    /// Wakes the worker of a database, or has one started at `instant` at the latest.
    pub(super) fn need(&mut self, oid: u32, instant: i64) {
        let now = time::now();
        let Some(database) = self.find(oid) else { return };
        if database.worker.is_there() {
            database.worker.wake(now);
        } else if database.worker.need(instant.max(now)) {
            self.wake_launcher();
        }
    }

    /// A worker has left, for one that waits.
    pub(super) fn note_leave(&mut self, now: i64) {
        (self.waiting, self.leaving) = (self.waiting.saturating_sub(1), self.leaving + 1);
        self.left_at = now;
        self.wake_launcher();
    }
}

impl Database {
    const fn of(oid: u32) -> Database {
        Database {
            oid,
            worker: Process::NONE,
            has_connected: false,
            works: false,
            wanted: false,
            is_failure_reported: false,
            has_rested: false,
            round_at: 0,
            due_at: NEVER,
            occupied: 0,
            requests: Requests {
                registry: false,
                sweep: false,
                prepared: false,
                sessions: false,
                metrics: false,
            },
        }
    }

    /// Returns since when it has needed a worker; `NEVER` if it has one, or needs none.
    pub(super) fn requested_at(&self, now: i64) -> i64 {
        if self.may_begin(now) { self.worker.requested_at(now) } else { NEVER }
    }

    /// Returns whether it may have a worker and has none.
    pub(super) fn may_begin(&self, now: i64) -> bool {
        self.oid != 0 && self.wanted && self.occupied == 0 && !self.worker.is_attended(now)
    }

    /// Frees the entry if the database needs nothing.
    fn free_if_idle(&mut self) {
        if !self.wanted && !self.worker.is_attended(time::now()) && self.occupied == 0 {
            self.oid = 0;
        }
    }
}

pub(in crate::parts) fn request_sweep(directory: &mut Directory, oid: u32) {
    if let Some(database) = workers(directory).find(oid) {
        (database.requests.sweep, database.requests.sessions) = (true, true);
    }
}

pub(in crate::parts) fn wake_worker(directory: &mut Directory, oid: u32) {
    workers(directory).need(oid, i64::MIN);
}

/// Requests a worker for this database, unless it has one. `look`: the worker, also one about to leave because it
/// found no extension, has to look again. False if there are too many databases: the launcher asks again when there are
/// fewer.
pub fn want_worker(oid: u32, look: bool) -> bool {
    let mut directory = directory();
    let workers = workers(&mut directory);
    let Some(database) = workers.find_or_add(oid) else {
        workers.has_refused = true;
        return false;
    };
    database.requests.registry |= look;
    database.requests.prepared |= look;
    let is_new = !std::mem::replace(&mut database.wanted, true);
    if is_new || look {
        workers.need(oid, i64::MIN);
    }
    true
}

/// Returns whether databases were refused since the last call, and there is room for one now.
pub fn has_room_for_refused() -> bool {
    let mut directory = directory();
    let workers = workers(&mut directory);
    let has_room = workers.databases.iter().any(|database| database.oid == 0);
    has_room && std::mem::take(&mut workers.has_refused)
}

/// Adds to the requests to the worker of a database, and wakes it.
pub fn request(oid: u32, change: impl FnOnce(&mut Requests)) {
    let mut directory = directory();
    let workers = workers(&mut directory);
    if let Some(database) = workers.find(oid) {
        change(&mut database.requests);
    }
    workers.need(oid, i64::MIN);
}

/// Tells the worker of a database, which must act at `instant` at the latest.
pub fn request_at(oid: u32, instant: i64) {
    workers(&mut directory()).need(oid, instant);
}

/// Forgets a database that has been dropped.
pub fn forget(oid: u32) {
    let mut directory = directory();
    let workers = workers(&mut directory);
    workers.jobs.iter_mut().for_each(|job| job.forget(oid));
    if let Some(database) = workers.find(oid) {
        database.oid = 0;
    }
    workers.wake_launcher();
}

/// Makes the workers of a database leave, and keeps workers away until `vacate`.
pub fn occupy(oid: u32) {
    let mut directory = directory();
    let workers = workers(&mut directory);
    if let Some(database) = workers.find_or_add(oid) {
        database.occupied += 1;
    }
    workers.jobs.iter_mut().for_each(|job| job.end(oid));
    workers.need(oid, i64::MIN);
}

/// Returns whether a database still has workers, or one that is starting.
pub fn has_workers(oid: u32) -> bool {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    workers.find(oid).is_some_and(|database| database.worker.is_attended(now))
        || workers.jobs.iter().any(|job| job.is_attended(oid, now))
}

/// Undoes one `occupy`.
pub fn vacate(oid: u32) {
    let mut directory = directory();
    let workers = workers(&mut directory);
    if let Some(database) = workers.find(oid) {
        database.occupied = database.occupied.saturating_sub(1);
        database.free_if_idle();
    }
    workers.wake_launcher();
}

/// Makes this process the worker of a database; None if none is wanted there. True if the worker before it left
/// nothing that has to be looked for.
pub fn register_worker(oid: u32) -> Option<bool> {
    let now = time::now();
    let mut directory = directory();
    let database = workers(&mut directory).find(oid).filter(|known| !known.worker.is_there())?;
    database.worker.register(now);
    (database.has_connected, database.round_at, database.due_at) = (false, 0, now);
    let resumes = std::mem::take(&mut database.has_rested) && !database.requests.registry;
    // One that resumes knows the queues as soon as it has read them.
    database.works = resumes;
    database.requests.registry = true;
    if !resumes {
        database.requests = Requests::ALL.or(database.requests);
    }
    Some(resumes)
}

/// Records that this database's worker has connected to it.
pub fn report_connection(oid: u32) {
    if let Some(database) = workers(&mut directory()).find(oid) {
        (database.has_connected, database.is_failure_reported) = (true, false);
        database.worker.failure_pause = 0;
    }
}

/// Returns whether this process is the worker of a database.
pub fn is_own(oid: u32) -> bool {
    workers(&mut directory()).find(oid).is_some_and(|database| database.worker.is_own())
}

/// Ends this process's role as the worker of its database. `wanted`: another one has to follow.
pub fn unregister_worker(oid: u32, wanted: bool) {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    if let Some(database) = workers.find(oid).filter(|known| known.worker.is_own()) {
        database.worker.leave(now);
        if wanted && database.has_connected {
            database.worker.not_before = database.worker.begun + START_INTERVAL;
        } else if wanted {
            database.worker.pause_after_failure(now);
        }
        // A session that requested a look meanwhile may have installed the extension.
        database.wanted &= wanted || database.requests.registry;
        database.free_if_idle();
    }
    workers.wake_launcher();
}

/// Returns the requests since the last call. None if the worker has to leave.
pub fn take_requests(oid: u32) -> Option<Requests> {
    let now = time::now();
    let mut directory = directory();
    let database = workers(&mut directory).find(oid)?;
    database.worker.begin_round();
    database.due_at = now;
    (database.occupied == 0).then(|| std::mem::take(&mut database.requests))
}

/// Records that this database's worker has ended a round, and begins the next one `pause` microseconds later unless it
/// is woken. True if others wait for its worker slot.
pub fn report_round(oid: u32, pause: Option<i64>) -> bool {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let waits = workers.waiting > 0;
    let Some(database) = workers.find(oid).filter(|known| known.worker.is_own()) else {
        return false;
    };
    database.round_at = now;
    database.due_at = pause.map_or(NEVER, |pause| now.saturating_add(pause));
    database.worker.end_round(now, database.due_at);
    waits
}

/// What a worker leaves behind if it leaves after this round.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// When the database needs a worker again.
    pub needed_at: i64,
    /// All that is left to do is known to others than this process.
    pub is_clean: bool,
    /// Requests to the next worker.
    pub requests: Requests,
}

/// Leaves the worker slot of this database's worker to others that wait, if it is not needed for a while, or its turn has
/// ended. True if so: the process has to end.
pub fn give_way(oid: u32, rest: Rest) -> bool {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let waits = workers.waiting > 0 && !workers.has_one_database_worker(now);
    let Some(database) = workers.find(oid).filter(|known| known.worker.is_own()) else {
        return false;
    };
    let is_woken = database.worker.woken_at != 0 || database.requests != Requests::default();
    let needed_at = if is_woken { now } else { rest.needed_at };
    if !waits || !database.worker.gives_way(now, needed_at, TURN) {
        return false;
    }
    // Behind those that wait.
    database.worker.leave(needed_at.max(now));
    database.has_rested = rest.is_clean;
    database.requests = database.requests.or(rest.requests);
    workers.note_leave(now);
    true
}

/// Records that this database's worker has made a round of its queues.
pub fn report_work(oid: u32) {
    if let Some(database) = workers(&mut directory()).find(oid) {
        database.works = true;
    }
}
