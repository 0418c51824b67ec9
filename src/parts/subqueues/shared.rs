//! The sub-queues of all queues in shared memory, see [`crate::parts::subqueues::pool`].

use crate::model::level::Level;
use crate::model::position::Position;
use crate::parts::locks::SubqueuesLock;
use crate::parts::slot::QueueGuard;
use crate::parts::slot_id::SlotId;
use crate::parts::subqueues::change::SubqueueChanges;
use crate::parts::subqueues::pool::{
    Back, Entry, Header, Next, Offered, Pool, Refusal, Ring, Scan,
};
use crate::parts::subqueues::traced::{self, Step};
use crate::parts::waiters::{Cause, Offer};
use crate::server::process;
use crate::server::shared_memory::{Guarded, HeldLock, Zeroed};
use serde_json::json;

// SAFETY: numbers, bools and enums whose zeros are their first.
unsafe impl Zeroed for Header {}
// SAFETY: as above.
unsafe impl Zeroed for Ring {}
// SAFETY: as above.
unsafe impl Zeroed for Entry {}

pub(in crate::parts) static HEADER: Guarded<Header, SubqueuesLock> = Guarded::new();
/// What a queue takes whether it has sub-queues or not, in bytes.
#[cfg(test)]
pub(in crate::parts) const SIZE_OF_QUEUE: usize = size_of::<Ring>();

pub(in crate::parts) static RINGS: Guarded<Ring, SubqueuesLock> = Guarded::new();
pub(in crate::parts) static ENTRIES: Guarded<Entry, SubqueuesLock> = Guarded::new();
pub(in crate::parts) static BUCKETS: Guarded<u32, SubqueuesLock> = Guarded::new();

/// Draws a secret, so that users cannot foresee hashes.
pub(in crate::parts) fn fill() {
    HEADER.get_mut(&mut HeldLock::acquire())[0].secret =
        u128::from_ne_bytes(process::random()) as u64;
}

/// Returns the number of entries reserved for claims: one for each process.
fn reserve() -> usize {
    process::limit()
}

pub(in crate::parts) fn entry_count() -> usize {
    crate::settings::max_subqueues() + reserve()
}

pub(in crate::parts) fn bucket_count() -> usize {
    entry_count().next_power_of_two()
}

/// Runs `work` on one sub-queue under the sub-queues' lock, and traces it as a step.
fn step<T>(
    id: SlotId,
    subqueue: u64,
    verb: &str,
    about: impl FnOnce() -> serde_json::Value,
    work: impl FnOnce(&mut Pool) -> T,
) -> T {
    with(|pool| {
        let step = Step::begin(pool, id, Some(subqueue));
        let done = work(pool);
        step.end(pool, verb, about);
        done
    })
}

/// Does the same for all sub-queues of a queue.
fn step_of_all(pool: &mut Pool, id: SlotId, verb: &str, work: impl FnOnce(&mut Pool)) {
    let step = Step::begin(pool, id, None);
    work(pool);
    step.end(pool, verb, || json!({}));
}

/// Runs `work` on the pool under the sub-queues' lock.
fn with<T>(work: impl FnOnce(&mut Pool) -> T) -> T {
    let held = HeldLock::acquire();
    // SAFETY: these are the only references, to four areas.
    let mut pool = unsafe {
        Pool {
            header: &mut HEADER.beside(&held)[0],
            rings: RINGS.beside(&held),
            entries: ENTRIES.beside(&held),
            buckets: BUCKETS.beside(&held),
            reserve: reserve(),
        }
    };
    work(&mut pool)
}

impl QueueGuard {
    /// Applies the changes of a committed transaction; wakes one consumer for each sub-queue that has got something
    /// to take.
    pub(in crate::parts) fn commit_subqueues(&mut self, changes: &SubqueueChanges, resets: bool) {
        let id = self.id();
        if !changes.is_empty() {
            let wake = |subqueue| self.wake(Cause::Commit, 1, Offer { tube: Some(subqueue) });
            if !commit(id, changes, wake) {
                self.wake(Cause::Commit, u32::MAX, Offer { tube: None });
            }
        }
        if resets {
            reset(id);
        }
    }

    /// Gives up the claims of a transaction that is prepared: no process could give them back at its end, nor does
    /// any know of the tasks that it has taken by hand.
    pub fn give_up_subqueues(&mut self, changes: &SubqueueChanges, resets: bool) {
        let id = self.id();
        with(|pool| {
            let taken = changes.iter().filter(|(_, change)| change.taken > 0);
            taken.for_each(|(subqueue, _)| {
                let step = Step::begin(pool, id, Some(subqueue));
                pool.take_unclaimed(id, subqueue);
                step.end(pool, "TakeUnclaimed", || json!({}));
            });
        });
        self.undo_subqueues(changes, resets);
    }

    /// Undoes the changes of a transaction, or of a part of it.
    pub fn undo_subqueues(&mut self, changes: &SubqueueChanges, resets: bool) {
        let id = self.id();
        undo(id, changes, |subqueue| self.wake(Cause::Undo, 1, Offer { tube: Some(subqueue) }));
        // Tasks that come back with the rollback of a TRUNCATE are not reported.
        if resets || changes.more {
            reset(id);
            self.wake(Cause::Undo, u32::MAX, Offer { tube: None });
        }
    }
}

pub(in crate::parts) fn open(id: SlotId) {
    with(|pool| step_of_all(pool, id, "Open", |pool| pool.open(id)));
}

pub(in crate::parts) fn close(id: SlotId) {
    with(|pool| step_of_all(pool, id, "Close", |pool| pool.close(id)));
}

pub(in crate::parts) fn reset(id: SlotId) {
    with(|pool| step_of_all(pool, id, "Reset", |pool| pool.reset(id)));
}

/// Applies the changes of a transaction; `wake` sees the sub-queues to wake consumers for. False if these are not
/// known.
fn commit(id: SlotId, changes: &SubqueueChanges, mut wake: impl FnMut(u64)) -> bool {
    with(|pool| {
        for (subqueue, change) in changes.iter() {
            let step = Step::begin(pool, id, Some(subqueue));
            let has_some = pool.commit(id, subqueue, change);
            step.end(pool, "Commit", || json!({ "change": traced::change(change) }));
            if has_some {
                wake(subqueue);
            }
        }
        if changes.more {
            step_of_all(pool, id, "Reset", |pool| pool.reset(id));
        }
    });
    !changes.more
}

/// Puts the claimed sub-queues back to where they were.
fn undo(id: SlotId, changes: &SubqueueChanges, mut wake: impl FnMut(u64)) {
    with(|pool| {
        // The first to be claimed becomes the first again.
        for (subqueue, change) in changes.iter().rev() {
            let step = Step::begin(pool, id, Some(subqueue));
            let has_some = pool.undo(id, subqueue, change);
            step.end(pool, "Undo", || json!({ "change": traced::change(change) }));
            if has_some {
                wake(subqueue);
            }
        }
    });
}

/// Returns the number of sub-queues in the ring.
pub fn waiting(id: SlotId) -> u32 {
    with(|pool| pool.waiting(id))
}

/// Returns whether there may be a task to take in a sub-queue that is not claimed.
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

/// Returns the sub-queue's mark: no task that may be its first stands before it.
pub fn mark(id: SlotId, subqueue: u64) -> Position {
    with(|pool| pool.mark(id, subqueue))
}

/// Claims the next sub-queue.
pub fn claim_next(id: SlotId) -> Option<Next> {
    with(|pool| {
        let step = Step::begin_next(pool, id);
        let next = pool.claim_next(id);
        if next.is_some() {
            step.end(pool, "Next", || json!({}));
        }
        next
    })
}

/// Claims a sub-queue out of turn.
pub fn claim(id: SlotId, subqueue: u64) -> Result<u64, Refusal> {
    claim_as(id, subqueue, "Claim", |pool| pool.claim(id, subqueue))
}

/// Claims a sub-queue of which a task was taken by hand, if there is room.
pub fn claim_by_hand(id: SlotId, subqueue: u64) -> Result<u64, Refusal> {
    claim_as(id, subqueue, "ByHand", |pool| pool.claim_by_hand(id, subqueue))
}

fn claim_as(
    id: SlotId,
    subqueue: u64,
    verb: &str,
    claim: impl FnOnce(&mut Pool) -> Result<u64, Refusal>,
) -> Result<u64, Refusal> {
    with(|pool| {
        let step = Step::begin(pool, id, Some(subqueue));
        let claimed = claim(pool);
        match claimed {
            Ok(_) => step.end(pool, verb, || json!({})),
            Err(Refusal::InUse) => step.end(pool, "InUse", || json!({})),
            Err(Refusal::NoRoom) => {}
        }
        claimed
    })
}

/// Returns whether shared memory knows every taken task of a sub-queue.
pub fn is_clear(id: SlotId, subqueue: u64) -> bool {
    with(|pool| pool.is_clear(id, subqueue))
}

/// Returns whether shared memory knows a taken task of a sub-queue.
pub fn is_busy(id: SlotId, subqueue: u64) -> bool {
    with(|pool| pool.is_busy(id, subqueue))
}

/// See [`Pool::set_clear`].
pub fn set_clear(id: SlotId, subqueue: u64) {
    step(id, subqueue, "SetClear", || json!({}), |pool| pool.set_clear(id, subqueue));
}

/// See [`Pool::take_unclaimed`].
pub fn take_unclaimed(id: SlotId, subqueue: u64) {
    step(id, subqueue, "TakeUnclaimed", || json!({}), |pool| pool.take_unclaimed(id, subqueue));
}

/// Gives back a claimed sub-queue. True if a consumer has to be woken for it.
pub fn give_back(id: SlotId, subqueue: u64, to: Back) -> bool {
    let about = || json!({ "to": format!("{to:?}") });
    step(id, subqueue, "GiveBack", about, |pool| pool.give_back(id, subqueue, to))
}

/// Queues a sub-queue that has something to take, none of it of a lesser level, unless it is known.
pub fn offer(id: SlotId, subqueue: u64, level: Level) -> Offered {
    step(id, subqueue, "Offer", || json!({}), |pool| pool.offer(id, subqueue, level))
}

pub fn begin_scan(id: SlotId) -> Option<Scan> {
    with(|pool| pool.begin_scan(id))
}

/// Begins a pass if there is room for what it may find.
pub fn begin_scan_in_room(id: SlotId) -> Option<Scan> {
    with(|pool| pool.begin_scan(id).filter(|_| pool.has_room()))
}

/// Returns the least level of the sub-queues in the ring.
pub fn least_level(id: SlotId) -> Option<Level> {
    with(|pool| pool.least(id))
}

/// Returns the level of a sub-queue in the ring: none of its tasks has a lesser one.
pub fn level(id: SlotId, subqueue: u64) -> Level {
    with(|pool| pool.level(id, subqueue))
}

pub fn end_scan(id: SlotId, scan: Scan, next: Option<i64>) {
    with(|pool| {
        let step = Step::begin(pool, id, None);
        pool.end_scan(id, scan, next);
        let about =
            || json!({ "from": scan.from, "invalidations": scan.invalidations, "next": next });
        step.end(pool, "EndScan", about);
    });
}

/// Begins a look for the first task of a sub-queue. Returns the position to look from.
pub fn begin_look(id: SlotId, subqueue: u64) -> Position {
    step(id, subqueue, "BeginLook", || json!({}), |pool| pool.begin_look(id, subqueue))
}

/// Ends a look that has found the first task at `first`, and none of a lesser level; both are the first possible ones
/// if they must not be relied on.
pub fn end_look(id: SlotId, subqueue: u64, first: Position, level: Level) {
    let about = || json!({ "first": first.to_string() });
    step(id, subqueue, "EndLook", about, |pool| pool.end_look(id, subqueue, first, level));
}

impl QueueGuard {
    /// Sets whether the tubes are sub-queues.
    pub fn set_has_subqueues(&mut self, has_subqueues: bool) {
        self.table.has_subqueues = has_subqueues;
    }

    /// Returns whether the ring is complete.
    pub(in crate::parts) fn knows_all_subqueues(&self) -> bool {
        !self.table.has_subqueues || is_complete(self.id())
    }
}
