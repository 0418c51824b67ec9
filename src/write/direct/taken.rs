//! Where this session has written the tasks that it took last: an ack looks there before it searches the index of the
//! key. A row found there is one to ack only if it is that task, and taken by this session.

use crate::model::position::Position;
use crate::model::row_id::RowId;
use crate::parts::slot_id::SlotId;
use crate::queue::Queue;
use crate::server::heap::Open;
use crate::server::value::Value;
use std::cell::RefCell;

/// How many are kept: as many as a take takes without a statement.
const ROOM: usize = 32;

/// A task, and where it was written.
type Written = (SlotId, Position, RowId);

/// The last tasks taken, with the place of the next.
struct Kept {
    tasks: [Option<Written>; ROOM],
    next: usize,
}

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept { tasks: [None; ROOM], next: 0 }) };
}

/// Keeps where the row was written of a task that has just been taken.
pub fn keep(queue: &Queue, written: &Open) {
    let position = queue.named_position_of(written).filter(|_| queue.has_simple_key);
    let Some(position) = position else { return };
    let task = Some((queue.slot, position, written.written_id()));
    KEPT.with_borrow_mut(|kept| {
        kept.tasks[kept.next % ROOM] = task;
        kept.next += 1;
    });
}

/// Returns the position of a task with this key, and where its row was written, if that is kept.
pub fn row(queue: &Queue, key: &[Value]) -> Option<(Position, RowId)> {
    let [key] = key else { return None };
    let wanted = queue.position(*key)?;
    KEPT.with_borrow(|kept| {
        let latest_first = (1..=ROOM).map(|back| kept.tasks[(kept.next + ROOM - back) % ROOM]);
        let is_it = |(slot, position, _): &Written| (*slot, *position) == (queue.slot, wanted);
        latest_first.map_while(|task| task).find(is_it).map(|(_, position, row)| (position, row))
    })
}
