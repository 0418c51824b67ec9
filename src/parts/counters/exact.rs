//! Whether counters are exact. They are not exact while a prepared transaction might have changed the table, while a
//! recount is pending, or while triggers do not report every change.

use crate::parts::counters::QueueCounters;
use crate::parts::counters::shared::Need;
use xqueue_core::change::Counts;
use xqueue_core::transaction::CounterChange;

impl QueueCounters<'_> {
    /// Applies the counter changes of a committed transaction.
    pub(in crate::parts) fn commit(&mut self, now: i64, xid: u32, change: &CounterChange) {
        let is_counted = self.is_counted(xid);
        let counters = &mut self.slot.counters;
        if let Some(tracked) = change.tracked {
            counters.tracked = tracked;
            counters.exact &= tracked;
        }
        counters.commit(now, change, is_counted);
        self.slot.tubes().commit(change, is_counted);
        self.slot.counters.exact |= change.replaces && self.may_be_exact();
    }

    /// Sets the counters to the result of a recount.
    pub fn set_counted(&mut self, counts: &Counts) {
        self.slot.tubes().set_counted(counts);
        let may_be_exact = self.may_be_exact();
        let counters = &mut self.slot.counters;
        counters.tasks = counts.tasks;
        let for_good = counters.recount.need != Need::Requested;
        if for_good {
            (counters.recount.need, counters.awaited) = (Need::None, false);
        }
        counters.exact = may_be_exact && for_good;
        self.slot.capacity.count(for_good);
        self.slot.waiters().grant();
    }

    /// Returns whether every change of the table is counted.
    fn may_be_exact(&self) -> bool {
        self.slot.counters.tracked && !self.slot.prepared.is_possible()
    }
}
