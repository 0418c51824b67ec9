//! The rows that this session wrote for the tasks that it took last. An ack checks these rows before it searches the
//! key's index. It acks such a row only if it is that task and taken by this session.

use crate::queue::Queue;
use crate::server::heap::Open;
use crate::server::value::Value;
use std::cell::RefCell;
use xqueue_core::row_id::RowId;
use xqueue_core::slot_id::SlotId;

/// Maximum number of rows kept: as many tasks as a take can take without a statement.
const ROOM: usize = 200;

/// A task by the number of its key, and the location of its row.
type Written = (SlotId, u128, RowId);

/// The tasks taken last, in the order of the takes.
struct Kept {
    tasks: [Option<Written>; ROOM],
    /// Position of the next entry to write.
    next: usize,
    /// Position of the last entry that a search found.
    found: usize,
}

thread_local! {
    static KEPT: RefCell<Kept> =
        const { RefCell::new(Kept { tasks: [None; ROOM], next: 0, found: 0 }) };
}

/// Keeps the location of the row of a task that was just taken.
pub fn keep(queue: &Queue, written: &Open) {
    let number = queue.key_number_of(written).filter(|_| queue.has_simple_key);
    let Some(number) = number else { return };
    let task = Some((queue.slot, number, written.written_id()));
    KEPT.with_borrow_mut(|kept| {
        kept.tasks[kept.next] = task;
        kept.next = (kept.next + 1) % ROOM;
    });
}

/// Returns the number of this key and the location of the task's row, if they are kept. Usually it is the task
/// taken last, or, after a take of several tasks, the one after the last task found.
pub fn row(queue: &Queue, key: &[Value]) -> Option<(u128, RowId)> {
    let [key] = key else { return None };
    let wanted = queue.key_number(*key)?;
    KEPT.with_borrow_mut(|kept| {
        let last = (kept.next + ROOM - 1) % ROOM;
        let further = (1..=ROOM).map(|further| (kept.found + further) % ROOM);
        let mut places = std::iter::once(last).chain(further);
        let is_it = |task: &Written| (task.0, task.1) == (queue.slot, wanted);
        kept.found = places.find(|place| kept.tasks[*place].as_ref().is_some_and(is_it))?;
        kept.tasks[kept.found].map(|(_, number, row)| (number, row))
    })
}
