//! One job of a worker on one queue. A failing queue affects no other queue, because each job has its own transaction
//! and time limit. It runs as the table's owner.

use crate::error::{Error, OrRaise};
use crate::parts::schedule::own;
use crate::queue;
use crate::queue::authors;
use crate::server::relation::{self, LockMode, Relation};
use crate::server::worker::Timeout;
use crate::server::xact::{self, Failure};
use crate::server::{catalog, injection, spi, subscription, time, user};
use crate::settings;
use crate::worker::means::{Failed, Means};
use crate::worker::resting;
use crate::write::direct::upkeep::Wanted;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::time::Instant;
use xqueue_core::statement::Change;

/// The outcome of a job.
pub enum JobOutcome<T> {
    Done(T),
    /// The table is locked exclusively; retried later.
    Busy,
    Unfit(Unfit),
}

/// Why this worker leaves a queue to another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The table is no longer a queue, or its owner is not the one that this job worker serves.
    Gone,
    /// Changes of the table run code of its owner or need statements, which the database worker leaves to a job worker.
    RunsUserCode,
    /// The job takes too long for the database worker.
    Slow,
}

/// Returns whether this worker continues task by task when a batch takes too long. The database worker leaves such a
/// queue to a job worker.
pub fn is_patient() -> bool {
    own::served_owner().is_some()
}

/// Returns the time at which a job worker is terminated unless it reports progress before.
pub fn stop_at() -> i64 {
    time::in_future(2 * settings::worker_timeout())
}

/// The time limit of a job. After `xqueue.worker_timeout` its statement is cancelled; each new step restarts the time.
/// A job worker that exceeds the limit by as much again is terminated.
struct Limit(#[allow(dead_code, reason = "held")] Timeout);

impl Limit {
    fn begin() -> Limit {
        Limit::put_off();
        Limit(Timeout::after(settings::worker_timeout()))
    }

    fn restart() {
        Limit::put_off();
        Timeout::restart(settings::worker_timeout());
    }

    fn put_off() {
        own::get_on(None, stop_at());
    }
}

impl Drop for Limit {
    /// Extends the time for the commit.
    fn drop(&mut self) {
        Limit::put_off();
    }
}

/// Runs `work` on a queue.
pub fn run<T>(table: Oid, work: impl FnOnce(&Means) -> T) -> Result<JobOutcome<T>, Failure> {
    xact::try_in_transaction(|| {
        if !queue::try_lock() || !relation::try_lock_whole(table, LockMode::RowExclusive) {
            return JobOutcome::Busy;
        }
        let queue = match queue::find(table) {
            Ok(Some(queue)) => queue,
            Ok(None) => return JobOutcome::Unfit(Unfit::Gone),
            Err(error) => error.raise(),
        };
        let Some(owner) = Relation::open(table, LockMode::None).map(|relation| relation.owner())
        else {
            return JobOutcome::Unfit(Unfit::Gone);
        };
        match own::served_owner() {
            Some(served) if Oid::from(served) != owner => return JobOutcome::Unfit(Unfit::Gone),
            // A security-restricted operation refuses deferred triggers.
            Some(_) => spi::connect(|spi| drop(spi.run("SET CONSTRAINTS ALL IMMEDIATE"))),
            None if queue.runs_user_code() => return JobOutcome::Unfit(Unfit::RunsUserCode),
            None => {}
        }
        if is_patient()
            && user::is_superuser(owner)
            && !authors::require_trusted(&queue, &catalog::role_name(owner)).or_raise()
        {
            return JobOutcome::Busy;
        }
        injection::point(c"xqueue-job-begins");
        let _limit = Limit::begin();
        let _role = user::act_restricted_as(owner);
        let Some(means) = Means::of(&queue) else { return JobOutcome::Unfit(Unfit::RunsUserCode) };
        let done = work(&means);
        // A copied row becomes visible no earlier than its subscription, so this check covers all rows that the job
        // saw.
        if subscription::copies(table) {
            Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("queue \"{}\" has become a subscriber's copy", queue.name),
            )
            .raise()
        }
        JobOutcome::Done(done)
    })
}

/// The outcome of a batch.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    pub tasks: usize,
    /// The time limit was reached.
    pub is_slow: bool,
    /// The last failure.
    pub failure: Option<Failure>,
}

/// Changes a batch of tasks. If that fails, changes them one by one.
pub fn change(means: &Means, change: Change, wanted: Wanted) -> Changed {
    if resting::tries_again(means.queue.table) {
        return change_each(means, change, wanted);
    }
    let all = || means.change(change, wanted, settings::batch_size(), &Failed::default());
    match xact::try_in_subtransaction(all) {
        Ok(tasks) => Changed { tasks, ..Changed::default() },
        Err(failure) if failure.is_canceled() && !is_patient() => {
            Error::new(PgSqlErrorCode::ERRCODE_QUERY_CANCELED, failure.message).raise()
        }
        Err(failure) => {
            let each = change_each(means, change, wanted);
            Changed { is_slow: each.is_slow || failure.is_canceled(), ..each }
        }
    }
}

/// Changes tasks one by one, so that a task that fails or takes long does not hold up the others.
fn change_each(means: &Means, change: Change, wanted: Wanted) -> Changed {
    let begun = Instant::now();
    // Beyond this limit the other queues take their turn.
    let limit = (1 + u32::from(is_patient())) * settings::worker_timeout();
    let (mut changed, mut passed) = (Changed::default(), Failed::default());
    while changed.tasks + (passed.count as usize) < settings::batch_size() as usize {
        Limit::restart();
        match xact::try_in_subtransaction(|| means.change(change, wanted, 1, &passed)) {
            Ok(0) => break,
            Ok(_) => changed.tasks += 1,
            Err(mut failure) => {
                changed.is_slow |= failure.is_canceled();
                passed.note_failure(means.queue, &mut failure);
                changed.failure = Some(failure);
            }
        }
        changed.is_slow |= begun.elapsed() > limit;
        if begun.elapsed() > limit || changed.is_slow && !is_patient() {
            break;
        }
    }
    Limit::restart();
    changed
}
