//! The jobs of a queue: what each does in its transaction, in whatever process.

use crate::error::OrRaise;
use crate::model::change::has_progressed;
use crate::model::field::Field;
use crate::model::position::Position;
use crate::model::status::Status;
use crate::parts::leases::store;
use crate::parts::schedule::orders::{End, Progress, Report, Work};
use crate::parts::slot;
use crate::queue::{Arguments, Queue, Statement};
use crate::server::types::Uuid;
use crate::server::value::Value;
use crate::server::xact::Failure;
use crate::server::{spi, time};
use crate::statement::{Change, Parameter};
use crate::transaction;
use crate::worker::job::{self, Batch, Changed, Manner, Outcome};
use crate::worker::recounter;
use pgrx::pg_sys::Oid;

/// Does a job and says what came of it.
pub fn perform(table: Oid, work: &Work, manner: Manner) -> Report {
    if *work == Work::Recount {
        return recounter::recount_at_leisure(table);
    }
    let done = job::run(table, |queue| {
        let report = match work {
            Work::Timed { now, since, first } => {
                act_on_time(queue, (*now, *since), usize::from(*first), manner)
            }
            Work::FindLost => find_lost(queue, manner),
            Work::Reap { sessions, places } => reap(queue, sessions, places.as_deref(), manner),
            Work::Recount => return Report::none(End::Busy),
        };
        Report { end: End::Done, has_row_security: queue.has_row_security, ..report }
    });
    match done {
        Ok(Outcome::Done(report)) => report,
        Ok(Outcome::Busy) => Report::none(End::Busy),
        Ok(Outcome::Gone) => Report::none(End::Gone),
        Ok(Outcome::RunsUserCode) => Report::none(End::RunsUserCode),
        Ok(Outcome::OwnedBy(owner)) => {
            Report { owner: owner.into(), ..Report::none(End::OtherOwner) }
        }
        Err(failure) if failure.is_canceled() && manner != Manner::Patient => {
            Report { is_slow: true, ..Report::none(End::Slow) }
        }
        Err(failure) => Report::failed(failure),
    }
}

/// Of each kind of timed work a batch, up to the first one that reaches a time limit: others wait for their turn. The
/// next job begins with the kind after that.
fn act_on_time(queue: &Queue, (now, since): (i64, i64), first: usize, manner: Manner) -> Report {
    if !may_have_timed(queue) {
        return Report { progress: Progress::Made, ..Report::default() };
    }
    let since = if queue.is_tracked { since } else { i64::MIN };
    let mut times = Arguments::of(Parameter::Now, Value::instant(now));
    times.set(Parameter::Since, Value::instant(since));
    let before = if tells(queue) { None } else { next_due(queue, &times) };
    let mut failure: Option<Failure> = None;
    let changes: Vec<Change> = timed_changes(queue).collect();
    let slow = in_turn(changes.len(), first).find(|index| {
        let changed = Batch::of(queue, changes[*index], times.clone(), manner).run_or_each();
        failure = changed.failure.or(failure.take());
        changed.is_slow
    });
    let next = next_due(queue, &times);
    let has_made = || if tells(queue) { has_made_progress(queue) } else { next != before };
    let progress = match next {
        Some(next) if next <= now && !has_made() => left(queue, timed_changes(queue), &times),
        _ => Progress::Made,
    };
    let first = slow.map_or(0, |index| index as u8 + 1);
    Report { progress, next, first, is_slow: slow.is_some(), failure, ..Report::default() }
}

/// Returns whether there may be a task that is due at some instant, by the counters. A task that comes later is reported by
/// the commit that brings it.
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

fn next_due(queue: &Queue, times: &Arguments) -> Option<i64> {
    spi::connect(|spi| {
        let rows = queue.run(spi, &Statement::NextDue, times);
        rows.value(0, 1).map(Value::to_instant)
    })
}

/// Gives back what no session holds, and finds the sessions that have ended unnoticed.
fn find_lost(queue: &Queue, manner: Manner) -> Report {
    let none = Arguments::default();
    let holders = owners(queue, &Statement::Holders, &none);
    let has_more = holders.contains(&None);
    let (mut changed, mut progress) = (Changed::default(), Progress::Made);
    if has_more {
        changed = Batch::of(queue, Change::ReapOwnerless, none.clone(), manner).run_or_each();
        if !has_made_progress(queue) {
            progress = left(queue, [Change::ReapOwnerless].into_iter(), &none);
        }
    }
    let sessions = store::lost(holders.into_iter().flatten().collect()).or_raise();
    let Changed { is_slow, failure, .. } = changed;
    Report { progress, sessions, has_more, is_slow, failure, ..Report::default() }
}

/// Gives back tasks that sessions had taken, those in these places if they are given.
fn reap(queue: &Queue, sessions: &[Uuid], places: Option<&[Position]>, manner: Manner) -> Report {
    let mut arguments = Arguments::of(Parameter::Sessions, Value::uuids(sessions));
    // Without triggers that report changes, their positions are not reliable.
    let keys = places.filter(|_| queue.is_tracked).and_then(|places| queue.keys_at(places));
    let named = keys.is_some();
    arguments.set_or_null(Parameter::Keys, keys);
    let change = Change::Reap { named };
    let Changed { tasks, is_slow, failure } =
        Batch::of(queue, change, arguments.clone(), manner).run_or_each();
    // Locked rows were passed over: then there is more to do.
    let holders = owners(queue, &Statement::Holding { named }, &arguments);
    let holders: Vec<Uuid> = holders.into_iter().flatten().collect();
    let has_made = || if tells(queue) { has_made_progress(queue) } else { tasks > 0 };
    let progress = match holders.is_empty() || has_made() {
        true => Progress::Made,
        false => left(queue, [change].into_iter(), &arguments),
    };
    Report { progress, sessions: holders, is_slow, failure, ..Report::default() }
}

/// The sessions that a statement finds; None for no session.
fn owners(queue: &Queue, find: &Statement, arguments: &Arguments) -> Vec<Option<Uuid>> {
    spi::connect(|spi| {
        let rows = queue.run(spi, find, arguments);
        (0..rows.len()).map(|row| rows.value(row, 1).map(Value::to_uuid)).collect()
    })
}

/// Returns whether the triggers say what becomes of each task.
fn tells(queue: &Queue) -> bool {
    queue.is_tracked || queue.has_row_security
}

/// Returns whether tasks have left the states in which they were found. A trigger may revert a change or put the
/// task back, and a rule may do nothing: how many rows a statement has changed says nothing.
fn has_made_progress(queue: &Queue) -> bool {
    let (transitions, due) = transaction::transitions(queue.slot);
    has_progressed(&transitions, due.is_some_and(|due| due <= time::now()))
}

/// Why tasks are left that were to be changed: if one can be locked, the change has come to nothing.
fn left(
    queue: &Queue,
    mut changes: impl Iterator<Item = Change>,
    arguments: &Arguments,
) -> Progress {
    let mut arguments = arguments.clone();
    arguments.set(Parameter::Limit, Value::int4(1));
    arguments.set(Parameter::Skip, Value::int4(0));
    let finds = |change| {
        spi::connect(|spi| !queue.run(spi, &Statement::Pick(change), &arguments).is_empty())
    };
    if changes.any(finds) { Progress::Stuck } else { Progress::Locked }
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
