//! Requests for workers and requests to workers, from sessions and from workers.

use crate::parts::locks::{Directory, directory};
use crate::parts::schedule::NEVER;
use crate::parts::schedule::workers::{JOBS, Requests, WorkerAssignment, workers};
use crate::server::{process, time};

/// Requests a worker for this database, unless it has one. `look`: a worker has to check again, even if it is about to
/// leave because it found no extension. Returns false if there are too many databases; the launcher repeats the request
/// when there are fewer.
pub fn want_database_worker(database: u32, look: bool) -> bool {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let Some(worker) = workers.find_or_add(WorkerAssignment::database(database), now) else {
        // The launcher knows its own refused requests.
        workers.has_refused |= workers.launcher != process::index();
        return false;
    };
    worker.requests.registry |= look;
    worker.requests.prepared |= look;
    let is_new = !std::mem::replace(&mut worker.wanted, true);
    if is_new || look {
        workers.need(database, i64::MIN);
    }
    true
}

/// Returns whether databases were refused since the last call, and there is room for another one now.
pub fn has_room_for_refused() -> bool {
    let mut directory = directory();
    let workers = workers(&mut directory);
    let has_room = workers.databases().iter().any(|worker| worker.of.database == 0);
    has_room && std::mem::take(&mut workers.has_refused)
}

/// Adds to the requests to the worker of a database, and wakes it.
pub fn request(database: u32, change: impl FnOnce(&mut Requests)) {
    request_with(&mut directory(), database, change);
}

fn request_with(directory: &mut Directory, database: u32, change: impl FnOnce(&mut Requests)) {
    let workers = workers(directory);
    if let Some(worker) = workers.find(database) {
        change(&mut worker.requests);
    }
    workers.need(database, i64::MIN);
}

/// Notifies the worker of a database that a session has ended. `is_kept`: the session was recorded; otherwise the
/// worker compares all sessions.
pub(in crate::parts) fn look_for_departed(directory: &mut Directory, database: u32, is_kept: bool) {
    request_with(directory, database, |requests| {
        requests.sweep |= !is_kept;
        requests.sessions |= !is_kept;
    });
}

/// Notifies the worker of a database that it has to act at `instant` at the latest.
pub fn request_at(database: u32, instant: i64) {
    workers(&mut directory()).need(database, instant);
}

/// Forgets a database that has been dropped.
pub fn forget(database: u32) {
    let mut directory = directory();
    let workers = workers(&mut directory);
    let of_database = workers.all.iter_mut().filter(|worker| worker.is_of(database));
    of_database.for_each(|worker| worker.of.database = 0);
    workers.wake_launcher();
}

/// Makes the workers of a database leave, and keeps workers away until `vacate`.
pub fn occupy(database: u32) {
    let mut directory = directory();
    let workers = workers(&mut directory);
    if let Some(worker) = workers.find_or_add(WorkerAssignment::database(database), time::now()) {
        worker.occupied += 1;
    }
    let jobs = workers.jobs().iter().filter(|worker| worker.is_of(database));
    jobs.filter(|job| job.process.is_there()).for_each(|job| process::terminate(job.process.pid));
    workers.need(database, i64::MIN);
}

/// Returns whether a database still has workers, or one that is starting.
pub fn has_workers(database: u32) -> bool {
    let now = time::now();
    let mut directory = directory();
    let mut of_database = workers(&mut directory).all.iter().filter(|known| known.is_of(database));
    of_database.any(|worker| worker.is_attended(now))
}

/// Undoes one `occupy`.
pub fn vacate(database: u32) {
    let mut directory = directory();
    let workers = workers(&mut directory);
    if let Some(worker) = workers.find(database) {
        worker.occupied = worker.occupied.saturating_sub(1);
        worker.free_if_idle(time::now());
    }
    workers.wake_launcher();
}

/// Wakes a job worker, or requests one. Returns false if there are too many.
pub fn want_job_worker(of: WorkerAssignment) -> bool {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let Some(job) = workers.find_or_add(of, now) else { return false };
    if job.process.wake_or_need(now, now) {
        workers.wake_launcher();
    }
    true
}

/// Withdraws the requests for job workers of owners that have no due queues in a database any more.
pub fn withdraw(database: u32, is_done: impl Fn(u32) -> bool) {
    let now = time::now();
    let mut directory = directory();
    let jobs = workers(&mut directory).jobs().iter_mut();
    let theirs = jobs.filter(|job| job.is_of(database) && !job.of.is_count());
    let waiting = theirs.filter(|job| !job.is_attended(now) && is_done(job.of.owner));
    waiting.for_each(|job| job.process.needed_at = NEVER);
}

/// Returns the tables of a database that job workers count or will count.
pub fn counted(database: u32) -> Vec<u32> {
    let now = time::now();
    let mut tables = Vec::with_capacity(JOBS);
    let mut directory = directory();
    let jobs = workers(&mut directory).jobs().iter();
    let counting = jobs.filter(|job| job.is_of(database) && job.of.is_count());
    let wanted = counting.filter(|job| job.process.needed_at != NEVER || job.is_attended(now));
    tables.extend(wanted.map(|job| job.of.counts));
    tables
}

/// Returns the tables of a database on which code of their owners is deaf to signals.
pub fn unending(database: u32) -> Vec<u32> {
    let now = time::now();
    let mut tables = Vec::with_capacity(JOBS);
    let mut directory = directory();
    let jobs = workers(&mut directory).jobs().iter().filter(|job| job.is_of(database));
    tables.extend(jobs.filter(|job| job.is_unending(now)).map(|job| job.table));
    tables
}
