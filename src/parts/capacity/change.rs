//! What the open transaction does to the room under a queue's capacity.

use crate::parts::counters;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Room that this transaction has under the queue's capacity: by so many tasks it may grow.
    pub reserved: i64,
    /// The capacity is this from now on; inside, None: unlimited.
    pub limit: Option<Option<i64>>,
}

impl Change {
    pub fn absorb(&mut self, later: &Change) {
        self.reserved += later.reserved;
        self.limit = later.limit.or(self.limit);
    }
}

/// What a transaction does to the number of a queue's tasks, as far as capacity is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// By so many tasks it grows; with `replaces`, so many there will be.
    pub tasks: i64,
    pub replaces: bool,
    pub reserved: i64,
    /// The capacity is changed by the same transaction.
    pub redefines: bool,
}

impl Growth {
    pub fn absorb(&mut self, counters: &counters::Change, capacity: &Change) {
        if counters.replaces {
            (self.tasks, self.replaces) = (0, true);
        }
        self.tasks += counters.tasks.iter().sum::<i64>();
        self.reserved += capacity.reserved;
        self.redefines |= capacity.limit.is_some();
    }

    /// How much room `tasks` more need beyond what is reserved. A task that the same transaction
    /// has deleted is room: if the deletion is rolled back, so is whatever came after it.
    pub fn lacking(&self, tasks: i64) -> i64 {
        self.tasks + tasks - self.reserved
    }

    /// Room that is reserved and not used.
    pub fn surplus(&self) -> i64 {
        self.reserved - self.tasks.max(0)
    }
}
