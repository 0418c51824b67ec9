//! The databases that have the extension, and their workers.

use crate::parts::locks::{Directory, DirectoryLock, directory};
use crate::server::shared_memory::{Guarded, Zeroed};
use crate::server::{latch, process, time};

pub const LIMIT: usize = 256;
pub const NO_PROCESS: u32 = u32::MAX;
/// After so many microseconds a worker that has been asked for is taken for lost.
const START_TIMEOUT: i64 = 10_000_000;

/// A database, as the launcher and its worker see it.
#[repr(C)]
pub struct Database {
    oid: u32,
    /// The worker's process, `NO_PROCESS` while there is none.
    worker: u32,
    /// The worker has read the list of queues and been round them once.
    works: bool,
    /// The launcher should see to it that a worker runs.
    wanted: bool,
    /// When a worker was asked for that has not reported yet, 0 if none was.
    starting: i64,
    /// Commands that need the database for themselves: no worker meanwhile.
    occupied: u32,
    requests: Requests,
}

/// What the worker is asked to look at.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// The list of queues has changed.
    pub registry: bool,
    /// All taken tasks have to be compared with the live sessions.
    pub sweep: bool,
    /// A prepared transaction has been committed or rolled back.
    pub prepared: bool,
    /// Identified sessions have got connections, or lost them unnoticed.
    pub sessions: bool,
}

/// The databases, and who starts their workers.
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
    /// Whether it has a worker, or one that starts and has not taken too long for that.
    fn is_attended(&self) -> bool {
        let starts = self.starting != 0 && time::now() - self.starting < START_TIMEOUT;
        self.worker != NO_PROCESS || starts
    }

    /// Makes room for another database if this one needs nothing.
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
        *database = Database {
            oid,
            worker: NO_PROCESS,
            works: false,
            wanted: false,
            starting: 0,
            occupied: 0,
            requests: Requests::default(),
        };
    }
    Some(database)
}

pub(in crate::parts) fn request_sweep(directory: &mut Directory, oid: u32) {
    if let Some(database) = find(directory, oid) {
        (database.requests.sweep, database.requests.sessions) = (true, true);
    }
}

pub(in crate::parts) fn wake_worker(directory: &Directory, oid: u32) {
    let worker = DIRECTORY.get(directory)[0].databases.iter().find(|database| database.oid == oid);
    if let Some(worker) = worker.map(|database| database.worker)
        && worker != NO_PROCESS
    {
        latch::wake(worker);
    }
}

fn wake_launcher(directory: &Directory) {
    let launcher = DIRECTORY.get(directory)[0].launcher;
    if launcher != NO_PROCESS {
        latch::wake(launcher);
    }
}

/// Asks for a worker of this database, unless one is there. `look`: the worker, or one that is about
/// to leave because it found no extension, has to look again at what there is.
pub fn want_worker(oid: u32, look: bool) {
    let mut directory = directory();
    let Some(database) = find_or_add(&mut directory, oid) else { return };
    database.requests.registry |= look;
    database.requests.prepared |= look;
    if !std::mem::replace(&mut database.wanted, true) {
        wake_launcher(&directory);
    } else if look {
        wake_worker(&directory, oid);
    }
}

/// Wakes the worker of a database.
pub fn wake(oid: u32) {
    wake_worker(&directory(), oid);
}

/// Adds to what the worker of a database is asked to look at, and wakes it.
pub fn request(oid: u32, change: impl FnOnce(&mut Requests)) {
    let mut directory = directory();
    if let Some(database) = find(&mut directory, oid) {
        change(&mut database.requests);
    }
    wake_worker(&directory, oid);
}

/// Forgets a database that has been dropped.
pub fn forget(oid: u32) {
    let mut directory = directory();
    if let Some(database) = find(&mut directory, oid) {
        database.oid = 0;
    }
}

/// Makes the workers of a database leave, and keeps them away until `vacate`.
pub fn occupy(oid: u32) {
    let mut directory = directory();
    if let Some(database) = find_or_add(&mut directory, oid) {
        database.occupied += 1;
    }
    wake_worker(&directory, oid);
}

/// Whether the database still has a worker, or one that starts.
pub fn has_worker(oid: u32) -> bool {
    find(&mut directory(), oid).is_some_and(|database| database.is_attended())
}

/// How a database is doing, as its sessions see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody has asked for a worker.
    Init,
    /// A worker is asked for, or has begun.
    Startup,
    Running,
    /// A command needs the database for itself: the worker leaves.
    Ending,
}

pub fn state(oid: u32) -> State {
    match find(&mut directory(), oid) {
        Some(database) if database.occupied > 0 => State::Ending,
        Some(database) if database.worker != NO_PROCESS && database.works => State::Running,
        Some(database) if database.wanted || database.is_attended() => State::Startup,
        _ => State::Init,
    }
}

/// This database's worker has been round its queues.
pub fn report_work(oid: u32) {
    if let Some(database) = find(&mut directory(), oid) {
        database.works = true;
    }
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

/// The databases that should have a worker and have none; each is marked as starting.
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

/// A worker could not be started: the launcher is to try again.
pub fn not_started(oid: u32) {
    if let Some(database) = find(&mut directory(), oid) {
        database.starting = 0;
    }
}

/// Whether workers have been asked for that have not reported yet.
pub fn are_starting() -> bool {
    DIRECTORY.get(&directory())[0].databases.iter().any(|database| database.starting != 0)
}

/// Makes this process the worker of a database; false if it is not wanted there.
pub fn register_worker(oid: u32) -> bool {
    let mut directory = directory();
    match find(&mut directory, oid) {
        Some(database) if database.worker == NO_PROCESS => {
            database.starting = 0;
            database.worker = process::index();
            database.works = false;
            database.requests =
                Requests { registry: true, sweep: true, prepared: true, sessions: true };
            true
        }
        _ => false,
    }
}

/// This process is the database's worker no more. `wanted`: another one should follow.
pub fn unregister_worker(oid: u32, wanted: bool) {
    let mut directory = directory();
    if let Some(database) = find(&mut directory, oid)
        && database.worker == process::index()
    {
        database.worker = NO_PROCESS;
        // Who has asked for a look meanwhile may have installed the extension.
        database.wanted &= wanted || database.requests.registry;
        database.free_if_idle();
    }
    wake_launcher(&directory);
}

/// What the worker has been asked since the last time; None if it has to leave.
pub fn take_requests(oid: u32) -> Option<Requests> {
    let mut directory = directory();
    let database = find(&mut directory, oid)?;
    (database.occupied == 0).then(|| std::mem::take(&mut database.requests))
}
