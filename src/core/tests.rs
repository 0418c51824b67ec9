//! Properties that hold for any input: options, times, keys, delays between attempts, names of states.

use crate::features::Features;
use crate::options::Options;
use crate::position::{FIRST, LAST, of_bytes, of_integer, to_bytes, to_integer};
use crate::retry::Tries;
use crate::status::Status;
use crate::time::{Time, Timed};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

const NAMES: [&str; 33] = [
    "fields",
    "states",
    "features",
    "existing",
    "time_zone",
    "tube_stats",
    "convert",
    "status",
    "owner",
    "runat",
    "R",
    "T",
    "W",
    "B",
    "id",
    "delayed",
    "buried",
    "keep",
    "zombie",
    "ttl",
    "ttr",
    "priority",
    "tube",
    "utube",
    "retry",
    "limit",
    "backoff",
    "factor",
    "max",
    "pick",
    "capacity",
    "on_task_change",
    "D",
];

/// A name, often of an option.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => select(&NAMES[..]).prop_map(String::from), 1 => any::<String>()]
}

fn scalar() -> impl Strategy<Value = Value> {
    let words =
        &["auto_increment", "time64", "uuid", "required", "5 min", "app.f", "", " ", "delete"];
    prop_oneof![
        2 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        2 => (-5..100i64).prop_map(Value::from),
        2 => any::<f64>().prop_map(Value::from),
        1 => (0.0..1e10f64).prop_map(Value::from),
        2 => select(&words[..]).prop_map(Value::from),
        2 => name().prop_map(Value::from),
    ]
}

fn object(member: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let members = prop::collection::vec((name(), member), 0..6);
    members.prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()))
}

/// Any JSON, often in the shape of options.
fn json() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 6, |inner| {
        prop_oneof![4 => object(inner.clone()), 1 => prop::collection::vec(inner, 0..4).prop_map(Value::from)]
    })
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..1e4f64, 0.0..4e9f64, any::<f64>()]
}

/// A feature and a value for it, mostly a valid one.
fn feature() -> impl Strategy<Value = (String, Value)> {
    let flags = &["delayed", "buried", "keep", "priority", "tube", "utube"];
    let flag = (select(&flags[..]), any::<bool>().prop_map(Value::from));
    let times = &["zombie", "ttl", "ttr"];
    let time = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0.0..3e9f64).prop_map(Value::from),
        (0..100_000i64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let timed = (select(&times[..]), time);
    let tries = (1..9u32, 0.0..1e6f64, 1.0..1e3f64, 1e6..1e7f64);
    let tries = tries.prop_map(|(limit, backoff, factor, max)| {
        serde_json::json!({"limit": limit, "backoff": backoff, "factor": factor, "max": max})
    });
    let retry = (Just("retry"), prop_oneof![tries, any::<bool>().prop_map(Value::from)]);
    let capacity =
        (Just("capacity"), prop_oneof![(1..i64::MAX).prop_map(Value::from), Just(false.into())]);
    let text = "[a-z]{1,9}|\\PC{1,9}".prop_map(|text: String| Value::from(format!("f{text}")));
    let named = (select(&["id", "pick", "on_task_change"][..]), text);
    let feature = prop_oneof![flag, timed, retry, capacity, named];
    feature.prop_map(|(name, value)| (name.to_string(), value))
}

/// Options, most of them valid.
fn options() -> impl Strategy<Value = Value> {
    let features = prop::collection::vec(feature(), 0..8);
    let fields = prop::collection::btree_map(
        select(&["status", "owner", "tube", "reason"][..]),
        "\\PC{1,9}",
        0..4,
    );
    let order = prop::collection::vec("\\PC{1,9}", 0..3);
    let states =
        prop::collection::btree_map(select(&["R", "T", "W", "B", "Z", "D"][..]), "\\PC{0,9}", 0..4);
    let tubes = prop::collection::vec("\\PC{0,5}", 0..4);
    (features, fields, order, states, tubes).prop_map(|(features, fields, order, states, tubes)| {
        let mut fields: Map<String, Value> =
            fields.into_iter().map(|(field, name)| (field.into(), name.into())).collect();
        fields.extend(order.first().map(|_| ("order".into(), order.clone().into())));
        let features: Map<String, Value> = features.into_iter().collect();
        serde_json::json!({"features": features, "fields": fields, "states": states, "tube_stats": tubes})
    })
}

fn parsed() -> impl Strategy<Value = Options> {
    options().prop_filter_map("refused", |options| Options::parse(&options.to_string()).ok())
}

fn written(options: &Options) -> String {
    serde_json::to_string(options).expect("options can be written")
}

proptest! {
    #[test]
    fn any_text_is_options_or_an_error(text in any::<String>()) {
        _ = Options::parse(&text);
    }

    #[test]
    fn any_json_is_options_or_an_error(value in json()) {
        if let Ok(options) = Options::parse(&value.to_string()) {
            prop_assert_eq!(Options::parse(&written(&options)), Ok(options.clone()));
        }
    }

    #[test]
    fn options_are_read_as_they_were_written(options in parsed()) {
        prop_assert_eq!(Options::parse(&written(&options)), Ok(options.clone()));
    }

    #[test]
    fn unknown_names_are_refused_by_name(options in parsed(), name in any::<String>(), inside in any::<bool>()) {
        prop_assume!(!NAMES.contains(&name.as_str()) && name != "limits");
        let mut value: Value = serde_json::from_str(&written(&options)).expect("it was written");
        let members = value.as_object_mut().expect("options are an object");
        let place = match inside {
            true => members.entry("features").or_insert(Map::new().into()).as_object_mut().expect("an object"),
            false => members,
        };
        place.insert(name.clone(), true.into());
        let error = Options::parse(&value.to_string()).expect_err("it is not known");
        prop_assert!(error.contains(&format!("`{name}`")), "{}", error);
    }

    #[test]
    fn options_that_are_given_twice_change_nothing(first in parsed(), second in parsed()) {
        let merge = |first: &Options| Options::default().merge(first).and_then(|first| first.merge(&second));
        if let Ok(merged) = merge(&first) {
            prop_assert_eq!(merged.merge(&second), Ok(merged.clone()));
            prop_assert_eq!(merged.merge(&Options::default()), Ok(merged.clone()));
            prop_assert_eq!(Options::parse(&written(&merged)), Ok(merged.clone()));
        }
    }

    #[test]
    fn each_state_of_options_has_a_value_of_its_own(options in parsed()) {
        let mut labels = Status::ALL.map(|status| options.label(status));
        labels.sort();
        prop_assert!(labels.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn features_in_force_are_features(options in parsed()) {
        let in_force = options.features.in_force();
        let read: Features = serde_json::from_value(in_force.clone()).expect("features");
        prop_assert_eq!(read.in_force(), in_force);
    }

    #[test]
    fn a_time_is_within_its_bounds_or_refused(seconds in number()) {
        let century = 100.0 * 366.0 * 86400.0;
        match Time::seconds(seconds) {
            Ok(time) => {
                let microseconds = Timed::For(time).microseconds().expect("it is a time");
                prop_assert!((0..=century as i64 * 1_000_000).contains(&microseconds));
                prop_assert!((microseconds as f64 / 1e6 - seconds).abs() <= 1e-6 * seconds.max(1.0));
            }
            Err(_) => prop_assert!(!(0.0..=century).contains(&seconds)),
        }
    }

    #[test]
    fn times_as_text_become_seconds_or_are_refused(mut options in parsed(), seconds in number()) {
        let read = options.features.read_times(|_| Ok(seconds));
        if read.is_ok() && options.features.verify().is_ok() {
            let written = written(&options);
            let mut again = Options::parse(&written).expect("it was written");
            prop_assert!(again.features.read_times(|text| Err(text.into())).is_ok(), "{}", written);
        }
    }

    #[test]
    fn the_wait_grows_to_its_limit_and_no_further(
        first in number(), factor in 1.0..1000.0f64, longest in number()
    ) {
        let time = |seconds| Time::seconds(seconds).ok();
        let tries = Tries { limit: None, backoff: time(first), factor: Some(factor), max: time(longest) };
        if tries.verify().is_err() {
            return Ok(());
        }
        let Some(backoff) = tries.backoff() else { return Ok(()) };
        let wait = |attempts: u32| {
            let power = backoff.factor.powf(f64::from(attempts.min(backoff.steps())));
            backoff.longest.min(backoff.first * power)
        };
        let steps = backoff.steps();
        prop_assert!(backoff.factor.powf(f64::from(steps)).is_finite());
        for attempts in [0, 1, steps.saturating_sub(1)] {
            prop_assert!(wait(attempts) <= wait(attempts + 1));
        }
        prop_assert_eq!(wait(steps), wait(u32::MAX));
        // The delay reaches `longest`, except for factors close to 1, which reach the bound of the steps first.
        let reaches = wait(steps) >= backoff.longest * (1.0 - 1e-9);
        prop_assert!(reaches || backoff.factor <= 1.0 || backoff.factor.powf(f64::from(steps)) > 1e290);
    }

    #[test]
    fn places_keep_the_order_of_integers(one in any::<i64>(), other in any::<i64>(), bounds in any::<(i64, i64)>()) {
        prop_assert_eq!(of_integer(one).cmp(&of_integer(other)), one.cmp(&other));
        let all = (i64::MIN, i64::MAX);
        prop_assert_eq!(to_integer(of_integer(one), all), one);
        let bounds = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
        for place in [of_integer(one), FIRST, LAST] {
            prop_assert!((bounds.0..=bounds.1).contains(&to_integer(place, bounds)));
        }
        prop_assert!(of_integer(one) < LAST);
    }

    #[test]
    fn places_keep_the_order_of_uuids(one in any::<[u8; 16]>(), other in any::<[u8; 16]>()) {
        let (place, of_other) = (of_bytes(one), of_bytes(other));
        prop_assert!(place < LAST);
        let shared = LAST - 1;
        if place != shared && of_other != shared {
            prop_assert_eq!(place.cmp(&of_other), one.cmp(&other));
        }
        // A mark never lies behind the key from which it was made.
        prop_assert!(to_bytes(place) <= one);
        prop_assert_eq!(of_bytes(to_bytes(place)), place);
    }

    #[test]
    fn a_text_names_one_state_or_none(text in prop_oneof!["[RTWBZDrtwbzd]", any::<String>()]) {
        let is_named = |status: &Status| text == status.name() || text == status.letter().to_string();
        prop_assert_eq!(Status::named(&text), Status::ALL.into_iter().find(is_named));
    }
}
