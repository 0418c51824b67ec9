//! Queues that prepared transactions have changed. The end of such a transaction is not reported, so the worker checks
//! for it.
//!
//! Invariant: while a prepared transaction can end unnoticed, the queue counts as prepared; then its marks are not
//! raised and its counters are not exact. It survives these races:
//!
//! 1. A transaction is prepared while the worker searches: `mark` sets `may_change` again, and the result of
//!    the search does not clear it.
//! 2. A prepared transaction ends while the worker searches: the queue still counts as prepared until the search has
//!    ended.
//! 3. A recount began before the search ended: its snapshot possibly misses the tasks of an ended transaction, so
//!    another recount is requested.

pub mod shared;

use crate::parts::slot::QueueGuard;
use crate::parts::subqueues;

/// A queue that prepared transactions might have changed.
pub struct Prepared<'q> {
    slot: &'q mut QueueGuard,
}

impl QueueGuard {
    pub fn prepared(&mut self) -> Prepared<'_> {
        Prepared { slot: self }
    }
}

impl Prepared<'_> {
    /// Notes that the table was changed by a transaction that is being prepared, or possibly by one that was prepared
    /// before the server started. Discards the marks; they are not raised while a prepared transaction can end
    /// unnoticed.
    pub fn mark(&mut self) {
        self.slot.prepared.may_change = true;
        self.slot.marks().forget();
        self.slot.counters.exact = false;
    }

    /// Begins the search for prepared transactions that lock the table. Returns the room that earlier prepared
    /// transactions have reserved.
    pub fn begin_search(&mut self) -> i64 {
        (self.slot.prepared.may_change, self.slot.prepared.is_looked_for) = (false, true);
        self.slot.counters.request_recount();
        subqueues::reset(self.slot.id());
        self.slot.capacity.unresolved()
    }

    /// Notes that a prepared transaction has the table locked.
    pub fn found(&mut self) {
        self.slot.prepared.is_looked_for = false;
        self.mark();
        self.slot.capacity.find_prepared();
    }

    /// Ends the change of owner by a prepared transaction. Does nothing if another transaction has been prepared
    /// meanwhile.
    pub fn resolve_owner(&mut self, owner: u32) {
        if !self.slot.prepared.may_change {
            self.slot.table.resolve_owner(owner);
        }
    }

    /// Notes that no prepared transaction has the table locked. The prepared transactions that had reserved `room` have
    /// ended, and the next recount sees their tasks; a recount that began before this call does not.
    pub fn found_none(&mut self, room: i64) {
        self.slot.marks().discard_rings();
        self.slot.prepared.is_looked_for = false;
        self.slot.counters.request_recount();
        subqueues::reset(self.slot.id());
        self.slot.capacity.resolve(room);
    }
}
