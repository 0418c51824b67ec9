//! Durations, and features with an optional default duration.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A feature with an optional default duration.
#[derive(Clone, Debug, PartialEq)]
pub enum Timed {
    Off,
    On,
    For(Time),
}

/// A duration as given in the options.
#[derive(Clone, Debug, PartialEq)]
pub enum Time {
    Seconds(f64),
    /// An interval still to be parsed by the server.
    Text(String),
}

/// Longest duration, in seconds (100 years); longer ones are refused.
const LONGEST: f64 = 100.0 * 366.0 * 86400.0;

/// Limits of a task's own time to run: of the whole interval, and of its years and days.
pub const LONGEST_TTR_YEARS: i32 = 100;
pub const LONGEST_TTR_DAYS: i32 = LONGEST_TTR_YEARS * 12 * 30;

impl Timed {
    pub fn is_on(&self) -> bool {
        *self != Timed::Off
    }

    pub fn microseconds(&self) -> Option<i64> {
        match self {
            Timed::For(time) => Some((time.as_seconds() * 1e6).round() as i64),
            _ => None,
        }
    }
}

impl Time {
    pub fn seconds(seconds: f64) -> Result<Time, String> {
        if (0.0..=LONGEST).contains(&seconds) {
            return Ok(Time::Seconds(seconds));
        }
        Err(format!("a time of {seconds} seconds: it must lie between 0 and 100 years"))
    }

    pub fn as_seconds(&self) -> f64 {
        match self {
            Time::Seconds(seconds) => *seconds,
            Time::Text(_) => 0.0,
        }
    }

    fn of(value: &Value) -> Result<Option<Time>, String> {
        match value {
            Value::Number(number) => {
                Time::seconds(number.as_f64().unwrap_or(f64::INFINITY)).map(Some)
            }
            Value::String(text) => Ok(Some(Time::Text(text.clone()))),
            _ => Ok(None),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Time::Seconds(seconds) if seconds.fract() == 0.0 => {
                serializer.serialize_i64(*seconds as i64)
            }
            Time::Seconds(seconds) => serializer.serialize_f64(*seconds),
            Time::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let time = Time::of(&value).map_err(Error::custom)?;
        time.ok_or_else(|| {
            Error::custom(format!("{value} is no time: seconds, or text such as \"5 min\""))
        })
    }
}

impl Serialize for Timed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Timed::Off => serializer.serialize_bool(false),
            Timed::On => serializer.serialize_bool(true),
            Timed::For(time) => time.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Timed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timed, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if let Value::Bool(is_on) = value {
            return Ok(if is_on { Timed::On } else { Timed::Off });
        }
        let time = Time::of(&value).map_err(Error::custom)?;
        time.map(Timed::For).ok_or_else(|| {
            Error::custom(format!(
                "{value} is neither true nor false nor a time: seconds, or text such as \"5 min\""
            ))
        })
    }
}
