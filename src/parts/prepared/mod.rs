//! Queues that prepared transactions have changed. Their end is not told, so the worker looks for it.

pub mod shared;

use crate::parts::slot::QueueGuard;
use crate::parts::subqueues;
use crate::trace;
use serde_json::{Value, json};

impl QueueGuard {
    /// Notes a transaction that changed the table and is prepared, or may have been when the server started.
    pub fn mark_prepared(&mut self) {
        self.forbid_raises(|_| Some(json!({ "do": "Prepare", "commit": trace::number() })));
    }

    /// Forgets the marks; they are not raised while a prepared transaction may end unnoticed.
    fn forbid_raises(&mut self, step: impl FnOnce(bool) -> Option<Value>) {
        let forget = |queue: &mut QueueGuard| {
            queue.prepared.may_change = true;
            queue.marks().forget();
            queue.rings().put_aside();
        };
        self.change_marks(forget, |_, has_changed| step(has_changed));
        self.doubt_recounts();
        self.counters.exact = false;
        self.trace_recount(|| json!({ "do": "Mark" }));
    }

    /// Returns whether a prepared transaction may have changed the table. While the worker looks, one may end
    /// unnoticed.
    pub fn is_prepared(&self) -> bool {
        self.prepared.may_change || self.prepared.is_looked_for
    }

    /// Begins the search for prepared transactions that lock the table. Returns the room that earlier ones have
    /// reserved.
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

    /// Notes that a prepared transaction has the table locked.
    pub fn find_prepared(&mut self) {
        self.change_marks(
            |queue| queue.prepared.is_looked_for = false,
            |_, _| Some(json!({ "do": "Settle", "found": true })),
        );
        self.trace_recount(|| json!({ "do": "Find" }));
        self.forbid_raises(|has_changed| has_changed.then(|| json!({ "do": "Forbid" })));
        self.capacity.find_prepared();
    }

    /// Notes that none has: those that had reserved `room` have ended, and the next recount sees their tasks. A
    /// recount that began before this does not.
    pub fn resolve_prepared(&mut self, room: i64) {
        self.put_rings_aside();
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
