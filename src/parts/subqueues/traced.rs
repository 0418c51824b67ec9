//! Steps of sub-queues: what is done to one in shared memory, with what was known of it before and what is after.

use crate::parts::slot_id::SlotId;
use crate::parts::subqueues::change::LaneChange;
use crate::parts::subqueues::pool::Pool;
use crate::server::{allocator, process};
use crate::trace::{apart, is_on};
use serde_json::{Value, json};

/// A step that has begun, in builds that trace: nothing elsewhere.
pub struct Step(Option<Begun>);

struct Begun {
    id: SlotId,
    lane: Option<u64>,
    was: Value,
}

impl Step {
    /// To be called before the step, under the lanes' lock. `lane`: none for what concerns all of a queue.
    #[inline(always)]
    pub fn begin(pool: &mut Pool, id: SlotId, lane: Option<u64>) -> Step {
        Step(is_on().then(|| Begun { id, lane, was: apart(|| seen(pool, id, lane)) }))
    }

    /// Begins the claim of whichever lane is next.
    #[inline(always)]
    pub fn begin_next(pool: &mut Pool, id: SlotId) -> Step {
        let lane = if is_on() { pool.next(id) } else { None };
        Step::begin(pool, id, lane)
    }

    /// To be called after the step, under the same lock. `about`: what more is to be said of it.
    #[inline(always)]
    pub fn end(self, pool: &mut Pool, verb: &str, about: impl FnOnce() -> Value) {
        if let Some(Begun { id, lane, was }) = self.0 {
            let is = apart(|| seen(pool, id, lane));
            // Nothing is known of a queue that has gone.
            if was["ring"].is_null() && is["ring"].is_null() {
                return;
            }
            crate::trace::step("claims", || {
                let mut event = json!({
                    "do": verb,
                    "slot": [u64::from(id.index), id.generation],
                    "lane": lane,
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

/// What shared memory knows of a queue's ring and of one of its lanes. Places are text: they are wider than numbers.
fn seen(pool: &mut Pool, id: SlotId, lane: Option<u64>) -> Value {
    allocator::apart(|| shown(pool, id, lane))
}

fn shown(pool: &mut Pool, id: SlotId, lane: Option<u64>) -> Value {
    let Some(ring) = pool.ring(id).copied() else { return json!({ "ring": null, "lane": null }) };
    let entry = lane.and_then(|lane| pool.find(id.index, lane)).map(|link| *pool.entry(link));
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
            "doubts": ring.doubts,
            "pass": ring.pass,
            "cursor": ring.cursor,
        },
        "lane": entry,
    })
}

/// What a transaction has done in a lane.
pub fn change(change: &LaneChange) -> Value {
    json!({
        "taken": change.taken,
        "offers": change.offers,
        "claimed": change.claimed,
        "least": change.least.to_string(),
        "took": change.took,
        "left": change.left,
    })
}
