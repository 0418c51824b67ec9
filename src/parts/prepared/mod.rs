//! Queues that prepared transactions have changed. The end of such a transaction is not reported, so the worker checks
//! for it.
//!
//! Invariant: while a prepared transaction can end unnoticed, the queue counts as prepared; then its marks are not
//! raised and its counters are not exact. It survives these races:
//!
//! 1. A transaction is prepared while the worker searches: `mark_prepared` sets `may_change` again, and the result of
//!    the search does not clear it.
//! 2. A prepared transaction ends while the worker searches: the queue still counts as prepared until the search has
//!    ended.
//! 3. A recount began before the search ended: its snapshot possibly misses the tasks of an ended transaction, so
//!    another recount is requested.

pub mod shared;

use crate::parts::slot::QueueGuard;
use crate::parts::subqueues;

impl QueueGuard {
    /// Notes that the table was changed by a transaction that is being prepared, or possibly by one that was prepared
    /// before the server started. Discards the marks; they are not raised while a prepared transaction can end
    /// unnoticed.
    pub fn mark_prepared(&mut self) {
        self.prepared.may_change = true;
        self.marks().forget();
        self.doubt_recounts();
        self.counters.exact = false;
    }

    /// Returns whether a prepared transaction might have changed the table. This also holds while the worker searches,
    /// because one can end unnoticed during the search.
    pub fn is_prepared(&self) -> bool {
        self.prepared.may_change || self.prepared.is_looked_for
    }

    /// Begins the search for prepared transactions that lock the table. Returns the room that earlier prepared
    /// transactions have reserved.
    pub fn clear_prepared(&mut self) -> i64 {
        (self.prepared.may_change, self.prepared.is_looked_for) = (false, true);
        self.counters.recount = true;
        subqueues::reset(self.id());
        self.capacity.prepared()
    }

    /// Notes that a prepared transaction has the table locked.
    pub fn find_prepared(&mut self) {
        self.prepared.is_looked_for = false;
        self.mark_prepared();
        self.capacity.find_prepared();
    }

    /// Ends the change of owner by a prepared transaction. Does nothing if another transaction has been prepared
    /// meanwhile.
    pub fn resolve_owner(&mut self, owner: u32) {
        if !self.prepared.may_change {
            self.table.resolve_owner(owner);
        }
    }

    /// Notes that no prepared transaction has the table locked. The prepared transactions that had reserved `room` have
    /// ended, and the next recount sees their tasks; a recount that began before this call does not.
    pub fn resolve_prepared(&mut self, room: i64) {
        self.marks().discard_rings();
        self.prepared.is_looked_for = false;
        self.counters.recount = true;
        subqueues::reset(self.id());
        self.capacity.resolve(room);
    }
}
