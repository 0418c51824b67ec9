//! Effect of a transaction on the free capacity of a queue.

use crate::transaction::CounterChange;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityChange {
    /// Number of tasks that the transaction has reserved capacity for.
    pub reserved: i64,
    /// New capacity, if it changes. The inner None is unlimited.
    pub limit: Option<Option<i64>>,
}

impl CapacityChange {
    pub fn absorb(&mut self, later: &CapacityChange) {
        self.reserved += later.reserved;
        self.limit = later.limit.or(self.limit);
    }
}

/// Effect of a transaction on the number of a queue's tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Growth in tasks; with `replaces`, the number of tasks.
    pub tasks: i64,
    pub replaces: bool,
    pub reserved: i64,
    /// The transaction changes the capacity as well.
    pub redefines: bool,
}

impl Growth {
    pub fn absorb(&mut self, counters: &CounterChange, capacity: &CapacityChange) {
        if counters.replaces {
            (self.tasks, self.replaces) = (0, true);
        }
        self.tasks += counters.tasks.iter().sum::<i64>();
        self.reserved += capacity.reserved;
        self.redefines |= capacity.limit.is_some();
    }

    /// Returns how much capacity `tasks` more need beyond the reservation. Tasks that the same transaction has deleted
    /// count as free capacity: a rollback of the deletion also rolls back the later insertions.
    pub fn lacking(&self, tasks: i64) -> i64 {
        self.tasks + tasks - self.reserved
    }

    /// Returns the unused part of the reservation.
    pub fn surplus(&self) -> i64 {
        self.reserved - self.tasks.max(0)
    }
}
