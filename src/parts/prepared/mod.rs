//! Queues that prepared transactions have changed. Their end is not told, so the worker looks for it.

pub mod shared;

use crate::parts::slot::QueueGuard;
use crate::parts::subqueues;

impl QueueGuard {
    /// Notes a transaction that changed the table and is prepared, or may have been when the server started. Forgets
    /// the marks; they are not raised while a prepared transaction may end unnoticed.
    pub fn mark_prepared(&mut self) {
        self.prepared.may_change = true;
        self.forget_marks();
        self.doubt_recounts();
        self.counters.exact = false;
    }

    /// Returns whether a prepared transaction may have changed the table. While the worker looks, one may end
    /// unnoticed.
    pub fn is_prepared(&self) -> bool {
        self.prepared.may_change || self.prepared.is_looked_for
    }

    /// Begins the search for prepared transactions that lock the table. Returns the room that earlier ones have
    /// reserved.
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

    /// Notes that none has: those that had reserved `room` have ended, and the next recount sees their tasks. A
    /// recount that began before this does not.
    pub fn resolve_prepared(&mut self, room: i64) {
        self.put_rings_aside();
        self.prepared.is_looked_for = false;
        self.counters.recount = true;
        subqueues::reset(self.id());
        self.capacity.resolve(room);
    }
}
