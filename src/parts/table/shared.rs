//! State of the queue itself in shared memory, under the queue's lock.

use xqueue_core::transaction::TableChange;

#[repr(C)]
pub struct Shared {
    /// The last known owner of the table.
    pub(super) owner: u32,
    /// The owner once a transaction that is about to commit has committed; otherwise 0.
    pub(super) next_owner: u32,
    /// The owner once a prepared transaction commits. That transaction has the table locked, so there is at most one.
    pub(super) prepared_owner: u32,
    /// Number of times that the queue was redefined, paused or resumed.
    pub(super) redefinitions: u64,
    /// The queue is or was paused.
    pub(super) pauses: bool,
    /// Last key made from the clock; 0 while unknown.
    pub(super) last_key: i64,
    /// The tubes are sub-queues.
    pub(in crate::parts) has_subqueues: bool,
}

impl Shared {
    pub(in crate::parts) fn of(owner: u32) -> Shared {
        Shared {
            owner,
            next_owner: 0,
            prepared_owner: 0,
            redefinitions: 0,
            pauses: false,
            last_key: 0,
            has_subqueues: false,
        }
    }

    /// Returns the owner and the roles that can become the owner.
    pub(in crate::parts) fn owners(&self) -> [u32; 3] {
        [self.owner, self.next_owner, self.prepared_owner]
    }

    /// Applies the table changes of a committed transaction.
    pub(super) fn commit(&mut self, change: &TableChange) {
        self.redefinitions += u64::from(change.redefined || change.paused.is_some());
        self.pauses = change.paused.unwrap_or(self.pauses);
    }
}
