//! Records changes of rows until the end of the transaction.

use crate::parts::clock;
use crate::parts::leases::sessions::{self, Part};
use crate::parts::leases::{held, session};
use crate::parts::slot;
use crate::parts::waiters::wait;
use crate::queue::Queue;
use crate::server::heap::FoundRow;
use crate::server::row::Row;
use crate::server::types::Uuid;
use crate::server::{process, time};
use crate::transaction;
use crate::write::seen::Seen;
use xqueue_core::change::{CallKind, Outcome, StateAndTube};
use xqueue_core::level::{LAST as LAST_LEVEL, Level};
use xqueue_core::position::{Group, LAST, Position};
use xqueue_core::status::Status;
use xqueue_core::transaction::HeldChange;
use xqueue_core::transaction::counters::Spent;

/// Records that a row has changed from `old` to `new`; None if it did not exist. `call`: the call that this session is
/// executing.
pub fn note<Old: Row, New: Row>(
    queue: &Queue,
    old: Option<Seen<Old>>,
    new: Option<Seen<New>>,
    call: Option<CallKind>,
) {
    let (from, to) = (old.as_ref().map(|old| old.place), new.as_ref().map(|new| new.place));
    let due = new.as_ref().and_then(|new| queue.due_of(new.row, new.place.status));
    let status = |place: Option<StateAndTube>| place.map(|place| place.status);
    let outcome = Outcome::of(call, status(from), status(to));
    let stand = new.as_ref().and_then(|new| stand(queue, new));
    let in_subqueue = new.as_ref().filter(|new| new.place.is_in_subqueue());
    // A rollback gives the task back as the take found it, even if a trigger has changed it.
    let in_subqueue = in_subqueue.map(|new| {
        let (position, level) = stand_in_subqueue(queue, new);
        let before = old.as_ref().map(|old| stand_in_subqueue(queue, old));
        before.map_or((position, level), |before| (position.min(before.0), level.min(before.1)))
    });
    // Outside of `note`: the key's hash can wait for the catalogue, and a backend can be terminated there.
    let ends = outcome.is_some() || Outcome::is_undone(status(from), status(to));
    let ended = ends.then(|| match (&old, &new) {
        (Some(old), _) => queue.key_hash_of(old.row),
        (None, Some(new)) => queue.key_hash_of(new.row),
        (None, None) => 0,
    });
    let spent = old.as_ref().and_then(|old| spent(old, status(to), outcome));
    if let (Some(old), Some(Status::Taken)) =
        (from.filter(|old| old.status == Status::Ready), status(to))
    {
        wait::note_taken(queue.slot, old.tube.map(|tube| tube.hash));
    }
    note_holder(queue, old.as_ref(), new.as_ref());
    transaction::note(queue.slot, |delta| {
        delta.change(from, to);
        delta.subqueues.change(from, to, in_subqueue.unwrap_or((LAST, LAST_LEVEL)));
        let is_in_order = matches!(status(to), Some(Status::Ready | Status::Buried));
        delta.marks.moved |= is_in_order && status(from) == status(to);
        if let Some((place, stand)) = to.filter(|_| from == to).zip(in_subqueue) {
            delta.subqueues.moved(place, stand);
        }
        if let Some((group, position)) = stand {
            delta.marks.lowest.add(group, position);
        }
        if let Some((kind, age)) = spent {
            delta.counters.spend(kind, age);
        }
        if let Some(instant) = due {
            delta.schedule.due_at(instant);
        }
        if let Some(key) = ended {
            delta.waiters.end(key, outcome);
        }
    });
}

/// Records that a task has moved from one state to another. The row written last is the new one.
pub fn note_move(queue: &Queue, found: &FoundRow, (from, to): (Status, Status), call: CallKind) {
    let tube = queue.tube_of(found);
    let place = |status| StateAndTube { status, tube };
    let (old, new) = (place(from), place(to));
    let old = Seen { place: old, row: found };
    note(queue, Some(old), Some(Seen { place: new, row: found.written() }), Some(call));
}

/// Returns how long a task was in the state that it leaves, if it is taken or acked: the time since its row was last
/// written.
fn spent(
    old: &Seen<impl Row>,
    to: Option<Status>,
    outcome: Option<Outcome>,
) -> Option<(Spent, i64)> {
    let kind = match (old.place.status, to, outcome) {
        (Status::Ready, Some(Status::Taken), _) => Spent::Ready,
        (Status::Taken, _, Some(Outcome::Acked)) => Spent::Taken,
        _ => return None,
    };
    Some((kind, clock::age(old.row.writer()?, time::now())?))
}

/// Records which sessions have got and lost a task, if its session has changed.
fn note_holder(queue: &Queue, old: Option<&Seen<impl Row>>, new: Option<&Seen<impl Row>>) {
    let (before, after) =
        (old.and_then(|old| holder(queue, old)), new.and_then(|new| holder(queue, new)));
    if before == after {
        return;
    }
    let is_own = |held: Option<Uuid>| held.is_some() && held == session::joined(Part::Own);
    let change = HeldChange { got: is_own(after).into(), lost: is_own(before).into() };
    if change != HeldChange::default() {
        held::prepare(queue.slot);
        transaction::note(queue.slot, |delta| delta.leases.held.absorb(change));
    }
    // Leases of identified sessions are not counted, so a joined session needs no record.
    if let Some(other) = after.filter(|_| change.got == 0)
        && session::current_if_any() != Some(other)
        && !transaction::note(queue.slot, |delta| delta.leases.given.knows(other))
    {
        note_given(queue, other);
    }
}

/// Records that another connection's session was given a task by hand, or that the key of its task was changed.
fn note_given(queue: &Queue, session: Uuid) {
    let is_there = sessions::distrust(session);
    if process::replays() {
        return;
    }
    transaction::note(queue.slot, |delta| delta.leases.given.add(session));
    if !is_there {
        // The worker is possibly giving back that session's tasks already.
        slot::invalidate(queue.slot);
    }
}

/// Returns the session that holds a taken task.
pub(super) fn holder(queue: &Queue, seen: &Seen<impl Row>) -> Option<Uuid> {
    let is_taken = seen.place.status == Status::Taken;
    is_taken.then(|| queue.holder_of(seen.row)).flatten()
}

fn stand_in_subqueue(queue: &Queue, seen: &Seen<impl Row>) -> (Position, Level) {
    (queue.position_in_subqueue(seen.row), queue.level_of(seen.row))
}

/// Returns the position of a ready or buried task, if the queue has marks. Sub-queues have marks of their own.
fn stand(queue: &Queue, new: &Seen<impl Row>) -> Option<(Group, Position)> {
    let group = match new.place.status {
        Status::Ready if !new.place.is_in_subqueue() => queue.group_of(new.row, &new.place),
        Status::Buried => Group::Buried,
        Status::Ready | Status::Taken | Status::Waiting | Status::Zombie | Status::Done => {
            return None;
        }
    };
    let position = match group {
        Group::Buried => queue.position_of_buried(new.row),
        Group::Ready { .. } => queue.position_of(new.row),
    };
    Some((group, position?))
}
