//! What is known of the workers of databases, and what they report.

use crate::parts::locks::directory;
use crate::parts::schedule::NEVER;
use crate::parts::schedule::databases::{DIRECTORY, Database, LIMIT, NO_PROCESS, find};
use crate::server::time;

/// A worker that has not made a round this long after it had to (µs) does not work.
const STALLED_AFTER: i64 = 10_000_000;

impl Database {
    /// Returns how long the worker owes a round (µs), or has been missing.
    fn lag(&self) -> i64 {
        let woken_at = if self.woken_at == 0 { NEVER } else { self.woken_at };
        let since = match self.worker {
            NO_PROCESS => self.claims_at(),
            _ => self.due_at.min(woken_at),
        };
        time::now().saturating_sub(since).max(0)
    }

    fn state(&self) -> State {
        match self.worker {
            _ if self.occupied > 0 => State::Ending,
            NO_PROCESS if self.starves(time::now()) => State::NoWorker,
            NO_PROCESS if self.has_rested => State::Resting,
            NO_PROCESS if self.wanted || self.is_attended() => State::Startup,
            NO_PROCESS => State::Init,
            _ if !self.works => State::Startup,
            _ if self.lag() >= STALLED_AFTER => State::Stalled,
            _ => State::Running,
        }
    }
}

/// State of a database's worker, as its sessions see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No worker was requested.
    Init,
    /// A worker was requested, or has begun.
    Startup,
    Running,
    /// There is nothing to do for a worker, which has given its place up to another database's. One is started in time.
    Resting,
    /// A command needs the database exclusively: the worker leaves.
    Ending,
    /// A worker is needed, and there has been no place for it for seconds.
    NoWorker,
    /// The worker owes a round.
    Stalled,
}

impl State {
    pub fn name(self) -> &'static str {
        ["INIT", "STARTUP", "RUNNING", "RESTING", "ENDING", "NO_WORKER", "STALLED"][self as usize]
    }
}

pub fn state(oid: u32) -> State {
    find(&mut directory(), oid).map_or(State::Init, |database| database.state())
}

/// What is known of the worker of a database.
#[derive(Clone, Copy, Debug)]
pub struct WorkerStatus {
    pub database: u32,
    pub state: State,
    /// The process, if there is one, and when it began.
    pub worker: Option<(i32, i64)>,
    /// When it ended its last round.
    pub round_at: Option<i64>,
    /// How long it owes a round, or has been missing (µs).
    pub lag: i64,
}

impl WorkerStatus {
    fn of(database: &Database) -> WorkerStatus {
        let is_there = database.worker != NO_PROCESS;
        let instant = |instant| Some(instant).filter(|instant| *instant != 0);
        WorkerStatus {
            database: database.oid,
            state: database.state(),
            worker: is_there.then_some((database.pid, database.begun)),
            round_at: instant(database.round_at).filter(|_| is_there),
            lag: database.lag(),
        }
    }
}

/// Returns what is known of the worker of a database.
pub fn worker_of(oid: u32) -> Option<WorkerStatus> {
    find(&mut directory(), oid).map(|database| WorkerStatus::of(database))
}

/// Returns what is known of the workers of all databases that have one, or want one.
pub fn all_workers() -> Vec<WorkerStatus> {
    let mut found = Vec::with_capacity(LIMIT);
    let directory = directory();
    let databases = DIRECTORY.get(&directory)[0].databases.iter();
    let is_attended = |database: &&Database| database.oid != 0 && database.state() != State::Init;
    found.extend(databases.filter(is_attended).map(WorkerStatus::of));
    found
}
