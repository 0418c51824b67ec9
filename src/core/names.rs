//! Features that name something: the source of keys, and user functions.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Longest name of the server, in bytes. The server truncates longer names.
pub const LONGEST_NAME: usize = 63;

/// Returns the length in bytes of the longest part of a name in SQL syntax, such as `app."My ""Jobs"""`.
pub fn longest_part(name: &str) -> usize {
    let (mut longest, mut length, mut is_quoted) = (0, 0, false);
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // A doubled quote within quotes is one character.
            '"' if is_quoted && letters.next_if_eq(&'"').is_some() => length += 1,
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => length = 0,
            _ if !is_quoted && letter.is_whitespace() => {}
            _ => length += letter.len_utf8(),
        }
        longest = longest.max(length);
    }
    longest
}

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

#[cfg(test)]
mod tests {
    use super::longest_part;

    #[test]
    fn parts_of_names_are_measured_as_the_server_reads_them() {
        assert_eq!(longest_part("jobs"), 4);
        assert_eq!(longest_part(" app . jobs2 "), 5);
        assert_eq!(longest_part(r#"app."a.b""c""#), 5);
        assert_eq!(longest_part(r#"""""""#), 2);
        assert_eq!(longest_part("größe"), 7);
        assert_eq!(longest_part(""), 0);
    }
}
