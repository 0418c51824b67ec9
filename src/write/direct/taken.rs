//! Where this session has written the tasks that it took last: an ack looks there before it searches the index of the
//! key. A row found there is one to ack only if it is that task, and taken by this session.

use crate::queue::Queue;
use crate::server::heap::Open;
use crate::server::value::Value;
use std::cell::RefCell;
use xqueue_core::position::Position;
use xqueue_core::row_id::RowId;
use xqueue_core::slot_id::SlotId;

/// How many are kept: as many as a take takes without a statement.
const ROOM: usize = 200;

/// A task, and where it was written.
type Written = (SlotId, Position, RowId);

/// The last tasks taken, in the order of the takes.
struct Kept {
    tasks: [Option<Written>; ROOM],
    /// Place of the next one.
    next: usize,
    /// Place of the one that was looked for last, and found.
    found: usize,
}

thread_local! {
    static KEPT: RefCell<Kept> =
        const { RefCell::new(Kept { tasks: [None; ROOM], next: 0, found: 0 }) };
}

/// Keeps where the row was written of a task that has just been taken.
pub fn keep(queue: &Queue, written: &Open) {
    let position = queue.named_position_of(written).filter(|_| queue.has_simple_key);
    let Some(position) = position else { return };
    let task = Some((queue.slot, position, written.written_id()));
    KEPT.with_borrow_mut(|kept| {
        kept.tasks[kept.next] = task;
        kept.next = (kept.next + 1) % ROOM;
    });
}

/// Returns the position of a task with this key, and where its row was written, if that is kept: mostly it is the task
/// taken last, or of several taken at once the one after that which was looked for last.
pub fn row(queue: &Queue, key: &[Value]) -> Option<(Position, RowId)> {
    let [key] = key else { return None };
    let wanted = queue.position(*key)?;
    KEPT.with_borrow_mut(|kept| {
        let last = (kept.next + ROOM - 1) % ROOM;
        let further = (1..=ROOM).map(|further| (kept.found + further) % ROOM);
        let mut places = std::iter::once(last).chain(further);
        let is_it = |task: &Written| (task.0, task.1) == (queue.slot, wanted);
        kept.found = places.find(|place| kept.tasks[*place].as_ref().is_some_and(is_it))?;
        kept.tasks[kept.found].map(|(_, position, row)| (position, row))
    })
}
