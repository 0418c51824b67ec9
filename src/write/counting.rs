//! How the functions count the tasks that a statement changes.
//!
//! The row triggers count them. A row trigger costs as much as a small statement, so that many tasks are put at once
//! without it: all are new and ready, and the function counts the rows. That is so only on tables that have no other
//! triggers than ours.

use crate::error::Result;
use crate::model::change::{Call, Place};
use crate::model::status::Status;
use crate::parts::leases::held;
use crate::queue::Queue;
use crate::server::executor;
use crate::transaction::begun;
use crate::{trace, transaction};

/// Runs `work`, one statement that does `call` to tasks of a queue and says how many.
pub fn run(queue: &Queue, call: Call, work: impl FnOnce() -> Result<usize>) -> Result<usize> {
    let counted = || {
        let tasks = transaction::doing(queue.slot, call, work)?;
        note(queue, call, tasks);
        Ok(tasks)
    };
    match call {
        Call::Take => begun::until_counted(queue.slot, counted),
        _ => counted(),
    }
}

/// Runs `work`, one statement that puts ready tasks and says how many.
pub fn run_put(queue: &Queue, work: impl FnOnce() -> Result<usize>) -> Result<usize> {
    // Code of users that ran in the call may have added triggers since the queue was looked up.
    if !queue.counts_itself || queue.is_stale() || trace::is_on() {
        return run(queue, Call::Put, work);
    }
    let tasks = executor::without_triggers(queue.table, work)?;
    if tasks > 0 {
        let ready = Place { status: Status::Ready, tube: None };
        transaction::note(queue.slot, |delta| {
            delta.counters.call(Call::Put, tasks);
            delta.change_many(None, Some(ready), tasks);
        });
    }
    Ok(tasks)
}

/// Counts `call` for a number of tasks. The trigger counts puts, since tasks may be put by hand.
pub fn note(queue: &Queue, call: Call, tasks: usize) {
    if tasks == 0 || call == Call::Put {
        return;
    }
    if call == Call::Take && !queue.is_tracked {
        held::forget();
    }
    transaction::note(queue.slot, |delta| {
        if call == Call::Take {
            delta.leases.taken += tasks as u32;
        }
        delta.counters.call(call, tasks);
    });
}
