//! One job of the worker on one queue: in a transaction of its own, as the table's owner, with a time limit, so that
//! a failing queue affects no other.

use crate::error::{Error, OrRaise};
use crate::parts::schedule::own;
use crate::queue;
use crate::queue::authors;
use crate::server::relation::{self, Lock, Relation};
use crate::server::worker::Timeout;
use crate::server::xact::{self, Failure};
use crate::server::{catalog, spi, subscription, time, user};
use crate::settings;
use crate::worker::means::{Means, Passed};
use crate::worker::resting;
use crate::write::direct::upkeep::Wanted;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::time::Instant;
use xqueue_core::statement::Change;

/// What came of a job.
pub enum Outcome<T> {
    Done(T),
    /// The table is locked exclusively; retried later.
    Busy,
    /// The table is a queue no more.
    Gone,
    /// Changes of the table run code of its owner, which the worker of a database leaves to a job worker.
    RunsUserCode,
    /// The table belongs to another owner than this job worker serves.
    OwnedBy(Oid),
}

/// How hard a batch is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As a whole; what takes too long is left to a job worker. So the database worker does it.
    Brief,
    /// As a whole, and if that fails or takes too long one by one. So a job worker does it.
    Patient,
}

/// When a job worker is ended that does not get on.
pub fn stop_at() -> i64 {
    time::now().saturating_add((2 * settings::worker_timeout()).as_micros() as i64)
}

/// What a job may take until it is cancelled, as often as it begins with something new. A job worker that
/// goes on for as long again is ended.
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
    /// What is left is to commit.
    fn drop(&mut self) {
        Limit::put_off();
    }
}

/// Runs `work` on a queue.
pub fn run<T>(table: Oid, work: impl FnOnce(&Means) -> T) -> Result<Outcome<T>, Failure> {
    xact::try_in_transaction(|| {
        if !queue::try_lock() || !relation::try_lock_whole(table, Lock::RowExclusive) {
            return Outcome::Busy;
        }
        let queue = match queue::find(table) {
            Ok(Some(queue)) => queue,
            Ok(None) => return Outcome::Gone,
            Err(error) => error.raise(),
        };
        let Some(owner) = Relation::open(table, Lock::None).map(|relation| relation.owner()) else {
            return Outcome::Gone;
        };
        match own::served_owner() {
            Some(served) if Oid::from(served) != owner => return Outcome::OwnedBy(owner),
            // A security-restricted operation refuses deferred triggers.
            Some(_) => spi::connect(|spi| drop(spi.run("SET CONSTRAINTS ALL IMMEDIATE"))),
            None if queue.runs_user_code() => return Outcome::RunsUserCode,
            None => {}
        }
        if own::served_owner().is_some() && user::is_superuser(owner) {
            let owner = catalog::role_name(owner);
            if !authors::require_trusted(&queue, &owner).or_raise() {
                return Outcome::Busy;
            }
        }
        let _limit = Limit::begin();
        let _role = user::act_restricted_as(owner);
        let Some(means) = Means::of(&queue) else { return Outcome::RunsUserCode };
        let done = work(&means);
        // Rows of another server are visible only with the subscription.
        if subscription::copies(table) {
            Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("queue \"{}\" has become a subscriber's copy", queue.name),
            )
            .raise()
        }
        Outcome::Done(done)
    })
}

/// A change of as many tasks as a batch has.
pub struct Batch<'a> {
    pub means: &'a Means<'a>,
    pub change: Change,
    pub wanted: Wanted<'a>,
    pub manner: Manner,
}

/// What came of a batch.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    pub tasks: usize,
    /// The time limit was reached.
    pub is_slow: bool,
    /// The last one.
    pub failure: Option<Failure>,
}

impl Changed {
    /// What came of two batches.
    pub fn with(self, next: Changed) -> Changed {
        Changed {
            tasks: self.tasks + next.tasks,
            is_slow: self.is_slow || next.is_slow,
            failure: next.failure.or(self.failure),
        }
    }
}

impl Batch<'_> {
    /// Changes a batch of tasks; how many.
    fn run(&self) -> usize {
        self.run_some(settings::batch_size(), &Passed::default())
    }

    /// Does the same; if that fails, one by one.
    pub fn run_or_each(&self) -> Changed {
        if resting::tries_again(self.means.queue.table) {
            return self.run_each();
        }
        match xact::try_in_subtransaction(|| self.run()) {
            Ok(tasks) => Changed { tasks, ..Changed::default() },
            Err(failure) if failure.is_canceled() && self.manner == Manner::Brief => {
                Error::new(PgSqlErrorCode::ERRCODE_QUERY_CANCELED, failure.message).raise()
            }
            Err(failure) => {
                let each = self.run_each();
                Changed { is_slow: each.is_slow || failure.is_canceled(), ..each }
            }
        }
    }

    /// Changes tasks one by one, so that a task that cannot be changed, or only slowly, holds up no others.
    pub fn run_each(&self) -> Changed {
        let begun = Instant::now();
        // Other queues wait for their turn.
        let limit = match self.manner {
            Manner::Patient => 2 * settings::worker_timeout(),
            Manner::Brief => settings::worker_timeout(),
        };
        let (mut changed, mut passed) = (Changed::default(), Passed::default());
        while changed.tasks + (passed.count as usize) < settings::batch_size() as usize {
            Limit::restart();
            match xact::try_in_subtransaction(|| self.run_some(1, &passed)) {
                Ok(0) => break,
                Ok(_) => changed.tasks += 1,
                Err(mut failure) => {
                    changed.is_slow |= failure.is_canceled();
                    passed.note_failure(self.means.queue, &mut failure);
                    changed.failure = Some(failure);
                }
            }
            changed.is_slow |= begun.elapsed() > limit;
            if begun.elapsed() > limit || changed.is_slow && self.manner != Manner::Patient {
                break;
            }
        }
        Limit::restart();
        changed
    }

    fn run_some(&self, limit: i32, passed: &Passed) -> usize {
        self.means.change(self.change, self.wanted, limit, passed)
    }
}
