//! The databases with the extension, their workers, and their claims to places for these.

mod launch;
mod places;
mod status;

pub use launch::{
    are_short, are_starting, begin_start, claims, has_no_place, has_place, keep_place, kept_until,
    launcher_pid, next_claim, not_started, put_off, register_launcher, resting, starving,
    unreachable,
};
pub use places::{
    Rest, drop_claim, give_up, is_own, is_place_kept, register_worker, report_connection,
    report_round, report_work, take_recount_request, take_requests, unregister_worker, want_place,
};
pub use status::{State, WorkerStatus, all_workers, state, worker_of};

use crate::parts::locks::{Directory, DirectoryLock, directory};
use crate::parts::schedule::NEVER;
use crate::parts::schedule::job_claim::{JobClaim, LastKept};
use crate::server::shared_memory::{Guarded, Zeroed};
use crate::server::{latch, time};

pub const LIMIT: usize = 256;
pub const NO_PROCESS: u32 = u32::MAX;
/// A worker that has not begun this long after the request (µs) is considered lost.
const START_TIMEOUT: i64 = 10_000_000;

/// Before the next try to connect to a database after one that failed (µs): doubled each time, up to a limit.
const FAILURE_PAUSES: (i64, i64) = (1_000_000, 60_000_000);

/// A database, as the launcher and its worker see it.
#[repr(C)]
pub struct Database {
    oid: u32,
    /// Process of the worker; `NO_PROCESS` if there is none.
    worker: u32,
    /// The worker has connected to the database.
    has_connected: bool,
    /// The worker has read the list of queues and made one round.
    works: bool,
    /// The launcher has to start a worker.
    wanted: bool,
    /// When a worker was requested that has not begun yet; 0 if none was.
    starting: i64,
    /// Without a worker: when one is needed. With one that sleeps: when it acts next, by its latest look at the clock.
    needed_at: i64,
    /// No worker is started before this instant, as the last one has failed.
    not_before: i64,
    /// The last pause before a try after one whose worker could not connect (µs); 0 once one has.
    failure_pause: i64,
    /// It was reported that no worker can connect.
    is_failure_reported: bool,
    /// The last worker gave its place up with nothing left to do; the next one need not look for what was lost.
    has_rested: bool,
    /// It was reported that the database waits for a place.
    is_reported: bool,
    job: JobClaim,
    /// That claim is one of those that wait, by the launcher's latest look.
    is_job_waiting: bool,
    /// Process id of the worker, when it began, and when it ended its first round.
    pid: i32,
    begun: i64,
    first_round: i64,
    /// When it ended its last round; 0 before.
    round_at: i64,
    /// When it has to begin a round unasked; while it makes one, when that began.
    due_at: i64,
    /// When it was woken, unless it has made a round since; 0 if it has.
    woken_at: i64,
    /// Number of commands that need the database exclusively: no worker meanwhile.
    occupied: u32,
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
    /// The recount of a queue is waited for.
    pub recount: bool,
}

/// The databases, and the launcher that starts their workers.
#[repr(C)]
pub struct Databases {
    launcher: u32,
    launcher_pid: i32,
    /// Number of claims for which workers are to give up their places.
    waiting: u32,
    /// Number of places given up that may not be free yet, and when the last one was.
    leaving: u32,
    left_at: i64,
    /// A database was refused, as there are more than `LIMIT`.
    has_refused: bool,
    last_kept: LastKept,
    databases: [Database; LIMIT],
}

// SAFETY: numbers and bools.
unsafe impl Zeroed for Databases {}

pub(in crate::parts) static DIRECTORY: Guarded<Databases, DirectoryLock> = Guarded::new();

/// There is no launcher at first.
pub(in crate::parts) fn fill() {
    DIRECTORY.get_mut(&mut directory())[0].launcher = NO_PROCESS;
}

impl Database {
    const fn of(oid: u32) -> Database {
        Database {
            oid,
            worker: NO_PROCESS,
            has_connected: false,
            works: false,
            wanted: false,
            starting: 0,
            needed_at: NEVER,
            not_before: 0,
            failure_pause: 0,
            is_failure_reported: false,
            has_rested: false,
            is_reported: false,
            job: JobClaim::NONE,
            is_job_waiting: false,
            pid: 0,
            begun: 0,
            first_round: 0,
            round_at: 0,
            due_at: NEVER,
            woken_at: 0,
            occupied: 0,
            requests: Requests {
                registry: false,
                sweep: false,
                prepared: false,
                sessions: false,
                metrics: false,
                recount: false,
            },
        }
    }

    /// Returns whether it has a worker, or one that is starting and not overdue.
    fn is_attended(&self) -> bool {
        let starts = self.starting != 0 && time::now() - self.starting < START_TIMEOUT;
        self.worker != NO_PROCESS || starts
    }

    /// Returns whether it may have a worker and has none.
    fn lacks_worker(&self) -> bool {
        self.oid != 0 && self.wanted && self.occupied == 0 && !self.is_attended()
    }

    /// Returns when it needs a place for a worker; `NEVER` if it has one, or needs none.
    fn claims_at(&self) -> i64 {
        if self.lacks_worker() { self.needed_at.max(self.not_before) } else { NEVER }
    }

    /// Makes a worker needed at `instant` at the latest. True if that is earlier than before.
    fn need(&mut self, instant: i64) -> bool {
        let is_earlier = instant < self.needed_at;
        self.needed_at = self.needed_at.min(instant);
        is_earlier
    }

    /// Puts the next try off after one whose worker could not connect.
    fn pause_after_failure(&mut self) {
        self.failure_pause = (self.failure_pause * 2).clamp(FAILURE_PAUSES.0, FAILURE_PAUSES.1);
        self.not_before = time::now() + self.failure_pause;
    }

    /// Frees the entry if the database needs nothing.
    fn free_if_idle(&mut self) {
        if !self.wanted && !self.is_attended() && self.occupied == 0 {
            self.oid = 0;
        }
    }
}

fn find(directory: &mut Directory, oid: u32) -> Option<&mut Database> {
    DIRECTORY.get_mut(directory)[0].databases.iter_mut().find(|database| database.oid == oid)
}

fn find_or_add(directory: &mut Directory, oid: u32) -> Option<&mut Database> {
    let databases = &mut DIRECTORY.get_mut(directory)[0].databases;
    let known = databases.iter().position(|database| database.oid == oid);
    let index = known.or_else(|| databases.iter().position(|database| database.oid == 0))?;
    let database = &mut databases[index];
    if database.oid == 0 {
        *database = Database::of(oid);
    }
    Some(database)
}

pub(in crate::parts) fn request_sweep(directory: &mut Directory, oid: u32) {
    if let Some(database) = find(directory, oid) {
        (database.requests.sweep, database.requests.sessions) = (true, true);
    }
}

pub(in crate::parts) fn wake_worker(directory: &mut Directory, oid: u32) {
    need_worker(directory, oid, i64::MIN);
}

/// Wakes the worker of a database, or has one started at `instant` at the latest.
fn need_worker(directory: &mut Directory, oid: u32, instant: i64) {
    let Some(database) = find(directory, oid) else { return };
    if database.worker == NO_PROCESS {
        if database.need(instant.max(time::now())) {
            wake_launcher(directory);
        }
        return;
    }
    if database.woken_at == 0 {
        database.woken_at = time::now();
    }
    latch::wake(database.worker);
}

fn wake_launcher(directory: &Directory) {
    let launcher = DIRECTORY.get(directory)[0].launcher;
    if launcher != NO_PROCESS {
        latch::wake(launcher);
    }
}

/// Requests a worker for this database, unless it has one. `look`: the worker, also one about to leave because it
/// found no extension, has to look again. False if there are too many databases: the launcher asks again when there are
/// fewer.
pub fn want_worker(oid: u32, look: bool) -> bool {
    let mut directory = directory();
    let Some(database) = find_or_add(&mut directory, oid) else {
        DIRECTORY.get_mut(&mut directory)[0].has_refused = true;
        return false;
    };
    database.requests.registry |= look;
    database.requests.prepared |= look;
    let is_new = !std::mem::replace(&mut database.wanted, true);
    if is_new || look {
        wake_worker(&mut directory, oid);
    }
    true
}

/// Returns whether databases were refused since the last call, and there is room for one now.
pub fn has_room_for_refused() -> bool {
    let mut directory = directory();
    let shared = &mut DIRECTORY.get_mut(&mut directory)[0];
    let has_room = shared.databases.iter().any(|database| database.oid == 0);
    has_room && std::mem::take(&mut shared.has_refused)
}

/// Wakes the worker of a database.
pub fn wake(oid: u32) {
    wake_worker(&mut directory(), oid);
}

/// Adds to the requests to the worker of a database, and wakes it.
pub fn request(oid: u32, change: impl FnOnce(&mut Requests)) {
    let mut directory = directory();
    if let Some(database) = find(&mut directory, oid) {
        change(&mut database.requests);
    }
    wake_worker(&mut directory, oid);
}

/// Tells the worker of a database, which must act at `instant` at the latest.
pub fn request_at(oid: u32, instant: i64) {
    need_worker(&mut directory(), oid, instant);
}

/// Forgets a database that has been dropped.
pub fn forget(oid: u32) {
    let mut directory = directory();
    if let Some(database) = find(&mut directory, oid) {
        database.oid = 0;
    }
    wake_launcher(&directory);
}

/// Makes the worker of a database leave, and keeps workers away until `vacate`.
pub fn occupy(oid: u32) {
    let mut directory = directory();
    if let Some(database) = find_or_add(&mut directory, oid) {
        database.occupied += 1;
    }
    wake_worker(&mut directory, oid);
}

/// Returns whether the database still has a worker, or one that is starting.
pub fn has_worker(oid: u32) -> bool {
    find(&mut directory(), oid).is_some_and(|database| database.is_attended())
}

/// Undoes one `occupy`.
pub fn vacate(oid: u32) {
    let mut directory = directory();
    if let Some(database) = find(&mut directory, oid) {
        database.occupied = database.occupied.saturating_sub(1);
        database.free_if_idle();
    }
    wake_launcher(&directory);
}
