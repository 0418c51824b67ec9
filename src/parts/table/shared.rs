//! What processes share of a queue itself, under its lock.

use crate::parts::table::change::Change;

#[repr(C)]
pub struct Shared {
    /// The table's owner, as far as it is known.
    pub(super) owner: u32,
    /// Who is to be that if a transaction commits that is about to; 0 if there is no such transaction.
    pub(super) next_owner: u32,
    /// The same of a prepared transaction, until its end is known; it has the table locked, so there is one at the most.
    pub(super) prepared_owner: u32,
    /// A committed transaction has to do with it: it is not just about to be made.
    pub(in crate::parts) settled: bool,
    /// How often it was defined anew, paused or resumed.
    pub(super) redefinitions: u64,
    /// It is paused, or was.
    pub(super) pauses: bool,
    /// The last key made of the clock; 0 while that is not known.
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
            settled: false,
            redefinitions: 0,
            pauses: false,
            last_key: 0,
            has_subqueues: false,
        }
    }

    /// The role that owns it, and those that may come to.
    pub(in crate::parts) fn owners(&self) -> [u32; 3] {
        [self.owner, self.next_owner, self.prepared_owner]
    }

    /// Takes over what a transaction has committed.
    pub(super) fn commit(&mut self, change: &Change) {
        self.settled = true;
        self.redefinitions += u64::from(change.redefined || change.paused.is_some());
        self.pauses = change.paused.unwrap_or(self.pauses);
    }
}
