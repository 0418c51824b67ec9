//! The jobs of a queue: what each does in its transaction, in whatever process.

use crate::error::OrRaise;
use crate::parts::leases::store;
use crate::parts::slot;
use crate::queue::Queue;
use crate::server::time;
use crate::server::types::Uuid;
use crate::server::xact::Failure;
use crate::worker::job::{self, Changed, Outcome};
use crate::worker::means::Means;
use crate::worker::resting;
use crate::write::direct::upkeep::Wanted;
use pgrx::pg_sys::Oid;
use std::time::Duration;
use xqueue_core::field::Field;
use xqueue_core::statement::Change;
use xqueue_core::status::Status;

/// What came of work whose transaction has committed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// There was progress, or nothing is left. Otherwise the rest is locked by other transactions, or was changed without
    /// effect, as by a trigger.
    pub has_progressed: bool,
    /// The next instant to act, after timed work.
    pub next: Option<i64>,
    /// Sessions that were found to have ended, or that still hold tasks.
    pub sessions: Vec<Uuid>,
    /// There are more tasks without a session.
    pub has_more: bool,
    /// A time limit was reached, even if the work was completed within others.
    pub is_slow: bool,
    /// The kind with which the next job has to begin, after timed work.
    pub first: usize,
    /// All that is due was tried, also what had refused.
    pub tried_all: bool,
    /// Due tasks have refused to be changed by statements: they rest. Those that refuse the direct path rest by
    /// themselves.
    pub refuses: bool,
    pub failure: Option<Failure>,
}

/// Does a job and says what came of it. An error has undone it.
pub fn perform(
    table: Oid,
    work: impl FnOnce(&Means) -> Report,
) -> Result<Outcome<Report>, Failure> {
    let mut is_outdated = false;
    let done = job::run(table, |means| {
        let report = with_resting(means, work(means));
        is_outdated = means.is_outdated.get();
        report
    });
    match done {
        Ok(Outcome::Done(_)) if is_outdated => Ok(Outcome::Busy),
        done => done,
    }
}

/// Adds to a report what rests because it has failed, and when one of that is tried again.
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

/// Acts on what is due at `now`: delays, times to run, ends of life. Nothing is due before `since` but what has refused.
/// Does a batch of each kind, beginning with the kind at index `first`, up to the first one that reaches a time limit:
/// others wait for their turn.
pub fn act_on_time(means: &Means, (now, since): (i64, i64), first: usize) -> Report {
    let queue = means.queue;
    if !may_have_timed(queue) {
        return Report { has_progressed: true, tried_all: true, ..Report::default() };
    }
    // Tasks that rest, in this process or in one before it that has left an error, are due earlier.
    let has_error = || slot::lock(queue.slot).is_none_or(|slot| slot.has_error());
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

/// Returns whether there may be a task that is due at some instant, by the counters. A task that comes later is
/// reported by the commit that brings it.
fn may_have_timed(queue: &Queue) -> bool {
    let is_timed = |status: Status| queue.features().expires() || queue.is_timed(status);
    slot::lock(queue.slot).is_none_or(|slot| {
        Status::ALL.into_iter().any(|status| is_timed(status) && slot.may_have(status))
    })
}

/// Returns the indexes of kinds of work, from one of them on and round to it.
fn in_turn(count: usize, first: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (first + turn) % count)
}

/// What there is to do at instants, by the queue's features.
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

/// Gives back what no session holds, and finds the sessions that have ended unnoticed.
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

/// Gives back tasks that sessions had taken.
pub fn reap(means: &Means, sessions: &[Uuid]) -> Report {
    let wanted = Wanted::Held { sessions };
    let Changed { tasks, is_slow, failure } = job::change(means, Change::Reap, wanted);
    // Locked rows were passed over: then there is more to do.
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
        // After the last one, or when there are fewer than there were.
        assert_eq!(in_turn(3, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(in_turn(1, 3).collect::<Vec<_>>(), [0]);
        assert_eq!(in_turn(0, 3).next(), None);
    }
}
