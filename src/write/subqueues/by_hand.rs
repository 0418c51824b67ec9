//! Tasks of sub-queues that are taken by hand: by an UPDATE, INSERT or COPY of a user's own. The trigger of the row
//! claims the sub-queue, as a take does before it looks for a task.

use crate::error::{Error, Result};
use crate::parts::subqueues;
use crate::queue::Queue;
use crate::server::row::{Row, Tuple};
use crate::server::snapshot::Snapshot;
use crate::server::xact;
use crate::transaction;
use crate::write::subqueues::in_flight;
use pgrx::PgSqlErrorCode;
use xqueue_core::change::{CallKind, StateAndTube};
use xqueue_core::subqueues::Refusal;

/// Claims the sub-queue of a task that was taken or has come from another sub-queue, unless the take in progress has
/// claimed it. Refuses the change if another task of the sub-queue is taken, or a claim is in the way.
pub fn claim(queue: &Queue, place: &StateAndTube, row: &impl Row) -> Result<()> {
    let Some(subqueue) = place.subqueue() else { return Ok(()) };
    let slot = queue.slot;
    let is_own = transaction::pending_subqueue(slot, subqueue).is_own();
    // A claim of the take in progress can be of a sub-queue in which it found another task taken.
    let is_taking = transaction::being_done(slot) == Some(CallKind::Take);
    if is_own && is_taking && in_flight::is_known(queue, subqueue) {
        return Ok(());
    }
    if !is_own {
        let claim = || subqueues::claim_if_room(slot, subqueue);
        transaction::note(slot, |delta| delta.subqueues.claim(claim)).map_err(|refusal| {
            match refusal {
                Refusal::InUse => in_use(queue, row),
                Refusal::NoRoom => too_many(queue),
            }
        })?;
        if in_flight::is_known(queue, subqueue) {
            return Ok(());
        }
    }
    xact::see_own_changes();
    // A trigger can have changed the row again: the snapshot shows its newest version.
    let key = queue.key_hash_of(row);
    let is_another = |row: &Tuple| queue.key_hash_of(row) != key;
    match in_flight::has_taken(queue, subqueue, &Snapshot::latest(), is_another)? {
        true => Err(in_use(queue, row)),
        false => Ok(()),
    }
}

fn in_use(queue: &Queue, row: &impl Row) -> Error {
    let key = queue.key_text_of(row);
    Error::new(
        PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION,
        format!("task {key} cannot be taken: another task of its sub-queue is taken"),
    )
    .hint("Try again when that task is settled and the transaction that takes or settles it has ended.")
}

/// Returns the error of a claim for which shared memory has no room.
pub(super) fn too_many(queue: &Queue) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!("queue \"{}\" has more sub-queues in use than there is room for", queue.name),
    )
    .hint("Raise xqueue.max_subqueues in postgresql.conf and restart the server.")
}
