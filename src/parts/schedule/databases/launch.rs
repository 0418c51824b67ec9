//! What the launcher asks and reports: which databases claim a place for a background worker, and what came of it.

use crate::parts::locks::{Directory, directory};
use crate::parts::schedule::NEVER;
use crate::parts::schedule::databases::{DIRECTORY, Database, Databases, LIMIT, NO_PROCESS, find};
use crate::parts::schedule::job_claim::{JobClaim, Rivals};
use crate::parts::schedule::rota::{Claim, Purpose, STARVES_AFTER};
use crate::server::{latch, process, time};

/// A place that was given up is free when the process has ended. After this (µs) others are asked for theirs.
const EXIT_TIME: i64 = 500_000;

fn shared(directory: &mut Directory) -> &mut Databases {
    &mut DIRECTORY.get_mut(directory)[0]
}

/// Makes this process the launcher.
pub fn register_launcher() {
    let mut directory = directory();
    let databases = shared(&mut directory);
    (databases.launcher, databases.launcher_pid) = (process::index(), process::pid());
}

/// Returns the process that the server is to tell when a background worker of ours has ended; 0 if there is none.
pub fn launcher_pid() -> i32 {
    DIRECTORY.get(&directory())[0].launcher_pid
}

/// Returns the claims, in the order in which they are to be met.
pub fn claims() -> Vec<Claim> {
    let mut claims = Vec::with_capacity(2 * LIMIT);
    let now = time::now();
    for known in DIRECTORY.get(&directory())[0].databases.iter() {
        let mut claim = |since, purpose| claims.push(Claim { since, database: known.oid, purpose });
        match known.claims_at() {
            since if since <= now => claim(since, Purpose::Worker),
            _ => {
                if let Some(since) = known.job_claims_at(now) {
                    claim(since, Purpose::Job);
                }
            }
        }
    }
    claims.sort_unstable();
    claims
}

/// Returns when the next database claims a place; None if none will, unless something happens.
pub fn next_claim() -> Option<i64> {
    let now = time::now();
    let directory = directory();
    let claims = DIRECTORY.get(&directory)[0].databases.iter().map(Database::claims_at);
    claims.filter(|at| *at > now && *at != NEVER).min()
}

/// Returns the database whose worker gave its place up and is needed next.
pub fn resting() -> Option<u32> {
    let directory = directory();
    let databases = DIRECTORY.get(&directory)[0].databases.iter();
    let is_resting = |database: &&Database| database.has_rested && database.lacks_worker();
    databases.filter(is_resting).min_by_key(|database| database.needed_at).map(|known| known.oid)
}

/// Returns whether databases share fewer places than they need.
pub fn are_short() -> bool {
    let directory = directory();
    let databases = &DIRECTORY.get(&directory)[0];
    let is_resting = |database: &Database| database.has_rested && database.lacks_worker();
    databases.waiting > 0 || databases.databases.iter().any(is_resting)
}

/// Marks the worker of a database as starting. False if none is to be started.
pub fn begin_start(oid: u32) -> bool {
    let mut directory = directory();
    let Some(database) = find(&mut directory, oid).filter(|known| known.lacks_worker()) else {
        return false;
    };
    database.starting = time::now();
    true
}

/// Records that a worker could not be started; the launcher tries again.
pub fn not_started(oid: u32) {
    if let Some(database) = find(&mut directory(), oid) {
        database.starting = 0;
    }
}

/// Returns whether requested workers have not begun yet.
pub fn are_starting() -> bool {
    DIRECTORY.get(&directory())[0].databases.iter().any(|database| database.starting != 0)
}

/// Records that there was a place for a worker.
pub fn has_place() {
    let mut directory = directory();
    let databases = shared(&mut directory);
    databases.leaving = databases.leaving.saturating_sub(1);
}

/// Records the claims that could not be met. As many workers that are not needed for a while, those that are needed last
/// first, are woken to give their places up.
pub fn has_no_place(unmet: &[Claim]) {
    let now = time::now();
    let mut directory = directory();
    let databases = shared(&mut directory);
    if now.saturating_sub(databases.left_at) >= EXIT_TIME {
        databases.leaving = 0;
    }
    databases.waiting = (unmet.len() as u32).saturating_sub(databases.leaving);
    let jobs = || unmet.iter().filter(|claim| claim.purpose == Purpose::Job);
    for known in databases.databases.iter_mut() {
        known.is_job_waiting = jobs().any(|claim| claim.database == known.oid);
    }
    let mut is_woken = [false; LIMIT];
    for _ in 0..databases.waiting {
        let known = databases.databases.iter().enumerate();
        let may_go = known.filter(|(index, known)| !is_woken[*index] && known.is_idle(now));
        let Some((index, known)) = may_go.max_by_key(|(_, known)| known.needed_at) else { return };
        is_woken[index] = true;
        latch::wake(known.worker);
    }
}

/// Keeps the next free place for a job worker of a database, whose worker is told and keeps its own meanwhile. False if none
/// is kept for it now: the claims behind it pass.
pub fn keep_place(oid: u32) -> bool {
    let now = time::now();
    let mut directory = directory();
    let shared = shared(&mut directory);
    let waits = |known: &Database| known.oid == oid && known.job_claims_at(now).is_some();
    let Some(index) = shared.databases.iter().position(waits) else { return false };
    let claim = shared.databases[index].job;
    let others = || shared.databases.iter().filter(|known| known.oid != 0 && known.oid != oid);
    let rivals = Rivals {
        have_places: others().any(Database::is_attended),
        are_before: others().any(|known| known.may_come_before(&claim, now)),
    };
    let database = &mut shared.databases[index];
    let is_kept = database.job.keep(now, rivals, &mut shared.last_kept);
    if is_kept {
        latch::wake(database.worker);
    }
    is_kept
}

/// Returns until when a place is kept for a job worker.
pub fn kept_until() -> Option<i64> {
    let now = time::now();
    let directory = directory();
    let databases = DIRECTORY.get(&directory)[0].databases.iter();
    let known = databases.filter(|known| known.oid != 0);
    known.filter_map(|known| known.job.kept_until(now)).min()
}

/// Puts a database off that accepts no connections at present.
pub fn put_off(oid: u32) {
    if let Some(database) = find(&mut directory(), oid) {
        database.pause_after_failure();
    }
}

/// Returns the databases whose workers could not connect and that were not reported; now they are.
pub fn unreachable() -> Vec<u32> {
    let mut unreachable = Vec::with_capacity(LIMIT);
    let mut directory = directory();
    for database in shared(&mut directory).databases.iter_mut().filter(|known| known.has_failed()) {
        if !std::mem::replace(&mut database.is_failure_reported, true) {
            unreachable.push(database.oid);
        }
    }
    unreachable
}

/// Returns the databases that have waited for a place for too long and were not reported; now they are.
pub fn starving() -> Vec<u32> {
    let now = time::now();
    let mut starving = Vec::with_capacity(LIMIT);
    let mut directory = directory();
    for database in shared(&mut directory).databases.iter_mut() {
        if database.starves(now) && !std::mem::replace(&mut database.is_reported, true) {
            starving.push(database.oid);
        }
    }
    starving
}

impl Database {
    /// Returns since when its worker has waited for a place for a job worker; None if it does not, or cannot use one yet.
    fn job_claims_at(&self, now: i64) -> Option<i64> {
        let works = self.oid != 0 && self.worker != NO_PROCESS && self.first_round != 0;
        self.job.waits_since(now).filter(|_| works)
    }

    /// Returns whether it has waited for a place for a job worker for longer. One for which a place was kept in vain in this turn,
    /// or whose worker is not due, lets others pass.
    fn may_come_before(&self, claim: &JobClaim, now: i64) -> bool {
        let waits = match self.worker {
            NO_PROCESS => self.is_attended() || self.claims_at() <= now,
            _ => self.job.waits_since(now).is_some(),
        };
        waits && self.job.is_before(claim)
    }

    /// Returns whether the last worker could not connect.
    fn has_failed(&self) -> bool {
        self.oid != 0 && self.worker == NO_PROCESS && self.failure_pause != 0
    }

    /// Returns whether its worker sleeps and would give its place up.
    fn is_idle(&self, now: i64) -> bool {
        self.worker != NO_PROCESS
            && self.woken_at == 0
            && self.job.kept_until(now).is_none()
            && self.tenure().is_idle(now, self.needed_at)
    }

    /// Returns whether it has waited for a place for too long.
    pub(super) fn starves(&self, now: i64) -> bool {
        now.saturating_sub(self.claims_at()) >= STARVES_AFTER
    }
}
