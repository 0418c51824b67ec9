//! Counting a queue's tasks anew while others go on changing them.
//!
//! A recount counts what a snapshot sees. Whoever commits meanwhile adds its changes to `since` if
//! that snapshot does not see them. What was counted and what came since add up to the truth.

use crate::model::change::Counts;
use crate::parts::delta::{Delta, add};
use crate::parts::leases::sessions;
use crate::parts::slot::QueueGuard;
use crate::parts::slot_id::SlotId;
use crate::server::callbacks;
use crate::server::relation::Snapshot;
use crate::trace;
use serde_json::{Value, json};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many recounts may run at the same time that compare counters with a table, which any role may ask for.
const CHECKS: usize = 16;
/// How many of them one role may have running: they take as long as its tables are large.
const CHECKS_OF_ROLE: usize = 4;
/// How many recounts may run at the same time; those that renew counters have areas of their own.
pub const LIMIT: usize = 2 * CHECKS;

/// All-zero bytes are a free one.
#[repr(C)]
pub struct Area {
    /// The role whose recount it is, `RENEWAL` for one that renews counters, 0 while it is free.
    holder: AtomicU32,
    xmin: u32,
    xmax: u32,
    others: u32,
    since: Counts,
    /// The table was truncated: only what came since counts.
    replaced: bool,
    /// The counters are to become what is counted.
    renews: bool,
    /// A prepared transaction may have changed the table since the snapshot, of which nothing tells.
    doubtful: bool,
}

/// In place of a role.
const RENEWAL: u32 = u32::MAX;

/// A place to publish a recount in, freed on drop, or when the process ends.
pub struct Claim(usize);

/// A recount in progress.
pub struct Recount {
    claim: Claim,
}

thread_local! {
    /// The area that this process has claimed.
    static CLAIMED: Cell<Option<(usize, SlotId)>> = const { Cell::new(None) };
    static EXIT_WATCHED: Cell<bool> = const { Cell::new(false) };
}

impl QueueGuard {
    /// Begins a recount: takes its snapshot under the queue's lock. `renews`: the counters are to
    /// become what is counted; who asks for a recount meanwhile gets another one.
    pub fn begin_recount(&mut self, claim: Claim, renews: bool) -> (Recount, Snapshot) {
        let snapshot = Snapshot::latest();
        let (xmin, xmax, others) = snapshot.in_progress();
        let published = in_progress(claim.0);
        let count = others.len().min(published.len());
        for (place, xid) in published.iter_mut().zip(others) {
            *place = u32::from(*xid);
        }
        let place = area(claim.0);
        (place.xmin, place.xmax, place.others) = (xmin, xmax, count as u32);
        (place.since, place.replaced, place.renews) = (Counts::default(), false, renews);
        place.doubtful = self.is_prepared();
        self.recounts |= 1 << claim.0;
        if renews {
            self.recount = false;
        }
        CLAIMED.set(Some((claim.0, self.id())));
        self.trace_recount(|| {
            let others = &published[..count];
            json!({ "do": "Begin", "area": claim.0, "xmax": xmax, "in_progress": others, "renews": renews })
        });
        (Recount { claim }, snapshot)
    }

    /// Ends a recount whose snapshot saw `counted`: gives what there is now, and whether that is certain.
    pub fn end_recount(&mut self, recount: &Recount, counted: Counts) -> (Counts, bool) {
        let area = area(recount.claim.0);
        let mut counts = if area.replaced { Counts::default() } else { counted };
        add(&mut counts.tasks, &area.since.tasks);
        for (tube, since) in counts.tubes.iter_mut().zip(&area.since.tubes) {
            add(tube, since);
        }
        self.recounts &= !(1 << recount.claim.0);
        CLAIMED.set(None);
        self.trace_recount(|| {
            let (result, is_certain) = (counts.tasks, !area.doubtful);
            json!({
                "do": "End", "area": recount.claim.0, "counted": counted.tasks, "result": result,
                "certain": is_certain
            })
        });
        (counts, !area.doubtful)
    }

    /// A transaction is prepared, or was found to be: what comes of it no recount in progress is told.
    pub(in crate::parts) fn doubt_recounts(&mut self) {
        let running = (0..LIMIT).filter(|index| self.recounts & (1 << index) != 0);
        running.for_each(|index| area(index).doubtful = true);
    }

    /// Tells the recounts in progress what transaction `xid` has changed.
    pub(in crate::parts) fn tell_recounts(&mut self, xid: u32, delta: &Delta) {
        for index in (0..LIMIT).filter(|index| self.recounts & (1 << index) != 0) {
            let area = area(index);
            if delta.replaces {
                area.since = Counts::default();
                area.replaced = true;
            }
            if delta.replaces || area.hides(xid, in_progress(index)) {
                add(&mut area.since.tasks, &delta.tasks);
                for (tube, change) in &delta.tubes {
                    add(&mut area.since.tubes[*tube], &change.tasks);
                }
            }
        }
    }
}

impl QueueGuard {
    /// Notes a step that bears on recounts, and how all stands after it, for tests.
    pub(in crate::parts) fn trace_recount(&self, step: impl FnOnce() -> Value) {
        trace::step("recount", || {
            let mut step = step();
            let running = (0..LIMIT).filter(|index| self.recounts & (1 << index) != 0);
            let since: Vec<_> = running.map(|index| (index, area(index).since.tasks)).collect();
            step["queue"] = self.id().generation.into();
            step["tasks"] = json!(self.tasks);
            step["since"] = json!(since);
            step["prepared"] = self.prepared.into();
            step["looks"] = self.looks_for_prepared.into();
            step["wanted"] = self.recount.into();
            step["exact"] = self.is_exact().into();
            step
        });
    }
}

impl Area {
    /// Whether the snapshot does not see what `xid` has done.
    fn hides(&self, xid: u32, in_progress: &[u32]) -> bool {
        let precedes = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
        if precedes(xid, self.xmin) {
            return false;
        }
        !precedes(xid, self.xmax) || in_progress[..self.others as usize].contains(&xid)
    }
}

impl Recount {
    /// Whether a transaction that the snapshot sees has not told the counters yet: it would be
    /// counted twice. That takes it moments.
    pub fn is_ahead(&self) -> bool {
        let (area, in_progress) = (area(self.claim.0), in_progress(self.claim.0));
        sessions::any_committing(|xid| !area.hides(xid, in_progress))
    }
}

impl Area {
    /// A free area for a role's check; None if too many are running, or too many of that role's.
    pub fn claim_for_check(role: u32) -> Option<Claim> {
        let claim = Area::claim(0..CHECKS, role)?;
        let is_roles = |index: &usize| area(*index).holder.load(Ordering::Acquire) == role;
        // Of several that come at once all may be refused, but none is one too many.
        ((0..CHECKS).filter(is_roles).count() <= CHECKS_OF_ROLE).then_some(claim)
    }

    /// A free area for renewing counters; None if too many recounts are doing that.
    pub fn claim_for_renewal() -> Option<Claim> {
        Area::claim(CHECKS..LIMIT, RENEWAL)
    }

    fn claim(mut areas: Range<usize>, holder: u32) -> Option<Claim> {
        if !EXIT_WATCHED.replace(true) {
            callbacks::at_exit(give_up_on_exit, 0);
        }
        let claim = |index: &usize| {
            let claimed = area(*index).holder.compare_exchange(
                0,
                holder,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            claimed.is_ok()
        };
        areas.find(claim).map(Claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        give_up();
        area(self.0).holder.store(0, Ordering::Release);
    }
}

/// Who is terminated in the middle of a recount does not get to its end.
fn give_up_on_exit(_argument: u32) {
    if let Some((index, _)) = CLAIMED.get() {
        give_up();
        area(index).holder.store(0, Ordering::Release);
        trace::flush();
    }
}

/// After an error the queue has to forget the area before that is used again, and to be counted
/// by somebody else.
fn give_up() {
    if let Some((index, slot)) = CLAIMED.take()
        && let Some(mut queue) = crate::parts::slot::lock(slot)
    {
        queue.recounts &= !(1 << index);
        queue.recount |= area(index).renews;
        queue.trace_recount(|| json!({ "do": "GiveUp", "area": index }));
    }
}

fn area(index: usize) -> &'static mut Area {
    // SAFETY: an area is used by the process that has claimed it and by those that hold the lock
    // of the queue that it is published for.
    unsafe { &mut (&mut (*crate::parts::segment::segment().header).recounts)[index] }
}

fn in_progress(area: usize) -> &'static mut [u32] {
    let segment = crate::parts::segment::segment();
    let count = segment.in_progress_count;
    // SAFETY: each area has its own part of this array; guarded as the area is.
    unsafe { std::slice::from_raw_parts_mut(segment.in_progress.add(area * count), count) }
}
