//! Counting a queue's tasks anew while others go on changing them.
//!
//! A recount counts what a snapshot sees. Whoever commits meanwhile adds its changes to `since` if
//! that snapshot does not see them. What was counted and what came since add up to the truth.

use super::queues::QueueGuard;
use crate::delta::{Delta, add};
use crate::model::status::Tasks;
use crate::pg::relation::Snapshot;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many recounts may run at the same time.
pub const LIMIT: usize = 16;

#[repr(C)]
pub struct Area {
    in_use: AtomicBool,
    xmin: u32,
    xmax: u32,
    others: u32,
    since: Tasks,
    /// The table was truncated: only what came since counts.
    replaced: bool,
}

/// A place to publish a recount in, freed on drop.
pub struct Claim(usize);

/// A recount in progress.
pub struct Recount {
    claim: Claim,
    queue: crate::delta::SlotId,
}

impl QueueGuard {
    /// Begins a recount: takes its snapshot under the queue's lock.
    pub fn begin_recount(&mut self, claim: Claim) -> (Recount, Snapshot) {
        let snapshot = Snapshot::latest();
        let (xmin, xmax, others) = snapshot.in_progress();
        let published = in_progress(claim.0);
        let count = others.len().min(published.len());
        for (place, xid) in published.iter_mut().zip(others) {
            *place = u32::from(*xid);
        }
        let place = area(claim.0);
        (place.xmin, place.xmax, place.others) = (xmin, xmax, count as u32);
        (place.since, place.replaced) = (Tasks::default(), false);
        self.recounts |= 1 << claim.0;
        (Recount { claim, queue: self.id() }, snapshot)
    }

    /// Ends a recount whose snapshot saw `counted`: gives what there is now.
    pub fn end_recount(&mut self, recount: Recount, counted: Tasks) -> Tasks {
        let area = area(recount.claim.0);
        let mut tasks = if area.replaced { Tasks::default() } else { counted };
        add(&mut tasks, &area.since);
        self.recounts &= !(1 << recount.claim.0);
        tasks
    }

    /// Tells the recounts in progress what transaction `xid` has changed.
    pub(super) fn tell_recounts(&mut self, xid: u32, delta: &Delta) {
        for index in (0..LIMIT).filter(|index| self.recounts & (1 << index) != 0) {
            let area = area(index);
            if delta.replaces {
                area.since = delta.tasks;
                area.replaced = true;
            } else if area.hides(xid, in_progress(index)) {
                add(&mut area.since, &delta.tasks);
            }
        }
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

impl Area {
    /// A free area; None if too many recounts are running.
    pub fn claim() -> Option<Claim> {
        let claim = |index: &usize| !area(*index).in_use.swap(true, Ordering::AcqRel);
        (0..LIMIT).find(claim).map(Claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        area(self.0).in_use.store(false, Ordering::Release);
    }
}

impl Drop for Recount {
    /// After an error the queue is told to forget the area before that is used again.
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(mut queue) = super::queues::lock(self.queue)
        {
            queue.recounts &= !(1 << self.claim.0);
        }
    }
}

fn area(index: usize) -> &'static mut Area {
    // SAFETY: an area is used by the process that has claimed it and by those that hold the lock
    // of the queue that it is published for.
    unsafe { &mut (&mut (*super::segment().header).recounts)[index] }
}

fn in_progress(area: usize) -> &'static mut [u32] {
    let segment = super::segment();
    let count = segment.in_progress_count;
    // SAFETY: each area has its own part of this array; guarded as the area is.
    unsafe { std::slice::from_raw_parts_mut(segment.in_progress.add(area * count), count) }
}
