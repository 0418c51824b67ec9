//! One piece of the worker's work on one queue: in a transaction of its own, as the table's owner,
//! with a time limit, so that a sick queue harms nobody else.

use crate::model::status::Call;
use crate::pg::relation::{self, Lock, Relation};
use crate::pg::spi::{self, Rows};
use crate::pg::transaction::{self, Failure};
use crate::pg::user;
use crate::pg::worker::Timeout;
use crate::registry::{self, Queue, Statement};
use crate::{guc, xact};
use pgrx::pg_sys::{Datum, Oid};
use std::rc::Rc;

/// What came of a job.
pub enum Outcome<T> {
    Done(T),
    /// Someone has the table for himself: later.
    Busy,
    /// The table is a queue no more.
    Gone,
}

/// Runs `work` on a queue.
pub fn run<T>(table: Oid, work: impl FnOnce(&Rc<Queue>) -> T) -> Result<Outcome<T>, Failure> {
    transaction::try_in_transaction(|| {
        if !relation::try_lock(table, Lock::RowExclusive) {
            return Outcome::Busy;
        }
        let queue = match registry::find(table) {
            Ok(Some(queue)) => queue,
            Ok(None) => return Outcome::Gone,
            Err(error) => error.raise(),
        };
        let Some(owner) = Relation::open(table, Lock::None).map(|relation| relation.owner()) else {
            return Outcome::Gone;
        };
        // Deferred triggers are refused to whoever acts for another role.
        spi::connect(|spi| {
            spi.run("SET CONSTRAINTS ALL IMMEDIATE");
        });
        let _limit = Timeout::after(guc::worker_timeout());
        let _role = user::act_restricted_as(owner);
        Outcome::Done(work(&queue))
    })
}

/// A statement that changes up to a number of tasks. `arguments` come before the number and the
/// number of tasks to pass over.
pub struct Batch<'a> {
    pub queue: &'a Queue,
    pub statement: Statement,
    pub arguments: Vec<Option<Datum>>,
    pub call: Call,
}

impl Batch<'_> {
    /// Changes a batch of tasks; how many.
    pub fn run(&self) -> usize {
        self.change(guc::batch_size(), 0)
    }

    /// The same, one by one: tasks that cannot be changed are passed over. How many were changed,
    /// and the last failure.
    pub fn run_each(&self) -> (usize, Option<Failure>) {
        let (mut changed, mut passed, mut last) = (0, 0, None);
        while changed + (passed as usize) < guc::batch_size() as usize {
            let _limit = Timeout::after(guc::worker_timeout());
            match transaction::try_in_subtransaction(|| self.change(1, passed)) {
                Ok(0) => break,
                Ok(_) => changed += 1,
                Err(failure) => {
                    let was_slow = failure.canceled;
                    last = Some(failure);
                    passed += 1;
                    if was_slow {
                        break;
                    }
                }
            }
        }
        (changed, last)
    }

    fn change(&self, limit: i32, passed: i32) -> usize {
        let mut arguments = self.arguments.clone();
        arguments.extend([Some(Datum::from(limit)), Some(Datum::from(passed))]);
        let changed = spi::connect(|spi| {
            let plan = self.queue.plan(spi, self.statement.clone());
            let rows: Rows = spi.run_plan(&plan, &arguments);
            rows.len()
        });
        if changed > 0 {
            xact::note(self.queue.slot, |delta| delta.call(self.call, changed));
        }
        changed
    }
}
