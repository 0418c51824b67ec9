//! What a worker does for a queue: it gives back what ended sessions have left, and acts on what is due. The database
//! worker does it for queues that run no code of users, a job worker for the others of an owner.

use crate::parts::leases::sessions;
use crate::parts::schedule::{Kind, NEVER};
use crate::parts::slot::{self, QueueGuard};
use crate::server::time;
use crate::server::types::Uuid;
use crate::server::xact::Failure;
use crate::worker::job::{self, Outcome, Unfit};
use crate::worker::means::Means;
use crate::worker::work::{self, Report};
use pgrx::pg_sys::Oid;
use std::time::Duration;
use xqueue_core::pause::Limits;
use xqueue_core::slot_id::SlotId;

/// Before the next try on a table that is locked.
pub const BUSY_PAUSES: Limits = (Duration::from_millis(1), Duration::from_millis(50));
/// Before the next try where tasks are as they were before: their rows are locked, or a trigger reverts the change.
const UNCHANGED_PAUSES: Limits = (Duration::from_millis(1), Duration::from_millis(500));
/// Before the next try after a failure. Tasks that fall due are tried in between, and so is all once the table is
/// altered.
const FAILURE_PAUSES: Limits = (Duration::from_millis(100), Duration::from_secs(60));
/// Before the next try of work that was cancelled because it took too long, which delays others.
const SLOW_PAUSES: Limits = (Duration::from_secs(1), Duration::from_secs(10));
/// Number of sessions whose tasks are given back in one job.
const SESSIONS: usize = 128;

/// The work on one queue, beyond what its slot says.
pub struct Maintenance {
    pub slot: SlotId,
    /// All taken tasks have to be compared with the live sessions.
    sweep: bool,
    /// Ended sessions that may have left tasks.
    ended: Vec<Uuid>,
    /// The kind of timed work with which the next job begins.
    first: usize,
}

impl Maintenance {
    pub fn of(slot: SlotId) -> Maintenance {
        Maintenance { slot, sweep: false, ended: vec![], first: 0 }
    }

    /// Stops looking: the tasks belong to another server, or to another worker.
    pub fn forget(&mut self) {
        *self = Maintenance::of(self.slot);
    }

    /// Looks for what a session has left that has ended.
    pub fn note_ended(&mut self, session: Uuid) {
        self.ended.push(session);
    }

    /// Does what there is to do: of each kind a batch, then it is the next queue's turn.
    pub fn work(&mut self, table: Oid) -> Result<(), Unfit> {
        if slot::with(self.slot, QueueGuard::take_sweep) == Some(true) {
            self.sweep = may_have_taken(self.slot);
        }
        self.reap(table)?;
        self.find_lost(table)?;
        self.act_on_time(table)?;
        self.retry_refused(table)
    }

    fn reap(&mut self, table: Oid) -> Result<(), Unfit> {
        if self.ended.is_empty() || !self.is_due(Kind::Orphans) {
            return Ok(());
        }
        let sessions: Vec<Uuid> = self.ended.iter().take(SESSIONS).copied().collect();
        let reap = |means: &Means| work::reap(means, &sessions);
        if let Some(report) = self.perform(Kind::Orphans, table, reap)? {
            // Sessions that still hold tasks come after the others.
            self.ended.retain(|session| !sessions.contains(session));
            self.ended.extend(report.sessions);
        }
        Ok(())
    }

    fn find_lost(&mut self, table: Oid) -> Result<(), Unfit> {
        if !self.sweep || !self.is_due(Kind::Orphans) {
            return Ok(());
        }
        if let Some(report) = self.perform(Kind::Orphans, table, work::find_lost)? {
            self.sweep = report.has_more;
            let is_new = |session: &Uuid| !self.ended.contains(session);
            let lost: Vec<Uuid> = report.sessions.into_iter().filter(is_new).collect();
            self.ended.extend(lost);
        }
        Ok(())
    }

    fn act_on_time(&mut self, table: Oid) -> Result<(), Unfit> {
        let now = time::now();
        let is_due = |slot: &QueueGuard| slot.due() <= now && slot.may_retry(Kind::Timed, now);
        let Some(mut slot) = slot::lock(self.slot).filter(is_due) else { return Ok(()) };
        // No remaining task is due before, so the scan starts there and skips the dead index entries before it.
        let since = slot.due();
        slot.forget_due();
        drop(slot);
        self.act_on_due(since, table)
    }

    /// Tries again what has refused, behind what has fallen due since.
    fn retry_refused(&mut self, table: Oid) -> Result<(), Unfit> {
        let has_refused = slot::lock(self.slot).is_some_and(|slot| slot.has_failed(Kind::Refused));
        match has_refused && self.is_due(Kind::Refused) && self.is_due(Kind::Timed) {
            true => self.act_on_due(i64::MIN, table),
            false => Ok(()),
        }
    }

    fn act_on_due(&mut self, since: i64, table: Oid) -> Result<(), Unfit> {
        let instants = (time::now(), since);
        let act = |means: &Means| work::act_on_time(means, instants, self.first);
        let report = self.perform(Kind::Timed, table, act);
        let next = match &report {
            Ok(Some(report)) => report.next,
            // What is not known is looked up at the next try.
            _ => Some(i64::MIN),
        };
        next.and_then(|next| slot::with(self.slot, |slot| slot.lower_due(next)));
        self.first = report?.map_or(self.first, |report| report.first);
        Ok(())
    }

    /// Does work and notes in the slot what came of it. None if it has not been done.
    fn perform(
        &self,
        kind: Kind,
        table: Oid,
        work: impl FnOnce(&Means) -> Report,
    ) -> Result<Option<Report>, Unfit> {
        let outcome = work::perform(table, work);
        let Some(mut slot) = slot::lock(self.slot) else { return Err(Unfit::Gone) };
        let now = time::now();
        match outcome {
            Ok(Outcome::Done(report)) => {
                note(&mut slot, kind, &report);
                let is_unfit = report.is_slow && !job::is_patient();
                return if is_unfit { Err(Unfit::Slow) } else { Ok(Some(report)) };
            }
            Ok(Outcome::Busy) => slot.retry_after(kind, now, BUSY_PAUSES),
            Ok(Outcome::Unfit(unfit)) => {
                if unfit == Unfit::Gone {
                    slot.retry_after(kind, now, SLOW_PAUSES);
                }
                return Err(unfit);
            }
            Err(failure) if failure.is_canceled() && !job::is_patient() => return Err(Unfit::Slow),
            Err(failure) => {
                slot.fail(kind, &failure.message);
                slot.retry_after(kind, now, pauses_after(&failure));
            }
        }
        Ok(None)
    }

    fn is_due(&self, kind: Kind) -> bool {
        slot::lock(self.slot).is_some_and(|slot| slot.may_retry(kind, time::now()))
    }

    /// Returns whether only tables and shared memory say what is left to do.
    pub fn is_settled(&self) -> bool {
        !self.sweep && self.ended.is_empty()
    }

    /// Returns when there is something to do next; `NEVER` if there is nothing.
    pub fn needed_at(&self, now: i64) -> i64 {
        let is_settled = self.is_settled();
        slot::lock(self.slot).map_or(NEVER, |slot| slot.needed_at(now, is_settled))
    }
}

/// Notes what came of work that was done.
fn note(slot: &mut QueueGuard, kind: Kind, report: &Report) {
    if report.tried_all && !report.refuses {
        slot.end_retry(Kind::Refused);
        slot.end_failure(Kind::Refused);
    }
    let kind = if report.refuses { Kind::Refused } else { kind };
    if report.has_progressed {
        slot.end_retry(kind);
    }
    match &report.failure {
        Some(failure) => slot.fail(kind, &failure.message),
        None => slot.end_failure(kind),
    }
    let pauses = match &report.failure {
        Some(failure) if report.refuses => pauses_after(failure),
        _ if report.has_progressed => return,
        // Tasks that the direct path could not change rest by themselves.
        Some(failure) if kind == Kind::Orphans || failure.is_canceled() => pauses_after(failure),
        _ => UNCHANGED_PAUSES,
    };
    slot.retry_after(kind, time::now(), pauses);
}

fn pauses_after(failure: &Failure) -> Limits {
    if failure.is_canceled() { SLOW_PAUSES } else { FAILURE_PAUSES }
}

/// Returns whether a queue may have taken tasks.
pub fn may_have_taken(slot: SlotId) -> bool {
    // A take that is visible may have been given back before it is counted, which needs the slot's lock: until then the
    // counters say too little.
    slot::lock(slot).is_some_and(|slot| slot.has_taken()) || sessions::any_committing(|_| true)
}
