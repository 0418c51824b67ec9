//! Where a take begins to look: at the low-water mark, see [`crate::shmem::marks`].

use crate::delta::SlotId;
use crate::model::position::{FIRST, LAST, Position};
use crate::pg::{spi, time, transaction};
use crate::registry::{Arguments, Queue, Statement};
use crate::shmem::queues;
use crate::statement::Parameter;
use crate::xact;
use pgrx::pg_sys::Datum;

/// The key before which no task is ready, of the tube that `arguments` name or of all; None if
/// nothing is known. Every so often raises the mark first.
pub fn start(queue: &Queue, arguments: &Arguments) -> Option<Datum> {
    queue.order?;
    let tube = queue.tube().zip(arguments.get(Parameter::Tube));
    let tube = tube.map(|(column, value)| queue.tube_named(value, column).hash);
    // What this transaction itself has taken, and may give back by a rollback, would not be seen; nor
    // would a fixed snapshot show what others have put since.
    let may_raise = !transaction::has_fixed_snapshot() && !xact::has_unmade_ready(queue.slot);
    let now = time::now();
    let start = queues::lock(queue.slot)?.start(tube, may_raise, now);
    let mut from = start.from;
    if start.raises {
        let mut raise = Raise { slot: queue.slot, tube, since: now, found: None };
        raise.found = first(queue, arguments, from);
        drop(raise);
        from = queues::lock(queue.slot)?.marked(tube);
    }
    from = xact::lowest(queue.slot).map_or(from, |own| own.min(from));
    if from == FIRST { None } else { queue.key_at(from) }
}

/// The place of the first ready task from a place on.
fn first(queue: &Queue, arguments: &Arguments, from: Position) -> Option<Position> {
    let mut arguments = arguments.clone();
    arguments.set(Parameter::Mark, queue.key_at(from)?);
    let tube = arguments.get(Parameter::Tube).is_some();
    spi::connect(|spi| {
        let rows = queue.run(spi, &Statement::First { tube }, &arguments);
        rows.datum(0, 1).map_or(Some(LAST), |key| queue.position(key))
    })
}

/// A look whose end is told, in case of an error as well.
struct Raise {
    slot: SlotId,
    tube: Option<u64>,
    since: i64,
    found: Option<Position>,
}

impl Drop for Raise {
    fn drop(&mut self) {
        if let Some(mut slot) = queues::lock(self.slot) {
            slot.end_raise(self.tube, self.since, self.found);
        }
    }
}
