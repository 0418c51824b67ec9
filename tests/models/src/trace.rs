//! Reads what a server has traced (src/trace in the extension) from its log.

use serde::de::DeserializeOwned;
use serde_json::Value;

const PREFIX: &str = "xqueue trace ";

/// The events of one part, in the order of their numbers; of leases those without a part. Those of one transaction
/// have one number, and stay as they are.
pub fn events<E: DeserializeOwned>(log: &str, part: Option<&str>) -> Vec<(u64, E)> {
    let mut events: Vec<(u64, Value)> = log
        .lines()
        .filter_map(|line| line.split_once(PREFIX))
        .map(|(_, event)| {
            let (number, event) = event.split_once(' ').expect("a number and an event");
            let number = number.parse().expect("a number");
            (number, serde_json::from_str(event).unwrap_or_else(|e| panic!("{event}: {e}")))
        })
        .filter(|(_, event): &(u64, Value)| event.get("part").and_then(Value::as_str) == part)
        .collect();
    events.sort_by_key(|(number, _)| *number);
    let read = |event: Value| {
        let shown = event.to_string();
        serde_json::from_value(event).unwrap_or_else(|e| panic!("{shown}: {e}"))
    };
    events.into_iter().map(|(number, event)| (number, read(event))).collect()
}
