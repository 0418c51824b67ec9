//! Queues that prepared transactions have changed: nobody is told when those end, so the worker looks.

pub mod shared;

use crate::parts::marks::groups::Marks;
use crate::parts::slot::{QueueGuard, SharedQueue};
use crate::parts::subqueues;
use crate::trace;
use serde_json::{Value, json};

impl QueueGuard {
    /// A transaction that changed the table is prepared, or one was when the server started.
    pub fn mark_prepared(&mut self) {
        self.forbid_raises(|_| Some(json!({ "do": "Prepare", "commit": trace::number() })));
    }

    /// The marks are forgotten, and not raised while a prepared transaction may end and tell nobody.
    fn forbid_raises(&mut self, step: impl FnOnce(bool) -> Option<Value>) {
        let forget = |queue: &mut SharedQueue| {
            (queue.marks, queue.prepared.may_change) = (Marks::default(), true)
        };
        self.change_marks(forget, |_, has_changed| step(has_changed));
        self.doubt_recounts();
        self.counters.exact = false;
        self.trace_recount(|| json!({ "do": "Mark" }));
    }

    /// Whether a prepared transaction may have changed the table. While that is looked up, one may end
    /// and not be told of.
    pub fn is_prepared(&self) -> bool {
        self.prepared.may_change || self.prepared.is_looked_for
    }

    /// It is about to be looked whether a prepared transaction has the table locked. Gives the room
    /// that those before now have reserved.
    pub fn clear_prepared(&mut self) -> i64 {
        self.change_marks(
            |queue| (queue.prepared.may_change, queue.prepared.is_looked_for) = (false, true),
            |_, _| Some(json!({ "do": "Clear" })),
        );
        self.counters.recount = true;
        subqueues::reset(self.id());
        self.trace_recount(|| json!({ "do": "Clear" }));
        self.capacity.prepared()
    }

    /// A prepared transaction was found to have the table locked.
    pub fn find_prepared(&mut self) {
        self.change_marks(
            |queue| queue.prepared.is_looked_for = false,
            |_, _| Some(json!({ "do": "Settle", "found": true })),
        );
        self.trace_recount(|| json!({ "do": "Find" }));
        self.forbid_raises(|has_changed| has_changed.then(|| json!({ "do": "Forbid" })));
        self.capacity.find_prepared();
    }

    /// None was found: those that had reserved `room` have ended, and the next recount sees what
    /// they have put. One that has begun before this does not.
    pub fn resolve_prepared(&mut self, room: i64) {
        self.change_marks(
            |queue| queue.prepared.is_looked_for = false,
            |_, _| Some(json!({ "do": "Settle", "found": false })),
        );
        self.counters.recount = true;
        subqueues::reset(self.id());
        self.capacity.resolve(room);
        self.trace_recount(|| json!({ "do": "Resolve" }));
    }
}
