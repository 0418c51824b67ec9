//! Recounts: counting a queue's tasks while other transactions change them.
//!
//! Invariant: the count plus `since` equals the number of committed tasks. It survives these races:
//!
//! 1. A transaction commits while the recount reads the table. It adds its changes to `since` if the recount's snapshot
//!    does not see it; otherwise its rows are in the count.
//! 2. A transaction is visible to the snapshot, but has not updated the counters yet. [`is_ahead`] detects it; the
//!    recount waits, or its rows would be counted twice.
//! 3. The table is emptied: only changes from then on count.
//! 4. A prepared transaction ends unnoticed: the result is uncertain.

use crate::parts::leases::sessions;
use crate::parts::slot::QueueGuard;
use crate::server::callbacks;
use crate::server::relation::{InProgress, LatestSnapshot, Snapshot, TakenSnapshot};
use crate::server::shared_memory::{Shared, Zeroed};
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use xqueue_core::change::Counts;
use xqueue_core::slot_id::SlotId;
use xqueue_core::transaction::counters::{CounterChange, add};

/// Maximum number of concurrent recounts by `check`, which any role is allowed to call.
const CHECKS: usize = 16;
/// Maximum number of concurrent recounts by `check` for one role: a recount of a large table takes long.
const CHECKS_OF_ROLE: usize = 4;
/// Maximum number of concurrent recounts; those that renew counters have areas of their own.
pub const LIMIT: usize = 2 * CHECKS;

/// An area in which a recount is published. All zeros: free.
#[repr(C)]
pub struct Area {
    /// Role of the recount, or `RENEWAL` if the recount renews counters; 0 while the area is free.
    holder: AtomicU32,
    published: UnsafeCell<Published>,
}

// SAFETY: the published state is guarded by the lock of the queue that it is published for.
unsafe impl Sync for Area {}

/// A recount as committing transactions see it.
#[repr(C)]
struct Published {
    xmin: u32,
    xmax: u32,
    others: usize,
    since: Counts,
    /// The table was truncated: only `since` counts.
    replaced: bool,
    /// The counters will be set to the result.
    renews: bool,
    /// A prepared transaction might have changed the table unnoticed since the snapshot.
    doubtful: bool,
}

// SAFETY: numbers, bools and counts.
unsafe impl Zeroed for Area {}

pub(in crate::parts) static AREAS: Shared<Area> = Shared::new();
/// Transactions in progress in each area's snapshot, in sections of equal length.
pub(in crate::parts) static IN_PROGRESS: Shared<AtomicU32> = Shared::new();

/// Holder of an area that renews counters.
const RENEWAL: u32 = u32::MAX;

/// An area that this process has claimed. It is freed on drop, or when the process ends.
pub struct Claim(usize);

/// A recount in progress.
pub struct Recount {
    claim: Claim,
}

thread_local! {
    /// Area claimed by this process.
    static CLAIMED: Cell<Option<(usize, SlotId)>> = const { Cell::new(None) };
    static EXIT_WATCHED: Cell<bool> = const { Cell::new(false) };
}

impl QueueGuard {
    /// Begins a recount and takes its snapshot under the queue's lock. `renews`: the counters are set to the result,
    /// and a request that arrives meanwhile leads to another recount.
    pub fn begin_recount(
        &mut self,
        claim: Claim,
        latest: LatestSnapshot,
        renews: bool,
    ) -> (Recount, TakenSnapshot) {
        let snapshot = latest.take();
        let InProgress { xmin, xmax, others } = snapshot.in_progress();
        for (place, xid) in xids(claim.0).iter().zip(others) {
            place.store(u32::from(*xid), Ordering::Relaxed);
        }
        let others = others.len().min(xids(claim.0).len());
        let doubtful = self.is_prepared();
        self.counters.recounts |= 1 << claim.0;
        if let Some(published) = self.published(claim.0) {
            let since = Counts::default();
            *published = Published { xmin, xmax, others, since, replaced: false, renews, doubtful };
        }
        if renews {
            self.counters.recount = false;
        }
        CLAIMED.set(Some((claim.0, self.id())));
        (Recount { claim }, snapshot)
    }

    /// Ends a recount whose snapshot saw `counted`. Returns the number of tasks as of now, and whether it is certain.
    pub fn end_recount(&mut self, recount: &Recount, counted: Counts) -> (Counts, bool) {
        let index = recount.claim.0;
        let Some(published) = self.published(index) else { return (counted, false) };
        let mut counts = if published.replaced { Counts::default() } else { counted };
        add(&mut counts.tasks, &published.since.tasks);
        for (tube, since) in counts.tubes.iter_mut().zip(&published.since.tubes) {
            add(tube, since);
        }
        let is_certain = !published.doubtful;
        self.counters.recounts &= !(1 << index);
        CLAIMED.set(None);
        (counts, is_certain)
    }

    /// Makes the recounts in progress uncertain, because a prepared transaction can end unnoticed.
    pub(in crate::parts) fn doubt_recounts(&mut self) {
        for index in 0..LIMIT {
            if let Some(published) = self.published(index) {
                published.doubtful = true;
            }
        }
    }

    /// Adds the changes of transaction `xid` to the recounts in progress.
    pub(in crate::parts) fn tell_recounts(&mut self, xid: u32, change: &CounterChange) {
        if self.counters.recounts == 0 {
            return;
        }
        for index in 0..LIMIT {
            let Some(published) = self.published(index) else { continue };
            if change.replaces {
                published.since = Counts::default();
                published.replaced = true;
            }
            if change.replaces || published.hides(xid, xids(index)) {
                add(&mut published.since.tasks, &change.tasks);
                for (tube, of_tube) in &change.tubes {
                    add(&mut published.since.tubes[*tube], &of_tube.tasks);
                }
            }
        }
    }

    /// Returns the published state of a recount of this queue; None if the area does not belong to it.
    fn published(&mut self, index: usize) -> Option<&mut Published> {
        let is_own = self.counters.recounts & (1 << index) != 0;
        let area = &AREAS.get()[index];
        // SAFETY: this queue's lock is held exclusively while the guard is borrowed. An area that the queue's
        // `recounts` names is used under that lock only, and claimed for one queue at a time.
        is_own.then(|| unsafe { &mut *area.published.get() })
    }
}

impl Published {
    fn hides(&self, xid: u32, xids: &[AtomicU32]) -> bool {
        let mut others = xids[..self.others].iter().map(|other| other.load(Ordering::Relaxed));
        hides((self.xmin, self.xmax), xid, || others.any(|other| other == xid))
    }
}

/// Returns whether a snapshot with these bounds does not see `xid`. `is_between`: whether `xid` was in progress.
fn hides((xmin, xmax): (u32, u32), xid: u32, is_between: impl FnOnce() -> bool) -> bool {
    let precedes = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
    !precedes(xid, xmin) && (!precedes(xid, xmax) || is_between())
}

/// Returns whether the snapshot sees a transaction that has not updated the counters yet, whose tasks would be counted
/// twice. It updates them within moments.
pub fn is_ahead(snapshot: &Snapshot) -> bool {
    let InProgress { xmin, xmax, others } = snapshot.in_progress();
    let is_other = |xid| others.iter().any(|other| u32::from(*other) == xid);
    sessions::any_committing(|xid| !hides((xmin, xmax), xid, || is_other(xid)))
}

impl Area {
    /// Claims an area for a role's check. Returns None if too many checks are running, in total or for that role.
    pub fn claim_for_check(role: u32) -> Option<Claim> {
        let claim = Area::claim(0..CHECKS, role)?;
        let is_roles = |index: &usize| areas()[*index].holder.load(Ordering::Acquire) == role;
        // Concurrent claims of one role can all be refused, but they never exceed the limit.
        ((0..CHECKS).filter(is_roles).count() <= CHECKS_OF_ROLE).then_some(claim)
    }

    /// Claims an area for renewing counters. Returns None if all are in use.
    pub fn claim_for_renewal() -> Option<Claim> {
        Area::claim(CHECKS..LIMIT, RENEWAL)
    }

    fn claim(mut among: Range<usize>, holder: u32) -> Option<Claim> {
        if !EXIT_WATCHED.replace(true) {
            callbacks::at_exit(give_up_on_exit, 0);
        }
        let claim = |index: &usize| {
            let claimed = areas()[*index].holder.compare_exchange(
                0,
                holder,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            claimed.is_ok()
        };
        among.find(claim).map(Claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        give_up();
        areas()[self.0].holder.store(0, Ordering::Release);
    }
}

/// Frees the area of a process that is terminated during a recount.
fn give_up_on_exit(_argument: u32) {
    if let Some((index, _)) = CLAIMED.get() {
        give_up();
        areas()[index].holder.store(0, Ordering::Release);
    }
}

/// Withdraws a recount after an error. The queue forgets the area before it is reused, and requests another recount.
fn give_up() {
    if let Some((index, slot)) = CLAIMED.take()
        && let Some(mut queue) = crate::parts::slot::lock(slot)
    {
        queue.counters.recount |= queue.published(index).is_some_and(|published| published.renews);
        queue.counters.recounts &= !(1 << index);
    }
}

fn areas() -> &'static [Area] {
    AREAS.get()
}

/// Returns the transactions in progress in an area's snapshot; they are written before the area is published.
fn xids(area: usize) -> &'static [AtomicU32] {
    let all = IN_PROGRESS.get();
    let count = all.len() / LIMIT;
    &all[area * count..][..count]
}
