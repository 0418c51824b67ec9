//! Counting the calls of functions. The row triggers count the tasks that a statement changes.

use crate::error::Result;
use crate::parts::leases::held;
use crate::queue::Queue;
use crate::transaction;
use crate::transaction::begun;
use xqueue_core::change::CallKind;

/// Runs `work`, one statement that performs `call` on tasks of a queue and returns their number, and counts the call.
pub fn run(queue: &Queue, call: CallKind, work: impl FnOnce() -> Result<usize>) -> Result<usize> {
    let counted = || {
        let tasks = transaction::doing(queue.slot, call, work)?;
        note(queue, call, tasks);
        Ok(tasks)
    };
    match call {
        CallKind::Take => begun::until_counted(queue.slot, counted),
        _ => counted(),
    }
}

/// Counts `call` for a number of tasks. The trigger counts puts, because tasks can be inserted by hand.
pub fn note(queue: &Queue, call: CallKind, tasks: usize) {
    if tasks == 0 || call == CallKind::Put {
        return;
    }
    if call == CallKind::Take && !queue.is_tracked {
        held::forget();
    }
    transaction::note(queue.slot, |delta| {
        if call == CallKind::Take {
            delta.leases.taken += tasks as u32;
        }
        delta.counters.call(call, tasks);
    });
}
