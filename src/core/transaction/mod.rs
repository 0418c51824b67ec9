//! Changes that the open transaction has made to queues. Each part has a change type; a [`Delta`] has the changes of
//! all parts of one queue. The [`Stack`](stack::Stack) has the deltas by nesting depth.

mod capacity;
pub mod counters;
mod given;
mod leases;
mod marks;
mod schedule;
pub mod stack;
mod subqueues;
mod table;
#[cfg(test)]
mod tests;
mod waiters;

pub use capacity::{CapacityChange, Growth};
pub use counters::{CounterChange, Spent, TubeDelta};
pub use given::Given;
pub use leases::{HeldChange, LeaseChange};
pub use marks::{Lowest, MarkChange};
pub use schedule::ScheduleChange;
pub use subqueues::{SUBQUEUES_NOTED, SubqueueChange, SubqueueChanges};
pub use table::TableChange;
pub use waiters::{Ready, TUBES_NOTED, WaiterChange};

use crate::change::{Counts, StateAndTube};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    pub table: TableChange,
    pub counters: CounterChange,
    pub marks: MarkChange,
    pub waiters: WaiterChange,
    pub subqueues: SubqueueChanges,
    pub leases: LeaseChange,
    pub capacity: CapacityChange,
    pub schedule: ScheduleChange,
}

impl Delta {
    /// Records that a task changed its state or tube. `old` is None for an insertion, `new` for a deletion.
    pub fn change(&mut self, old: Option<StateAndTube>, new: Option<StateAndTube>) {
        self.counters.change(old, new);
        self.marks.change(old, new);
        self.waiters.change(old, new);
    }

    /// Records that the queue holds exactly these tasks from now on.
    pub fn replace(&mut self, counts: &Counts) {
        self.counters.replace(counts);
    }

    /// Adds later changes.
    pub fn absorb(&mut self, later: &Delta) {
        self.table.absorb(&later.table);
        self.counters.absorb(&later.counters);
        self.marks.absorb(&later.marks);
        self.waiters.absorb(&later.waiters);
        self.subqueues.absorb(&later.subqueues);
        self.leases.absorb(&later.leases);
        self.capacity.absorb(&later.capacity);
        self.schedule.absorb(&later.schedule);
    }
}
