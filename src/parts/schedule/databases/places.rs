//! The worker of a database and its place: it takes it, reports its rounds, and gives the place up when others wait.

use crate::parts::locks::{Directory, directory};
use crate::parts::schedule::NEVER;
use crate::parts::schedule::databases::{
    DIRECTORY, Database, NO_PROCESS, Requests, find, wake_launcher,
};
use crate::parts::schedule::job_claim::JobClaim;
use crate::parts::schedule::rota::Tenure;
use crate::server::{process, time};

/// A database whose worker has failed gets another one no sooner than this after it began (µs).
const START_INTERVAL: i64 = 1_000_000;
/// Needed all the time.
const BUSY: i64 = i64::MIN;

/// What a worker leaves behind if it gives its place up after this round.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// When the database needs a worker again.
    pub needed_at: i64,
    /// All that is left to do is known to others than this process.
    pub is_clean: bool,
    /// Requests to the next worker.
    pub requests: Requests,
}

impl Requests {
    const ALL: Requests = Requests {
        registry: true,
        sweep: true,
        prepared: true,
        sessions: true,
        metrics: false,
        recount: true,
    };

    fn or(self, others: Requests) -> Requests {
        Requests {
            registry: self.registry | others.registry,
            sweep: self.sweep | others.sweep,
            prepared: self.prepared | others.prepared,
            sessions: self.sessions | others.sessions,
            metrics: self.metrics | others.metrics,
            recount: self.recount | others.recount,
        }
    }
}

impl Database {
    pub(super) fn tenure(&self) -> Tenure {
        Tenure { begun: self.begun, first_round: self.first_round }
    }

    /// Returns whether this process is the worker of the database.
    fn is_worker(&self, oid: u32) -> bool {
        self.oid == oid && self.worker == process::index()
    }

    /// Returns how many claims need this worker: it does not go for them.
    fn own_claims(&self) -> u32 {
        u32::from(self.is_job_waiting)
    }
}

/// Makes this process the worker of a database; None if none is wanted there. True if the worker before it left
/// nothing that has to be looked for.
pub fn register_worker(oid: u32) -> Option<bool> {
    let mut directory = directory();
    let database = find(&mut directory, oid).filter(|known| known.worker == NO_PROCESS)?;
    database.starting = 0;
    (database.worker, database.has_connected) = (process::index(), false);
    (database.pid, database.begun) = (process::pid(), time::now());
    (database.first_round, database.round_at, database.woken_at) = (0, 0, 0);
    (database.due_at, database.needed_at) = (database.begun, BUSY);
    (database.is_reported, database.is_job_waiting) = (false, false);
    database.job.wait_again();
    let resumes = std::mem::take(&mut database.has_rested) && !database.requests.registry;
    // One that resumes knows the queues as soon as it has read them.
    database.works = resumes;
    database.requests.registry = true;
    if !resumes {
        database.requests = Requests::ALL.or(database.requests);
    }
    Some(resumes)
}

/// Records that this database's worker has connected to it.
pub fn report_connection(oid: u32) {
    if let Some(database) = find(&mut directory(), oid) {
        (database.has_connected, database.failure_pause) = (true, 0);
        database.is_failure_reported = false;
    }
}

/// Returns whether this process is the worker of a database.
pub fn is_own(oid: u32) -> bool {
    find(&mut directory(), oid).is_some_and(|database| database.worker == process::index())
}

/// Ends this process's role as the worker of its database. `wanted`: another one has to follow.
pub fn unregister_worker(oid: u32, wanted: bool) {
    let mut directory = directory();
    if let Some(database) = find(&mut directory, oid)
        && database.worker == process::index()
    {
        database.worker = NO_PROCESS;
        (database.needed_at, database.job) = (time::now(), JobClaim::NONE);
        database.is_job_waiting = false;
        if wanted && database.has_connected {
            database.not_before = database.begun + START_INTERVAL;
        } else if wanted {
            database.pause_after_failure();
        }
        // A session that requested a look meanwhile may have installed the extension.
        database.wanted &= wanted || database.requests.registry;
        database.free_if_idle();
    }
    wake_launcher(&directory);
}

/// Returns the requests since the last call, and whether this worker's turn is over and others wait: it is not to begin
/// what would keep it. None if the worker has to leave.
pub fn take_requests(oid: u32) -> Option<(Requests, bool)> {
    let now = time::now();
    let mut directory = directory();
    let databases = &mut DIRECTORY.get_mut(&mut directory)[0];
    let database = databases.databases.iter_mut().find(|known| known.oid == oid)?;
    (database.woken_at, database.due_at) = (0, now);
    database.needed_at = BUSY;
    let is_asked =
        databases.waiting > database.own_claims() && database.job.kept_until(now).is_none();
    let is_over = is_asked && database.first_round != 0 && database.tenure().gives_up(now, now);
    (database.occupied == 0).then(|| (std::mem::take(&mut database.requests), is_over))
}

/// Returns whether a recount has come to be waited for since the last call, in the middle of a round.
pub fn take_recount_request(oid: u32) -> bool {
    let mut directory = directory();
    find(&mut directory, oid).is_some_and(|database| std::mem::take(&mut database.requests.recount))
}

/// Records that this database's worker has ended a round, and begins the next one `pause` microseconds later unless it
/// is woken. True if others wait for its place. `is_at_work`: job workers are, and it cannot give its place up. `wants_place`:
/// it keeps its claim for a job worker, if it has one.
pub fn report_round(oid: u32, pause: Option<i64>, is_at_work: bool, wants_place: bool) -> bool {
    let now = time::now();
    let mut directory = directory();
    if !wants_place {
        end_claim(&mut directory, oid);
    }
    let databases = &mut DIRECTORY.get_mut(&mut directory)[0];
    let known = databases.databases.iter_mut().find(|known| known.is_worker(oid));
    let Some(database) = known else { return false };
    database.round_at = now;
    if database.first_round == 0 {
        database.first_round = now;
    }
    database.due_at = pause.map_or(NEVER, |pause| now.saturating_add(pause));
    database.needed_at = if is_at_work { BUSY } else { database.due_at };
    !is_at_work && databases.waiting > database.own_claims()
}

/// Gives the place of this database's worker up if it is not needed for a while, or its turn is over, and others still
/// wait. True if it has: the process has to end.
pub fn give_up(oid: u32, rest: Rest) -> bool {
    let now = time::now();
    let mut directory = directory();
    let databases = &mut DIRECTORY.get_mut(&mut directory)[0];
    let known = databases.databases.iter_mut().find(|known| known.is_worker(oid));
    let Some(database) = known else { return false };
    let is_woken = database.woken_at != 0 || database.requests != Requests::default();
    let needed_at = if is_woken { now } else { rest.needed_at };
    let is_wanted = databases.waiting > database.own_claims();
    let stays =
        database.job.kept_until(now).is_some() || !database.tenure().gives_up(now, needed_at);
    if !is_wanted || stays {
        return false;
    }
    (database.worker, database.is_job_waiting) = (NO_PROCESS, false);
    // Behind those that wait.
    database.needed_at = needed_at.max(now);
    database.has_rested = rest.is_clean;
    database.requests = database.requests.or(rest.requests);
    (databases.waiting, databases.leaving) = (databases.waiting - 1, databases.leaving + 1);
    databases.left_at = now;
    wake_launcher(&directory);
    true
}

/// Records that this database's worker has made a round of its queues.
pub fn report_work(oid: u32) {
    if let Some(database) = find(&mut directory(), oid) {
        database.works = true;
    }
}

/// Claims a place for a job worker of a database, as the server has none. Returns for how long it has waited (µs).
pub fn want_place(oid: u32) -> i64 {
    let now = time::now();
    let mut directory = directory();
    let Some(database) = find(&mut directory, oid) else { return 0 };
    database.job.claim(now);
    let since = database.job.waits_since(now);
    // An old one may be the first by now.
    if database.job.kept_until(now).is_none() {
        wake_launcher(&directory);
    }
    since.map_or(0, |since| now.saturating_sub(since))
}

/// Withdraws that claim: a place was found.
pub fn drop_claim(oid: u32) {
    end_claim(&mut directory(), oid);
}

fn end_claim(directory: &mut Directory, oid: u32) {
    let databases = &mut DIRECTORY.get_mut(directory)[0];
    let known = databases.databases.iter_mut().find(|known| known.oid == oid);
    let Some(database) = known else { return };
    if database.job.end(time::now(), &mut databases.last_kept) {
        let was_waiting = std::mem::take(&mut database.is_job_waiting);
        databases.waiting = databases.waiting.saturating_sub(u32::from(was_waiting));
        wake_launcher(directory);
    }
}

/// Returns whether the next free place is kept for a job worker of a database.
pub fn is_place_kept(oid: u32) -> bool {
    let now = time::now();
    find(&mut directory(), oid).is_some_and(|database| database.job.kept_until(now).is_some())
}
