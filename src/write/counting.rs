//! How the functions count what they do, without a trigger for each row.
//!
//! A row trigger costs as much as a small statement. Where a function knows what its statement does
//! to every row that it changes, the statement runs without the row triggers, and the function
//! counts the rows. That is so only on tables that have no other triggers than ours.

use crate::error::Result;
use crate::model::change::{Call, Place};
use crate::model::status::Status;
use crate::parts::counters::change::Spent;
use crate::parts::leases::{held, session};
use crate::queue::Queue;
use crate::server::executor;
use crate::transaction::begun;
use crate::write::observed;
use crate::{trace, transaction};

/// What a statement does to each of its rows.
#[derive(Clone, Copy)]
pub struct Transition {
    pub from: Option<Status>,
    pub to: Option<Status>,
}

/// Runs `work`, one statement that does `call` to tasks of a queue and says how many, and counts
/// them. `transition`: what it does to each; None if the rows differ.
pub fn run(
    queue: &Queue,
    call: Call,
    transition: Option<Transition>,
    work: impl FnOnce() -> Result<usize>,
) -> Result<usize> {
    match call {
        Call::Take => {
            begun::until_counted(queue.slot, || run_counted(queue, call, transition, work))
        }
        _ => run_counted(queue, call, transition, work),
    }
}

fn run_counted(
    queue: &Queue,
    call: Call,
    transition: Option<Transition>,
    work: impl FnOnce() -> Result<usize>,
) -> Result<usize> {
    // Code of users that ran in the call may have added triggers since the queue was looked up.
    let transition =
        transition.filter(|_| queue.counts_itself && !queue.is_stale() && !trace::is_on());
    let Some(known) = transition else {
        let tasks = observed::ignoring(|| transaction::doing(queue.slot, call, work))?;
        note(queue, call, None, tasks);
        return Ok(tasks);
    };
    let (tasks, lengths) = observed::during(|| executor::without_triggers(queue.table, work));
    let tasks = tasks?;
    note(queue, call, transition, tasks);
    let spent = if known.to == Some(Status::Taken) { Spent::Ready } else { Spent::Taken };
    if lengths.total() > 0 {
        transaction::note(queue.slot, |delta| delta.counters.spend_all(spent, &lengths));
    }
    Ok(tasks)
}

/// Counts `call` for a number of tasks, and its effect on them if no trigger has.
pub fn note(queue: &Queue, call: Call, transition: Option<Transition>, tasks: usize) {
    if tasks == 0 {
        return;
    }
    let holds = |status| if status == Some(Status::Taken) { tasks as u64 } else { 0 };
    let (lost, got) = transition.map_or((0, 0), |Transition { from, to }| (holds(from), holds(to)));
    let is_held = lost + got > 0 && session::is_own();
    if is_held {
        held::prepare(queue.slot);
    }
    if call == Call::Take && !queue.is_tracked {
        held::forget();
    }
    transaction::note(queue.slot, |delta| {
        if call == Call::Take {
            delta.leases.taken += tasks as u32;
        }
        // The trigger counts what is put, as it may be put by hand.
        if call != Call::Put || transition.is_some() {
            delta.counters.call(call, tasks);
        }
        if is_held {
            delta.leases.held.count(got, lost);
        }
        if let Some(Transition { from, to }) = transition {
            let place = |status: Option<Status>| status.map(|status| Place { status, tube: None });
            delta.change_many(place(from), place(to), tasks);
        }
    });
}
