//! The replay of a server's sub-queues refuses what its rules forbid: traces made by hand, each with one thing wrong.

use serde_json::{Value, json};
use std::collections::HashMap;
use xqueue_models::model::position::{FIRST, LAST};
use xqueue_models::model::status::Status;
use xqueue_models::subqueues::replay::{Left, Replay, events};

/// A sub-queue, and another.
const SUBQUEUE: u64 = 7;
const OTHER: u64 = 8;
/// Processes.
const ONE: i32 = 100;
const TWO: i32 = 200;

/// A server's log.
struct Trace {
    lines: Vec<String>,
    ring: Value,
    subqueues: HashMap<u64, Value>,
    left: Left,
}

/// What is known of a sub-queue, but for what is said of it.
fn subqueue(state: &str, but: Value) -> Value {
    let mut subqueue = json!({"state": state, "dirty": false, "settled": false, "clear": false,
        "unclaimed": false, "in_flight": 0, "mark": FIRST.to_string(), "floor": FIRST.to_string()});
    merge(&mut subqueue, but);
    subqueue
}

fn merge(into: &mut Value, from: Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { panic!("no objects") };
    into.extend(from);
}

/// What a transaction has done, but for what is said of it.
fn change(but: Value) -> Value {
    let mut change = json!({"taken": 0, "offers": false, "claimed": false,
        "least": LAST.to_string(), "took": null, "left": null});
    merge(&mut change, but);
    json!({ "change": change })
}

impl Trace {
    /// That of a queue which is new, and known to have nothing.
    fn new() -> Trace {
        let ring = json!({"waiting": 0, "incomplete": true, "unclaimed": false, "invalidations": 1,
            "pass": 0, "cursor": i64::MIN});
        let (lines, subqueues, left) = (vec![], HashMap::new(), Left::new());
        let mut trace = Trace { lines, ring: Value::Null, subqueues, left };
        trace.of_all("Open", ring, json!({}));
        trace
    }

    fn line(&mut self, event: Value) {
        self.lines.push(format!("LOG:  xqueue trace {} {event}", self.lines.len() + 1));
    }

    fn of_all(&mut self, verb: &str, is: Value, about: Value) -> &mut Trace {
        let was = std::mem::replace(&mut self.ring, is.clone());
        let seen = |ring: Value| json!({"ring": ring, "subqueue": null});
        let mut event = json!({"part": "claims", "do": verb, "slot": [0, 1], "subqueue": null,
            "by": ONE, "was": seen(was), "is": seen(is)});
        merge(&mut event, about);
        self.line(event);
        self
    }

    fn step(&mut self, by: i32, verb: &str, of: u64, is: Value, about: Value) -> &mut Trace {
        let was = json!({"ring": self.ring, "subqueue": self.subqueues.get(&of)});
        self.subqueues.insert(of, is.clone());
        let waiting =
            self.subqueues.values().filter(|subqueue| subqueue["state"] == "Waiting").count();
        self.ring["waiting"] = waiting.into();
        let is = json!({"ring": self.ring, "subqueue": is});
        let mut event = json!({"part": "claims", "do": verb, "slot": [0, 1], "subqueue": of,
            "by": by, "was": was, "is": is});
        merge(&mut event, about);
        self.line(event);
        self
    }

    /// A task of a sub-queue comes from one state to another.
    fn task(&mut self, key: &str, of: u64, from: Option<Status>, to: Option<Status>) -> &mut Trace {
        let place =
            |status: Option<Status>| status.map(|of_it| json!({"status": of_it, "tube": of}));
        self.line(json!({"do": "?", "task": key, "from": place(from), "to": place(to)}));
        match to {
            Some(to) => self.left.insert(key.into(), to),
            None => self.left.remove(key),
        };
        self
    }

    /// A task is put into a sub-queue of which nothing is known.
    fn put(&mut self, key: &str, of: u64) -> &mut Trace {
        let is = subqueue("Waiting", json!({}));
        self.task(key, of, None, Some(Status::Ready));
        self.step(ONE, "Commit", of, is, change(json!({"offers": true, "least": "5"})))
    }

    fn claim(&mut self, by: i32, of: u64) -> &mut Trace {
        self.step(by, "Next", of, subqueue("Claimed", json!({})), json!({}))
    }

    fn look(&mut self, by: i32) -> &mut Trace {
        let is = subqueue("Claimed", json!({"floor": LAST.to_string()}));
        self.step(by, "BeginLook", SUBQUEUE, is, json!({}))
    }

    /// A task that is there is taken.
    fn take(&mut self, by: i32, key: &str) -> &mut Trace {
        self.claim(by, SUBQUEUE);
        self.task(key, SUBQUEUE, Some(Status::Ready), Some(Status::Taken));
        let change = change(json!({"claimed": true, "taken": 1, "took": 1}));
        self.step(by, "Commit", SUBQUEUE, subqueue("Busy", json!({"in_flight": 1})), change)
    }

    fn ack(&mut self, by: i32, key: &str) -> &mut Trace {
        self.task(key, SUBQUEUE, Some(Status::Taken), None);
        let is = subqueue("Waiting", json!({"in_flight": 1}));
        self.step(by, "Commit", SUBQUEUE, is, change(json!({"taken": -1, "left": 1})))
    }

    fn complete(&mut self) -> &mut Trace {
        let mut is = self.ring.clone();
        merge(&mut is, json!({"incomplete": false, "pass": 1}));
        self.of_all("EndScan", is, json!({"from": i64::MIN, "invalidations": 1, "next": null}))
    }

    fn replay(&self) -> Result<(), String> {
        Replay::run(&events(&self.lines.join("\n")), &self.left).map_err(|why| why.to_string())
    }

    #[track_caller]
    fn is_sound(&self) {
        self.replay().unwrap();
    }

    #[track_caller]
    fn is_refused(&self, why: &str) {
        let refusal = self.replay().expect_err("it goes unnoticed");
        assert!(refusal.contains(why), "{refusal}");
    }
}

#[test]
fn sound_traces_are_replayed() {
    Trace::new().complete().put("1", SUBQUEUE).take(ONE, "1").ack(TWO, "1").is_sound();
    let mut trace = Trace::new();
    trace.complete().put("1", SUBQUEUE).put("2", OTHER).claim(ONE, SUBQUEUE).look(ONE);
    let dirty = json!({"dirty": true, "floor": "5"});
    let put = change(json!({"offers": true, "least": "5"}));
    trace.step(TWO, "Commit", SUBQUEUE, subqueue("Claimed", dirty.clone()), put);
    let is = subqueue("Claimed", json!({"dirty": true, "floor": "5", "mark": "5"}));
    trace.step(ONE, "EndLook", SUBQUEUE, is, json!({"first": "9"}));
    let is = subqueue("Waiting", json!({"dirty": true, "floor": "5", "mark": "5"}));
    trace.step(ONE, "GiveBack", SUBQUEUE, is, json!({"to": "Away"})).claim(ONE, OTHER);
    let undone = change(json!({"claimed": true}));
    trace.step(ONE, "Undo", OTHER, subqueue("Waiting", json!({})), undone).is_sound();
}

#[test]
fn what_a_step_finds_is_what_the_one_before_has_left() {
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE);
    trace.subqueues.insert(SUBQUEUE, subqueue("Waiting", json!({"clear": true})));
    trace.claim(ONE, SUBQUEUE).is_refused("the step before has not left");
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).ring["unclaimed"] = true.into();
    trace.claim(ONE, SUBQUEUE).is_refused("the step before has not left");
}

#[test]
fn one_claim_at_a_time() {
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
    for verb in ["Claim", "ByHand"] {
        let mut trace = Trace {
            lines: trace.lines.clone(),
            ring: trace.ring.clone(),
            subqueues: trace.subqueues.clone(),
            left: trace.left.clone(),
        };
        trace.step(TWO, verb, SUBQUEUE, subqueue("Claimed", json!({})), json!({}));
        trace.is_refused("it is claimed by another");
    }
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).put("2", SUBQUEUE).lines.pop();
    trace.take(ONE, "1").step(TWO, "Claim", SUBQUEUE, subqueue("Claimed", json!({})), json!({}));
    trace.is_refused("one of its tasks is in flight");
}

#[test]
fn the_head_of_the_ring_goes_first() {
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).put("2", OTHER).claim(ONE, OTHER);
    trace.is_refused("it is not the head of the ring");
    // One that is given back, as its task cannot be had just now, is the last.
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).put("2", OTHER).claim(ONE, SUBQUEUE);
    trace.step(ONE, "GiveBack", SUBQUEUE, subqueue("Waiting", json!({})), json!({"to": "Tail"}));
    trace.claim(ONE, SUBQUEUE).is_refused("it is not the head of the ring");
    // One that is undone is the first.
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).put("2", OTHER).claim(ONE, SUBQUEUE);
    let undone = change(json!({"claimed": true}));
    trace.step(ONE, "Undo", SUBQUEUE, subqueue("Waiting", json!({})), undone);
    trace.claim(ONE, OTHER).is_refused("it is not the head of the ring");
}

#[test]
fn a_claim_is_given_back_by_its_process() {
    let undone = || change(json!({"claimed": true}));
    for (verb, about, is) in [
        ("GiveBack", json!({"to": "Tail"}), "Waiting"),
        ("Undo", undone(), "Waiting"),
        ("Commit", change(json!({"claimed": true, "taken": 1, "took": 1})), "Busy"),
        ("SetClear", json!({}), "Claimed"),
    ] {
        let mut trace = Trace::new();
        trace.put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
        let is = subqueue(is, json!({}));
        trace.step(TWO, verb, SUBQUEUE, is.clone(), about.clone());
        trace.is_refused("another has claimed it");
        let mut trace = Trace::new();
        trace
            .put("1", SUBQUEUE)
            .step(ONE, verb, SUBQUEUE, is, about)
            .is_refused("it is not claimed");
    }
}

#[test]
fn a_dirty_one_is_not_dropped() {
    let mut trace = Trace::new();
    trace.complete().put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
    let put = change(json!({"offers": true, "least": "5"}));
    trace.step(TWO, "Commit", SUBQUEUE, subqueue("Claimed", json!({"dirty": true})), put);
    let is = subqueue("Idle", json!({"dirty": true}));
    trace.step(ONE, "GiveBack", SUBQUEUE, is, json!({"to": "Away"}));
    trace.is_refused("it leaves what the rules do not say");
    // Nor is a put forgotten to be noted.
    let mut trace = Trace::new();
    trace.complete().put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
    let put = change(json!({"offers": true, "least": "5"}));
    trace.step(TWO, "Commit", SUBQUEUE, subqueue("Claimed", json!({})), put);
    trace.is_refused("it leaves what the rules do not say");
}

#[test]
fn an_undone_one_is_not_dropped() {
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
    let undone = change(json!({"claimed": true}));
    trace.step(ONE, "Undo", SUBQUEUE, subqueue("Idle", json!({})), undone);
    trace.is_refused("it leaves what the rules do not say");
}

#[test]
fn only_a_busy_one_is_freed() {
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
    let settles = change(json!({"taken": -1, "left": 1}));
    trace.step(TWO, "Commit", SUBQUEUE, subqueue("Waiting", json!({})), settles);
    trace.is_refused("it leaves what the rules do not say");
    // A settled task is noted for the one that has claimed.
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
    let settles = change(json!({"taken": -1, "left": 1}));
    trace.step(TWO, "Commit", SUBQUEUE, subqueue("Claimed", json!({"dirty": true})), settles);
    trace.is_refused("it leaves what the rules do not say");
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).take(ONE, "1").task("1", SUBQUEUE, Some(Status::Taken), None);
    let settles = change(json!({"taken": -1, "left": 1}));
    trace.step(TWO, "Commit", SUBQUEUE, subqueue("Busy", json!({"in_flight": 1})), settles);
    trace.is_refused("it leaves what the rules do not say");
}

#[test]
fn looks_are_those_of_the_claim() {
    let mut trace = Trace::new();
    trace
        .put("1", SUBQUEUE)
        .claim(ONE, SUBQUEUE)
        .look(TWO)
        .is_refused("a look begins without a claim");
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
    trace.step(ONE, "EndLook", SUBQUEUE, subqueue("Claimed", json!({})), json!({"first": "9"}));
    trace.is_refused("a look ends that has not begun");
    // What came during the look is not passed over.
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).claim(ONE, SUBQUEUE).look(ONE);
    let is = subqueue("Claimed", json!({"dirty": true, "floor": "5"}));
    trace.step(TWO, "Commit", SUBQUEUE, is, change(json!({"offers": true, "least": "5"})));
    let is = subqueue("Claimed", json!({"dirty": true, "floor": "5", "mark": "9"}));
    trace.step(ONE, "EndLook", SUBQUEUE, is, json!({"first": "9"}));
    trace.is_refused("it leaves what the rules do not say");
}

#[test]
fn a_clear_one_has_no_task_in_flight() {
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
    trace.step(ONE, "SetClear", SUBQUEUE, subqueue("Claimed", json!({"clear": true})), json!({}));
    let kept = subqueue("Waiting", json!({"clear": true}));
    trace.step(ONE, "GiveBack", SUBQUEUE, kept, json!({"to": "Tail"}));
    trace.task("1", SUBQUEUE, Some(Status::Ready), Some(Status::Taken));
    trace.step(TWO, "Next", SUBQUEUE, subqueue("Claimed", json!({"clear": true})), json!({}));
    trace.is_refused("it is clear, and a task of it is in flight");
    // Nor does one become clear of which a task was taken without it.
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
    let unclaimed = subqueue("Claimed", json!({"unclaimed": true}));
    trace.step(TWO, "TakeUnclaimed", SUBQUEUE, unclaimed, json!({}));
    let is = subqueue("Claimed", json!({"unclaimed": true, "clear": true}));
    trace.step(ONE, "SetClear", SUBQUEUE, is, json!({})).is_refused("the rules do not say");
}

#[test]
fn one_task_is_in_flight() {
    let mut trace = Trace::new();
    trace.task("1", SUBQUEUE, None, Some(Status::Taken)).task(
        "2",
        SUBQUEUE,
        None,
        Some(Status::Taken),
    );
    trace.is_refused("two tasks of a sub-queue are in flight");
    let mut trace = Trace::new();
    trace.task("1", SUBQUEUE, None, Some(Status::Taken)).task(
        "2",
        OTHER,
        None,
        Some(Status::Taken),
    );
    trace.is_sound();
    let mut trace = Trace::new();
    trace.task("1", SUBQUEUE, Some(Status::Ready), Some(Status::Taken));
    trace.is_refused("the task is somewhere else");
}

#[test]
fn none_is_forgotten() {
    let mut trace = Trace::new();
    trace.complete().task("1", SUBQUEUE, None, Some(Status::Ready)).is_refused("is forgotten");
    // While the ring is incomplete, a take that finds it empty looks into the table.
    let mut trace = Trace::new();
    trace.task("1", SUBQUEUE, None, Some(Status::Ready)).is_sound();
    let mut trace = Trace::new();
    trace.complete().put("1", SUBQUEUE).claim(ONE, SUBQUEUE);
    trace.is_refused("is claimed by one that has gone");
    let mut trace = Trace::new();
    trace.complete().put("1", SUBQUEUE).take(ONE, "1").task(
        "1",
        SUBQUEUE,
        Some(Status::Taken),
        None,
    );
    trace.is_refused("is busy, and no task of it is in flight");
    let mut trace = Trace::new();
    trace.complete().put("1", SUBQUEUE).left.clear();
    trace.is_refused("other tasks are in the table");
}

#[test]
fn a_ring_in_doubt_is_not_complete() {
    let mut trace = Trace::new();
    let mut is = trace.ring.clone();
    merge(&mut is, json!({"invalidations": 2}));
    trace.of_all("Reset", is, json!({})).complete().is_refused("the rules do not say");
    let mut trace = Trace::new();
    let ring = trace.ring.clone();
    trace.of_all("Open", ring, json!({})).is_refused("there is a ring already");
}

#[test]
fn a_claim_is_not_refused_of_one_that_is_free() {
    let mut trace = Trace::new();
    trace.put("1", SUBQUEUE).step(
        TWO,
        "InUse",
        SUBQUEUE,
        subqueue("Waiting", json!({})),
        json!({}),
    );
    trace.is_refused("a claim is refused of one that is free");
}
