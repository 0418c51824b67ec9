//! Whether a sub-queue has a taken task. Shared memory knows it once a claimant has read the index of taken tasks.

use crate::error::Result;
use crate::parts::counters::recount;
use crate::parts::subqueues;
use crate::queue::{Queue, census};
use crate::server::heap::{Bound, Is};
use crate::server::row::Tuple;
use crate::server::snapshot::Snapshot;
use crate::server::value::Value;
use crate::server::xact;
use crate::transaction;
use xqueue_core::statement::Index;
use xqueue_core::status::Status;

/// Returns whether no task of a sub-queue is taken, as this transaction sees it. The transaction has claimed the
/// sub-queue, or settled its taken task.
pub(super) fn is_free(queue: &Queue, subqueue: u64) -> Result<bool> {
    if is_known(queue, subqueue) {
        return Ok(true);
    }
    xact::see_own_changes();
    let snapshot = Snapshot::latest();
    if has_taken(queue, subqueue, &snapshot, |_| true)? {
        return Ok(false);
    }
    // Changes that only this transaction sees can be rolled back, and a report that is outstanding would free the
    // sub-queue while another task is in flight.
    let change = transaction::pending_subqueue(queue.slot, subqueue);
    let is_claimed = change.claimed && change.taken == 0 && !queue.may_be_changing();
    let is_whole = transaction::has_all_subqueues(queue.slot);
    if is_claimed && is_reported(queue) && !recount::is_ahead(&snapshot) && is_whole {
        subqueues::set_clear(queue.slot, subqueue);
    }
    Ok(true)
}

/// Returns whether shared memory knows the taken task of a sub-queue, or that it has none.
pub(super) fn is_known(queue: &Queue, subqueue: u64) -> bool {
    is_reported(queue) && subqueues::is_clear(queue.slot, subqueue)
}

/// Returns whether every change of a row is reported, those of this transaction included.
fn is_reported(queue: &Queue) -> bool {
    queue.is_tracked && !transaction::has_redefined(queue.slot)
}

/// Returns whether a snapshot shows a taken task of a sub-queue for which `counts` holds. Row security hides none.
pub(super) fn has_taken(
    queue: &Queue,
    subqueue: u64,
    snapshot: &Snapshot,
    counts: impl Fn(&Tuple) -> bool,
) -> Result<bool> {
    let relation = census::table(queue)?;
    let is_in_it = |row: &Tuple| {
        let place = queue.place_of(row).ok().filter(|place| place.status == Status::Taken);
        place.and_then(|place| place.subqueue()) == Some(subqueue)
    };
    let mut has_taken = false;
    match queue.index(&relation, Index::InFlight) {
        Some(index) => {
            let of_subqueue = Bound { is: Is::Equal, value: Value::int8(subqueue as i64) };
            relation.scan_by(index, &[of_subqueue], snapshot, |row| {
                has_taken = counts(row);
                !has_taken
            });
        }
        None => drop(relation.scan(snapshot, |row| {
            has_taken = is_in_it(row) && counts(row);
            !has_taken
        })),
    }
    Ok(has_taken)
}
