//! Counters of a queue in shared memory, under the queue's lock.

use xqueue_core::change::{Calls, Transitions};
use xqueue_core::counters::rates::Rates;
use xqueue_core::histogram::Histogram;
use xqueue_core::status::{Status, Tasks};
use xqueue_core::transaction::counters::{CounterChange, add, add_all};

#[repr(C)]
pub struct CounterState {
    pub(in crate::parts) tasks: Tasks,
    pub(super) calls: Calls,
    pub(super) transitions: Transitions,
    pub(super) waits: Histogram,
    pub(super) works: Histogram,
    pub(super) rates: Rates,
    /// Tubes have statistics of their own, or had them.
    pub(in crate::parts) counts_tubes: bool,
    /// The slot's element for counted tubes is in use.
    pub(super) has_tubes: bool,
    /// The counters match the table.
    pub(in crate::parts) exact: bool,
    /// The table's triggers report every change.
    pub(super) tracked: bool,
    pub(super) recount: Recount,
    /// A process waits for the recount: the worker counts this queue before others.
    pub(super) awaited: bool,
}

/// A queue's newest recount, under the queue's lock.
#[repr(C)]
pub struct Recount {
    /// Whether the counters have to be set by a recount.
    pub(super) need: Need,
    pub(super) number: u32,
    /// No transaction with this xid or a later one had ended when the snapshot was taken.
    pub(super) xmax: u32,
    /// Changes that were committed after the snapshot was taken.
    pub(super) since: Tasks,
}

#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    None,
    Requested,
    /// A recount has begun since the last request.
    Counting,
}

impl CounterState {
    /// Returns the counters of a queue that waits for its first recount.
    pub(in crate::parts) fn uncounted() -> CounterState {
        CounterState {
            tasks: Tasks::default(),
            calls: Calls::default(),
            transitions: Transitions::default(),
            waits: Histogram::default(),
            works: Histogram::default(),
            rates: Rates::default(),
            counts_tubes: false,
            has_tubes: false,
            exact: false,
            tracked: false,
            recount: Recount::REQUESTED,
            awaited: false,
        }
    }

    /// Notes whether tubes have statistics of their own.
    pub fn note_counted_tubes(&mut self, counts_tubes: bool) {
        self.counts_tubes |= counts_tubes;
    }

    pub fn counts_tubes(&self) -> bool {
        self.counts_tubes
    }

    /// Returns the number of committed tasks.
    pub(in crate::parts) fn total(&self) -> i64 {
        self.tasks.iter().sum()
    }

    /// Returns whether there can be committed tasks in a state.
    pub fn may_have(&self, status: Status) -> bool {
        !self.exact || self.tasks[status as usize] != 0
    }

    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Returns a number that differs after tasks have changed.
    pub fn version(&self) -> i64 {
        let changes: i64 = self.transitions.iter().flatten().sum();
        // The emptying of a table counts no transitions.
        changes.wrapping_shl(20).wrapping_add(self.tasks[Status::Ready as usize])
    }

    /// Requests a recount. A recount in progress possibly misses changes, so it does not fulfil the request.
    pub(in crate::parts) fn request_recount(&mut self) {
        (self.recount.need, self.exact) = (Need::Requested, false);
    }

    /// Returns whether a recount has been requested and none has ended since.
    pub fn needs_recount(&self) -> bool {
        self.recount.need != Need::None
    }

    /// Returns whether a recount has been requested and none has begun since.
    pub fn is_recount_requested(&self) -> bool {
        self.recount.need == Need::Requested
    }

    /// Notes that the caller waits for the recount. Returns true if the worker does not know this yet and has to be
    /// notified.
    pub fn await_recount(&mut self) -> bool {
        !std::mem::replace(&mut self.awaited, true)
    }

    pub fn is_recount_awaited(&self) -> bool {
        self.awaited
    }

    /// Notes whether triggers report every change. The caller holds a lock that keeps triggers from changing. If they
    /// report every change now but did not before, a recount is requested for the earlier changes.
    pub fn note_tracked(&mut self, tracked: bool) {
        let is_news = tracked && !self.tracked;
        self.tracked = tracked;
        self.exact &= tracked;
        if is_news {
            self.request_recount();
        }
    }

    /// Resets the counters of calls and transitions, and the histograms; the numbers of tasks stay.
    pub(super) fn reset(&mut self) {
        self.calls = Calls::default();
        self.transitions = Transitions::default();
        self.waits = Histogram::default();
        self.works = Histogram::default();
    }

    /// Applies the changes of a committed transaction, except those of tubes. `is_counted`: the recount in progress
    /// sees the transaction.
    pub(super) fn commit(&mut self, now: i64, change: &CounterChange, is_counted: bool) {
        if change.replaces {
            self.tasks = Tasks::default();
            self.recount.discard();
        }
        add(&mut self.tasks, &change.tasks);
        if !is_counted {
            self.recount.add(&change.tasks);
        }
        add(&mut self.calls, &change.calls);
        add_all(&mut self.transitions, &change.transitions);
        self.waits.absorb(&change.waits);
        self.works.absorb(&change.works);
        self.rates.add(now, change.flow());
    }
}

impl Recount {
    pub(super) const REQUESTED: Recount =
        Recount { need: Need::Requested, number: 0, xmax: 0, since: [0; _] };

    /// Discards the recount in progress, because the counters have been replaced.
    pub(super) fn discard(&mut self) {
        self.number = self.number.wrapping_add(1);
    }

    /// Adds the tasks of a committed transaction that the snapshot does not see.
    pub(super) fn add(&mut self, tasks: &Tasks) {
        add(&mut self.since, tasks);
    }
}
