//! What the open transaction has changed of a queue, part by part.

use crate::parts::subqueues::change::SubqueueChanges;
use crate::parts::{capacity, counters, leases, marks, schedule, table, waiters};
use xqueue_core::change::{Counts, Place};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    pub table: table::Change,
    pub counters: counters::Change,
    pub marks: marks::Change,
    pub waiters: waiters::Change,
    pub subqueues: SubqueueChanges,
    pub leases: leases::Change,
    pub capacity: capacity::Change,
    pub schedule: schedule::Change,
}

impl Delta {
    /// Records that a task moved from one place to another; None: from or to nowhere.
    pub fn change(&mut self, old: Option<Place>, new: Option<Place>) {
        self.counters.change(old, new);
        self.marks.change(old, new);
        self.waiters.change(old, new);
    }

    /// Records that the queue holds exactly these tasks from here on.
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
