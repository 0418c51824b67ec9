//! State of a queue itself in shared memory, under the queue's lock.

use xqueue_core::transaction::TableChange;

#[repr(C)]
pub struct Shared {
    /// Owner of the table, as far as it is known.
    pub(super) owner: u32,
    /// Owner once a transaction commits that is about to; 0 if there is none.
    pub(super) next_owner: u32,
    /// Owner once a prepared transaction commits. It has the table locked, so there is at most one.
    pub(super) prepared_owner: u32,
    /// Number of times that it was redefined, paused or resumed.
    pub(super) redefinitions: u64,
    /// It is or was paused.
    pub(super) pauses: bool,
    /// Last key made of the clock; 0 while unknown.
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

    /// Returns the owner and the roles that may become it.
    pub(in crate::parts) fn owners(&self) -> [u32; 3] {
        [self.owner, self.next_owner, self.prepared_owner]
    }

    /// Applies what a transaction has committed.
    pub(super) fn commit(&mut self, change: &TableChange) {
        self.redefinitions += u64::from(change.redefined || change.paused.is_some());
        self.pauses = change.paused.unwrap_or(self.pauses);
    }
}
