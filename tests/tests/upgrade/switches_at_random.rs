//! Features are switched at random on a queue under load. After each switch every task is in its expected state.
//! XQUEUE_SEED repeats the choices, but not the interleaving of the threads.

mod ledger;
mod people;
mod waiting;

use std::sync::atomic::Ordering;

use people::{Place, consume, produce, watch};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

const SWITCHES: usize = 40;
/// Number of calls of the other threads before each switch.
const CALLS_BETWEEN: usize = 60;
const PRODUCERS: u64 = 2;
const CONSUMERS: u64 = 4;

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

/// Returns a conversion for tasks in states that no longer exist. An acked task must not come back.
fn conversions(states: &str, random: &mut StdRng) -> Value {
    let mut convert = json!({});
    for state in ['W', 'B', 'Z', 'D'].into_iter().filter(|state| !states.contains(*state)) {
        let mut choices = vec!["delete"];
        match state {
            'W' | 'B' => choices.push("R"),
            'Z' if states.contains('D') => choices.push("D"),
            _ => {}
        }
        if state == 'W' && states.contains('B') {
            choices.push("B");
        }
        convert[state.to_string()] = json!(choices[random.random_range(0..choices.len())]);
    }
    convert
}

struct Switcher<'place> {
    place: &'place Place,
    q: Queue,
    random: StdRng,
    /// The features in force.
    features: Value,
    refusals: usize,
}

impl Switcher<'_> {
    fn upgrade(
        &mut self,
        features: &Value,
        convert: Option<&Value>,
        may_come_to_nothing: bool,
    ) -> Result<(), postgres::Error> {
        let mut options = json!({"features": features});
        if let Some(convert) = convert {
            options["convert"] = convert.clone();
        }
        let tubes = if self.random.random_bool(0.5) { json!(["a"]) } else { json!([]) };
        options["tube_stats"] = if features["tube"] == json!(true) { tubes } else { json!([]) };
        let sql = "SELECT xqueue.upgrade($1::text, $2::jsonb)";
        // Some transactions are rolled back, and then the definition stays as it was.
        let mut transaction = self.q.admin.transaction()?;
        let row = transaction.query_one(sql, &[&self.q.name, &options])?;
        let definition: Value = row.get(0);
        for (feature, value) in features.as_object().expect("features") {
            let is_off = definition["features"][feature] == json!(false);
            assert_eq!(is_off, *value == json!(false), "{feature} of {features} in {definition}");
        }
        if may_come_to_nothing && self.random.random_bool(0.25) {
            return transaction.rollback();
        }
        transaction.commit()?;
        self.features = features.clone();
        Ok(())
    }

    /// Makes one switch while the other threads work, then stops them and checks everything.
    fn switch(&mut self) {
        let before = self.place.calls.load(Ordering::SeqCst);
        wait_until("people are at work", || {
            self.place.calls.load(Ordering::SeqCst) > before + CALLS_BETWEEN
                || !self.place.is_open.load(Ordering::SeqCst)
        });
        let features = features(&mut self.random);
        let states = states(&features);
        let convert = conversions(&states, &mut self.random);
        let at_once = self.random.random_bool(0.5).then_some(&convert);
        let refused = self.upgrade(&features, at_once, true).err();
        let _silence = self.place.gate.write().unwrap();
        if let Some(e) = refused {
            assert!(at_once.is_none(), "{features} is refused with {convert}");
            assert_eq!(code(&e), "55006", "{e:?}");
            self.refusals += 1;
            let converted = self.upgrade(&features, Some(&convert), false);
            converted.unwrap_or_else(|e| panic!("{features} with {convert}: {e:?}"));
        }
        self.inspect();
    }

    fn inspect(&mut self) {
        let (name, features) = (self.q.name.clone(), self.features.clone());
        let states = states(&features);
        self.q.verify();
        self.place.ledger.compare(&mut self.q);
        let others =
            format!("SELECT to_jsonb(t) FROM {name} t WHERE strpos('{states}', status::text) = 0");
        assert!(self.q.ask(&others).is_empty(), "in states that {features} does not have");
    }
}

#[test]
fn features_are_switched_under_load() {
    under_load(Queue::with("switches", COLUMNS, &json!({})), false);
}

#[test]
fn features_are_switched_under_load_with_a_key_of_two_columns() {
    let columns = "part smallint DEFAULT 0, id bigint GENERATED BY DEFAULT AS IDENTITY, payload jsonb, PRIMARY KEY (part, id)";
    under_load(Queue::with("switches", columns, &json!({})), true);
}

fn under_load(mut q: Queue, is_composite: bool) {
    let seed = seed();
    let place = Place::of(&mut q, is_composite);
    let features = q.upgrade(&json!({}))["features"].clone();
    let random = StdRng::seed_from_u64(seed);
    let mut switcher = Switcher { place: &place, q, random, features, refusals: 0 };
    std::thread::scope(|scope| {
        let place = &place;
        let start = |n: u64, work: fn(&Place, StdRng)| {
            let random = StdRng::seed_from_u64(seed.wrapping_add(n));
            scope.spawn(move || closing(place, || work(place, random)));
        };
        (0..PRODUCERS).for_each(|n| start(1 + n, produce));
        (0..CONSUMERS).for_each(|n| start(100 + n, consume));
        start(200, watch);
        let is_open = |_: &usize| place.is_open.load(Ordering::SeqCst);
        closing(place, || (0..SWITCHES).take_while(is_open).for_each(|_| switcher.switch()));
    });
    let (put, acked) = (switcher.q.calls("put"), switcher.q.calls("ack"));
    println!("{put} put, {acked} acked, {} switches refused at first", switcher.refusals);
    assert!(acked > SWITCHES as i64, "{acked} tasks acked: there was no load");
    drop(switcher);
    connect().run(&format!("DROP TABLE {0}_gone; DROP FUNCTION {0}_note()", place.q));
}

/// Runs one of the threads that use a queue. When it ends, normally or by a panic, the others end too.
fn closing(place: &Place, work: impl FnOnce()) {
    struct Close<'place>(&'place Place);
    impl Drop for Close<'_> {
        fn drop(&mut self) {
            self.0.is_open.store(false, Ordering::SeqCst);
        }
    }
    let _close = Close(place);
    work();
}
