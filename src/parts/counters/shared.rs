//! Counters of a queue in shared memory, under the queue's lock.

use xqueue_core::change::{Calls, Transitions};
use xqueue_core::counters::rates::Rates;
use xqueue_core::histogram::Histogram;
use xqueue_core::status::Tasks;
use xqueue_core::transaction::counters::{CounterChange, add, add_all};

#[repr(C)]
pub struct Shared {
    pub(in crate::parts) tasks: Tasks,
    pub(super) calls: Calls,
    pub(super) transitions: Transitions,
    pub(super) waits: Histogram,
    pub(super) works: Histogram,
    pub(super) rates: Rates,
    /// Tubes have or had statistics of their own.
    pub(in crate::parts) counts_tubes: bool,
    /// The slot's element of those holds something of this queue.
    pub(super) has_tubes: bool,
    /// The counters are equal to the table.
    pub(in crate::parts) exact: bool,
    /// The table's triggers report every change.
    pub(super) tracked: bool,
    /// A recount is needed.
    pub(in crate::parts) recount: bool,
    /// It is waited for: the worker counts this queue before others.
    pub(super) awaited: bool,
    /// Bit i: the recount in area i is of this queue.
    pub(super) recounts: u32,
}

impl Shared {
    /// Returns counters that wait for their first recount.
    pub(in crate::parts) fn uncounted() -> Shared {
        Shared {
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
            recount: true,
            awaited: false,
            recounts: 0,
        }
    }

    /// Applies what a transaction has committed, but for tubes.
    pub(super) fn commit(&mut self, now: i64, change: &CounterChange) {
        if change.replaces {
            self.tasks = Tasks::default();
        }
        add(&mut self.tasks, &change.tasks);
        add(&mut self.calls, &change.calls);
        add_all(&mut self.transitions, &change.transitions);
        self.waits.absorb(&change.waits);
        self.works.absorb(&change.works);
        self.rates.add(now, change.flow());
    }
}
