//! The databases with the extension, and their workers.

mod status;

pub use status::{State, WorkerStatus, all_workers, report_round, report_work, state, worker_of};

use crate::parts::locks::{Directory, DirectoryLock, directory};
use crate::parts::schedule::NEVER;
use crate::server::shared_memory::{Guarded, Zeroed};
use crate::server::{latch, process, time};

pub const LIMIT: usize = 256;
pub const NO_PROCESS: u32 = u32::MAX;
/// A worker that has not begun this long after the request (µs) is considered lost.
const START_TIMEOUT: i64 = 10_000_000;

/// A database, as the launcher and its worker see it.
#[repr(C)]
pub struct Database {
    oid: u32,
    /// Process of the worker; `NO_PROCESS` if there is none.
    worker: u32,
    /// The worker has read the list of queues and made one round.
    works: bool,
    /// The launcher has to start a worker.
    wanted: bool,
    /// When a worker was requested that has not begun yet; 0 if none was.
    starting: i64,
    /// Since when the server has had no place for a worker; 0 if it has, or was not asked.
    lacks_since: i64,
    /// Process id of the worker, and when it began.
    pid: i32,
    begun: i64,
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
}

/// The databases, and the launcher that starts their workers.
#[repr(C)]
pub struct Databases {
    launcher: u32,
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
            works: false,
            wanted: false,
            starting: 0,
            lacks_since: 0,
            pid: 0,
            begun: 0,
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
            },
        }
    }

    /// Returns whether it has a worker, or one that is starting and not overdue.
    fn is_attended(&self) -> bool {
        let starts = self.starting != 0 && time::now() - self.starting < START_TIMEOUT;
        self.worker != NO_PROCESS || starts
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
    let database = find(directory, oid).filter(|database| database.worker != NO_PROCESS);
    if let Some(database) = database {
        if database.woken_at == 0 {
            database.woken_at = time::now();
        }
        latch::wake(database.worker);
    }
}

fn wake_launcher(directory: &Directory) {
    let launcher = DIRECTORY.get(directory)[0].launcher;
    if launcher != NO_PROCESS {
        latch::wake(launcher);
    }
}

/// Requests a worker for this database, unless it has one. `look`: the worker, also one about to leave because it
/// found no extension, has to look again.
pub fn want_worker(oid: u32, look: bool) {
    let mut directory = directory();
    let Some(database) = find_or_add(&mut directory, oid) else { return };
    database.requests.registry |= look;
    database.requests.prepared |= look;
    if !std::mem::replace(&mut database.wanted, true) {
        wake_launcher(&directory);
    } else if look {
        wake_worker(&mut directory, oid);
    }
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

/// Forgets a database that has been dropped.
pub fn forget(oid: u32) {
    let mut directory = directory();
    if let Some(database) = find(&mut directory, oid) {
        database.oid = 0;
    }
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

/// Makes this process the launcher.
pub fn register_launcher() {
    DIRECTORY.get_mut(&mut directory())[0].launcher = process::index();
}

/// Returns the databases that lack a worker; each is marked as starting.
pub fn missing_workers() -> Vec<u32> {
    let mut missing = Vec::with_capacity(LIMIT);
    for database in DIRECTORY.get_mut(&mut directory())[0].databases.iter_mut() {
        let wanted = database.oid != 0 && database.wanted && database.occupied == 0;
        if wanted && !database.is_attended() {
            database.starting = time::now();
            missing.push(database.oid);
        }
    }
    missing
}

/// Records that a worker could not be started; the launcher tries again.
pub fn not_started(oid: u32) {
    if let Some(database) = find(&mut directory(), oid) {
        database.starting = 0;
    }
}

/// Records that the server has no place for a worker; the launcher tries again.
pub fn has_no_place(oid: u32) {
    if let Some(database) = find(&mut directory(), oid) {
        database.starting = 0;
        if database.lacks_since == 0 {
            database.lacks_since = time::now();
        }
    }
}

/// Returns whether requested workers have not begun yet.
pub fn are_starting() -> bool {
    DIRECTORY.get(&directory())[0].databases.iter().any(|database| database.starting != 0)
}

/// Makes this process the worker of a database; false if none is wanted there.
pub fn register_worker(oid: u32) -> bool {
    let mut directory = directory();
    match find(&mut directory, oid) {
        Some(database) if database.worker == NO_PROCESS => {
            database.starting = 0;
            database.worker = process::index();
            (database.pid, database.begun) = (process::pid(), time::now());
            (database.lacks_since, database.round_at, database.woken_at) = (0, 0, 0);
            database.due_at = database.begun;
            database.works = false;
            database.requests = Requests {
                registry: true,
                sweep: true,
                prepared: true,
                sessions: true,
                metrics: false,
            };
            true
        }
        _ => false,
    }
}

/// Ends this process's role as the worker of its database. `wanted`: another one has to follow.
pub fn unregister_worker(oid: u32, wanted: bool) {
    let mut directory = directory();
    if let Some(database) = find(&mut directory, oid)
        && database.worker == process::index()
    {
        database.worker = NO_PROCESS;
        // A session that requested a look meanwhile may have installed the extension.
        database.wanted &= wanted || database.requests.registry;
        database.free_if_idle();
    }
    wake_launcher(&directory);
}

/// Returns the requests since the last call; None if the worker has to leave.
pub fn take_requests(oid: u32) -> Option<Requests> {
    let mut directory = directory();
    let database = find(&mut directory, oid)?;
    (database.woken_at, database.due_at) = (0, time::now());
    (database.occupied == 0).then(|| std::mem::take(&mut database.requests))
}
