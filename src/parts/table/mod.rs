//! The queue itself: its definition, its table and the table's owner.

pub mod shared;

use crate::parts::slot::QueueGuard;
use xqueue_core::transaction::TableChange;

impl QueueGuard {
    /// Applies the table changes of a committed transaction.
    pub(in crate::parts) fn commit_table(&mut self, change: &TableChange) {
        if change.given_away {
            self.end_next_owner(true);
        }
        self.table.commit(change);
    }

    /// Sets the table's owner that this process sees.
    pub fn learn_owner(&mut self, owner: u32) {
        self.table.owner = owner;
    }

    /// Sets the owner that the table will have once the current transaction commits.
    pub fn set_next_owner(&mut self, owner: u32) {
        self.table.next_owner = owner;
    }

    /// Ends the change of owner by a transaction that has committed or was rolled back.
    pub fn end_next_owner(&mut self, is_committed: bool) {
        let next = std::mem::take(&mut self.table.next_owner);
        if is_committed {
            self.table.owner = next;
        }
    }

    /// Counts the table for both owners while the transaction that changes the owner is prepared.
    pub fn prepare_next_owner(&mut self) {
        self.table.prepared_owner = std::mem::take(&mut self.table.next_owner);
    }

    pub fn has_prepared_owner(&self) -> bool {
        self.table.prepared_owner != 0
    }

    /// Ends the change of owner by a prepared transaction, after which the table belongs to `owner`. Does nothing if
    /// another transaction has been prepared meanwhile.
    pub fn resolve_owner(&mut self, owner: u32) {
        if !self.prepared.may_change && std::mem::take(&mut self.table.prepared_owner) == owner {
            self.table.owner = owner;
        }
    }

    /// Returns a key made from the clock, greater than all earlier ones. Returns None if the last key is not known.
    pub fn next_key(&mut self, now: i64) -> Option<i64> {
        if self.table.last_key == 0 {
            return None;
        }
        self.table.last_key = self.table.last_key.saturating_add(1).max(now);
        Some(self.table.last_key)
    }

    /// Makes later keys of the clock greater than this one.
    pub fn raise_last_key(&mut self, key: i64) {
        self.table.last_key = self.table.last_key.max(key).max(1);
    }

    /// Notes whether tubes have statistics of their own, and whether the queue is paused.
    pub fn note_kind(&mut self, counts_tubes: bool, pauses: bool) {
        self.counters.counts_tubes |= counts_tubes;
        self.table.pauses |= pauses;
    }

    /// Returns whether the queue is possibly paused.
    pub fn pauses(&self) -> bool {
        self.table.pauses
    }

    pub fn redefinitions(&self) -> u64 {
        self.table.redefinitions
    }
}
