//! A worker's reports about itself: when it begins, makes progress, sleeps and leaves.
//!
//! At the end of a round a worker leaves in each of these cases:
//! 1. A request waits for a worker slot, and this worker is not needed for a while or its turn has ended. The only
//!    database worker stays, because no job worker begins without it.
//! 2. Another owner waits for the turn of this job worker, which is not needed for a while or has ended its turn. It
//!    stays if it was asked again.
//! 3. This job worker has been idle for long. It stays if it was asked again.

use crate::parts::locks::directory;
use crate::parts::schedule::NEVER;
use crate::parts::schedule::process::{FAILURE_PAUSES, NO_PROCESS, TURN};
use crate::parts::schedule::workers::{
    Requests, Worker, WorkerAssignment, WorkerId, Workers, workers,
};
use crate::server::time;
use std::cell::Cell;
use xqueue_core::pause::Pause;

/// How long a job worker with continuous work goes on while other owners of its database wait (µs). Starting another
/// job worker takes some milliseconds.
const OWNER_TURN: i64 = 100_000;

thread_local! {
    static OWN: Cell<Option<(WorkerId, WorkerAssignment)>> = const { Cell::new(None) };
}

/// Returns the owner whose code this process is allowed to run, if it is a job worker.
pub fn served_owner() -> Option<u32> {
    let own = OWN.get().map(|(_, own)| own)?;
    (!own.is_database() && !own.is_count()).then_some(own.owner)
}

/// Makes this process the worker of an entry. Returns None if the worker is no longer wanted.
pub fn register(id: WorkerId) -> Option<WorkerAssignment> {
    let now = time::now();
    let of = {
        let mut directory = directory();
        let worker = workers(&mut directory).worker(id);
        let worker = worker.filter(|worker| !worker.process.is_there())?;
        worker.begin(now);
        worker.of
    };
    OWN.set(Some((id, of)));
    Some(of)
}

/// Records that this worker has connected to its database.
pub fn report_connection() {
    if let Some(worker) = workers(&mut directory()).own() {
        worker.has_connected = true;
        if worker.of.is_database() {
            (worker.is_failure_reported, worker.process.pause) = (false, Pause::NONE);
        }
    }
}

/// Begins a round. Returns the requests since the last round, or None if this process has to leave because a command
/// needs its database.
pub fn begin_round() -> Option<Requests> {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let worker = workers.own()?;
    (worker.process.woken_at, worker.process.needed_at) = (0, now);
    let (requests, database) = (std::mem::take(&mut worker.requests), worker.of.database);
    (!workers.is_occupied(database)).then_some(requests)
}

/// Records the table on which this job worker works, and when it is terminated unless it reports progress before.
pub fn get_on(table: Option<u32>, stop_at: i64) {
    if OWN.get().is_none_or(|(_, own)| own.is_database()) {
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

/// Ends a round. The next one begins at `sleeps_until`, unless this process is woken before. Returns whether others
/// wait for its worker slot or its turn. `has_worked`: this round read all definitions, or ran code of the owner to its
/// end.
pub fn end_round(sleeps_until: i64, has_worked: bool) -> bool {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let waits = workers.waiting > 0 || workers.has_rival(now);
    let Some(worker) = workers.own() else { return false };
    (worker.round_at, worker.process.needed_at) = (now, sleeps_until);
    (worker.table, worker.stop_at) = (0, NEVER);
    if worker.process.first_round == 0 {
        worker.process.first_round = now;
    }
    worker.works |= has_worked;
    if has_worked {
        worker.process.pause.length /= 2;
    }
    waits
}

/// Leaves if others wait and this worker is not needed before `needed_at` or its turn has ended. If it returns true,
/// the process has to end. `is_idle`: leaves in any case, unless it was woken.
pub fn leave(needed_at: i64, is_idle: bool) -> bool {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let has_rival = workers.has_rival(now);
    let is_alone = workers.has_one_database_worker(now);
    let waits = workers.waiting > 0;
    let Some(worker) = workers.own() else { return true };
    let is_asked = worker.is_asked();
    // A worker that was asked again is needed now, behind the waiting requests.
    let needed_at = match is_asked {
        true => now,
        false if is_idle => NEVER,
        false => needed_at.max(now),
    };
    let leaves_slot = waits
        && !(is_alone && worker.of.is_database())
        && worker.process.gives_way(now, needed_at, TURN);
    let is_over = is_idle || has_rival && worker.process.gives_way(now, needed_at, OWNER_TURN);
    worker.has_left = leaves_slot || is_over && !is_asked;
    if !worker.has_left {
        return false;
    }
    worker.process.needed_at = needed_at;
    if leaves_slot {
        workers.waiting -= 1;
        (workers.leaving, workers.left_at) = (workers.leaving + 1, now);
        workers.wake_launcher();
    }
    true
}

/// Leaves a database without the extension. If a session has requested a check meanwhile, it can have installed the
/// extension, so the database stays wanted.
pub fn retire() {
    if let Some(worker) = workers(&mut directory()).own() {
        worker.has_left = true;
        worker.wanted = worker.requests.registry;
    }
}

/// How a job worker ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub of: WorkerAssignment,
    /// It ends in the middle of its work.
    pub is_abnormal: bool,
    /// The table on which it worked.
    pub table: u32,
    /// It was terminated because it took too long.
    pub is_stopped: bool,
}

/// Returns how this job worker ends.
pub fn end() -> Option<Ended> {
    let mut directory = directory();
    let job = workers(&mut directory).own()?;
    let (is_abnormal, is_stopped) = (!job.has_left, job.stopped_at != 0);
    Some(Ended { of: job.of, is_abnormal, table: job.table, is_stopped })
}

/// Ends this process's role as a worker.
pub fn unregister() {
    let now = time::now();
    let mut directory = directory();
    let workers = workers(&mut directory);
    let Some(of) = workers.own().map(|worker| worker.of) else { return };
    let is_occupied = workers.is_occupied(of.database);
    if let Some(worker) = workers.own() {
        worker.exit(now, is_occupied);
    }
    workers.wake_launcher();
    if !of.is_database() {
        workers.need(of.database, i64::MIN);
    }
}

impl Worker {
    /// Records that the process ends. A failed process is followed by a pause. A job worker that has failed is started
    /// again only if the database worker requests it.
    fn exit(&mut self, now: i64, is_occupied: bool) {
        let needed_at = match self.has_left {
            true if self.is_asked() => now,
            true => self.process.needed_at,
            false if self.of.is_database() => now,
            false => NEVER,
        };
        (self.process.index, self.process.needed_at) = (NO_PROCESS, needed_at);
        if !self.has_left && (self.of.is_database() || !is_occupied) {
            let since = if self.has_connected { self.process.begun } else { now };
            self.process.pause.begin(since, FAILURE_PAUSES);
        }
        self.free_if_idle(now);
    }
}

impl Workers {
    fn own(&mut self) -> Option<&mut Worker> {
        self.worker(OWN.get()?.0).filter(|worker| worker.process.is_own())
    }

    /// Returns whether another owner waits for the turn of this job worker.
    fn has_rival(&mut self, now: i64) -> bool {
        let Some((_, own)) = OWN.get() else { return false };
        self.jobs().iter().any(|job| job.of.is_rival(&own) && job.requested_at(now) <= now)
    }
}
