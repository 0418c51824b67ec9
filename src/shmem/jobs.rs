//! Job workers and what they are doing, in shared memory.
//!
//! The worker of a database hands one job at a time to a job worker, which runs it in a process of its own
//! and reports back. A place is free, or belongs to a job worker from the moment at which that is asked for
//! until it has gone and its last report was read.
//!
//! All places are guarded by one lock, which is taken alone. A job worker clears its process id under it
//! before it ends, so that a signal sent under it reaches no other process.

use super::orders::{self, Order, Report, Work};
use super::{Guard, databases};
use crate::pg::transaction::Failure;
use crate::pg::{latch, process, time};
use std::cell::Cell;

/// After so many microseconds a job worker that was asked for and has not begun is given up.
const START_TIMEOUT: i64 = 10_000_000;
/// Between two signals to a job worker that has not ended, in microseconds.
const SIGNAL_INTERVAL: i64 = 1_000_000;

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
    /// There is work, which has not begun.
    Ordered,
    Running,
    Done,
    /// The job worker has ended in the middle of its work.
    Ended,
}

/// A place for a job worker. All-zero bytes are a free one.
#[repr(C)]
pub(super) struct Job {
    generation: u16,
    state: State,
    database: u32,
    /// 0 until the job worker has begun, and after its end.
    pid: i32,
    process: u32,
    /// When the worker is ended unless it has got on, in microseconds.
    stop_at: i64,
    /// It was ended because it took too long.
    is_stopped: bool,
    /// The worker that has handed out the work has gone.
    is_orphan: bool,
    order: Order,
}

thread_local! {
    /// The place of this process, if it is a job worker.
    static OWN: Cell<Option<JobId>> = const { Cell::new(None) };
}

/// Whether this process is a job worker.
pub fn is_own_process() -> bool {
    OWN.get().is_some()
}

/// How many places there are.
pub(super) fn limit() -> usize {
    process::worker_limit().min(usize::from(u16::MAX))
}

fn with<T>(work: impl FnOnce(&mut [Job]) -> T) -> T {
    let segment = super::segment();
    let _guard = Guard::acquire(2 + segment.queue_count, true);
    // SAFETY: the array has this length, and the exclusive lock makes this the only reference.
    work(unsafe { std::slice::from_raw_parts_mut(segment.jobs, segment.job_count) })
}

/// The place, unless it was given to another use since.
fn find(jobs: &mut [Job], id: JobId) -> Option<&mut Job> {
    jobs.get_mut(id.index as usize).filter(|job| job.generation == id.generation)
}

/// Where work has got to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandedOver {
    /// A job worker has it.
    ToWorker(JobId),
    /// A job worker has to be started for it.
    ToStart(JobId),
    /// There are as many job workers as may be.
    Nowhere,
}

/// Hands work on a table over to an idle job worker of the database, or to a new one if there are fewer
/// than `most`.
pub fn hand_over(database: u32, most: usize, table: u32, work: &Work) -> HandedOver {
    with(|jobs| {
        let of_database = |job: &Job| job.state != State::Free && job.database == database;
        let idle = |job: &Job| of_database(job) && job.state == State::Idle && !job.is_orphan;
        let in_use = jobs.iter().filter(|job| of_database(job)).count();
        let known = jobs.iter().position(idle);
        let is_new = known.is_none();
        let free = || jobs.iter().position(|job| job.state == State::Free && in_use < most);
        let Some(index) = known.or_else(free) else { return HandedOver::Nowhere };
        let job = &mut jobs[index];
        if is_new {
            job.generation = job.generation.wrapping_add(1);
            (job.database, job.pid, job.is_orphan) = (database, 0, false);
        }
        job.order.write_work(table, work);
        (job.state, job.is_stopped) = (State::Ordered, false);
        job.stop_at = time::now() + START_TIMEOUT;
        let id = JobId { index: index as u16, generation: job.generation };
        if is_new {
            return HandedOver::ToStart(id);
        }
        latch::wake(job.process);
        HandedOver::ToWorker(id)
    })
}

/// The job worker that was to be started cannot be.
pub fn not_started(id: JobId) {
    with(|jobs| {
        if let Some(job) = find(jobs, id) {
            job.state = State::Free;
        }
    });
}

/// What a job has come to; None while it runs.
pub fn collect(id: JobId) -> Option<Report> {
    let (sessions, error) = (orders::session_room(), orders::error_room());
    let ended = |canceled| {
        let message = match canceled {
            true => {
                "it took longer than xqueue.worker_timeout and could not be cancelled: its worker was ended"
            }
            false => "its worker was ended",
        };
        Report::failed(Failure { message: message.into(), canceled })
    };
    let (was_stopped, was_ended) = (ended(true), ended(false));
    with(|jobs| {
        let Some(job) = find(jobs, id) else { return Some(was_ended) };
        match job.state {
            State::Ordered | State::Running => None,
            State::Done => {
                job.state = if job.pid == 0 { State::Free } else { State::Idle };
                Some(job.order.read_report(sessions, error))
            }
            State::Ended => {
                job.state = State::Free;
                Some(if job.is_stopped { was_stopped } else { was_ended })
            }
            State::Free | State::Idle => Some(was_ended),
        }
    })
}

/// Ends the job workers of these jobs whose time is over; microseconds until the next one's is.
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
                job.is_stopped = job.state == State::Running;
                job.end();
            }
            let left = job.stop_at - now;
            next = Some(next.map_or(left, |next| next.min(left)));
        }
        next
    })
}

impl Job {
    /// Has the job worker end: by a signal that no code of a user's can catch.
    fn end(&mut self) {
        if self.pid != 0 {
            process::terminate(self.pid);
        } else if self.state == State::Ordered {
            // It may begin yet, and finds that the place is not its own.
            self.generation = self.generation.wrapping_add(1);
            self.state = State::Free;
        }
    }
}

/// The worker of a database begins, or ends: the job workers that there are end, and report to none.
pub fn end_all(database: u32) {
    with(|jobs| {
        for job in jobs.iter_mut().filter(|job| job.state != State::Free) {
            if job.database == database {
                job.is_orphan = true;
                job.end();
                if job.pid == 0 {
                    job.state = State::Free;
                }
            }
        }
    });
}

/// Whether a database has job workers.
pub fn has_any(database: u32) -> bool {
    with(|jobs| jobs.iter().any(|job| job.state != State::Free && job.database == database))
}

/// Makes this process the job worker of a place; its database. None if it is not wanted any more.
pub fn register(id: JobId) -> Option<u32> {
    let (pid, index) = (process::pid(), process::index());
    let database = with(|jobs| {
        let job = find(jobs, id).filter(|job| job.state == State::Ordered && job.pid == 0)?;
        (job.pid, job.process) = (pid, index);
        Some(job.database)
    });
    OWN.set(database.map(|_| id));
    database
}

/// The next work of this job worker: a table, and what to do. None if there is none yet.
pub fn next() -> Option<(u32, Work)> {
    let id = OWN.get()?;
    let (sessions, places) = (orders::session_room(), orders::place_room());
    with(|jobs| {
        let job = find(jobs, id).filter(|job| job.state == State::Ordered)?;
        job.state = State::Running;
        Some((job.order.table, job.order.read_work(sessions, places)))
    })
}

/// This job worker gets on: it is not ended before this instant.
pub fn put_off(stop_at: i64) {
    let Some(id) = OWN.get() else { return };
    with(|jobs| {
        if let Some(job) = find(jobs, id).filter(|job| !job.is_stopped) {
            job.stop_at = stop_at;
        }
    });
}

/// Hands in what came of this job worker's work.
pub fn report(report: &Report) {
    let Some(id) = OWN.get() else { return };
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

/// Ends the use of this job worker if it has nothing to do; false if it has.
pub fn retire() -> bool {
    let Some(id) = OWN.get() else { return true };
    with(|jobs| match find(jobs, id) {
        Some(job) if job.state == State::Idle => {
            (job.state, job.pid) = (State::Free, 0);
            true
        }
        Some(_) => false,
        None => true,
    })
}

/// This job worker ends, for whatever reason.
pub fn unregister() {
    let Some(id) = OWN.take() else { return };
    let database = with(|jobs| {
        let job = find(jobs, id).filter(|job| job.state != State::Free)?;
        job.pid = 0;
        job.state = match job.state {
            _ if job.is_orphan => State::Free,
            State::Ordered | State::Running => State::Ended,
            State::Done => State::Done,
            _ => State::Free,
        };
        Some(job.database)
    });
    if let Some(database) = database {
        databases::wake(database);
    }
}
