//! Whether counters are exact. They are not exact while a prepared transaction might have changed the table, while a
//! recount is pending, or while triggers do not report every change.

use crate::parts::counters::shared::Need;
use crate::parts::slot::QueueGuard;
use xqueue_core::change::Counts;
use xqueue_core::transaction::CounterChange;

impl QueueGuard {
    /// Applies the counter changes of a committed transaction.
    pub(in crate::parts) fn commit_counters(&mut self, now: i64, xid: u32, change: &CounterChange) {
        let is_counted = self.is_counted(xid);
        if let Some(tracked) = change.tracked {
            self.counters.tracked = tracked;
            self.counters.exact &= tracked;
        }
        self.counters.commit(now, change, is_counted);
        self.of_tubes().commit(change, is_counted);
        self.counters.exact |= change.replaces && self.may_be_exact();
    }

    /// Requests a recount. A recount in progress possibly misses changes, so it does not fulfil the request.
    pub(in crate::parts) fn want_recount(&mut self) {
        (self.counters.recount.need, self.counters.exact) = (Need::Requested, false);
    }

    /// Notes whether triggers report every change. The caller holds a lock that keeps triggers from changing. If they
    /// report every change now but did not before, a recount is requested for the earlier changes.
    pub fn find_tracked(&mut self, tracked: bool) {
        let is_news = tracked && !self.counters.tracked;
        self.counters.tracked = tracked;
        self.counters.exact &= tracked;
        if is_news {
            self.want_recount();
        }
    }

    /// Returns whether a recount has been requested and none has ended since.
    pub fn needs_recount(&self) -> bool {
        self.counters.recount.need != Need::None
    }

    /// Returns whether a recount has been requested and none has begun since.
    pub fn is_recount_requested(&self) -> bool {
        self.counters.recount.need == Need::Requested
    }

    /// Notes that the caller waits for the recount. Returns true if the worker does not know this yet and has to be
    /// notified.
    pub fn await_recount(&mut self) -> bool {
        !std::mem::replace(&mut self.counters.awaited, true)
    }

    pub fn is_recount_awaited(&self) -> bool {
        self.counters.awaited
    }

    /// Sets the counters to the result of a recount.
    pub fn set_counted(&mut self, counts: &Counts) {
        self.counters.tasks = counts.tasks;
        self.of_tubes().set_counted(counts);
        let for_good = self.counters.recount.need != Need::Requested;
        if for_good {
            (self.counters.recount.need, self.counters.awaited) = (Need::None, false);
        }
        self.counters.exact = self.may_be_exact() && for_good;
        self.capacity.count(for_good);
        self.waiters().grant();
    }

    /// Returns whether every change of the table is counted.
    pub(in crate::parts) fn may_be_exact(&self) -> bool {
        self.counters.tracked && !self.is_prepared()
    }

    pub fn is_exact(&self) -> bool {
        self.counters.exact
    }
}
