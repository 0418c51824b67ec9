//! What the launcher sees: requests for worker slots, in the order in which they are to be met, and the workers that leave
//! theirs.

use crate::parts::locks::directory;
use crate::parts::schedule::NEVER;
use crate::parts::schedule::databases::{self, Workers, workers};
use crate::parts::schedule::jobs::{self, Assignment, JobId};
use crate::parts::schedule::process::{Process, STARVES_AFTER};
use crate::server::{latch, process, time};

/// A worker slot is free when the process has ended. After this (µs) others are asked for theirs.
const EXIT_TIME: i64 = 500_000;
/// While databases wait, one in this number of all worker slots may be used to count: that takes as long as it takes.
const COUNTERS_SHARE: usize = 8;
/// How many tables of a database are counted at a time.
const COUNTERS: usize = 2;

/// Whose worker is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    Database(u32),
    Job(JobId),
}

/// A request for a worker slot. The least one is met first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub since: i64,
    pub of: Of,
}

impl Workers {
    fn process(&mut self, of: Of) -> Option<&mut Process> {
        match of {
            Of::Database(oid) => self.find(oid).map(|database| &mut database.worker),
            Of::Job(id) => self.job(id).map(|job| &mut job.process),
        }
    }

    /// Returns whether there is no more than one database worker, and none is waited for: without it no job worker begins.
    pub(super) fn has_one_database_worker(&self, now: i64) -> bool {
        let databases = || self.databases.iter().filter(|database| database.oid != 0);
        let attended = databases().filter(|database| database.worker.is_attended(now));
        attended.count() < 2 && databases().all(|database| database.requested_at(now) > now)
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        let jobs = self.jobs.iter().filter(|job| job.database != 0).map(|job| &job.process);
        let databases = self.databases.iter().filter(|database| database.oid != 0);
        databases.map(|database| &database.worker).chain(jobs)
    }
}

/// Makes this process the launcher.
pub fn register_launcher() {
    workers(&mut directory()).launcher = process::index();
}

/// Returns the requests, in the order in which they are to be met.
pub fn all() -> Vec<Request> {
    let mut requests = Vec::with_capacity(databases::LIMIT + jobs::LIMIT);
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let databases = workers.databases.iter();
    let databases = databases.map(|known| (known.requested_at(now), Of::Database(known.oid)));
    let jobs = workers.jobs.iter().zip(0..);
    let jobs = jobs.map(|(job, index)| (job.requested_at(now), Of::Job(JobId(index))));
    let requested = databases.chain(jobs).filter(|(since, _)| *since <= now);
    requests.extend(requested.map(|(since, of)| Request { since, of }));
    requests.sort_unstable();
    requests
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its process is to be started.
    Now,
    /// Others of its database come first, or it needs no process any more.
    Later,
    /// It needs a worker slot beyond those that there are.
    NoSlot,
}

/// Marks the process of a request as starting, if it is its turn. A job worker takes no worker slot that is the only one:
/// database workers need it.
///
/// `is_early`: before it is needed.
pub fn begin_start(of: Of, most: usize, is_early: bool) -> Turn {
    let now = time::now();
    let limit = (process::worker_limit() / COUNTERS_SHARE).max(1);
    let mut directory = directory();
    let workers = workers(&mut directory);
    if let Of::Job(id) = of {
        let Some(job) = workers.job(id) else { return Turn::Later };
        let (database, owner, counts) = (job.database, job.owner, job.counts());
        let attended = workers.jobs.iter().filter(|job| job.database != 0);
        let attended =
            attended.filter(|job| job.process.is_attended(now) && job.counts() == counts);
        // Those that do not end take the turns of no others, up to a limit.
        let of_database = attended.clone().filter(|job| job.database == database);
        let ending = of_database.clone().filter(|job| job.is_ending()).count().min(most);
        let most = if counts { COUNTERS } else { most + ending };
        let has_rival = counts && of_database.clone().any(|job| job.owner == owner);
        let is_occupied = |of: &databases::Database| of.oid == database && of.occupied > 0;
        if of_database.count() >= most || has_rival || workers.databases.iter().any(is_occupied) {
            return Turn::Later;
        }
        let is_short = counts && workers.waiting > 0 && attended.count() >= limit;
        let has_other =
            workers.databases.iter().any(|known| known.oid != 0 && known.worker.is_attended(now));
        if is_short || !has_other {
            return Turn::NoSlot;
        }
    }
    let may_begin = match of {
        Of::Database(oid) => workers.find(oid).is_some_and(|database| {
            database.may_begin(now) && (is_early || database.requested_at(now) <= now)
        }),
        Of::Job(id) => workers.job(id).is_some_and(|job| job.requested_at(now) <= now),
    };
    match workers.process(of).filter(|_| may_begin) {
        Some(process) => process.begin_start(now),
        None => return Turn::Later,
    }
    Turn::Now
}

/// Returns whether a job worker counts a table.
pub fn counts(id: JobId) -> bool {
    workers(&mut directory()).job(id).is_some_and(|job| job.counts())
}

/// Records whether the process of a request could be started; the launcher tries again.
pub fn end_start(of: Of, has_started: bool) {
    let mut directory = directory();
    let workers = workers(&mut directory);
    if has_started {
        workers.leaving = workers.leaving.saturating_sub(1);
    } else if let Some(process) = workers.process(of) {
        process.not_started();
    }
}

/// Returns whether requested processes have not begun yet.
pub fn are_starting() -> bool {
    let now = time::now();
    workers(&mut directory()).processes().any(|process| process.is_starting(now))
}

/// Returns when the next process is requested; None if none will be, unless something happens.
pub fn next() -> Option<i64> {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let databases = workers.databases.iter().map(|database| database.requested_at(now));
    let all = databases.chain(workers.jobs.iter().map(|job| job.requested_at(now)));
    all.filter(|at| *at > now && *at != NEVER).min()
}

/// Returns the database whose worker has left its worker slot and is needed next.
pub fn resting() -> Option<u32> {
    let now = time::now();
    let mut directory = directory();
    let databases = workers(&mut directory).databases.iter();
    let rests = databases.filter(|known| known.has_rested && known.may_begin(now));
    rests.min_by_key(|known| known.worker.needed_at).map(|known| known.oid)
}

/// Records the requests that could not be met. As many workers that are not needed for a while, those that are needed last
/// first, are woken to leave. One that is alone stays: no job worker takes its worker slot.
pub fn note_unmet(unmet: &[Request]) {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    if now.saturating_sub(workers.left_at) >= EXIT_TIME {
        workers.leaving = 0;
    }
    let unmet = unmet.len() as u32;
    workers.waiting = unmet.saturating_sub(workers.leaving);
    let waiting = workers.waiting as usize;
    wake_idle(workers, now, waiting);
}

/// Wakes the idle job workers of a database, whose turns others wait for.
pub fn make_room(id: JobId) {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let Some(database) = workers.job(id).map(|job| job.database) else { return };
    let idle = workers.jobs.iter_mut().filter(|job| job.database == database);
    idle.filter(|job| job.process.sleeps_idle(now)).for_each(|job| latch::wake(job.process.index));
}

fn wake_idle(workers: &Workers, now: i64, count: usize) {
    let mut woken: [u32; 64] = [0; 64];
    let is_alone = |process: &Process| {
        let is_its = |known: &databases::Database| known.worker.index == process.index;
        let of_database = workers.databases.iter().any(|known| known.oid != 0 && is_its(known));
        of_database && workers.has_one_database_worker(now)
    };
    for number in 0..count.min(woken.len()) {
        let idle =
            workers.processes().filter(|process| process.sleeps_idle(now) && !is_alone(process));
        let idle = idle.filter(|process| !woken[..number].contains(&process.index));
        let Some(last) = idle.max_by_key(|process| process.needed_at) else { return };
        woken[number] = last.index;
        latch::wake(last.index);
    }
}

/// Puts a database off that accepts no connections at present.
pub fn put_off(oid: u32) {
    let now = time::now();
    if let Some(database) = workers(&mut directory()).find(oid) {
        database.worker.pause_after_failure(now);
    }
}

/// Returns the databases whose workers could not connect and that were not reported; now they are.
pub fn unreachable() -> Vec<u32> {
    let mut unreachable = Vec::with_capacity(databases::LIMIT);
    let mut directory = directory();
    for database in workers(&mut directory).databases.iter_mut().filter(|known| known.oid != 0) {
        let has_failed = !database.worker.is_there() && database.worker.failure_pause != 0;
        if has_failed && !std::mem::replace(&mut database.is_failure_reported, true) {
            unreachable.push(database.oid);
        }
    }
    unreachable
}

/// Returns the assignments of job workers that have waited for a worker slot for `microseconds`.
pub fn waiting_jobs(unmet: &[Request], microseconds: i64) -> Vec<Assignment> {
    let now = time::now();
    let mut waiting = Vec::with_capacity(unmet.len());
    let mut directory = directory();
    let workers = workers(&mut directory);
    for request in unmet.iter().filter(|request| now.saturating_sub(request.since) >= microseconds)
    {
        if let Of::Job(id) = request.of
            && let Some(job) = workers.job(id)
        {
            waiting.push(job.assignment());
        }
    }
    waiting
}

/// Returns those that have waited for a worker slot for too long and were not reported; now they are.
pub fn starving(unmet: &[Request]) -> Vec<(Of, Option<Assignment>)> {
    let now = time::now();
    let mut starving = Vec::with_capacity(unmet.len());
    let mut directory = directory();
    let workers = workers(&mut directory);
    for Request { since, of } in unmet {
        let Some(process) = workers.process(*of) else { continue };
        if now.saturating_sub(*since) >= STARVES_AFTER
            && !std::mem::replace(&mut process.is_reported, true)
        {
            let job = if let Of::Job(id) = of { workers.job(*id) } else { None };
            starving.push((*of, job.map(|job| job.assignment())));
        }
    }
    starving
}

/// Terminates the job workers whose time has ended; returns how long there is none (µs), and the databases that have to know of
/// code that hears no signal.
pub fn stop_late() -> (Option<i64>, Vec<u32>) {
    let now = time::now();
    let mut deaf = Vec::with_capacity(jobs::LIMIT);
    let mut directory = directory();
    let workers = workers(&mut directory);
    let next = workers.jobs.iter_mut().map(|job| job.stop_if_late(now)).min().unwrap_or(NEVER);
    workers.looks_at = next;
    deaf.extend(workers.jobs.iter().filter(|job| job.is_unending(now)).map(|job| job.database));
    ((next != NEVER).then(|| next.saturating_sub(now).max(0)), deaf)
}
