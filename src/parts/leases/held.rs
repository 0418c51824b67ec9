//! The number of tasks that this connection's own session holds, per queue. When the session ends, the worker searches
//! only these queues for its tasks. A session that holds no tasks needs no search, no matter how many it has acked.
//!
//! Invariant: a number is never too small. Code that takes tasks without recording them calls [`forget`] or
//! [`crate::parts::leases::sessions::distrust`]. A number can be too large, because a task that another session gives
//! back is not subtracted.

use crate::parts::leases::sessions;
use crate::parts::slot;
use crate::server::allocator::staying;
use std::cell::{Cell, RefCell};
use xqueue_core::slot_id::SlotId;
use xqueue_core::transaction::HeldChange;

thread_local! {
    static HELD: RefCell<Vec<(SlotId, u64)>> = const { RefCell::new(Vec::new()) };
    /// The session can hold unrecorded tasks.
    static UNKNOWN: Cell<bool> = const { Cell::new(false) };
}

/// Maximum number of entries kept from one transaction to the next; beyond it, entries without leases are freed.
const QUEUES_KEPT: usize = 8;

/// Allocates the entry that `commit` needs for a queue.
pub fn prepare(slot: SlotId) {
    staying(|| {
        HELD.with_borrow_mut(|held| {
            if held.iter().all(|(known, _)| *known != slot) {
                held.push((slot, 0));
            }
        })
    });
}

/// Applies the lease changes of a committed transaction. Must neither allocate nor fail.
pub fn commit(slot: SlotId, change: HeldChange) {
    if change == HeldChange::default() {
        return;
    }
    HELD.with_borrow_mut(|held| match held.iter_mut().find(|(known, _)| *known == slot) {
        Some((_, count)) => *count = change.applied_to(*count),
        None => forget(),
    });
}

/// Records that the session can hold unrecorded tasks.
pub fn forget() {
    UNKNOWN.set(true);
}

/// Frees entries of queues without leases if there are many. Must neither allocate nor fail.
pub(super) fn transaction_ended() {
    HELD.with_borrow_mut(|held| {
        if held.len() > QUEUES_KEPT {
            held.retain(|(_, count)| *count > 0);
        }
    });
}

/// Returns the existing queues in which the session can hold tasks; None if they are not known.
pub(super) fn queues() -> Option<Vec<SlotId>> {
    let is_holding = |(slot, count): &&(SlotId, u64)| *count > 0 && slot::lock(*slot).is_some();
    let holding = staying(|| {
        HELD.with_borrow(|held| held.iter().filter(is_holding).map(|(slot, _)| *slot).collect())
    });
    (!UNKNOWN.get()).then_some(holding)
}

/// Returns the number of leases, which can be too large; None if it is not known.
pub fn count() -> Option<u64> {
    let sum = HELD.with_borrow(|held| held.iter().map(|(_, count)| count).sum());
    (!UNKNOWN.get()).then_some(sum)
}

/// Discards the leases of a session that has ended.
pub(super) fn clear() {
    UNKNOWN.set(false);
    HELD.with_borrow_mut(Vec::clear);
}

/// Returns the number of leases in a queue. The worker searches the queue for that many when the session ends. Returns
/// None if the worker searches it in any case.
pub fn known_in(slot: SlotId) -> Option<u64> {
    let epoch = slot::lock(slot)?.leases.epoch();
    let is_sure = sessions::own_is_sure_since() >= Some(epoch);
    count_in(slot).filter(|_| is_sure)
}

/// Returns the number of leases in a queue without those that other sessions have given to this one. Returns None if
/// the session can have taken unrecorded tasks.
pub fn count_in(slot: SlotId) -> Option<u64> {
    let count = HELD.with_borrow(|held| {
        held.iter().find(|(known, _)| *known == slot).map_or(0, |(_, count)| *count)
    });
    (!UNKNOWN.get()).then_some(count)
}
