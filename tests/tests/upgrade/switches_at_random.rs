//! Features and the order are switched at random on a queue under load. No task is lost, and none is acked twice. XQUEUE_SEED repeats
//! the choices, but not the interleaving of the threads. state_machine compares every task after each switch.

mod people;

use std::sync::atomic::Ordering;

use people::{Close, Place, consume, produce, watch};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

const SWITCHES: usize = 40;
/// Number of calls of the other threads before each switch.
const CALLS_BETWEEN: usize = 60;
const PRODUCERS: u64 = 2;
const CONSUMERS: u64 = 4;
/// Rounds with a waiting consumer.
const ROUNDS: usize = 40;

/// Returns a random combination of features. All times are so long that they never end, except the zombies'.
fn features(random: &mut StdRng) -> Value {
    let mut timed = |time: Value| match random.random_range(0..3) {
        0 => json!(true),
        1 => time,
        _ => json!(false),
    };
    let (ttl, ttr, zombie) = (timed(json!("1 hour")), timed(json!(3600)), timed(json!(0.03)));
    let limit = random.random_bool(0.3);
    let retry = match random.random_range(0..3) {
        _ if limit => json!({"limit": random.random_range(2..5)}),
        0 => json!({"backoff": 0.02}),
        1 => json!(true),
        _ => json!(false),
    };
    json!({
        "delayed": random.random_bool(0.5),
        "buried": limit || random.random_bool(0.5),
        "keep": zombie == json!(false) && random.random_bool(0.6),
        "zombie": zombie, "ttl": ttl, "ttr": ttr, "retry": retry,
        "priority": random.random_bool(0.5),
        "tube": random.random_bool(0.5),
    })
}

/// Returns the states of a queue with these features.
fn states(features: &Value) -> String {
    let is_on = |feature: &str| features[feature] != json!(false);
    let waits = is_on("delayed") || !features["retry"]["backoff"].is_null();
    let states =
        [('W', waits), ('B', is_on("buried")), ('Z', is_on("zombie")), ('D', is_on("keep"))];
    "RT".chars().chain(states.into_iter().filter_map(|(state, has)| has.then_some(state))).collect()
}

/// Returns a conversion for tasks in states that no longer exist. It deletes only acked tasks, and none of them comes
/// back.
fn conversions(states: &str, random: &mut StdRng) -> Value {
    let mut convert = json!({});
    for state in ['W', 'B', 'Z', 'D'].into_iter().filter(|state| !states.contains(*state)) {
        let to = match state {
            'W' if states.contains('B') && random.random_bool(0.5) => "B",
            'W' | 'B' => "R",
            'Z' if states.contains('D') && random.random_bool(0.5) => "D",
            _ => "delete",
        };
        convert[state.to_string()] = json!(to);
    }
    convert
}

/// Makes one switch while other threads work. Some are rolled back before, and some are tried without conversions: they
/// are refused if a task would lose its state.
fn switch(q: &mut Queue, random: &mut StdRng) {
    let features = features(random);
    let states = states(&features);
    let is_counted = features["tube"] == json!(true) && random.random_bool(0.5);
    let tubes = if is_counted { json!(["a"]) } else { json!([]) };
    let order = if random.random_bool(0.5) { json!("no") } else { json!([]) };
    let mut options =
        json!({"features": features, "tube_stats": tubes, "fields": {"order": order}});
    let upgrade = |options: &Value| format!("SELECT xqueue.upgrade('{{q}}', '{options}')");
    if random.random_bool(0.5) {
        let tried = try_sql(&mut q.admin, &upgrade(&options).replace("{q}", &q.name));
        tried.unwrap_or_else(|e| assert_eq!(code(&e), "55006", "{e:?}"));
    }
    options["convert"] = conversions(&states, random);
    if random.random_bool(0.25) {
        q.sql(&format!("BEGIN; {}; ROLLBACK", upgrade(&options)));
    }
    let defined = q.upgrade(&options)["features"].clone();
    for (feature, value) in features.as_object().expect("features") {
        let is_off = defined[feature] == json!(false);
        assert_eq!(is_off, *value == json!(false), "{feature} of {features} in {defined}");
    }
    let others =
        format!("SELECT to_jsonb(t) FROM {{q}} t WHERE strpos('{states}', status::text) = 0");
    assert!(q.ask(&others).is_empty(), "in states that {features} does not have");
}

/// The columns of a queue whose order can be `no`.
fn columns() -> String {
    format!("{COLUMNS}, no bigserial")
}

#[test]
fn features_are_switched_under_load() {
    let mut q = Queue::with("switches", &columns(), &json!({}));
    let (seed, place) = (seed(), Place::of(&q));
    std::thread::scope(|scope| {
        let place = &place;
        let start = |n: u64, work: fn(&Place, StdRng)| {
            let random = StdRng::seed_from_u64(seed.wrapping_add(n));
            scope.spawn(move || work(place, random));
        };
        (0..PRODUCERS).for_each(|n| start(1 + n, produce));
        (0..CONSUMERS).for_each(|n| start(100 + n, consume));
        start(200, watch);
        let _close = Close(place);
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..SWITCHES {
            let before = place.calls.load(Ordering::SeqCst);
            wait_until("people are at work", || {
                place.calls.load(Ordering::SeqCst) > before + CALLS_BETWEEN
            });
            switch(&mut q, &mut random);
        }
    });
    // The worker releases the tasks of the connections that have ended.
    q.wait_for("taken", 0);
    let open = q.ask("SELECT to_jsonb(id) FROM {q} WHERE status IN ('R', 'W', 'B') ORDER BY id");
    let (put, acked) = (place.put.into_inner().unwrap(), place.acked.into_inner().unwrap());
    let left: Vec<i64> = put.difference(&acked).copied().collect();
    assert_eq!(open, left, "tasks in the table (left), and put and not acked (right)");
    println!("{} put, {} acked", put.len(), acked.len());
    assert!(acked.len() > SWITCHES, "{} tasks acked: there was no load", acked.len());
}

/// In each round one task arrives while features are switched, and one consumer waits for it: no switch ends its wait.
/// The worker is stopped: it would wake a consumer that sleeps although a task is ready, and must not be needed.
#[test]
fn no_wake_up_is_lost() {
    alone();
    let (seed, other) = (seed(), Database::new("switch_wake"));
    // The row form can only return a row of the type that the query was planned with.
    let all = json!({"features": {
        "delayed": true, "buried": true, "zombie": true, "ttl": true, "ttr": true,
        "priority": true, "tube": true, "retry": {"limit": 3}}});
    let mut q = Queue::make(&other.name, &unique("switch_wake"), &columns(), &all);
    let name = q.name.clone();
    let calls = [
        "SELECT xqueue.take('{q}', '50s')",
        "CALL xqueue.next('{q}', '50s')",
        "SELECT to_jsonb(t) FROM xqueue.take(NULL::{q}, '50s', 3) AS t",
        "SELECT xqueue.take('{q}', '50s', 3)",
    ];
    for round in 0..ROUNDS {
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(round as u64));
        let worker = Stopped::worker(&mut q.admin);
        let call = calls[round % calls.len()].replace("{q}", &name);
        let consumer = Waiter::start(q.client(), &call);
        let (mut switcher, mut producer) = (q.session(), q.client());
        std::thread::scope(|scope| {
            scope.spawn(|| (0..4).for_each(|_| switch(&mut switcher, &mut random)));
            scope.spawn(|| put(&mut producer, &name, 1));
        });
        let (client, task) = consumer.task();
        drop((worker, client));
        // The connection has ended. The next round begins without its task.
        wait_until("the task is nobody's", || {
            let sql = format!("DELETE FROM {name} WHERE id = $1 AND status <> 'T'");
            q.admin.execute(&sql, &[&id(&task)]).expect("it can be deleted") == 1
        });
    }
}
