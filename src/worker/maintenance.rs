//! The maintenance of a queue: gives back tasks of ended sessions, and acts on due tasks. The database worker does this
//! for queues that run no user code, a job worker for the other queues of an owner.
//!
//! A pause postpones the next attempt:
//! 1. Each [`WorkKind`] of work on a queue has a pause of its own. Other kinds and other queues go on meanwhile.
//! 2. A failure, a locked table or a job without progress begins a pause, twice as long as the previous one up to a
//!    limit.
//! 3. Progress resets the pause. An altered table ends all pauses of its queue.

use crate::parts::schedule::{NEVER, WorkKind};
use crate::parts::slot::{self, QueueGuard};
use crate::server::time;
use crate::server::types::Uuid;
use crate::server::xact::Failure;
use crate::worker::job::{self, JobOutcome, Unfit};
use crate::worker::means::Means;
use crate::worker::work::{self, Report};
use pgrx::pg_sys::Oid;
use std::time::Duration;
use xqueue_core::pause::Limits;
use xqueue_core::slot_id::SlotId;
use xqueue_core::status::Status;

/// Retry pauses while a table is locked.
pub const BUSY_PAUSES: Limits = (Duration::from_millis(1), Duration::from_millis(50));
/// Retry pauses after a job without effect: rows are locked, or a trigger reverts the change.
const UNCHANGED_PAUSES: Limits = (Duration::from_millis(1), Duration::from_millis(500));
/// Retry pauses after a failure. Tasks that fall due in between are tried, and all tasks are tried once the table is
/// altered.
const FAILURE_PAUSES: Limits = (Duration::from_millis(100), Duration::from_secs(60));
/// Retry pauses after work was cancelled because it took too long, which delays other queues.
const SLOW_PAUSES: Limits = (Duration::from_secs(1), Duration::from_secs(10));
/// Maximum number of sessions whose tasks one job gives back.
const SESSIONS: usize = 128;

/// The work on one queue that its slot does not hold.
pub struct Maintenance {
    pub slot: SlotId,
    /// All taken tasks have to be compared with the live sessions.
    sweep: bool,
    /// Ended sessions that can have left tasks.
    ended: Vec<Uuid>,
    /// The kind of timed work with which the next job begins.
    first: usize,
}

impl Maintenance {
    pub fn of(slot: SlotId) -> Maintenance {
        Maintenance { slot, sweep: false, ended: vec![], first: 0 }
    }

    /// Forgets this work, because the tasks belong to another server or another worker serves them.
    pub fn forget(&mut self) {
        *self = Maintenance::of(self.slot);
    }

    /// Records an ended session whose tasks are to be given back.
    pub fn note_ended(&mut self, session: Uuid) {
        self.ended.push(session);
    }

    /// Does one batch of each kind of work; then it is the next queue's turn.
    pub fn work(&mut self, table: Oid) -> Result<(), Unfit> {
        if slot::with(self.slot, |slot| slot.schedule.take_sweep()) == Some(true) {
            self.sweep = may_have_taken(self.slot);
        }
        self.reap(table)?;
        self.find_lost(table)?;
        self.act_on_time(table)?;
        self.retry_refused(table)
    }

    fn reap(&mut self, table: Oid) -> Result<(), Unfit> {
        if self.ended.is_empty() || !self.is_due(WorkKind::Orphans) {
            return Ok(());
        }
        let sessions: Vec<Uuid> = self.ended.iter().take(SESSIONS).copied().collect();
        let reap = |means: &Means| work::reap(means, &sessions);
        if let Some(report) = self.perform(WorkKind::Orphans, table, reap)? {
            // Sessions that still hold tasks come after the others.
            self.ended.retain(|session| !sessions.contains(session));
            self.ended.extend(report.sessions);
        }
        Ok(())
    }

    fn find_lost(&mut self, table: Oid) -> Result<(), Unfit> {
        if !self.sweep || !self.is_due(WorkKind::Orphans) {
            return Ok(());
        }
        if let Some(report) = self.perform(WorkKind::Orphans, table, work::find_lost)? {
            self.sweep = report.has_more;
            let is_new = |session: &Uuid| !self.ended.contains(session);
            let lost: Vec<Uuid> = report.sessions.into_iter().filter(is_new).collect();
            self.ended.extend(lost);
        }
        Ok(())
    }

    fn act_on_time(&mut self, table: Oid) -> Result<(), Unfit> {
        let now = time::now();
        let is_due = |slot: &QueueGuard| {
            slot.schedule.due() <= now && slot.schedule.may_retry(WorkKind::Timed, now)
        };
        let Some(mut slot) = slot::lock(self.slot).filter(is_due) else { return Ok(()) };
        // No remaining task is due before `since`, so the scan starts there and skips the dead index entries before it.
        let since = slot.schedule.due();
        slot.schedule.forget_due();
        drop(slot);
        self.act_on_due(since, table)
    }

    /// Retries tasks that refused a change, after tasks that have fallen due since.
    fn retry_refused(&mut self, table: Oid) -> Result<(), Unfit> {
        let has_refused =
            slot::lock(self.slot).is_some_and(|slot| slot.schedule.has_failed(WorkKind::Refused));
        match has_refused && self.is_due(WorkKind::Refused) && self.is_due(WorkKind::Timed) {
            true => self.act_on_due(i64::MIN, table),
            false => Ok(()),
        }
    }

    fn act_on_due(&mut self, since: i64, table: Oid) -> Result<(), Unfit> {
        let instants = (time::now(), since);
        let act = |means: &Means| work::act_on_time(means, instants, self.first);
        let report = self.perform(WorkKind::Timed, table, act);
        let next = match &report {
            Ok(Some(report)) => report.next,
            // The next due time is unknown, so the next attempt scans from the start.
            _ => Some(i64::MIN),
        };
        next.and_then(|next| slot::with(self.slot, |slot| slot.schedule.lower_due(next)));
        self.first = report?.map_or(self.first, |report| report.first);
        Ok(())
    }

    /// Does work and records its outcome in the slot. Returns None if it was not done.
    fn perform(
        &self,
        kind: WorkKind,
        table: Oid,
        work: impl FnOnce(&Means) -> Report,
    ) -> Result<Option<Report>, Unfit> {
        let outcome = work::perform(table, work);
        let Some(mut slot) = slot::lock(self.slot) else { return Err(Unfit::Gone) };
        let now = time::now();
        match outcome {
            Ok(JobOutcome::Done(report)) => {
                note(&mut slot, kind, &report);
                let is_unfit = report.is_slow && !job::is_patient();
                return if is_unfit { Err(Unfit::Slow) } else { Ok(Some(report)) };
            }
            Ok(JobOutcome::Busy) => slot.schedule.retry_after(kind, now, BUSY_PAUSES),
            Ok(JobOutcome::Unfit(unfit)) => {
                if unfit == Unfit::Gone {
                    slot.schedule.retry_after(kind, now, SLOW_PAUSES);
                }
                return Err(unfit);
            }
            Err(failure) if failure.is_canceled() && !job::is_patient() => return Err(Unfit::Slow),
            Err(failure) => {
                slot.fail(kind, &failure.message);
                slot.schedule.retry_after(kind, now, pauses_after(&failure));
            }
        }
        Ok(None)
    }

    fn is_due(&self, kind: WorkKind) -> bool {
        slot::lock(self.slot).is_some_and(|slot| slot.schedule.may_retry(kind, time::now()))
    }

    /// Returns whether tables and shared memory hold all remaining work.
    pub fn is_settled(&self) -> bool {
        !self.sweep && self.ended.is_empty()
    }

    /// Returns when there is something to do next; `NEVER` if there is nothing.
    pub fn needed_at(&self, now: i64) -> i64 {
        let is_settled = self.is_settled();
        slot::lock(self.slot).map_or(NEVER, |slot| slot.schedule.needed_at(now, is_settled))
    }
}

/// Records the outcome of work that was done.
fn note(slot: &mut QueueGuard, kind: WorkKind, report: &Report) {
    if report.tried_all && !report.refuses {
        slot.schedule.end_retry(WorkKind::Refused);
        slot.end_failure(WorkKind::Refused);
    }
    let kind = if report.refuses { WorkKind::Refused } else { kind };
    if report.has_progressed {
        slot.schedule.end_retry(kind);
    }
    match &report.failure {
        Some(failure) => slot.fail(kind, &failure.message),
        None => slot.end_failure(kind),
    }
    let pauses = match &report.failure {
        Some(failure) if report.refuses => pauses_after(failure),
        _ if report.has_progressed => return,
        // Tasks that failed on the direct path have a pause of their own, see [`crate::worker::resting`].
        Some(failure) if kind == WorkKind::Orphans || failure.is_canceled() => {
            pauses_after(failure)
        }
        _ => UNCHANGED_PAUSES,
    };
    slot.schedule.retry_after(kind, time::now(), pauses);
}

fn pauses_after(failure: &Failure) -> Limits {
    if failure.is_canceled() { SLOW_PAUSES } else { FAILURE_PAUSES }
}

/// Returns whether a queue can have taken tasks.
pub fn may_have_taken(slot: SlotId) -> bool {
    slot::lock(slot).is_some_and(|slot| slot.may_have(Status::Taken))
}
