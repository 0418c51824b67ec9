//! Feature utube: whether tubes are sub-queues, and how strict their order is.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// The setting of feature utube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Utube {
    Off,
    /// `strict`: a waiting task holds up the tasks behind it.
    On {
        strict: bool,
    },
}

impl Utube {
    fn shown(self) -> Value {
        match self {
            Utube::Off => json!(false),
            Utube::On { strict: false } => json!(true),
            Utube::On { strict: true } => json!({"strict": true}),
        }
    }
}

impl Serialize for Utube {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Utube {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Utube, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let strict = |value: &Value| {
            let members = value.as_object().filter(|members| members.len() == 1)?;
            members.get("strict")?.as_bool()
        };
        match (value.as_bool(), strict(&value)) {
            (Some(false), _) => Ok(Utube::Off),
            (Some(true), _) => Ok(Utube::On { strict: false }),
            (None, Some(strict)) => Ok(Utube::On { strict }),
            (None, None) => Err(Error::custom(format!(
                "{value} is no value for utube: true, false or {{\"strict\": true}}"
            ))),
        }
    }
}
