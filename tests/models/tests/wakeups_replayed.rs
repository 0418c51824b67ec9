//! Traces of wake-ups that break one rule each, see [`xqueue_models::wakeups::replay`].

use serde_json::{Value, json};
use xqueue_models::wakeups::replay::{Event, Replay};
use xqueue_models::wakeups::tampering::tamperings;

/// A trace, given by the process, the number of the last wake-up, and the step of each event.
fn traced(events: &[(u32, Option<u64>, Value)]) -> Vec<Event> {
    let event = |(by, wakes, step): &(u32, Option<u64>, Value)| -> Event {
        let mut event = step.clone();
        (event["by"], event["wakes"], event["queue"]) = (json!(by), json!(wakes), json!(0));
        serde_json::from_value(event).unwrap()
    };
    events.iter().map(event).collect()
}

/// Why a trace is refused; empty where it is not.
fn replay(events: &[(u32, Option<u64>, Value)], sleepers: usize, ready: usize) -> String {
    Replay::run(&traced(events), sleepers, ready).err().unwrap_or_default()
}

fn join(by: u32, place: usize, wakes: u64, token: Option<u64>) -> (u32, Option<u64>, Value) {
    let step = json!({"do": "Join", "place": place, "since": by, "token": token, "of_any": true});
    (by, Some(wakes), step)
}

fn step(by: u32, step: &str) -> (u32, Option<u64>, Value) {
    (by, None, json!({ "do": step }))
}

fn vain(by: u32, wakes: u64, token: Option<u64>, by_caller: bool) -> (u32, Option<u64>, Value) {
    let step = json!({"do": "EndVain", "token": token, "kept": null, "by_caller": by_caller, "looks_again": false});
    (by, Some(wakes), step)
}

fn wake(wakes: u64) -> (u32, Option<u64>, Value) {
    (9, Some(wakes), json!({"do": "Wake", "why": "Commit", "count": 1}))
}

fn notify(by: u32, wakes: u64, who: u32) -> (u32, Option<u64>, Value) {
    (by, Some(wakes), json!({"do": "Notify", "who": who, "number": wakes}))
}

fn leave(by: u32, wakes: u64) -> (u32, Option<u64>, Value) {
    (by, Some(wakes), json!({"do": "Leave", "unused": null, "another": null}))
}

/// Consumers 1 and 2 sleep.
fn asleep() -> Vec<(u32, Option<u64>, Value)> {
    let one = [join(1, 0, 0, None), step(1, "Look"), vain(1, 0, None, false)];
    let other = [join(2, 1, 0, None), step(2, "Look"), vain(2, 0, None, false)];
    one.into_iter().chain(other).collect()
}

/// After that, the first is woken and has a token.
fn woken() -> Vec<(u32, Option<u64>, Value)> {
    [asleep(), vec![wake(1), notify(9, 1, 1), join(1, 0, 1, Some(1)), step(1, "Look")]].concat()
}

#[test]
fn what_the_rules_permit() {
    assert_eq!(replay(&asleep(), 2, 0), "");
    let found = [woken(), vec![step(1, "Found"), leave(1, 1)]].concat();
    assert_eq!(replay(&found, 1, 0), "");
    assert_eq!(replay(&[woken(), vec![vain(1, 1, Some(1), false)]].concat(), 2, 0), "");
}

#[test]
fn each_rule_is_needed() {
    let pass_on = json!({"do": "PassOn", "number": 1, "is_empty": false});
    for (events, why) in [
        (vec![wake(1), notify(9, 1, 2)], "it does not follow from anything"),
        (vec![wake(2)], "a wake-up is missing"),
        (vec![wake(1)], "a token has vanished"),
        (vec![notify(9, 0, 1)], "a token from nothing"),
        (
            vec![(9, Some(1), json!({"do": "Wake", "why": "HandOn", "count": 1}))],
            "it does not follow",
        ),
        (vec![(1, Some(0), pass_on)], "it does not follow"),
        (vec![join(3, 0, 0, None)], "it does not stand in its place"),
        (vec![join(3, 2, 0, Some(1))], "a token from nothing"),
        (vec![join(3, 2, 0, None), vain(3, 0, None, false)], "it has not looked since"),
        (vec![join(3, 2, 0, None)], "a consumer in line does not sleep"),
        (vec![join(1, 0, 0, None)], "it stands in line already"),
        (vec![step(3, "Look")], "it is in no line"),
        (vec![step(1, "Found")], "it has not looked"),
        (vec![wake(1), notify(9, 1, 1), join(1, 0, 1, None)], "it looks for another task"),
    ] {
        let refused = replay(&[asleep(), events.clone()].concat(), 2, 0);
        assert!(refused.starts_with(why), "{events:?}: {refused:?}");
    }
    assert_eq!(replay(&asleep(), 2, 1), "a consumer sleeps beside a ready task");
    assert_eq!(replay(&asleep(), 1, 0), "there are others in line");
}

#[test]
fn a_token_is_used_or_goes_on() {
    for (events, why) in [
        (vec![leave(1, 1)], "a token has vanished, or come from nothing"),
        (vec![vain(1, 1, None, false)], "it has looked for another task"),
        // Others may find what it does not.
        (vec![vain(1, 1, Some(1), true)], "a token has vanished"),
        // There was another wake-up since its look began.
        (vec![wake(2), notify(9, 2, 1), vain(1, 2, Some(1), false)], "a token has vanished"),
    ] {
        let refused = replay(&[woken(), events.clone()].concat(), 2, 0);
        assert!(refused.starts_with(why), "{events:?}: {refused:?}");
    }
}

#[test]
fn a_token_that_goes_on_before_the_look_for_it_began_or_after() {
    let again = (1, Some(2), json!({"do": "Again", "by_caller": false}));
    let hands_on = (1, Some(3), json!({"do": "Wake", "why": "HandOn", "count": 1}));
    let finds = |by, wakes| [step(by, "Look"), step(by, "Found"), leave(by, wakes)];
    let begins = [wake(1), notify(9, 1, 1), join(1, 0, 1, Some(1)), wake(2), notify(9, 2, 1)];
    let ends = [hands_on, notify(1, 3, 2), join(1, 0, 3, Some(2)), join(2, 1, 3, Some(3))];
    let after = [asleep(), begins.to_vec(), vec![step(1, "Look"), again], ends.to_vec()].concat();
    let trace = [after, finds(1, 3).to_vec(), finds(2, 3).to_vec()].concat();
    assert_eq!(replay(&trace, 0, 0), "");
    let trace = traced(&trace);
    for tampering in tamperings(&trace) {
        assert!(Replay::run(tampering.of(&trace), 0, 0).is_err(), "{tampering:?} is permitted");
    }
}
