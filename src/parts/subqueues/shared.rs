//! The sub-queues of all queues in shared memory, see [`xqueue_core::subqueues`].

use crate::parts::locks::SubqueuesLock;
use crate::parts::slot::QueueGuard;
use crate::parts::waiters::Offer;
use crate::server::process;
use crate::server::shared_memory::{Guarded, HeldLock, Zeroed};
use xqueue_core::level::Level;
use xqueue_core::position::Position;
use xqueue_core::slot_id::SlotId;
use xqueue_core::subqueues::{
    Back, Entry, Header, Next, Offered, Pool, Refusal, Scan, SubqueueRing,
};
use xqueue_core::transaction::SubqueueChanges;

// SAFETY: numbers, bools and enums whose zeros are their first.
unsafe impl Zeroed for Header {}
// SAFETY: as above.
unsafe impl Zeroed for SubqueueRing {}
// SAFETY: as above.
unsafe impl Zeroed for Entry {}

pub(in crate::parts) static HEADER: Guarded<Header, SubqueuesLock> = Guarded::new();
/// The size, in bytes, that every queue needs whether it has sub-queues or not.
#[cfg(test)]
pub(in crate::parts) const SIZE_OF_QUEUE: usize = size_of::<SubqueueRing>();

pub(in crate::parts) static RINGS: Guarded<SubqueueRing, SubqueuesLock> = Guarded::new();
pub(in crate::parts) static ENTRIES: Guarded<Entry, SubqueuesLock> = Guarded::new();
pub(in crate::parts) static BUCKETS: Guarded<u32, SubqueuesLock> = Guarded::new();

/// Draws a random secret, so that users cannot predict hashes.
pub(in crate::parts) fn fill() {
    HEADER.get_mut(&mut HeldLock::acquire())[0].secret =
        u128::from_ne_bytes(process::random()) as u64;
}

/// Returns the number of entries reserved for claims: one per process.
fn reserve() -> usize {
    process::limit()
}

pub(in crate::parts) fn entry_count() -> usize {
    crate::settings::max_subqueues() + reserve()
}

pub(in crate::parts) fn bucket_count() -> usize {
    entry_count().next_power_of_two()
}

/// Runs `work` on the pool under the sub-queues' lock.
fn with<T>(work: impl FnOnce(&mut Pool) -> T) -> T {
    let held = HeldLock::acquire();
    // SAFETY: these are the only references, to four areas.
    let mut pool = unsafe {
        Pool {
            header: &mut HEADER.under(&held)[0],
            rings: RINGS.under(&held),
            entries: ENTRIES.under(&held),
            buckets: BUCKETS.under(&held),
            reserve: reserve(),
        }
    };
    work(&mut pool)
}

/// A queue's sub-queues, and the consumers that wait for their tasks.
pub struct Subqueues<'q> {
    slot: &'q mut QueueGuard,
}

impl QueueGuard {
    pub fn subqueues(&mut self) -> Subqueues<'_> {
        Subqueues { slot: self }
    }

    /// Returns whether every sub-queue with a task to take is known.
    pub(in crate::parts) fn knows_all_subqueues(&self) -> bool {
        !self.table.has_subqueues || is_complete(self.id())
    }
}

impl Subqueues<'_> {
    /// Applies the changes of a committed transaction and wakes one consumer for each sub-queue that now has a task to
    /// take.
    pub(in crate::parts) fn commit(&mut self, changes: &SubqueueChanges, resets: bool) {
        let id = self.slot.id();
        if !changes.is_empty() {
            let wake = |subqueue| self.slot.waiters().wake(1, Offer { tube: Some(subqueue) });
            if !commit(id, changes, wake) {
                self.slot.waiters().wake(u32::MAX, Offer { tube: None });
            }
        }
        if resets {
            reset(id);
        }
    }

    /// Undoes the changes of a transaction or subtransaction, or gives up the claims of one that is being prepared: no
    /// process could return them when it ends.
    pub fn undo(&mut self, changes: &SubqueueChanges, resets: bool) {
        let id = self.slot.id();
        undo(id, changes, |subqueue| self.slot.waiters().wake(1, Offer { tube: Some(subqueue) }));
        // The rollback of a TRUNCATE does not report the tasks that it brings back.
        if resets || changes.more {
            reset(id);
            self.slot.waiters().wake(u32::MAX, Offer { tube: None });
        }
    }
}

pub(in crate::parts) fn open(id: SlotId) {
    with(|pool| pool.open(id));
}

pub(in crate::parts) fn close(id: SlotId) {
    with(|pool| pool.close(id));
}

/// Discards the known sub-queues of a queue.
pub fn reset(id: SlotId) {
    with(|pool| pool.reset(id));
}

/// Applies the changes of a transaction and calls `wake` for each sub-queue that needs a consumer. Returns false if
/// these sub-queues are not all known.
fn commit(id: SlotId, changes: &SubqueueChanges, mut wake: impl FnMut(u64)) -> bool {
    with(|pool| {
        for (subqueue, change) in changes.iter() {
            if pool.commit(id, subqueue, change) {
                wake(subqueue);
            }
        }
        if changes.more {
            pool.reset(id);
        }
    });
    !changes.more
}

/// Puts the claimed sub-queues back to their former positions.
fn undo(id: SlotId, changes: &SubqueueChanges, mut wake: impl FnMut(u64)) {
    with(|pool| {
        // The sub-queue that was claimed first becomes the first again.
        for (subqueue, change) in changes.iter().rev() {
            if pool.undo(id, subqueue, change) {
                wake(subqueue);
            }
        }
    });
}

/// Returns the number of sub-queues in the ring.
pub fn waiting(id: SlotId) -> u32 {
    with(|pool| pool.waiting(id))
}

/// Returns whether an unclaimed sub-queue can have a task to take.
pub fn may_have_some(id: SlotId) -> bool {
    with(|pool| pool.may_have_some(id))
}

/// Returns whether the ring is complete.
pub(in crate::parts) fn is_complete(id: SlotId) -> bool {
    with(|pool| pool.begin_scan(id).is_none())
}

/// Returns whether a sub-queue is known to have something to take.
pub fn knows(id: SlotId, subqueue: u64) -> bool {
    with(|pool| pool.knows(id, subqueue))
}

/// Returns the next sub-queue.
pub fn next(id: SlotId) -> Option<u64> {
    with(|pool| pool.next(id))
}

/// Returns the sub-queue's mark: no ready or waiting task stands before it.
pub fn mark(id: SlotId, subqueue: u64) -> Position {
    with(|pool| pool.mark(id, subqueue))
}

/// Claims the next sub-queue.
pub fn claim_next(id: SlotId) -> Option<Next> {
    with(|pool| pool.claim_next(id))
}

/// Claims a sub-queue out of turn.
pub fn claim(id: SlotId, subqueue: u64) -> Result<u64, Refusal> {
    with(|pool| pool.claim(id, subqueue))
}

/// See [`Pool::claim_if_room`].
pub fn claim_if_room(id: SlotId, subqueue: u64) -> Result<u64, Refusal> {
    with(|pool| pool.claim_if_room(id, subqueue))
}

/// Returns whether shared memory knows the taken task of a sub-queue, or that it has none.
pub fn is_clear(id: SlotId, subqueue: u64) -> bool {
    with(|pool| pool.is_clear(id, subqueue))
}

/// Returns whether shared memory knows a taken task of a sub-queue.
pub fn is_busy(id: SlotId, subqueue: u64) -> bool {
    with(|pool| pool.is_busy(id, subqueue))
}

/// See [`Pool::set_clear`].
pub fn set_clear(id: SlotId, subqueue: u64) {
    with(|pool| pool.set_clear(id, subqueue));
}

/// Gives back a claimed sub-queue. Returns true if a consumer has to be woken for it.
pub fn give_back(id: SlotId, subqueue: u64, to: Back) -> bool {
    with(|pool| pool.give_back(id, subqueue, to))
}

/// Puts a sub-queue that has a task to take into the ring, unless it is known already. No task of it has a lesser
/// level.
pub fn offer(id: SlotId, subqueue: u64, level: Level) -> Offered {
    with(|pool| pool.offer(id, subqueue, level))
}

pub fn begin_scan(id: SlotId) -> Option<Scan> {
    with(|pool| pool.begin_scan(id))
}

/// Begins a pass if there is room for the sub-queues that it can find.
pub fn begin_scan_in_room(id: SlotId) -> Option<Scan> {
    with(|pool| pool.begin_scan(id).filter(|_| pool.has_room()))
}

/// Returns the least level of the sub-queues in the ring.
pub fn least_level(id: SlotId) -> Option<Level> {
    with(|pool| pool.least(id))
}

/// Returns the level of a sub-queue in the ring: no task of it has a lesser level.
pub fn level(id: SlotId, subqueue: u64) -> Level {
    with(|pool| pool.level(id, subqueue))
}

pub fn end_scan(id: SlotId, scan: Scan, next: Option<i64>) {
    with(|pool| pool.end_scan(id, scan, next));
}

/// Begins a scan for the first task of a sub-queue. Returns the position to scan from.
pub fn begin_look(id: SlotId, subqueue: u64) -> Position {
    with(|pool| pool.begin_look(id, subqueue))
}

/// Ends a scan that found the first task at `first` and no task of a lesser level. The caller passes the first possible
/// values if the result is not reliable.
pub fn end_look(id: SlotId, subqueue: u64, first: Position, level: Level) {
    with(|pool| pool.end_look(id, subqueue, first, level));
}
