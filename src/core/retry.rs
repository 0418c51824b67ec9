//! Feature retry: limit of attempts, and delays between them.

use crate::time::Time;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The setting of feature retry.
#[derive(Clone, Debug, PartialEq)]
pub enum Retry {
    Off,
    On(Tries),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tries {
    /// The task is buried after every `limit` attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Delay before the second attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Time>,
    /// Factor by which each delay exceeds the previous one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// Longest delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Time>,
}

/// Default longest delay between attempts, in seconds; later delays do not grow beyond it.
const LONGEST_BACKOFF: f64 = 3600.0;
const BACKOFF_FACTOR: f64 = 2.0;

impl Tries {
    pub fn verify(&self) -> Result<(), String> {
        if self.limit == Some(0) {
            return Err("the limit of retry must be at least 1".into());
        }
        if let (Some(Time::Seconds(first)), Some(Time::Seconds(longest))) =
            (&self.backoff, &self.max)
            && longest < first
        {
            return Err("the max of retry must not be less than its backoff".into());
        }
        if self.factor.is_some_and(|factor| !(1.0..=1000.0).contains(&factor)) {
            return Err("the factor of retry must lie between 1 and 1000".into());
        }
        Ok(())
    }

    /// Returns the delays between attempts; None if attempts follow without delay.
    pub fn backoff(&self) -> Option<Backoff> {
        let first = self.backoff.as_ref()?.as_seconds();
        let longest = self.max.as_ref().map_or(LONGEST_BACKOFF, Time::as_seconds).max(first);
        let factor = self.factor.unwrap_or(BACKOFF_FACTOR);
        (first > 0.0).then_some(Backoff { first, factor, longest })
    }
}

/// Delays between attempts: `first`, then longer by `factor` each time, up to `longest`; in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    pub first: f64,
    pub factor: f64,
    pub longest: f64,
}

impl Backoff {
    /// Returns the number of times that the delay grows until it reaches `longest`.
    pub fn steps(&self) -> u32 {
        if self.factor <= 1.0 {
            return 0;
        }
        // Bounded, so that the power does not overflow.
        let most = 300.0 * std::f64::consts::LN_10 / self.factor.ln();
        ((self.longest / self.first).ln() / self.factor.ln()).ceil().clamp(0.0, most) as u32
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_up_to_its_limit() {
        let backoff = Backoff { first: 1.0, factor: 2.0, longest: 60.0 };
        assert_eq!(backoff.steps(), 6);
        assert_eq!(Backoff { factor: 1.0, ..backoff }.steps(), 0);
        assert_eq!(Backoff { longest: 1.0, ..backoff }.steps(), 0);
        assert_eq!(Backoff { factor: 1.05, longest: 3600.0, ..backoff }.steps(), 168);
    }
}
