//! The workers of all databases, in shared memory, guarded by the directory's lock.
//!
//! A database has one database worker. A job worker serves the queues of one owner whose changes run that owner's code.
//! It serves no other owner, because such code leaves traces in its process. A job worker can also count one table that
//! is too large for the database worker.
//!
//! Sessions and workers request workers in [`super::requests`], the launcher starts them in [`super::launch`], and each
//! worker reports its progress in [`super::own`].

use crate::parts::locks::{Directory, DirectoryLock, directory};
use crate::parts::schedule::NEVER;
use crate::parts::schedule::process::{NO_PROCESS, Process};
use crate::server::shared_memory::{Guarded, Zeroed};
use crate::server::{latch, time};

/// Maximum number of databases with a worker.
pub const DATABASES: usize = 256;
/// Maximum number of job workers, including entries that only record that code of an owner has failed.
pub const JOBS: usize = 512;
/// Maximum number of them that count tables. The others serve owners, also after the restart of a server with many large
/// tables.
const COUNTS: usize = JOBS / 2;

/// The index of a worker's entry. It is the argument of the worker's main function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerId(pub u32);

/// The purpose of a worker.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerAssignment {
    pub database: u32,
    /// The owner whose queues a job worker serves, or whose table it counts; 0 for the database worker.
    pub owner: u32,
    /// The table that a job worker counts; 0 for others.
    pub counts: u32,
}

impl WorkerAssignment {
    pub const fn database(database: u32) -> WorkerAssignment {
        WorkerAssignment { database, owner: 0, counts: 0 }
    }

    pub fn is_database(&self) -> bool {
        self.owner == 0
    }

    pub fn is_count(&self) -> bool {
        self.counts != 0
    }

    /// Returns whether both are job workers of one database that wait for each other's turns.
    pub(super) fn is_rival(&self, other: &WorkerAssignment) -> bool {
        let is_job = !self.is_database() && !other.is_database();
        is_job && self.database == other.database && self.is_count() == other.is_count()
    }
}

/// Requests to the worker of a database.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// The list of queues has changed.
    pub registry: bool,
    /// All taken tasks have to be compared with the live sessions.
    pub sweep: bool,
    /// A prepared transaction has been committed or rolled back.
    pub prepared: bool,
    /// Identified sessions have got connections, or have lost them unnoticed.
    pub sessions: bool,
    /// The metrics are about to be sent, and need ages that only the tables show.
    pub metrics: bool,
}

/// A worker, or the record of a worker that is needed at some time. All-zero bytes are a free entry.
#[repr(C)]
pub(super) struct Worker {
    pub(super) of: WorkerAssignment,
    pub(super) process: Process,
    /// The database has the extension, or possibly has it.
    pub(super) wanted: bool,
    pub(super) has_connected: bool,
    /// The database worker has read the list of queues and made a round.
    pub(super) works: bool,
    /// The last process left at the end of a round, without unfinished work.
    pub(super) has_left: bool,
    /// The log reports that no worker can connect.
    pub(super) is_failure_reported: bool,
    /// When it ended its last round; 0 before the first.
    pub(super) round_at: i64,
    /// Number of commands that need the database exclusively. While there are any, no worker runs.
    pub(super) occupied: u32,
    pub(super) requests: Requests,
    /// The table on which a job worker works; 0 if none.
    pub(super) table: u32,
    /// When a job worker is terminated unless it reports progress (µs).
    pub(super) stop_at: i64,
    /// When it was first terminated because it took too long; 0 if it was not.
    pub(super) stopped_at: i64,
}

impl Worker {
    pub(super) fn of(of: WorkerAssignment) -> Worker {
        Worker {
            of,
            process: Process::NONE,
            wanted: false,
            has_connected: false,
            works: false,
            has_left: false,
            is_failure_reported: false,
            round_at: 0,
            occupied: 0,
            requests: Requests::default(),
            table: 0,
            stop_at: NEVER,
            stopped_at: 0,
        }
    }

    /// Records that the process of this entry has begun. It has to check everything, because the previous process can
    /// have ended at any point.
    pub(super) fn begin(&mut self, now: i64) {
        let Worker { of, mut process, wanted, occupied, is_failure_reported, requests, .. } = *self;
        process.register(now);
        let requests =
            Requests { registry: true, sweep: true, prepared: true, sessions: true, ..requests };
        *self =
            Worker { process, wanted, occupied, is_failure_reported, requests, ..Worker::of(of) };
    }

    /// Returns whether there are requests that the worker has not seen.
    pub(super) fn is_asked(&self) -> bool {
        self.process.woken_at != 0 || self.requests != Requests::default()
    }

    /// Returns since when a process has been needed; `NEVER` if there is one, or none is needed.
    pub(super) fn requested_at(&self, now: i64) -> i64 {
        let may_begin = match self.of {
            WorkerAssignment { database: 0, .. } => false,
            of => !of.is_database() || self.wanted && self.occupied == 0,
        };
        if may_begin { self.process.requested_at(now) } else { NEVER }
    }

    pub(super) fn is_of(&self, database: u32) -> bool {
        database != 0 && self.of.database == database
    }

    pub(super) fn is_attended(&self, now: i64) -> bool {
        self.of.database != 0 && self.process.is_attended(now)
    }

    /// Returns whether the entry can be reused. The failures of an owner's code are kept until the pause has ended.
    fn is_free(&self, now: i64) -> bool {
        let is_idle = self.process.needed_at == NEVER && self.process.pause.is_over(now);
        self.of.database == 0 || !self.of.is_database() && is_idle && !self.process.is_attended(now)
    }

    /// Frees the entry of a database that needs no worker.
    pub(super) fn free_if_idle(&mut self, now: i64) {
        let is_idle = !self.wanted && self.occupied == 0 && !self.process.is_attended(now);
        if self.of.is_database() && is_idle {
            self.of.database = 0;
        }
    }
}

#[repr(C)]
pub struct Workers {
    pub(super) launcher: u32,
    /// When the launcher next checks for job workers that have taken too long.
    pub(super) looks_at: i64,
    /// Number of requests for which workers have to leave.
    pub(super) waiting: u32,
    /// Number of workers that have left and possibly not ended yet, and when the last one left.
    pub(super) leaving: u32,
    pub(super) left_at: i64,
    /// A database was refused because there are more than `DATABASES`.
    pub(super) has_refused: bool,
    /// The database workers, then the job workers.
    pub(super) all: [Worker; DATABASES + JOBS],
}

// SAFETY: numbers and bools.
unsafe impl Zeroed for Workers {}

pub(in crate::parts) static WORKERS: Guarded<Workers, DirectoryLock> = Guarded::new();

pub(super) fn workers(directory: &mut Directory) -> &mut Workers {
    &mut WORKERS.get_mut(directory)[0]
}

/// Initializes the workers: there is no launcher yet.
pub(in crate::parts) fn fill() {
    workers(&mut directory()).launcher = NO_PROCESS;
}

impl Workers {
    pub(super) fn databases(&mut self) -> &mut [Worker] {
        &mut self.all[..DATABASES]
    }

    pub(super) fn jobs(&mut self) -> &mut [Worker] {
        &mut self.all[DATABASES..]
    }

    pub(super) fn worker(&mut self, WorkerId(index): WorkerId) -> Option<&mut Worker> {
        self.all.get_mut(index as usize).filter(|worker| worker.of.database != 0)
    }

    /// Returns the entry of a database.
    pub(super) fn find(&mut self, database: u32) -> Option<&mut Worker> {
        self.databases().iter_mut().find(|worker| worker.is_of(database))
    }

    /// Returns the entry of a worker, and adds it if necessary. Returns None if there are too many.
    pub(super) fn find_or_add(&mut self, of: WorkerAssignment, now: i64) -> Option<&mut Worker> {
        let entries = if of.is_database() { self.databases() } else { self.jobs() };
        let known = entries.iter().position(|worker| worker.of == of);
        let is_counting = |worker: &&Worker| worker.of.is_count() && !worker.is_free(now);
        if known.is_none() && of.is_count() && entries.iter().filter(is_counting).count() >= COUNTS
        {
            return None;
        }
        let index = known.or_else(|| entries.iter().position(|worker| worker.is_free(now)))?;
        if known.is_none() {
            entries[index] = Worker::of(of);
        }
        Some(&mut entries[index])
    }

    pub(super) fn is_occupied(&mut self, database: u32) -> bool {
        self.find(database).is_some_and(|worker| worker.occupied > 0)
    }

    pub(super) fn wake_launcher(&self) {
        if self.launcher != NO_PROCESS {
            latch::wake(self.launcher);
        }
    }

    /// Wakes the worker of a database, or has one started at `instant` at the latest.
    pub(super) fn need(&mut self, database: u32, instant: i64) {
        let now = time::now();
        if self.find(database).is_some_and(|worker| worker.process.wake_or_need(instant, now)) {
            self.wake_launcher();
        }
    }

    /// Returns whether there is at most one database worker and none is waited for. Without it, no job worker begins.
    pub(super) fn has_one_database_worker(&mut self, now: i64) -> bool {
        let databases = self.databases();
        let attended = databases.iter().filter(|worker| worker.is_attended(now)).count();
        attended < 2 && databases.iter().all(|worker| worker.requested_at(now) > now)
    }
}
