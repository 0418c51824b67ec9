//! The queue itself, in shared memory under its lock: its definition, its table and the table's owner.

use xqueue_core::transaction::TableChange;

#[repr(C)]
pub struct TableState {
    /// The last known owner of the table.
    owner: u32,
    /// The owner once a transaction that is about to commit has committed; otherwise 0.
    next_owner: u32,
    /// The owner once a prepared transaction commits. That transaction has the table locked, so there is at most one.
    prepared_owner: u32,
    /// Number of times that the queue was redefined, paused or resumed.
    redefinitions: u64,
    /// The queue is or was paused.
    pauses: bool,
    /// Last key made from the clock; 0 while unknown.
    last_key: i64,
    /// The tubes are sub-queues.
    pub(in crate::parts) has_subqueues: bool,
}

impl TableState {
    pub(in crate::parts) fn of(owner: u32) -> TableState {
        TableState {
            owner,
            next_owner: 0,
            prepared_owner: 0,
            redefinitions: 0,
            pauses: false,
            last_key: 0,
            has_subqueues: false,
        }
    }

    /// Applies the table changes of a committed transaction.
    pub(in crate::parts) fn commit(&mut self, change: &TableChange) {
        if change.given_away {
            self.end_next_owner(true);
        }
        self.redefinitions += u64::from(change.redefined || change.paused.is_some());
        self.pauses = change.paused.unwrap_or(self.pauses);
    }

    /// Returns the owner and the roles that can become the owner.
    pub(in crate::parts) fn owners(&self) -> [u32; 3] {
        [self.owner, self.next_owner, self.prepared_owner]
    }

    /// Sets the table's owner that this process sees.
    pub fn learn_owner(&mut self, owner: u32) {
        self.owner = owner;
    }

    /// Sets the owner that the table will have once the current transaction commits.
    pub fn set_next_owner(&mut self, owner: u32) {
        self.next_owner = owner;
    }

    /// Ends the change of owner by a transaction that has committed or was rolled back.
    pub fn end_next_owner(&mut self, is_committed: bool) {
        let next = std::mem::take(&mut self.next_owner);
        if is_committed {
            self.owner = next;
        }
    }

    /// Counts the table for both owners while the transaction that changes the owner is prepared.
    pub fn prepare_next_owner(&mut self) {
        self.prepared_owner = std::mem::take(&mut self.next_owner);
    }

    pub fn has_prepared_owner(&self) -> bool {
        self.prepared_owner != 0
    }

    /// Ends the change of owner by a prepared transaction, after which the table belongs to `owner`.
    pub(in crate::parts) fn resolve_owner(&mut self, owner: u32) {
        if std::mem::take(&mut self.prepared_owner) == owner {
            self.owner = owner;
        }
    }

    /// Returns a key made from the clock, greater than all earlier ones. Returns None if the last key is not known.
    pub fn next_key(&mut self, now: i64) -> Option<i64> {
        if self.last_key == 0 {
            return None;
        }
        self.last_key = self.last_key.saturating_add(1).max(now);
        Some(self.last_key)
    }

    /// Makes later keys of the clock greater than this one.
    pub fn raise_last_key(&mut self, key: i64) {
        self.last_key = self.last_key.max(key).max(1);
    }

    /// Sets whether the tubes are sub-queues.
    pub fn set_has_subqueues(&mut self, has_subqueues: bool) {
        self.has_subqueues = has_subqueues;
    }

    /// Notes whether the queue is paused.
    pub fn note_pauses(&mut self, pauses: bool) {
        self.pauses |= pauses;
    }

    /// Returns whether the queue is possibly paused.
    pub fn pauses(&self) -> bool {
        self.pauses
    }

    pub fn redefinitions(&self) -> u64 {
        self.redefinitions
    }
}
