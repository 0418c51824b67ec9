//! Steps of sub-queues: what is done to one in shared memory, with what was known of it before and what is after.

use crate::parts::slot_id::SlotId;
use crate::parts::subqueues::change::SubqueueChange;
use crate::parts::subqueues::pool::Pool;
use crate::server::{allocator, process};
use crate::trace::{apart, is_on};
use serde_json::{Value, json};

/// A step that has begun, in builds that trace: nothing elsewhere.
pub struct Step(Option<Begun>);

struct Begun {
    id: SlotId,
    subqueue: Option<u64>,
    was: Value,
}

impl Step {
    /// To be called before the step, under the sub-queues' lock. `subqueue`: none for what concerns all of a queue.
    #[inline(always)]
    pub fn begin(pool: &mut Pool, id: SlotId, subqueue: Option<u64>) -> Step {
        Step(is_on().then(|| Begun { id, subqueue, was: apart(|| seen(pool, id, subqueue)) }))
    }

    /// Begins the claim of whichever sub-queue is next.
    #[inline(always)]
    pub fn begin_next(pool: &mut Pool, id: SlotId) -> Step {
        let subqueue = if is_on() { pool.next(id) } else { None };
        Step::begin(pool, id, subqueue)
    }

    /// To be called after the step, under the same lock. `about`: what more is to be said of it.
    #[inline(always)]
    pub fn end(self, pool: &mut Pool, verb: &str, about: impl FnOnce() -> Value) {
        if let Some(Begun { id, subqueue, was }) = self.0 {
            let is = apart(|| seen(pool, id, subqueue));
            // Nothing is known of a queue that has gone.
            if was["ring"].is_null() && is["ring"].is_null() {
                return;
            }
            crate::trace::step("claims", || {
                let mut event = json!({
                    "do": verb,
                    "slot": [u64::from(id.index), id.generation],
                    "subqueue": subqueue,
                    "by": process::pid(),
                    "was": was,
                    "is": is,
                });
                if let (Some(event), Value::Object(about)) = (event.as_object_mut(), about()) {
                    event.extend(about);
                }
                event
            });
        }
    }
}

/// What shared memory knows of a queue's ring and of one of its sub-queues. Places are text: they are wider than numbers.
fn seen(pool: &mut Pool, id: SlotId, subqueue: Option<u64>) -> Value {
    allocator::apart(|| shown(pool, id, subqueue))
}

fn shown(pool: &mut Pool, id: SlotId, subqueue: Option<u64>) -> Value {
    let Some(ring) = pool.ring(id).copied() else {
        return json!({ "ring": null, "subqueue": null });
    };
    let entry =
        subqueue.and_then(|subqueue| pool.find(id.index, subqueue)).map(|link| *pool.entry(link));
    let entry = entry.map(|entry| {
        json!({
            "state": format!("{:?}", entry.state),
            "dirty": entry.dirty,
            "settled": entry.settled,
            "clear": entry.clear,
            "unclaimed": entry.unclaimed,
            "in_flight": entry.in_flight,
            "mark": entry.mark.to_string(),
            "floor": entry.floor.to_string(),
        })
    });
    json!({
        "ring": {
            "waiting": ring.waiting,
            "incomplete": ring.incomplete,
            "unclaimed": ring.unclaimed,
            "invalidations": ring.invalidations,
            "pass": ring.pass,
            "cursor": ring.cursor,
        },
        "subqueue": entry,
    })
}

/// What a transaction has done in a sub-queue.
pub fn change(change: &SubqueueChange) -> Value {
    json!({
        "taken": change.taken,
        "offers": change.offers,
        "claimed": change.claimed,
        "least": change.least.to_string(),
        "took": change.took,
        "left": change.left,
    })
}
