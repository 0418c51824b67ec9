//! The features of a queue: what may be switched on and off, and what each of them needs.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// What the queue can do beyond put, take, ack and release. Absent means: as it is, or off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Features {
    /// Where the key of a task comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// Tasks may be put and released with a delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed: Option<bool>,
    /// Tasks may be buried and dug out again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buried: Option<bool>,
    /// Acked tasks stay as done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<bool>,
    /// Acked tasks stay as zombies for a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zombie: Option<Timed>,
    /// Tasks that nobody has taken in time vanish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Timed>,
    /// Tasks that are out for too long come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttr: Option<Timed>,
    /// Tasks with a smaller number are taken first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<bool>,
    /// Tasks have a label that a take may ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tube: Option<bool>,
    /// Attempts are counted and limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// A function that is called on every change of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_task_change: Option<Hook>,
}

/// Where the key of a task comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    /// From the task, or from whatever default the column has.
    Off,
    AutoIncrement,
    Time64,
    Uuid,
    Required,
    Function(String),
}

/// A feature that may have a default time.
#[derive(Clone, Debug, PartialEq)]
pub enum Timed {
    Off,
    On,
    For(Time),
}

/// A length of time as the options give it.
#[derive(Clone, Debug, PartialEq)]
pub enum Time {
    Seconds(f64),
    /// An interval that has still to be read by the server.
    Text(String),
}

/// How often a task is tried, and how long it waits in between.
#[derive(Clone, Debug, PartialEq)]
pub enum Retry {
    Off,
    On(Tries),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tries {
    /// After each `limit` attempts the task is buried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The wait before the second attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Time>,
    /// By how much each wait is longer than the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// No wait is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Time>,
}

/// The name of a user's function, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook(pub Option<String>);

/// A time that is longer than this is a mistake: a hundred years, in seconds.
const LONGEST: f64 = 100.0 * 366.0 * 86400.0;
/// The longest wait between attempts unless the options say otherwise, in seconds.
const LONGEST_BACKOFF: f64 = 3600.0;
const BACKOFF_FACTOR: f64 = 2.0;

impl Features {
    pub fn is_empty(&self) -> bool {
        *self == Features::default()
    }

    /// These features with `newer` on top.
    pub fn merge(&self, newer: &Features) -> Features {
        Features {
            id: newer.id.clone().or(self.id.clone()),
            delayed: newer.delayed.or(self.delayed),
            buried: newer.buried.or(self.buried),
            keep: newer.keep.or(self.keep),
            zombie: newer.zombie.clone().or(self.zombie.clone()),
            ttl: newer.ttl.clone().or(self.ttl.clone()),
            ttr: newer.ttr.clone().or(self.ttr.clone()),
            priority: newer.priority.or(self.priority),
            tube: newer.tube.or(self.tube),
            retry: newer.retry.clone().or(self.retry.clone()),
            on_task_change: newer.on_task_change.clone().or(self.on_task_change.clone()),
        }
    }

    /// All features as they are, also those that nobody has named.
    pub fn in_force(&self) -> Value {
        let on = |timed: &Option<Timed>| timed.clone().unwrap_or(Timed::Off);
        json!({
            "id": self.id.clone().unwrap_or(Id::Off),
            "delayed": self.delays(),
            "buried": self.buries(),
            "keep": self.keeps(),
            "zombie": on(&self.zombie),
            "ttl": on(&self.ttl),
            "ttr": on(&self.ttr),
            "priority": self.has_priority(),
            "tube": self.has_tubes(),
            "retry": self.retry.clone().unwrap_or(Retry::Off),
            "on_task_change": self.on_task_change.clone().unwrap_or(Hook(None)),
        })
    }

    /// Refuses what cannot be together.
    pub fn verify(&self) -> Result<(), String> {
        if self.keeps() && self.zombies() {
            return Err("features keep and zombie exclude each other".into());
        }
        let Some(tries) = self.tries() else { return Ok(()) };
        if tries.limit == Some(0) {
            return Err("the limit of retry must be at least 1".into());
        }
        if tries.limit.is_some() && self.buried == Some(false) {
            return Err("retry with a limit needs feature buried".into());
        }
        if let (Some(Time::Seconds(first)), Some(Time::Seconds(longest))) =
            (&tries.backoff, &tries.max)
            && longest < first
        {
            return Err("the max of retry must not be less than its backoff".into());
        }
        if tries.factor.is_some_and(|factor| !(1.0..=1000.0).contains(&factor)) {
            return Err("the factor of retry must lie between 1 and 1000".into());
        }
        Ok(())
    }

    /// Has `read` read all times that are given as text.
    pub fn read_times(
        &mut self,
        mut read: impl FnMut(&str) -> Result<f64, String>,
    ) -> Result<(), String> {
        let timed = [&mut self.zombie, &mut self.ttl, &mut self.ttr].into_iter().flatten();
        let defaults = timed.filter_map(|timed| match timed {
            Timed::For(time) => Some(time),
            _ => None,
        });
        let retry = match &mut self.retry {
            Some(Retry::On(tries)) => [tries.backoff.as_mut(), tries.max.as_mut()],
            _ => [None, None],
        };
        for time in defaults.chain(retry.into_iter().flatten()) {
            if let Time::Text(text) = time {
                *time = Time::seconds(read(text)?)?;
            }
        }
        Ok(())
    }

    pub fn delays(&self) -> bool {
        self.delayed == Some(true)
    }

    /// Tasks past their limit are buried: then there are buried tasks.
    pub fn buries(&self) -> bool {
        self.buried.unwrap_or(self.limit().is_some())
    }

    pub fn keeps(&self) -> bool {
        self.keep == Some(true)
    }

    pub fn zombies(&self) -> bool {
        self.zombie.as_ref().is_some_and(Timed::is_on)
    }

    pub fn expires(&self) -> bool {
        self.ttl.as_ref().is_some_and(Timed::is_on)
    }

    pub fn has_deadlines(&self) -> bool {
        self.ttr.as_ref().is_some_and(Timed::is_on)
    }

    pub fn has_priority(&self) -> bool {
        self.priority == Some(true)
    }

    pub fn has_tubes(&self) -> bool {
        self.tube == Some(true)
    }

    pub fn default_ttl(&self) -> Option<i64> {
        self.ttl.as_ref().and_then(Timed::microseconds)
    }

    pub fn default_ttr(&self) -> Option<i64> {
        self.ttr.as_ref().and_then(Timed::microseconds)
    }

    pub fn default_zombie(&self) -> Option<i64> {
        self.zombie.as_ref().and_then(Timed::microseconds)
    }

    pub fn tries(&self) -> Option<&Tries> {
        match &self.retry {
            Some(Retry::On(tries)) => Some(tries),
            _ => None,
        }
    }

    pub fn limit(&self) -> Option<u32> {
        self.tries().and_then(|tries| tries.limit)
    }

    /// The wait between attempts, if there is one.
    pub fn backoff(&self) -> Option<Backoff> {
        let tries = self.tries()?;
        let first = tries.backoff.as_ref()?.as_seconds();
        let longest = tries.max.as_ref().map_or(LONGEST_BACKOFF, Time::as_seconds).max(first);
        (first > 0.0).then(|| Backoff {
            first,
            longest,
            factor: tries.factor.unwrap_or(BACKOFF_FACTOR),
        })
    }

    pub fn hook(&self) -> Option<&str> {
        self.on_task_change.as_ref().and_then(|hook| hook.0.as_deref())
    }
}

/// The waits between attempts: `first`, then longer by `factor` each time, up to `longest` seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    pub first: f64,
    pub factor: f64,
    pub longest: f64,
}

impl Backoff {
    /// How often the wait grows before it is as long as it gets.
    pub fn steps(&self) -> u32 {
        if self.factor <= 1.0 {
            return 0;
        }
        // Not so many that the power overflows.
        let most = 300.0 * std::f64::consts::LN_10 / self.factor.ln();
        ((self.longest / self.first).ln() / self.factor.ln()).ceil().clamp(0.0, most) as u32
    }
}

impl Timed {
    fn is_on(&self) -> bool {
        *self != Timed::Off
    }

    fn microseconds(&self) -> Option<i64> {
        match self {
            Timed::For(time) => Some((time.as_seconds() * 1e6).round() as i64),
            _ => None,
        }
    }
}

impl Time {
    fn seconds(seconds: f64) -> Result<Time, String> {
        if (0.0..=LONGEST).contains(&seconds) {
            return Ok(Time::Seconds(seconds));
        }
        Err(format!("a time of {seconds} seconds: it must lie between 0 and 100 years"))
    }

    fn as_seconds(&self) -> f64 {
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

impl Serialize for Retry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Retry::Off => serializer.serialize_bool(false),
            Retry::On(tries) if *tries == Tries::default() => serializer.serialize_bool(true),
            Retry::On(tries) => tries.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Retry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Retry, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(false) => Ok(Retry::Off),
            Value::Bool(true) => Ok(Retry::On(Tries::default())),
            value @ Value::Object(_) => {
                serde_json::from_value(value).map(Retry::On).map_err(Error::custom)
            }
            value => Err(Error::custom(format!(
                "{value} is neither true nor false nor {{\"limit\", \"backoff\", \"factor\", \"max\"}}"
            ))),
        }
    }
}

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
            value => Err(Error::custom(format!(
                "{value} is neither the name of a function(task jsonb, event text) nor false"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(text: &str) -> Result<Features, String> {
        let features: Features = serde_json::from_str(text).map_err(|error| error.to_string())?;
        features.verify()?;
        Ok(features)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = r#"{"id":"time64","delayed":true,"zombie":12.5,"ttl":"5 min","ttr":true,
            "retry":{"limit":5,"backoff":1,"factor":3.0,"max":60},"on_task_change":"app.changed"}"#;
        let read = features(text).expect("features");
        let written = serde_json::to_string(&read).expect("text");
        assert_eq!(features(&written).expect("features"), read);
        assert_eq!(read.default_zombie(), Some(12_500_000));
        assert_eq!(read.limit(), Some(5));
        assert!(read.buries() && !read.keeps());
    }

    #[test]
    fn times_as_text_are_read_by_the_server() {
        let mut read = features(r#"{"ttl": "5 min", "retry": {"backoff": "1s"}}"#).expect("read");
        let seconds = |text: &str| if text == "5 min" { Ok(300.0) } else { Ok(1.0) };
        read.read_times(seconds).expect("times");
        assert_eq!(read.default_ttl(), Some(300_000_000));
        assert_eq!(read.backoff().map(|backoff| backoff.first), Some(1.0));
        let mut bad = features(r#"{"ttr": "soon"}"#).expect("read");
        assert_eq!(bad.read_times(|text| Err(format!("no: {text}"))), Err("no: soon".into()));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            r#"{"keep": true, "zombie": 5}"#,
            r#"{"retry": {"limit": 0}}"#,
            r#"{"retry": {"limit": 5}, "buried": false}"#,
            r#"{"retry": {"factor": 0.5}}"#,
            r#"{"retry": {"colour": 1}}"#,
            r#"{"retry": 5}"#,
            r#"{"ttl": -1}"#,
            r#"{"ttl": {}}"#,
            r#"{"ttr": 1e12}"#,
            r#"{"id": 5}"#,
            r#"{"id": ""}"#,
            r#"{"on_task_change": true}"#,
        ] {
            assert!(features(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_wait_grows_up_to_its_limit() {
        let backoff = Backoff { first: 1.0, factor: 2.0, longest: 60.0 };
        assert_eq!(backoff.steps(), 6);
        assert_eq!(Backoff { factor: 1.0, ..backoff }.steps(), 0);
        assert_eq!(Backoff { longest: 1.0, ..backoff }.steps(), 0);
        assert_eq!(Backoff { factor: 1.05, longest: 3600.0, ..backoff }.steps(), 168);
    }
}
