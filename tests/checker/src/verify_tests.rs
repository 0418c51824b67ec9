//! The verifier is able to fail: it finds each broken promise in hand-made logs, and nothing else.

use super::*;
use crate::event::{Event, Item, Kind};
use crate::queues::QUEUES;

/// A line has a queue, steps, and the violations found. A step is a client, its call, the task and the time, or what is
/// left of a task: rows and effects.
const CASES: &str = "
    plain: 1 put a 10, 2 take a 30, 2 release a 40, 1 take a 45, 1 ack a 50 =>
    # An ack that was sent may have been done, and one that was refused was not.
    plain: 1 put a 10 => lost
    plain: 1 put a 10, 2 take a 40, 2 send-ack a 50 =>
    plain: 1 put a 10, 2 take a 40, 2 send-ack a 50, 2 refused-ack a 50 => lost
    # Only the end of its life explains that a task is gone.
    timed: 1 put mortal 10 =>
    timed: 1 put lasting 10 => lost
    # Puts that were not acknowledged.
    plain: 1 send-put a 10 =>
    plain: 1 send-put a 10, row a R =>
    plain: 1 send-put a 10, row a R, 1 refused-put a 10 => a refused put is there
    plain: 1 send-put a 10, 1 refused-put a 10, 2 take a 20 => a refused put was taken
    plain: row a R => a task that was never put
    plain: 1 take a 10 => a task that was never put
    plain: 1 put a 10, row a R, row a R => doubled
    # The second lease was live at the same time.
    plain: 1 put a 10, 2 take a 20, 2 ack a 30, 3 take a 25, 3 ack a 40 => acked twice, two leases of one task
    plain: 1 put a 10, 2 take a 20, 2 ack a 30 =>
    plain: 1 put a 10, 2 take a 20, 2 ack a 30, 3 take a 40 => taken after its ack
    plain: 1 put a 10, 2 take a 20, 2 ack a 30, row a W => acked, but still there
    kept: 1 put a 10, row a D => done without an ack
    plain: 1 put a 10, 2 take a 20, row a T => taken by a session that is gone
    # A lease of an earlier connection does not count.
    plain: 1 put a 10, 2 ack a 30 => settled without a lease
    plain: 1 put a 10, 2 take a 20, 2 connect a 25, 2 ack a 30 => settled without a lease
    # Both leases were held at 35; the end of the second is unknown, but it began while the first was held.
    plain: 1 put a 10, 2 take a 20, 3 take a 30, 2 release a 40, 3 ack a 50 => two leases of one task
    # The first lease can have ended before the second began.
    plain: 1 put a 10, 2 take a 20, 3 take a 30, 3 ack a 40 =>
    subqueues: 1 put a 1, 1 put b 3, 2 take a 5, 3 take b 7, 2 ack a 9, row b R => two tasks of one sub-queue in flight
    subqueues: 1 put a 1, 1 put b2 3, 2 take a 5, 3 take b2 7, 2 ack a 9, row b2 R =>
    plain: 1 put a 1, 1 put b 3, 2 take a 5, 3 take b 7, 2 ack a 9, row b R =>
    # Several consumers may pass over locked rows.
    ordered: 1 put a 10, 1 put b 20, 2 take b 30, 2 take a 40, 2 ack b 50, 2 ack a 60 => out of order
    plain: 1 put a 10, 1 put b 20, 2 take b 30, 2 take a 40, 2 ack b 50, 2 ack a 60 =>
    # The put ended, or could have ended, after the take began.
    ordered: 1 put a 29, 1 put b 20, 2 take b 30, 2 take a 40, row b R, row a R =>
    # The task can have been taken and acked already, or had been taken before and was released.
    ordered: 1 put a 10, 1 put b 20, 2 send-ack a 25, 2 take b 30, row b R =>
    ordered: 1 put a 10, 1 put b 20, 2 take a 22, 2 release a 24, 2 take b 30, row b R, row a R =>
    noted: 1 put a 10, 2 take a 20, 2 ack a 30, effects a 1 =>
    noted: 1 put a 10, 2 take a 20, 2 ack a 30 => an ack without its effect
    noted: 1 put a 10, 2 take a 20, 2 ack a 30, effects a 2 => an effect twice
    noted: 1 put a 10, row a R, effects a 1 => an effect without its ack";

/// Tasks b and b2 are in different tubes. The life of a task ends before the tables are read, or after.
fn task(name: &str) -> Item {
    let (key, tube, dies) = match name {
        "a" => (1, 1, 0),
        "b" => (2, 1, 0),
        "b2" => (2, 2, 0),
        "mortal" => (1, 1, 500),
        "lasting" => (1, 1, 2_000_000),
        _ => panic!("there is no task {name}"),
    };
    Item { token: (9 << 32) + key, key: key as i64, tube, dies }
}

fn kinds(call: &str) -> &'static [Kind] {
    match call {
        "connect" => &[Kind::Connected],
        "put" => &[Kind::WillPut, Kind::Put],
        "send-put" => &[Kind::WillPut],
        "refused-put" => &[Kind::PutRefused],
        "take" => &[Kind::Took],
        "ack" => &[Kind::WillAck, Kind::Acked],
        "send-ack" => &[Kind::WillAck],
        "refused-ack" => &[Kind::AckRefused],
        "release" => &[Kind::GaveBack],
        _ => panic!("there is no call {call}"),
    }
}

fn found(queue: &str, steps: &str) -> Vec<&'static str> {
    let queue = QUEUES.iter().position(|q| q.name == queue).expect("a queue of the checker");
    let mut history = History::default();
    let mut remains = Remains { at: 1_000_000, ..Remains::default() };
    for step in steps.split(", ") {
        match step.split(' ').collect::<Vec<_>>()[..] {
            ["row", name, state] => {
                remains.rows.entry(task(name).token).or_default().extend(state.chars());
            }
            ["effects", name, count] => {
                remains.effects.insert(task(name).token, count.parse().expect("a count"));
            }
            [client, call, name, at] => {
                let (begin, items): (u64, _) = (at.parse().expect("a time"), vec![task(name)]);
                for &kind in kinds(call) {
                    let event = Event { kind, queue, begin, end: begin + 1, items: items.clone() };
                    let line = event.line();
                    // A line can be cut off when its client is killed.
                    assert_eq!(Event::parse(line.trim_end()), None);
                    let read = Event::parse(&line).expect("a whole line");
                    assert_eq!(read, event);
                    history.add(client.parse().expect("a client"), &read);
                }
            }
            _ => panic!("no step: {step}"),
        }
    }
    let violations = violations(&history, &remains, &QUEUES);
    let mut kinds: Vec<_> = violations.iter().map(|v| v.kind).collect();
    kinds.sort_unstable();
    kinds
}

#[test]
fn each_broken_promise_is_found_and_nothing_else() {
    let lines = CASES.lines().map(str::trim);
    for case in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (queue, rest) = case.split_once(": ").expect("a queue");
        let (steps, expected) = rest.split_once(" =>").expect("violations");
        assert_eq!(found(queue, steps).join(", "), expected.trim(), "{case}");
    }
}
