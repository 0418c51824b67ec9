//! Recounts: counting a queue's tasks while other transactions change them.
//!
//! A recount takes a snapshot under the queue's lock, and counts the tasks that it sees. From then on, `since` adds up
//! the changes of commits. A queue has one recount: a newer one, which has another number, replaces it.
//!
//! Invariant: the count plus `since` equals the number of committed tasks. It survives these races:
//!
//! 1. A transaction commits while the recount reads the table. Its callback runs after the snapshot was taken, so the
//!    snapshot does not see it, and its changes are added to `since`.
//! 2. A transaction is visible to the snapshot, but its callback has not run yet. Its process is marked in [`AHEAD`],
//!    and its changes are not added to `since`. The mark does not concern later transactions of that process: their
//!    xids are at least `xmax`.
//! 3. Such a transaction adds its changes to the counters after the recount has set them. [`is_ahead`] lets the recount
//!    wait for it.
//! 4. The table is emptied: the new count replaces the recount.
//! 5. A prepared transaction ends unnoticed: the counters are not exact, and another recount is requested.
//! 6. The process ends during its recount: the recount is still needed.

use crate::parts::counters::QueueCounters;
use crate::parts::counters::shared::Need;
use crate::parts::leases::sessions;
use crate::server::process;
use crate::server::shared_memory::Shared as Area;
use crate::server::snapshot::{InProgress, LatestSnapshot, Snapshot, TakenSnapshot};
use std::sync::atomic::{AtomicU64, Ordering};
use xqueue_core::change::Counts;
use xqueue_core::status::Tasks;
use xqueue_core::transaction::counters::add;

/// For each queue, one bit per process: set if the recount's snapshot sees a transaction of that process whose callback
/// had not run yet. Guarded by the queue's lock.
pub(in crate::parts) static AHEAD: Area<AtomicU64> = Area::new();

/// Returns the length of [`AHEAD`] for each queue.
pub(in crate::parts) fn words() -> usize {
    process::limit().div_ceil(u64::BITS as usize)
}

impl QueueCounters<'_> {
    /// Begins a recount and takes its snapshot under the queue's lock. Returns the recount's number. `renews`: the
    /// counters will be set to the result.
    pub fn begin_recount(&mut self, latest: LatestSnapshot, renews: bool) -> (u32, TakenSnapshot) {
        let snapshot = latest.take();
        let in_progress = snapshot.in_progress();
        let ahead = self.ahead();
        ahead.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        for process in sessions::committing(|xid| sees(in_progress, xid)) {
            let (word, bit) = bit_of(process);
            ahead[word].fetch_or(bit, Ordering::Relaxed);
        }
        self.slot.tubes().begin_recount();
        let recount = &mut self.slot.counters.recount;
        recount.discard();
        (recount.xmax, recount.since) = (in_progress.xmax, Tasks::default());
        if renews {
            recount.need = Need::Counting;
        }
        (recount.number, snapshot)
    }

    /// Returns the number of tasks as of now, if the recount's snapshot saw `counts`. Returns None if the recount has
    /// been replaced.
    pub fn end_recount(&mut self, number: u32, mut counts: Counts) -> Option<Counts> {
        let is_newest = number == self.slot.counters.recount.number;
        add(&mut counts.tasks, &self.slot.counters.recount.since);
        for (tasks, tube) in counts.tubes.iter_mut().zip(self.slot.tubes().counters()) {
            add(tasks, &tube.since);
        }
        is_newest.then_some(counts)
    }

    /// Returns whether the recount's snapshot sees transaction `xid` of this process, which is committing.
    pub(super) fn is_counted(&self, xid: u32) -> bool {
        let (word, bit) = bit_of(process::index() as usize);
        precedes(xid, self.slot.counters.recount.xmax)
            && self.ahead()[word].load(Ordering::Relaxed) & bit != 0
    }

    fn ahead(&self) -> &'static [AtomicU64] {
        &AHEAD.get()[self.slot.index() as usize * words()..][..words()]
    }
}

fn bit_of(process: usize) -> (usize, u64) {
    let bits = u64::BITS as usize;
    (process / bits, 1 << (process % bits))
}

/// Returns whether the snapshot sees a transaction that has not updated the counters yet, whose tasks would be counted
/// twice. It updates them within moments.
pub fn is_ahead(snapshot: &Snapshot) -> bool {
    sessions::committing(|xid| sees(snapshot.in_progress(), xid)).next().is_some()
}

/// Returns whether a snapshot with these transactions in progress sees `xid`.
fn sees(InProgress { xmin, xmax, others }: InProgress, xid: u32) -> bool {
    let is_other = || others.iter().any(|other| u32::from(*other) == xid);
    precedes(xid, xmin) || (precedes(xid, xmax) && !is_other())
}

fn precedes(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
