//! Job workers, in shared memory. One serves the queues of an owner in a database whose changes run code of that owner, or
//! counts a table that is too large for the database worker.
//!
//! A job worker serves one owner for its whole life: what the code of an owner leaves in the process (the seed of random
//! numbers, connections, state of libraries) must not reach another's. The database worker asks for one as soon as there is
//! something to do. It finds its work in the queues' slots, and leaves once there is none for a while, or others wait for
//! their turns. The launcher starts it, and ends it if it takes too long without getting on.
//!
//! The worker slots are shared by all databases, see [`super::process`]. Within a database at most `max_job_workers` owners
//! are served at a time, and two tables of different owners counted.

use crate::parts::locks::directory;
use crate::parts::schedule::NEVER;
use crate::parts::schedule::databases::{Workers, workers};
use crate::parts::schedule::process::Process;
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::server::{process, time};
use std::cell::Cell;

pub const LIMIT: usize = 512;
/// How long a job worker that always has something to do goes on while other owners of its database wait (µs). To start
/// another one takes some milliseconds.
const TURN: i64 = 100_000;
/// Interval between signals to a job worker that has not ended (µs).
const SIGNAL_INTERVAL: i64 = 1_000_000;
/// One that has not ended this long after the first signal (µs) hears none.
const UNENDING_AFTER: i64 = 5_000_000;

/// A job worker's entry, as the argument of its main function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u32);

/// A job worker, or the request for one. All-zero bytes are a free entry.
#[repr(C)]
pub(super) struct Job {
    pub(super) database: u32,
    /// The owner that is served, or whose table is counted.
    pub(super) owner: u32,
    /// The table that is counted; 0 if an owner is served.
    counts: u32,
    pub(super) process: Process,
    /// The table that it works on; 0 if none.
    table: u32,
    /// When it is terminated unless it gets on (µs).
    stop_at: i64,
    /// When it was first terminated because it took too long; 0 if it was not.
    stopped_at: i64,
    /// It has nothing in hand, and ends.
    leaves: bool,
}

/// What a job worker is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub database: u32,
    pub owner: u32,
    /// The table to count, if it counts.
    pub counts: Option<u32>,
}

thread_local! {
    static OWN: Cell<Option<(JobId, Assignment)>> = const { Cell::new(None) };
}

/// Returns the owner whose code this process may run, if it is a job worker.
pub fn served_owner() -> Option<u32> {
    OWN.get().filter(|(_, own)| own.counts.is_none()).map(|(_, own)| own.owner)
}

impl Job {
    fn is(&self, wanted: Assignment) -> bool {
        self.database == wanted.database
            && self.owner == wanted.owner
            && self.counts == wanted.counts.unwrap_or_default()
    }

    pub(super) fn assignment(&self) -> Assignment {
        let counts = Some(self.counts).filter(|table| *table != 0);
        Assignment { database: self.database, owner: self.owner, counts }
    }

    /// Returns whether nothing has to be kept of it: how its owner has fared is, until the pause has ended.
    fn is_free(&self, now: i64) -> bool {
        let is_idle = self.process.needed_at == NEVER && self.process.not_before <= now;
        self.database == 0 || is_idle && !self.process.is_attended(now)
    }

    /// Returns since when it has needed a process; `NEVER` if it has one, or needs none.
    pub(super) fn requested_at(&self, now: i64) -> i64 {
        if self.database == 0 { NEVER } else { self.process.requested_at(now) }
    }

    pub(super) fn is_attended(&self, database: u32, now: i64) -> bool {
        self.database == database && self.process.is_attended(now)
    }

    pub(super) fn counts(&self) -> bool {
        self.counts != 0
    }

    /// Returns whether it was terminated and has not ended.
    pub(super) fn is_ending(&self) -> bool {
        self.process.is_there() && self.stopped_at != 0
    }

    /// Makes it end, if it is of a database.
    pub(super) fn end(&mut self, database: u32) {
        if self.database == database && self.process.is_there() {
            process::terminate(self.process.pid);
        }
    }

    pub(super) fn forget(&mut self, database: u32) {
        if self.database == database {
            self.database = 0;
        }
    }

    /// Terminates it if its time has ended; returns when to look at it again.
    pub(super) fn stop_if_late(&mut self, now: i64) -> i64 {
        if self.database == 0 || !self.process.is_there() || self.stop_at == NEVER {
            return NEVER;
        }
        if self.stop_at <= now {
            self.stop_at = now + SIGNAL_INTERVAL;
            if self.stopped_at == 0 {
                self.stopped_at = now;
            }
            process::terminate(self.process.pid);
        }
        self.stop_at
    }

    pub(super) fn is_unending(&self, now: i64) -> bool {
        self.is_ending()
            && self.table != 0
            && !self.counts()
            && now.saturating_sub(self.stopped_at) >= UNENDING_AFTER
    }
}

impl Workers {
    pub(super) fn job(&mut self, JobId(index): JobId) -> Option<&mut Job> {
        self.jobs.get_mut(index as usize)
    }

    fn own(&mut self) -> Option<&mut Job> {
        self.job(OWN.get()?.0).filter(|job| job.process.is_own())
    }

    /// Returns whether another owner of the database waits for the turn of one that is served.
    fn is_waited_for(&self, own: &Assignment, now: i64) -> bool {
        let is_rival =
            |job: &Job| job.database == own.database && job.counts() == own.counts.is_some();
        self.jobs.iter().any(|job| is_rival(job) && job.requested_at(now) <= now)
    }
}

/// Wakes the job worker of an owner, or has one started; the same for a table that is to be counted. False if there are too
/// many.
pub fn want(wanted: Assignment) -> bool {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let known = workers.jobs.iter().position(|job| job.is(wanted));
    let Some(index) = known.or_else(|| workers.jobs.iter().position(|job| job.is_free(now))) else {
        return false;
    };
    let job = &mut workers.jobs[index];
    if known.is_none() {
        *job = Job {
            database: wanted.database,
            owner: wanted.owner,
            counts: wanted.counts.unwrap_or_default(),
            process: Process::NONE,
            table: 0,
            stop_at: NEVER,
            stopped_at: 0,
            leaves: false,
        };
    }
    if job.process.is_there() {
        job.process.wake(now);
    } else if job.process.need(now) {
        workers.wake_launcher();
    }
    true
}

/// Withdraws the requests for job workers of owners in a database that have nothing to do any more.
pub fn withdraw(database: u32, is_done: impl Fn(u32) -> bool) {
    let now = time::now();
    let mut directory = directory();
    for job in workers(&mut directory).jobs.iter_mut() {
        let is_theirs = job.database == database && !job.counts();
        if is_theirs && !job.process.is_attended(now) && is_done(job.owner) {
            job.process.needed_at = NEVER;
        }
    }
}

/// Returns the job workers of a database that are at work, or will be.
pub fn of_database(database: u32) -> Vec<Assignment> {
    let now = time::now();
    let mut found = Vec::with_capacity(LIMIT);
    let mut directory = directory();
    let jobs = workers(&mut directory).jobs.iter().filter(|job| job.database == database);
    let is_wanted = |job: &&Job| job.process.needed_at != NEVER || job.process.is_attended(now);
    found.extend(jobs.filter(is_wanted).map(Job::assignment));
    found
}

/// Returns the tables of a database on which code of their owners hears no signal.
pub fn unending(database: u32) -> Vec<u32> {
    let now = time::now();
    let mut tables = Vec::with_capacity(LIMIT);
    let mut directory = directory();
    let jobs = workers(&mut directory).jobs.iter().filter(|job| job.database == database);
    tables.extend(jobs.filter(|job| job.is_unending(now)).map(|job| job.table));
    tables
}

/// Makes this process the job worker of an entry; None if it is no longer wanted.
pub fn register(id: JobId) -> Option<Assignment> {
    let now = time::now();
    let assignment = {
        let mut directory = directory();
        let job = workers(&mut directory).job(id)?;
        if job.database == 0 || job.process.is_there() {
            return None;
        }
        job.process.register(now);
        (job.table, job.stop_at, job.stopped_at, job.leaves) = (0, NEVER, 0, false);
        job.assignment()
    };
    OWN.set(Some((id, assignment)));
    Some(assignment)
}

/// Begins a round. False if this process has to leave, because a command needs its database.
pub fn begin_round() -> bool {
    let mut directory = directory();
    let workers = workers(&mut directory);
    let Some(job) = workers.own() else { return false };
    job.process.begin_round();
    let database = job.database;
    workers.find(database).is_none_or(|database| database.occupied == 0)
}

/// Records on which table this job worker works, and when it is terminated unless it says so again.
pub fn get_on(table: Option<u32>, stop_at: i64) {
    if OWN.get().is_none() {
        return;
    }
    let mut directory = directory();
    let workers = workers(&mut directory);
    let Some(job) = workers.own().filter(|job| job.stopped_at == 0) else { return };
    job.table = table.unwrap_or(job.table);
    job.stop_at = stop_at;
    if stop_at < workers.looks_at {
        workers.looks_at = stop_at;
        workers.wake_launcher();
    }
}

/// Ends a round, after which there is something to do at `needed_at`. True if this job worker has to end: it has had nothing
/// to do for a while, or others wait. `has_worked`: its owner's code has run, and has ended.
pub fn end_round(needed_at: i64, has_worked: bool, is_idle: bool) -> bool {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let Some((_, own)) = OWN.get() else { return true };
    let gives_way = |job: &Job, turn| job.process.gives_way(now, needed_at, turn);
    let is_waited_for = workers.is_waited_for(&own, now);
    let waits = workers.waiting > 0;
    let Some(job) = workers.own() else { return true };
    job.process.end_round(now, needed_at);
    (job.table, job.stop_at) = (0, NEVER);
    if has_worked {
        job.process.failure_pause /= 2;
    }
    let leaves_slot = waits && gives_way(job, super::process::TURN);
    let is_over = is_idle || is_waited_for && gives_way(job, TURN);
    job.leaves = job.process.woken_at == 0 && is_over || leaves_slot;
    if !job.leaves {
        return false;
    }
    // Behind those that wait.
    job.process.needed_at = match (job.process.woken_at, is_idle) {
        (0, true) => NEVER,
        (0, false) => needed_at.max(now),
        _ => now,
    };
    if leaves_slot {
        workers.note_leave(now);
    }
    true
}

/// What has come of a job worker that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub assignment: Assignment,
    /// It had something in hand.
    pub is_abnormal: bool,
    /// The table on which it worked.
    pub table: u32,
    /// It was terminated because it took too long.
    pub is_stopped: bool,
}

/// Returns how this job worker ends.
pub fn end() -> Option<Ended> {
    let (_, assignment) = OWN.get()?;
    let mut directory = directory();
    let job = workers(&mut directory).own()?;
    let is_stopped = job.stopped_at != 0;
    Some(Ended { assignment, is_abnormal: !job.leaves, table: job.table, is_stopped })
}

/// Ends this process's role as a job worker. One that has failed, or took too long, gets no other before a pause, and only if
/// the database worker asks again.
pub fn unregister() {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let Some(job) = workers.own() else { return };
    let database = job.database;
    let needed_at = match job.leaves {
        true if job.process.woken_at != 0 => now,
        true => job.process.needed_at,
        false => NEVER,
    };
    let has_failed = !job.leaves;
    let is_occupied = workers.find(database).is_some_and(|database| database.occupied > 0);
    if let Some(job) = workers.own().filter(|_| has_failed && !is_occupied) {
        job.process.pause_after_failure(now);
    }
    if let Some(job) = workers.own() {
        job.process.leave(needed_at);
    }
    workers.wake_launcher();
    workers.need(database, i64::MIN);
}

/// Returns the slots of the queues that an owner's job worker serves, with their tables.
pub fn queues_of(database: u32, owner: u32) -> Vec<(SlotId, u32)> {
    let is_served = |id| slot::lock(id).is_some_and(|queue| queue.job_owner() == owner);
    slot::all(Some(database)).into_iter().filter(|(id, _)| is_served(*id)).collect()
}
