//! A queue itself: its definition, its table, the table's owner.

pub mod change;
pub mod shared;

pub use change::Change;

use crate::parts::slot::QueueGuard;

impl QueueGuard {
    /// Takes over what a transaction has committed.
    pub(in crate::parts) fn commit_table(&mut self, change: &Change) {
        if change.given_away {
            self.end_next_owner(true);
        }
        self.table.commit(change);
    }

    /// Whose the table is, as this process sees it.
    pub fn learn_owner(&mut self, owner: u32) {
        self.table.owner = owner;
    }

    /// The table is this role's once the open transaction has committed.
    pub fn set_next_owner(&mut self, owner: u32) {
        self.table.next_owner = owner;
    }

    /// The transaction that has set the next owner has committed, or it was rolled back.
    pub fn end_next_owner(&mut self, is_committed: bool) {
        let next = std::mem::take(&mut self.table.next_owner);
        if is_committed {
            self.table.owner = next;
        }
    }

    /// That transaction is prepared: the table is the old owner's as well, until it is known how that ends.
    pub fn prepare_next_owner(&mut self) {
        self.table.prepared_owner = std::mem::take(&mut self.table.next_owner);
    }

    pub fn has_prepared_owner(&self) -> bool {
        self.table.prepared_owner != 0
    }

    /// The prepared transaction that was to change the owner has ended, and this is the owner since; unless another has
    /// been prepared meanwhile, which is looked for again.
    pub fn resolve_owner(&mut self, owner: u32) {
        if !self.prepared.may_change && std::mem::take(&mut self.table.prepared_owner) == owner {
            self.table.owner = owner;
        }
    }

    /// A key made of the clock, greater than all before it. None if the last one is not known.
    pub fn next_key(&mut self, now: i64) -> Option<i64> {
        if self.table.last_key == 0 {
            return None;
        }
        self.table.last_key = self.table.last_key.saturating_add(1).max(now);
        Some(self.table.last_key)
    }

    /// Keys made of the clock will be greater than this one.
    pub fn raise_last_key(&mut self, key: i64) {
        self.table.last_key = self.table.last_key.max(key).max(1);
    }

    /// Some tubes have statistics of their own; the queue is paused.
    pub fn note_kind(&mut self, counts_tubes: bool, pauses: bool) {
        self.counters.counts_tubes |= counts_tubes;
        self.table.pauses |= pauses;
    }

    /// Whether it may be paused.
    pub fn pauses(&self) -> bool {
        self.table.pauses
    }

    pub fn redefinitions(&self) -> u64 {
        self.table.redefinitions
    }

    pub fn is_settled(&self) -> bool {
        self.table.settled
    }
}
