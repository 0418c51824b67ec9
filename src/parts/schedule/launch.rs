//! The launcher's view of the schedule: requests for worker slots, in the order in which they are met, and workers that
//! have to end.

use crate::parts::locks::directory;
use crate::parts::schedule::NEVER;
use crate::parts::schedule::process::STARVES_AFTER;
use crate::parts::schedule::workers::{
    DATABASES, JOBS, Worker, WorkerAssignment, WorkerId, Workers, workers,
};
use crate::server::{latch, process, time};
use xqueue_core::pause::Limits;

/// Time (µs) for a process that has left to free its worker slot. After it, other workers are asked to leave.
const EXIT_TIME: i64 = 500_000;
/// While databases wait, at most one in this number of all worker slots is used to count, because a count has no time
/// limit.
const COUNTERS_SHARE: usize = 8;
/// Maximum number of tables of a database that are counted simultaneously.
const COUNTERS: usize = 2;
/// Interval at which the launcher checks whether starting workers have begun (µs).
const STARTING: i64 = 1_000_000;
/// A request that waits longer than this (µs) is shown in the queues of a job worker.
const SHOWN_AFTER: i64 = 1_000_000;
/// Interval between signals to a job worker that has not ended (µs).
const SIGNAL_INTERVAL: i64 = 1_000_000;
/// A job worker that has not ended this long after the first signal (µs) is considered deaf to signals.
const UNENDING_AFTER: i64 = 5_000_000;

/// A request for a worker slot. The least request is met first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub since: i64,
    pub id: WorkerId,
    pub of: WorkerAssignment,
}

/// Registers this process as the launcher.
pub fn register_launcher() {
    workers(&mut directory()).launcher = process::index();
}

/// Returns the current requests, in the order in which they are met.
pub fn requests() -> Vec<Request> {
    let mut requests = Vec::with_capacity(DATABASES + JOBS);
    let now = time::now();
    let mut directory = directory();
    let all = workers(&mut directory).all.iter().zip(0..).map(|(worker, index)| Request {
        since: worker.requested_at(now),
        id: WorkerId(index),
        of: worker.of,
    });
    requests.extend(all.filter(|request| request.since <= now));
    requests.sort_unstable();
    requests
}

/// Returns when the next request becomes current or a starting worker has to be checked; None means wait for a signal.
pub fn next() -> Option<i64> {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory).all.iter().filter(|worker| worker.of.database != 0);
    let next = workers.map(|worker| match worker.process.is_starting(now) {
        true => now + STARTING,
        false => worker.requested_at(now),
    });
    next.filter(|at| *at > now && *at != NEVER).min()
}

/// The launcher's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its process is to be started.
    Now,
    /// Other job workers of its database come first, or it no longer needs a process.
    Later,
    /// No worker slot is free for it.
    NoSlot,
}

/// Marks the process of a request as starting, if it is its turn. At most `most` owners of a database have job workers
/// simultaneously.
pub fn begin_start(Request { id, of, .. }: Request, most: usize) -> Turn {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let turn = match of.is_database() {
        true => Turn::Now,
        false => workers.turn_of_job(of, most, process::worker_limit(), now),
    };
    let is_wanted = |worker: &&mut Worker| worker.of == of && worker.requested_at(now) <= now;
    match workers.worker(id).filter(is_wanted) {
        Some(worker) if turn == Turn::Now => worker.process.starting = now,
        Some(_) => {}
        None => return Turn::Later,
    }
    turn
}

/// Records whether the process of a request could be started. After a failure the launcher tries again.
pub fn end_start(id: WorkerId, has_started: bool) {
    let mut directory = directory();
    let workers = workers(&mut directory);
    if has_started {
        workers.leaving = workers.leaving.saturating_sub(1);
    } else if let Some(worker) = workers.worker(id) {
        worker.process.starting = 0;
    }
}

/// Records the requests that were not met, and wakes as many idle workers to leave, starting with the worker that is
/// needed last. A database worker that is the only one stays, because job workers do not begin without it.
pub fn note_unmet(unmet: &[Request]) {
    let mut idle = Vec::with_capacity(DATABASES + JOBS);
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    if now.saturating_sub(workers.left_at) >= EXIT_TIME {
        workers.leaving = 0;
    }
    workers.waiting = (unmet.len() as u32).saturating_sub(workers.leaving);
    let is_alone = workers.has_one_database_worker(now);
    let stays = |worker: &Worker| is_alone && worker.of.is_database();
    let leavers = workers.all.iter().filter(|worker| worker.sleeps_idle(now) && !stays(worker));
    idle.extend(leavers.map(|worker| (worker.process.needed_at, worker.process.index)));
    idle.sort_unstable_by(|one, other| other.cmp(one));
    idle.iter().take(workers.waiting as usize).for_each(|(_, process)| latch::wake(*process));
}

/// Wakes the idle job workers of a database, because others wait for their turns.
pub fn make_room(of: WorkerAssignment) {
    let now = time::now();
    let mut directory = directory();
    let jobs = workers(&mut directory).jobs().iter();
    let idle = jobs.filter(|job| job.of.is_rival(&of) && job.sleeps_idle(now));
    idle.for_each(|job| latch::wake(job.process.index));
}

/// Postpones a database to which no worker can connect at present.
pub fn put_off(id: WorkerId, pauses: Limits) {
    let now = time::now();
    if let Some(worker) = workers(&mut directory()).worker(id) {
        worker.process.pause.begin(now, pauses);
    }
}

/// Returns the databases whose workers could not connect, each of them once.
pub fn unreachable() -> Vec<u32> {
    let mut unreachable = Vec::with_capacity(DATABASES);
    let mut directory = directory();
    let databases = workers(&mut directory).databases().iter_mut();
    for worker in databases.filter(|worker| worker.of.database != 0) {
        let has_begun = worker.process.begun != 0 && !worker.process.is_there();
        let has_failed = has_begun && !worker.has_connected;
        if has_failed && !std::mem::replace(&mut worker.is_failure_reported, true) {
            unreachable.push(worker.of.database);
        }
    }
    unreachable
}

/// Returns the requests that have waited for a worker slot for a while, and whether each is to be reported now.
pub fn starving(unmet: &[Request]) -> Vec<(WorkerAssignment, bool)> {
    let now = time::now();
    let mut starving = Vec::with_capacity(unmet.len());
    let mut directory = directory();
    let workers = workers(&mut directory);
    for Request { since, id, .. } in unmet {
        let waited = now.saturating_sub(*since);
        if let Some(worker) = workers.worker(*id).filter(|_| waited >= SHOWN_AFTER) {
            let is_new = waited >= STARVES_AFTER && !worker.process.is_reported;
            worker.process.is_reported |= is_new;
            starving.push((worker.of, is_new));
        }
    }
    starving
}

/// Terminates job workers that have exceeded their time. Returns when to check again, and the databases with code that
/// is deaf to signals.
pub fn stop_late() -> (Option<i64>, Vec<u32>) {
    let now = time::now();
    let mut deaf = Vec::with_capacity(JOBS);
    let mut directory = directory();
    let workers = workers(&mut directory);
    let next = workers.jobs().iter_mut().map(|job| job.stop_if_late(now)).min().unwrap_or(NEVER);
    workers.looks_at = next;
    let unending = workers.jobs().iter().filter(|job| job.is_unending(now));
    deaf.extend(unending.map(|job| job.of.database));
    ((next != NEVER).then_some(next), deaf)
}

impl Workers {
    /// Returns the turn of a job worker. It never takes the only worker slot, because database workers need it.
    /// `slots`: the number of all worker slots.
    fn turn_of_job(&mut self, of: WorkerAssignment, most: usize, slots: usize, now: i64) -> Turn {
        let limit = (slots / COUNTERS_SHARE).max(1);
        if self.is_occupied(of.database) {
            return Turn::Later;
        }
        let has_database_worker = self.databases().iter().any(|worker| worker.is_attended(now));
        let waits = self.databases().iter().any(|worker| worker.requested_at(now) <= now);
        let jobs = self.jobs().iter();
        let attended = jobs.filter(|job| job.is_attended(now));
        let attended = attended.filter(|job| job.of.is_count() == of.is_count());
        let of_database = attended.clone().filter(|job| job.of.database == of.database);
        // Job workers that do not end take no turns from others, up to a limit.
        let ending = of_database.clone().filter(|job| job.is_ending()).count().min(most);
        let most = if of.is_count() { COUNTERS } else { most + ending };
        let has_same = of.is_count() && of_database.clone().any(|job| job.of.owner == of.owner);
        if of_database.count() >= most || has_same {
            return Turn::Later;
        }
        let is_short = of.is_count() && waits && attended.count() >= limit;
        if is_short || !has_database_worker { Turn::NoSlot } else { Turn::Now }
    }
}

impl Worker {
    /// Returns whether this worker was terminated and has not ended yet.
    fn is_ending(&self) -> bool {
        self.process.is_there() && self.stopped_at != 0
    }

    /// Returns whether this worker runs code that is deaf to signals.
    pub(super) fn is_unending(&self, now: i64) -> bool {
        self.of.database != 0
            && self.is_ending()
            && self.table != 0
            && !self.of.is_count()
            && now.saturating_sub(self.stopped_at) >= UNENDING_AFTER
    }

    /// Terminates this worker if it has exceeded its time. Returns when to check it again.
    fn stop_if_late(&mut self, now: i64) -> i64 {
        if self.of.database == 0 || !self.process.is_there() || self.stop_at == NEVER {
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

    /// Returns whether this worker sleeps, and would leave if it were woken while others wait.
    fn sleeps_idle(&self, now: i64) -> bool {
        self.of.database != 0 && !self.has_left && self.process.sleeps_idle(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::schedule::process::NO_PROCESS;

    const NOW: i64 = 1_000_000;

    fn empty() -> Workers {
        Workers {
            launcher: NO_PROCESS,
            looks_at: NEVER,
            waiting: 0,
            leaving: 0,
            left_at: 0,
            has_refused: false,
            all: std::array::from_fn(|_| Worker::of(WorkerAssignment::database(0))),
        }
    }

    #[test]
    fn a_recount_waits_for_databases_but_not_for_itself() {
        let mut workers = empty();
        for (index, database) in [1, 2].into_iter().enumerate() {
            workers.all[index] = Worker::of(WorkerAssignment::database(database));
            workers.all[index].wanted = true;
            workers.all[index].process.index = database;
        }
        let recounts = [1, 2].map(|database| WorkerAssignment { database, owner: 10, counts: 7 });
        for (index, recount) in recounts.into_iter().enumerate() {
            workers.all[DATABASES + index] = Worker::of(recount);
        }
        // The first one counts, and the second one found no worker slot before.
        workers.all[DATABASES].process.index = 3;
        workers.all[DATABASES + 1].process.needed_at = 0;
        workers.waiting = 1;
        assert_eq!(workers.turn_of_job(recounts[1], 4, COUNTERS_SHARE, NOW), Turn::Now);
        workers.all[2] = Worker::of(WorkerAssignment::database(3));
        (workers.all[2].wanted, workers.all[2].process.needed_at) = (true, NOW);
        assert_eq!(workers.turn_of_job(recounts[1], 4, COUNTERS_SHARE, NOW), Turn::NoSlot);
        assert_eq!(workers.turn_of_job(recounts[1], 4, 2 * COUNTERS_SHARE, NOW), Turn::Now);
    }
}
