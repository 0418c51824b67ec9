//! The state of the databases' workers, for sessions and metrics.

use crate::parts::locks::directory;
use crate::parts::schedule::process::STARVES_AFTER;
use crate::parts::schedule::workers::{DATABASES, Worker, workers};
use crate::server::time;

/// A worker that owes a round for longer than this (µs) is considered stalled.
const STALLED_AFTER: i64 = 10_000_000;

impl Worker {
    /// Returns how long the worker has owed a round, or has been missing (µs).
    fn lag(&self, now: i64) -> i64 {
        let since = match (self.process.is_there(), self.process.woken_at) {
            (false, _) => self.requested_at(now),
            (true, 0) => self.process.needed_at,
            (true, woken_at) => self.process.needed_at.min(woken_at),
        };
        now.saturating_sub(since).max(0)
    }

    fn state(&self, now: i64) -> WorkerState {
        let is_there = self.process.is_there();
        match self.occupied {
            1.. => WorkerState::Ending,
            _ if is_there && !self.works => WorkerState::Startup,
            _ if is_there && self.lag(now) >= STALLED_AFTER => WorkerState::Stalled,
            _ if is_there => WorkerState::Running,
            _ if self.lag(now) >= STARVES_AFTER => WorkerState::NoWorker,
            _ if self.has_left => WorkerState::Resting,
            _ if self.wanted || self.process.is_attended(now) => WorkerState::Startup,
            _ => WorkerState::Init,
        }
    }
}

/// State of a database's worker from the view of its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// No worker was requested.
    Init,
    /// A worker was requested, or has begun.
    Startup,
    Running,
    /// The worker has nothing to do and has left its worker slot to another one. A new worker is started in time.
    Resting,
    /// A command needs the database exclusively: the worker leaves.
    Ending,
    /// A worker is needed, and there has been no worker slot for it for seconds.
    NoWorker,
    /// The worker owes a round.
    Stalled,
}

impl WorkerState {
    pub fn name(self) -> &'static str {
        ["INIT", "STARTUP", "RUNNING", "RESTING", "ENDING", "NO_WORKER", "STALLED"][self as usize]
    }
}

pub fn state(oid: u32) -> WorkerState {
    worker_of(oid).map_or(WorkerState::Init, |status| status.state)
}

/// Status of the worker of a database.
#[derive(Clone, Copy, Debug)]
pub struct WorkerStatus {
    pub database: u32,
    pub state: WorkerState,
    /// The process, if there is one, and when it began.
    pub worker: Option<(i32, i64)>,
    /// When it ended its last round.
    pub round_at: Option<i64>,
    /// How long it has owed a round, or has been missing (µs).
    pub lag: i64,
}

impl WorkerStatus {
    fn of(worker: &Worker, now: i64) -> WorkerStatus {
        let is_there = worker.process.is_there();
        let has_made = is_there && worker.round_at != 0;
        WorkerStatus {
            database: worker.of.database,
            state: worker.state(now),
            worker: is_there.then_some((worker.process.pid, worker.process.begun)),
            round_at: has_made.then_some(worker.round_at),
            lag: worker.lag(now),
        }
    }
}

/// Returns the status of the worker of a database.
pub fn worker_of(oid: u32) -> Option<WorkerStatus> {
    let now = time::now();
    workers(&mut directory()).find(oid).map(|worker| WorkerStatus::of(worker, now))
}

/// Returns the status of all databases that have a worker or want one.
pub fn all_workers() -> Vec<WorkerStatus> {
    let now = time::now();
    let mut found = Vec::with_capacity(DATABASES);
    let mut directory = directory();
    let databases = workers(&mut directory).databases().iter();
    let used = databases.filter(|worker| worker.of.database != 0);
    found.extend(used.map(|worker| WorkerStatus::of(worker, now)));
    found.retain(|status| status.state != WorkerState::Init);
    found
}
