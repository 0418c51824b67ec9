//! Queues that prepared transactions have changed: nobody is told when those end, so the worker looks.

use super::lanes;
use super::queues::QueueGuard;
use serde_json::json;

impl QueueGuard {
    /// A transaction that changed the table is prepared, or one was when the server started.
    pub fn mark_prepared(&mut self) {
        self.forget_marks();
        self.doubt_recounts();
        self.prepared = true;
        self.exact = false;
        self.trace_recount(|| json!({ "do": "Mark" }));
    }

    /// Whether a prepared transaction may have changed the table. While that is looked up, one may end
    /// and not be told of.
    pub fn is_prepared(&self) -> bool {
        self.prepared || self.looks_for_prepared
    }

    /// It is about to be looked whether a prepared transaction has the table locked. Gives the room
    /// that those before now have reserved.
    pub fn clear_prepared(&mut self) -> i64 {
        (self.prepared, self.looks_for_prepared) = (false, true);
        self.recount = true;
        lanes::reset(self.id());
        self.trace_recount(|| json!({ "do": "Clear" }));
        self.room.prepared()
    }

    /// A prepared transaction was found to have the table locked.
    pub fn find_prepared(&mut self) {
        self.looks_for_prepared = false;
        self.trace_recount(|| json!({ "do": "Find" }));
        self.mark_prepared();
        self.room.find_prepared();
    }

    /// None was found: those that had reserved `room` have ended, and the next recount sees what
    /// they have put. One that has begun before this does not.
    pub fn resolve_prepared(&mut self, room: i64) {
        (self.looks_for_prepared, self.recount) = (false, true);
        lanes::reset(self.id());
        self.room.resolve(room);
        self.trace_recount(|| json!({ "do": "Resolve" }));
    }
}
