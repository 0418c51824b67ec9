//! Job workers and their work, in shared memory.
//!
//! The worker of a database hands one job at a time to a job worker, which runs it in a process of its own and
//! reports back. A place is free, or belongs to a job worker from its request until it has ended and its last report
//! was read.
//!
//! A job worker serves one owner for its whole life: what the code of one owner leaves in the process (the seed of
//! random numbers, connections, state of libraries) must not reach another's. An idle one leaves when another owner
//! needs its place. Job workers that count tasks run no user code, serve all owners, and have places of their own.
//!
//! All places are guarded by one lock, which is taken alone. A job worker clears its process id under it before it
//! ends, so that a signal sent under it reaches no other process.

use crate::parts::locks::JobsLock;
use crate::parts::schedule::databases;
use crate::parts::schedule::orders::{self, Order, Report, Work};
use crate::server::shared_memory::{Guarded, HeldLock, Zeroed};
use crate::server::xact::Failure;
use crate::server::{latch, process, time};
use pgrx::PgSqlErrorCode;
use std::cell::Cell;

/// A job worker that has not begun this long after the request (µs) is given up.
const START_TIMEOUT: i64 = 10_000_000;
/// Interval between signals to a job worker that has not ended (µs).
const SIGNAL_INTERVAL: i64 = 1_000_000;
/// One that has not ended this long after the first signal (µs) hears none.
const UNENDING_AFTER: i64 = 5_000_000;

/// A use of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId {
    index: u16,
    generation: u16,
}

impl JobId {
    /// As the argument of a job worker's main function.
    pub fn to_argument(self) -> u32 {
        u32::from(self.generation) << 16 | u32::from(self.index)
    }

    pub fn from_argument(argument: u32) -> JobId {
        JobId { index: argument as u16, generation: (argument >> 16) as u16 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Free,
    /// The job worker waits for work.
    Idle,
    /// Work is about to be ordered.
    Reserved,
    /// Work was ordered and has not begun.
    Ordered,
    Running,
    Done,
    /// The job worker has ended during its work.
    Ended,
    /// The job worker has no work and is ending, or has to.
    Leaving,
}

/// A place for a job worker. All-zero bytes are a free one.
#[repr(C)]
pub(in crate::parts) struct Job {
    generation: u16,
    state: State,
    database: u32,
    /// The owner that is served, `COUNTER` by one that counts.
    owner: u32,
    /// 0 until the job worker has begun, and after its end.
    pid: i32,
    process: u32,
    /// When it was requested (µs).
    since: i64,
    /// When it last became idle.
    idle_since: i64,
    /// When the job worker is terminated unless it reports progress (µs).
    stop_at: i64,
    /// When it was first terminated because it took too long; 0 if it was not.
    stopped_at: i64,
    /// The worker that ordered the work has ended.
    is_orphan: bool,
    order: Order,
}

// SAFETY: numbers, bools, and enums and options whose zeros are their first.
unsafe impl Zeroed for Job {}

pub(in crate::parts) static JOBS: Guarded<Job, JobsLock> = Guarded::new();

/// In place of an owner: for work that runs no user code.
pub const COUNTER: u32 = 0;

thread_local! {
    /// The place of this process, if it is a job worker, and the owner that it serves.
    static OWN: Cell<Option<(JobId, u32)>> = const { Cell::new(None) };
}

/// Returns the owner that this process serves, if it is a job worker.
pub fn served_owner() -> Option<u32> {
    OWN.get().map(|(_, owner)| owner)
}

fn own() -> Option<JobId> {
    OWN.get().map(|(id, _)| id)
}

/// Returns the number of places.
pub(in crate::parts) fn limit() -> usize {
    process::worker_limit().min(usize::from(u16::MAX))
}

fn with<T>(work: impl FnOnce(&mut [Job]) -> T) -> T {
    work(JOBS.get_mut(&mut HeldLock::acquire()))
}

fn id_of(index: usize, job: &Job) -> JobId {
    JobId { index: index as u16, generation: job.generation }
}

/// Returns the place, unless it was given to another use since.
fn find(jobs: &mut [Job], id: JobId) -> Option<&mut Job> {
    jobs.get_mut(id.index as usize).filter(|job| job.generation == id.generation)
}

/// Where work can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// By a job worker that has nothing to do.
    Known(JobId),
    /// By one that has to be started.
    New(JobId),
    /// Retry when a job worker ends.
    Later,
    /// The server has no place for another job worker.
    Nowhere,
}

/// Reserves a job worker of the database for an owner: an idle one of that owner, or a new one if there are fewer
/// than `most`. If there are not, an idle one of another owner has to leave.
pub fn reserve(database: u32, most: usize, owner: u32) -> Place {
    let now = time::now();
    with(|jobs| {
        let is_alike = |job: &Job| {
            let is_in_use = job.state != State::Free && job.database == database;
            is_in_use && (job.owner == COUNTER) == (owner == COUNTER)
        };
        let is_idle = |job: &Job| is_alike(job) && job.state == State::Idle && !job.is_orphan;
        if let Some(index) = jobs.iter().position(|job| is_idle(job) && job.owner == owner) {
            jobs[index].state = State::Reserved;
            return Place::Known(id_of(index, &jobs[index]));
        }
        if jobs.iter().filter(|job| is_alike(job)).count() < most {
            let free = jobs.iter().position(|job| job.state == State::Free);
            let Some(index) = free else { return Place::Nowhere };
            let job = &mut jobs[index];
            job.generation = job.generation.wrapping_add(1);
            (job.database, job.owner, job.pid, job.is_orphan) = (database, owner, 0, false);
            (job.state, job.since) = (State::Reserved, now);
            return Place::New(id_of(index, job));
        }
        make_room(jobs, is_alike);
        Place::Later
    })
}

/// Returns the owners with an idle job worker in the database that was requested less than this many microseconds
/// ago.
pub fn owners_idle_since(database: u32, microseconds: i64) -> Vec<u32> {
    let now = time::now();
    let mut owners = Vec::with_capacity(limit());
    with(|jobs| {
        let is_idle = |job: &&Job| job.database == database && job.state == State::Idle;
        // The clock may have been set back.
        let is_young = |job: &&Job| (0..microseconds).contains(&(now - job.since));
        owners.extend(jobs.iter().filter(is_idle).filter(is_young).map(|job| job.owner));
    });
    owners
}

/// Orders work on a table at a reserved place, unless the job worker has ended since.
pub fn order(id: JobId, table: u32, work: &Work) {
    let stop_at = time::now() + START_TIMEOUT;
    with(|jobs| {
        if let Some(job) = find(jobs, id).filter(|job| job.state == State::Reserved) {
            job.order.write_work(table, work);
            (job.state, job.stopped_at, job.stop_at) = (State::Ordered, 0, stop_at);
            if job.pid != 0 {
                latch::wake(job.process);
            }
        }
    });
}

/// Frees a place whose job worker cannot be started, as the server has no slot for it. An idle one of the database,
/// of any owner, has to leave.
pub fn not_started(id: JobId) {
    with(|jobs| {
        let Some(job) = find(jobs, id) else { return };
        job.state = State::Free;
        let database = job.database;
        make_room(jobs, |job| job.database == database);
    });
}

/// Makes the one that has been idle for longest leave, unless another is leaving.
fn make_room(jobs: &mut [Job], is_alike: impl Fn(&Job) -> bool) {
    if jobs.iter().any(|job| is_alike(job) && job.state == State::Leaving) {
        return;
    }
    let is_idle = |job: &&mut Job| is_alike(job) && job.state == State::Idle && !job.is_orphan;
    if let Some(job) = jobs.iter_mut().filter(is_idle).min_by_key(|job| job.idle_since) {
        job.state = State::Leaving;
        latch::wake(job.process);
    }
}

/// Makes the idle job workers of a database leave, for others that want their places.
pub fn dismiss_idle(database: u32) {
    with(|jobs| {
        for job in jobs.iter_mut().filter(|job| job.database == database) {
            if job.state == State::Idle {
                job.state = State::Leaving;
                latch::wake(job.process);
            }
        }
    });
}

/// Returns the report of a job; None while it runs.
pub fn collect(id: JobId) -> Option<Report> {
    let (sessions, error) = (orders::session_room(), orders::error_room());
    let ended = |code, message: &str| Report::failed(Failure { message: message.into(), code });
    let was_stopped = Report {
        is_ended: true,
        ..ended(
            PgSqlErrorCode::ERRCODE_QUERY_CANCELED,
            "it took longer than xqueue.worker_timeout and could not be cancelled: its worker was ended",
        )
    };
    let was_ended = ended(PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN, "its worker was ended");
    let now = time::now();
    with(|jobs| {
        let Some(job) = find(jobs, id) else { return Some(was_ended) };
        match job.state {
            State::Reserved | State::Ordered | State::Running => None,
            State::Done => {
                job.state = match (job.pid, job.owner) {
                    (0, _) => State::Free,
                    // It counts once, and is ending.
                    (_, COUNTER) => State::Leaving,
                    _ => State::Idle,
                };
                job.idle_since = now;
                Some(job.order.read_report(sessions, error))
            }
            State::Ended => {
                job.state = State::Free;
                Some(if job.stopped_at != 0 { was_stopped } else { was_ended })
            }
            State::Free | State::Idle | State::Leaving => Some(was_ended),
        }
    })
}

/// Terminates the job workers of these jobs whose time is over; returns the microseconds until the next one's is.
pub fn stop_late(ids: &[JobId]) -> Option<i64> {
    let now = time::now();
    with(|jobs| {
        let mut next: Option<i64> = None;
        for id in ids {
            let Some(job) = find(jobs, *id) else { continue };
            if !matches!(job.state, State::Ordered | State::Running) {
                continue;
            }
            if job.stop_at <= now {
                job.stop_at = now + SIGNAL_INTERVAL;
                if job.state == State::Running && job.stopped_at == 0 {
                    job.stopped_at = now;
                }
                job.end();
            }
            let left = job.stop_at.saturating_sub(now);
            next = Some(next.map_or(left, |next| next.min(left)));
        }
        next
    })
}

impl Job {
    /// Returns whether it was terminated and has not ended; one that counts runs no code of users.
    fn is_ending(&self) -> bool {
        self.state != State::Free && self.pid != 0 && self.stopped_at != 0 && self.owner != COUNTER
    }

    /// Terminates the job worker, by a signal that user code cannot catch.
    fn end(&mut self) {
        if self.pid != 0 {
            process::terminate(self.pid);
        } else if matches!(self.state, State::Reserved | State::Ordered) {
            // It may still begin, and finds that the place is not its own.
            self.generation = self.generation.wrapping_add(1);
            self.state = State::Free;
        }
    }
}

/// Makes the job workers of a database end, unreported, as its worker begins or ends.
pub fn end_all(database: u32) {
    let now = time::now();
    with(|jobs| {
        for job in jobs.iter_mut().filter(|job| job.database == database) {
            job.is_orphan = true;
            if job.stopped_at == 0 {
                job.stopped_at = now;
            }
            job.end();
            if job.pid == 0 {
                job.state = State::Free;
            }
        }
    });
}

/// Returns the owners in a database whose job workers were terminated and have not ended: they get no other.
pub fn ending_owners(database: u32) -> Vec<u32> {
    let mut owners = Vec::with_capacity(limit());
    with(|jobs| {
        let ending = jobs.iter().filter(|job| job.database == database && job.is_ending());
        owners.extend(ending.map(|job| job.owner));
    });
    owners
}

/// Returns the tables on which code of their owners hears no signal.
pub fn unending(database: u32) -> Vec<u32> {
    let now = time::now();
    let mut tables = Vec::with_capacity(limit());
    with(|jobs| {
        let is_deaf = |job: &&Job| {
            let is_at_work = job.database == database && job.state == State::Running;
            is_at_work && job.is_ending() && now.saturating_sub(job.stopped_at) >= UNENDING_AFTER
        };
        tables.extend(jobs.iter().filter(is_deaf).map(|job| job.order.table));
    });
    tables
}

/// Returns how many job workers count, in all databases.
pub fn counters() -> usize {
    with(|jobs| jobs.iter().filter(|job| job.state != State::Free && job.owner == COUNTER).count())
}

/// Returns whether a database has job workers.
pub fn has_any(database: u32) -> bool {
    with(|jobs| jobs.iter().any(|job| job.state != State::Free && job.database == database))
}

/// Makes this process the job worker of a place, and returns its database; None if it is no longer wanted.
pub fn register(id: JobId) -> Option<u32> {
    let (pid, index) = (process::pid(), process::index());
    let database = with(|jobs| {
        let job = find(jobs, id).filter(|job| job.state == State::Ordered && job.pid == 0)?;
        (job.pid, job.process) = (pid, index);
        Some((job.database, job.owner))
    });
    OWN.set(database.map(|(_, owner)| (id, owner)));
    database.map(|(database, _)| database)
}

/// Returns the next work of this job worker: a table, and what to do. None if there is none yet.
pub fn next() -> Option<(u32, Work)> {
    let id = own()?;
    let (sessions, places) = (orders::session_room(), orders::place_room());
    with(|jobs| {
        let job = find(jobs, id).filter(|job| job.state == State::Ordered)?;
        job.state = State::Running;
        Some((job.order.table, job.order.read_work(sessions, places)))
    })
}

/// Reports progress: this job worker is not terminated before this instant.
pub fn put_off(stop_at: i64) {
    let Some(id) = own() else { return };
    with(|jobs| {
        if let Some(job) = find(jobs, id).filter(|job| job.stopped_at == 0) {
            job.stop_at = stop_at;
        }
    });
}

/// Stores the report of this job worker's work.
pub fn report(report: &Report) {
    let Some(id) = own() else { return };
    let database = with(|jobs| {
        let job = find(jobs, id).filter(|job| job.state == State::Running)?;
        job.order.write_report(report);
        job.state = State::Done;
        Some(job.database)
    });
    if let Some(database) = database {
        databases::wake(database);
    }
}

/// Returns whether this job worker has to end: it was asked to, or is idle and `may_leave`.
pub fn leaves(may_leave: bool) -> bool {
    let Some(id) = own() else { return true };
    with(|jobs| {
        let Some(job) = find(jobs, id) else { return true };
        if job.state == State::Idle && may_leave {
            job.state = State::Leaving;
        }
        job.state == State::Leaving
    })
}

/// Frees the place of this job worker, which ends for any reason.
pub fn unregister() {
    let Some((id, _)) = OWN.take() else { return };
    let database = with(|jobs| {
        let job = find(jobs, id).filter(|job| job.state != State::Free)?;
        job.pid = 0;
        job.state = match job.state {
            _ if job.is_orphan => State::Free,
            State::Reserved | State::Ordered | State::Running => State::Ended,
            State::Done => State::Done,
            _ => State::Free,
        };
        Some(job.database)
    });
    if let Some(database) = database {
        databases::wake(database);
    }
}
