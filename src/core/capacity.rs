//! Feature capacity: maximum number of tasks in a queue.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Maximum number of tasks in a queue, in all states; beyond it puts fail or wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    Off,
    Tasks(i64),
}

impl Serialize for Capacity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Capacity::Off => serializer.serialize_bool(false),
            Capacity::Tasks(tasks) => serializer.serialize_i64(*tasks),
        }
    }
}

impl<'de> Deserialize<'de> for Capacity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Capacity, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value.as_i64().filter(|tasks| *tasks > 0) {
            Some(tasks) => Ok(Capacity::Tasks(tasks)),
            None if value == Value::Bool(false) => Ok(Capacity::Off),
            None => Err(Error::custom(format!(
                "{value} is no capacity: a whole number of tasks, at least 1, or false"
            ))),
        }
    }
}
