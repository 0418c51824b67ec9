//! Features that name something: the source of keys, and user functions.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Source of the keys of new tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    /// The task itself, or the column's own default.
    Off,
    AutoIncrement,
    Time64,
    Uuid,
    Required,
    Function(String),
}

/// The name of a user function; None switches it off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook(pub Option<String>);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Id::Off => serializer.serialize_bool(false),
            Id::AutoIncrement => serializer.serialize_str("auto_increment"),
            Id::Time64 => serializer.serialize_str("time64"),
            Id::Uuid => serializer.serialize_str("uuid"),
            Id::Required => serializer.serialize_str("required"),
            Id::Function(name) => serializer.serialize_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match &value {
            Value::Bool(false) => Ok(Id::Off),
            Value::String(text) if !text.trim().is_empty() => Ok(match text.as_str() {
                "auto_increment" => Id::AutoIncrement,
                "time64" => Id::Time64,
                "uuid" => Id::Uuid,
                "required" => Id::Required,
                name => Id::Function(name.to_string()),
            }),
            _ => Err(Error::custom(format!(
                "{value} is no id: auto_increment, time64, uuid, required, the name of a function, or false"
            ))),
        }
    }
}

impl Serialize for Hook {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_bool(false),
        }
    }
}

impl<'de> Deserialize<'de> for Hook {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hook, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(false) => Ok(Hook(None)),
            Value::String(name) if !name.trim().is_empty() => Ok(Hook(Some(name))),
            value => {
                Err(Error::custom(format!("{value} is neither the name of a function nor false")))
            }
        }
    }
}
