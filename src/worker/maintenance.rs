//! What a worker does for a queue: it gives back what ended sessions have left, and acts on what is due. The database
//! worker does it for queues that run no code of users, a job worker for the others of an owner.

use crate::parts::leases::sessions;
use crate::parts::schedule::{Kind, NEVER};
use crate::parts::slot::{self, QueueGuard};
use crate::server::time;
use crate::server::types::Uuid;
use crate::server::xact::Failure;
use crate::worker::job::{Manner, Outcome};
use crate::worker::means::Progress;
use crate::worker::work::{self, Refused, Report, Work};
use pgrx::pg_sys::Oid;
use std::time::Duration;
use xqueue_core::slot_id::SlotId;

/// Before the next try on a table or row that is locked: doubled each time, up to a limit.
pub const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Before the next try after a failure. Tasks that fall due are tried in between, and so is all once the table is
/// altered.
const FAILURE_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// Before the next try where tasks are as they were before they were changed, as when a trigger reverts it.
const STUCK_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(2));
/// Before the next try of work that took too long, which delays others.
pub const SLOW_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
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

/// Why a worker has to leave a queue to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    Gone,
    RunsUserCode,
    /// It takes too long for the database worker.
    Slow,
    OwnedBy(Oid),
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
    pub fn work(&mut self, table: Oid, manner: Manner) -> Option<Unfit> {
        if slot::lock(self.slot)?.take_sweep() {
            self.sweep = may_have_taken(self.slot);
        }
        let kinds = [Maintenance::reap, Maintenance::find_lost, Maintenance::act_on_time];
        kinds.into_iter().find_map(|work| work(self, table, manner))
    }

    fn reap(&mut self, table: Oid, manner: Manner) -> Option<Unfit> {
        if self.ended.is_empty() || !self.is_due(Kind::Orphans) {
            return None;
        }
        let sessions: Vec<Uuid> = self.ended.iter().take(SESSIONS).copied().collect();
        let (report, unfit) =
            self.perform(Kind::Orphans, table, &Work::Reap { sessions: sessions.clone() }, manner);
        if let Some(report) = report {
            // Sessions that still hold tasks come after the others.
            self.ended.retain(|session| !sessions.contains(session));
            self.ended.extend(report.sessions);
        }
        unfit
    }

    fn find_lost(&mut self, table: Oid, manner: Manner) -> Option<Unfit> {
        if !self.sweep || !self.is_due(Kind::Orphans) {
            return None;
        }
        let (report, unfit) = self.perform(Kind::Orphans, table, &Work::FindLost, manner);
        if let Some(report) = report {
            self.sweep = report.has_more;
            let is_new = |session: &Uuid| !self.ended.contains(session);
            let lost: Vec<Uuid> = report.sessions.into_iter().filter(is_new).collect();
            self.ended.extend(lost);
        }
        unfit
    }

    fn act_on_time(&mut self, table: Oid, manner: Manner) -> Option<Unfit> {
        let now = time::now();
        let (since, refused) = {
            let mut slot = slot::lock(self.slot)?;
            if slot.due() > now || slot.retry_left(Kind::Timed, now) > 0 {
                return None;
            }
            // No remaining task is due before, so the scan starts there and skips the dead index entries before it.
            let since = slot.due();
            slot.forget_due();
            let refused = match slot.retry_left(Kind::Refused, now) {
                0 if slot.has_failed(Kind::Refused) => Refused::Again,
                // All is looked for, as after a change of the table.
                left if left == 0 || since == i64::MIN => Refused::Unknown,
                _ => Refused::Rest,
            };
            (since, refused)
        };
        let work = Work::Timed { now, since, refused, first: self.first };
        let (report, unfit) = self.perform(Kind::Timed, table, &work, manner);
        if let Some(mut slot) = slot::lock(self.slot) {
            let next = match &report {
                // What is not known is looked up at the next try.
                None => Some(i64::MIN),
                Some(report) => {
                    let again = rest_refusing(&mut slot, refused, report);
                    report.next.into_iter().chain(again).min()
                }
            };
            if let Some(next) = next {
                slot.lower_due(next);
            }
        }
        self.first = report.map_or(self.first, |report| report.first);
        unfit
    }

    /// Does work and notes in the slot what came of it.
    fn perform(
        &self,
        kind: Kind,
        table: Oid,
        work: &Work,
        manner: Manner,
    ) -> (Option<Report>, Option<Unfit>) {
        let outcome = work::perform(table, work, manner);
        let now = time::now();
        let Some(mut slot) = slot::lock(self.slot) else { return (None, Some(Unfit::Gone)) };
        let mut fail = |failure: &Failure, is_paused: bool| {
            let is_canceled = failure.is_canceled();
            slot.fail(kind, &failure.message);
            if is_paused {
                slot.retry_after(kind, now, if is_canceled { SLOW_PAUSES } else { FAILURE_PAUSES });
            }
        };
        let unfit = match &outcome {
            Ok(Outcome::Done(report)) => {
                let is_slow = report.is_slow && manner == Manner::Brief;
                match (&report.failure, report.progress) {
                    // The tasks that have failed rest by themselves.
                    (Some(failure), Progress::Made) => {
                        fail(failure, false);
                        slot.end_retry(kind);
                    }
                    (Some(failure), progress) => {
                        let is_paused = kind == Kind::Orphans || failure.is_canceled();
                        fail(failure, is_paused);
                        if !is_paused && progress == Progress::Locked {
                            slot.retry_after(kind, now, BUSY_PAUSES);
                        }
                    }
                    (None, progress) => {
                        slot.end_failure(kind);
                        match progress {
                            Progress::Made => slot.end_retry(kind),
                            Progress::Locked => slot.retry_after(kind, now, BUSY_PAUSES),
                            Progress::Stuck => slot.retry_after(kind, now, STUCK_PAUSES),
                        }
                    }
                }
                is_slow.then_some(Unfit::Slow)
            }
            Ok(Outcome::Busy) => {
                slot.retry_after(kind, now, BUSY_PAUSES);
                None
            }
            Ok(Outcome::Gone) => {
                slot.retry_after(kind, now, SLOW_PAUSES);
                Some(Unfit::Gone)
            }
            Ok(Outcome::RunsUserCode) => Some(Unfit::RunsUserCode),
            Ok(Outcome::OwnedBy(owner)) => Some(Unfit::OwnedBy(*owner)),
            Err(failure) if failure.is_canceled() && manner == Manner::Brief => Some(Unfit::Slow),
            Err(failure) => {
                fail(failure, true);
                None
            }
        };
        let report = match outcome {
            Ok(Outcome::Done(report)) => Some(report),
            _ => None,
        };
        (report, unfit)
    }

    fn is_due(&self, kind: Kind) -> bool {
        slot::lock(self.slot).is_some_and(|slot| slot.retry_left(kind, time::now()) == 0)
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

/// Lets tasks rest that statements could not change; returns when they are to be tried again. Others that refuse
/// meanwhile are tried with them.
fn rest_refusing(slot: &mut QueueGuard, refused: Refused, report: &Report) -> Option<i64> {
    let now = time::now();
    let tried = report.refused.as_ref();
    let again = tried.and_then(|tried| tried.failure.as_ref());
    let refuses = report.progress == Progress::Stuck
        && report.failure.as_ref().is_some_and(|failure| !failure.is_canceled());
    if refused != Refused::Rest {
        let is_over = again.is_none() && (tried.is_some() || report.failure.is_none());
        if is_over || tried.is_some_and(|tried| tried.tasks > 0) {
            slot.end_retry(Kind::Refused);
        }
        match again {
            Some(failure) => slot.fail(Kind::Refused, &failure.message),
            None if refuses => slot.keep_failure(Kind::Refused),
            None if is_over => {
                slot.end_failure(Kind::Refused);
                // More may be left than a batch.
                return tried.map(|_| i64::MIN);
            }
            None => {}
        }
        if again.is_some() || refuses {
            slot.retry_after(Kind::Refused, now, FAILURE_PAUSES);
        }
    }
    let is_known = slot.has_failed(Kind::Refused);
    is_known.then(|| now.saturating_add(slot.retry_left(Kind::Refused, now)))
}

/// Returns whether a queue may have taken tasks.
pub fn may_have_taken(slot: SlotId) -> bool {
    // A take that is visible may have been given back before it is counted, which needs the slot's lock: until then the
    // counters say too little.
    slot::lock(slot).is_some_and(|slot| slot.has_taken()) || sessions::any_committing(|_| true)
}
