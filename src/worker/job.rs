//! One piece of the worker's work on one queue: in a transaction of its own, as the table's owner,
//! with a time limit, so that a sick queue harms nobody else.

use crate::error::{Error, OrRaise};
use crate::model::change::Call;
use crate::pg::relation::{self, Lock, Relation};
use crate::pg::spi::{self, Spi};
use crate::pg::transaction::{self, Failure};
use crate::pg::value::Value;
use crate::pg::worker::Timeout;
use crate::pg::{subscription, time, user};
use crate::registry::{self, Arguments, Queue};
use crate::shmem::jobs;
use crate::statement::{Change, Parameter};
use crate::{counting, direct, guc};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What came of a job.
pub enum Outcome<T> {
    Done(T),
    /// Someone has the table for himself: later.
    Busy,
    /// The table is a queue no more.
    Gone,
    /// Changes of the table run code of its owner, which the worker of a database leaves to a job worker.
    RunsUserCode,
}

/// How long a job worker may take without getting on until it is ended.
pub fn stop_after() -> Duration {
    2 * guc::worker_timeout()
}

/// What a job may take until it is cancelled, as often as it begins with something new. A job worker that
/// goes on for as long again is ended.
struct Limit(#[allow(dead_code, reason = "held")] Timeout);

impl Limit {
    fn begin() -> Limit {
        Limit::put_off();
        Limit(Timeout::after(guc::worker_timeout()))
    }

    fn restart() {
        Limit::put_off();
        Timeout::restart(guc::worker_timeout());
    }

    fn put_off() {
        jobs::put_off(time::now() + stop_after().as_micros() as i64);
    }
}

impl Drop for Limit {
    /// What is left is to commit.
    fn drop(&mut self) {
        Limit::put_off();
    }
}

/// Runs `work` on a queue.
pub fn run<T>(table: Oid, work: impl FnOnce(&Rc<Queue>) -> T) -> Result<Outcome<T>, Failure> {
    transaction::try_in_transaction(|| {
        if !registry::try_lock() || !relation::try_lock(table, Lock::RowExclusive) {
            return Outcome::Busy;
        }
        let queue = match registry::find(table) {
            Ok(Some(queue)) => queue,
            Ok(None) => return Outcome::Gone,
            Err(error) => error.raise(),
        };
        if !jobs::is_own_process() && queue.runs_user_code() {
            return Outcome::RunsUserCode;
        }
        let Some(owner) = Relation::open(table, Lock::None).map(|relation| relation.owner()) else {
            return Outcome::Gone;
        };
        // A security-restricted operation refuses deferred triggers.
        spi::connect(|spi| {
            spi.run("SET CONSTRAINTS ALL IMMEDIATE");
        });
        let _limit = Limit::begin();
        let _role = user::act_restricted_as(owner);
        let done = work(&queue);
        // Who sees rows of another server here sees the subscription, too.
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
    queue: &'a Queue,
    change: Change,
    /// The parameters of the pick, but for the number of tasks.
    arguments: Arguments<'a>,
    call: Call,
}

impl<'a> Batch<'a> {
    pub fn of(queue: &'a Queue, change: Change, arguments: Arguments<'a>) -> Batch<'a> {
        let call = match change {
            Change::Promote => Call::Delay,
            Change::Overdue => Call::Ttr,
            Change::Expire => Call::Ttl,
            Change::Rot => Call::Zombie,
            _ => Call::Session,
        };
        Batch { queue, change, arguments, call }
    }

    /// Changes a batch of tasks; how many.
    fn run(&self) -> usize {
        self.run_some(guc::batch_size(), 0)
    }

    /// The same; if that fails, one by one, so that a task that cannot be changed, or only slowly,
    /// holds up no others. How many were changed, and the last failure.
    pub fn run_or_each(&self) -> (usize, Option<Failure>) {
        match transaction::try_in_subtransaction(|| self.run()) {
            Ok(changed) => (changed, None),
            Err(_) => self.run_each(),
        }
    }

    fn run_each(&self) -> (usize, Option<Failure>) {
        let begun = Instant::now();
        let (mut changed, mut passed, mut last) = (0, 0, None);
        while changed + (passed as usize) < guc::batch_size() as usize {
            Limit::restart();
            match transaction::try_in_subtransaction(|| self.run_some(1, passed)) {
                Ok(0) => break,
                Ok(_) => changed += 1,
                Err(failure) => {
                    last = Some(failure);
                    passed += 1;
                }
            }
            // Other queues wait for their turn.
            if begun.elapsed() > 2 * guc::worker_timeout() {
                break;
            }
        }
        Limit::restart();
        (changed, last)
    }

    fn run_some(&self, limit: i32, passed: i32) -> usize {
        if let Some(changed) = self.promote_directly(limit, passed) {
            return changed;
        }
        let mut arguments = self.arguments.clone();
        arguments.set(Parameter::Limit, Value::int4(limit));
        arguments.set(Parameter::Skip, Value::int4(passed));
        let change = |spi: &Spi| self.queue.change(spi, self.change, &arguments, |_| Ok(()));
        counting::run(self.queue, self.call, None, || spi::connect(change)).or_raise()
    }

    fn promote_directly(&self, limit: i32, passed: i32) -> Option<usize> {
        let time = |parameter| self.arguments.get(parameter).map(Value::to_instant);
        let (now, since) = time(Parameter::Now).zip(time(Parameter::Since))?;
        if self.change != Change::Promote || passed > 0 {
            return None;
        }
        direct::promote(self.queue, now, since, limit as usize).or_raise()
    }
}
