//! The jobs of a queue: the work of each within its transaction, in the database worker or a job worker.

use crate::error::OrRaise;
use crate::parts::leases::store;
use crate::parts::slot;
use crate::queue::Queue;
use crate::server::time;
use crate::server::types::Uuid;
use crate::server::xact::Failure;
use crate::worker::job::{self, Changed, JobOutcome};
use crate::worker::means::Means;
use crate::worker::resting;
use crate::write::direct::upkeep::Wanted;
use pgrx::pg_sys::Oid;
use std::time::Duration;
use xqueue_core::field::Field;
use xqueue_core::statement::Change;
use xqueue_core::status::Status;

/// The outcome of work whose transaction has committed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// There was progress, or nothing is left. Otherwise the remaining rows are locked by other transactions, or were
    /// changed without effect, for example by a trigger.
    pub has_progressed: bool,
    /// The next instant to act, after timed work.
    pub next: Option<i64>,
    /// Sessions that were found to have ended, or that still hold tasks.
    pub sessions: Vec<Uuid>,
    /// More tasks without a session are left.
    pub has_more: bool,
    /// A time limit was reached, even if the work was then completed within further limits.
    pub is_slow: bool,
    /// Index of the change with which the next job begins, after timed work.
    pub first: usize,
    /// All due tasks were tried, including those that had refused a change before.
    pub tried_all: bool,
    /// Due tasks have refused to be changed by statements, so the queue's retry of refused tasks pauses. Tasks that
    /// fail on the direct path rest instead.
    pub refuses: bool,
    pub failure: Option<Failure>,
}

/// Runs a job and returns its report. An error has rolled the job back.
pub fn perform(
    table: Oid,
    work: impl FnOnce(&Means) -> Report,
) -> Result<JobOutcome<Report>, Failure> {
    let mut is_outdated = false;
    let done = job::run(table, |means| {
        let report = with_resting(means, work(means));
        is_outdated = means.is_outdated.get();
        report
    });
    match done {
        Ok(JobOutcome::Done(_)) if is_outdated => Ok(JobOutcome::Busy),
        done => done,
    }
}

/// Adds the resting tasks to a report: their last failure, and when one of them is tried again.
fn with_resting(means: &Means, mut report: Report) -> Report {
    if let Some((left, failure)) = resting::end(means.queue.table).filter(|_| means.is_direct) {
        let again = match left {
            Duration::ZERO => i64::MIN,
            left => time::in_future(left),
        };
        report.next = report.next.into_iter().chain([again]).min();
        report.failure = report.failure.or(failure);
    }
    report
}

/// Acts on tasks due at `now`, whose delay, time to run or life has ended. Only tasks that refused a change are due
/// before `since`. Does a batch of each change, beginning at index `first`. Stops after a batch that reaches a time
/// limit, because other queues wait for their turn.
pub fn act_on_time(means: &Means, (now, since): (i64, i64), first: usize) -> Report {
    let queue = means.queue;
    if !may_have_timed(queue) {
        return Report { has_progressed: true, tried_all: true, ..Report::default() };
    }
    // Tasks due before `since` can rest in this process, or in a previous one that has left an error.
    let has_error = || slot::lock(queue.slot).is_none_or(|slot| slot.shown.has_error());
    let may_rest = means.has_rested || means.is_direct && has_error();
    let tried_all = since == i64::MIN;
    let since = if queue.is_tracked && !may_rest { since } else { i64::MIN };
    let before = if means.tells() { None } else { means.next_due(since) };
    let mut failure: Option<Failure> = None;
    let changes: Vec<Change> = timed_changes(queue).collect();
    let slow = in_turn(changes.len(), first).find(|index| {
        let wanted = Wanted::Due { now, since };
        let changed = job::change(means, changes[*index], wanted);
        failure = changed.failure.or(failure.take());
        changed.is_slow
    });
    let mut next = means.next_due(since);
    let has_made = || if means.tells() { means.has_made_progress() } else { next != before };
    let has_progressed = next.is_none_or(|next| next > now) || has_made();
    let has_refused = !means.is_direct && failure.as_ref().is_some_and(|why| !why.is_canceled());
    let refuses = has_refused && (tried_all || !has_progressed);
    if refuses {
        next = means.next_due(now.saturating_add(1));
    }
    let (first, is_slow) = (slow.map_or(0, |index| index + 1), slow.is_some());
    let report = Report { has_progressed, next, first, is_slow, failure, ..Report::default() };
    Report { tried_all: tried_all && !is_slow, refuses, ..report }
}

/// Returns whether there can be a task with a due time. The commit that brings a later one reports it.
fn may_have_timed(queue: &Queue) -> bool {
    let is_timed = |status: Status| queue.features().expires() || queue.is_timed(status);
    slot::lock(queue.slot).is_none_or(|slot| {
        Status::ALL.into_iter().any(|status| is_timed(status) && slot.may_have(status))
    })
}

/// Returns all indexes below `count`, from `first` on and around.
fn in_turn(count: usize, first: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (first + turn) % count)
}

/// Returns the changes of due tasks that the queue's features require.
fn timed_changes(queue: &Queue) -> impl Iterator<Item = Change> {
    let features = queue.features();
    let has_runat = queue.number_of(Field::Runat) != 0;
    [
        (has_runat, Change::Promote),
        (features.has_deadlines(), Change::ExpireLeases),
        (features.zombies(), Change::DeleteZombies),
        (features.expires(), Change::Expire),
    ]
    .into_iter()
    .filter_map(|(is_on, change)| is_on.then_some(change))
}

/// Gives back tasks that no session holds, and finds sessions whose end went unnoticed.
pub fn find_lost(means: &Means) -> Report {
    let holders = means.holders();
    let has_more = holders.contains(&None);
    let changed = match has_more {
        true => job::change(means, Change::ReapOwnerless, Wanted::Ownerless),
        false => Changed::default(),
    };
    let has_progressed = !has_more || means.has_made_progress();
    let sessions = store::lost(holders.into_iter().flatten().collect()).or_raise();
    let Changed { is_slow, failure, .. } = changed;
    Report { has_progressed, sessions, has_more, is_slow, failure, ..Report::default() }
}

/// Gives back tasks that these sessions had taken.
pub fn reap(means: &Means, sessions: &[Uuid]) -> Report {
    let wanted = Wanted::Held { sessions };
    let Changed { tasks, is_slow, failure } = job::change(means, Change::Reap, wanted);
    // Locked rows were skipped. If the sessions still hold tasks, there is more to do.
    let sessions = means.holding(wanted);
    let has_made = || if means.tells() { means.has_made_progress() } else { tasks > 0 };
    let has_progressed = sessions.is_empty() || has_made();
    Report { has_progressed, sessions, is_slow, failure, ..Report::default() }
}

#[cfg(test)]
mod tests {
    use crate::worker::work::in_turn;

    #[test]
    fn kinds_of_work_begin_with_any_of_them() {
        assert_eq!(in_turn(3, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(in_turn(3, 2).collect::<Vec<_>>(), [2, 0, 1]);
        // The index is behind the last change, or there are fewer changes than before.
        assert_eq!(in_turn(3, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(in_turn(1, 3).collect::<Vec<_>>(), [0]);
        assert_eq!(in_turn(0, 3).next(), None);
    }
}
