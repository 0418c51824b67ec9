//! The features of a queue, and their dependencies.

use crate::capacity::Capacity;
use crate::names::{Hook, Id};
use crate::retry::{Backoff, Retry, Tries};
use crate::status::Status;
use crate::time::{Time, Timed};
use crate::utube::Utube;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Optional features beyond put, take, ack and release. An absent feature is unchanged, or off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Features {
    /// Source of the keys of new tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// Tasks can be put and released with a delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed: Option<bool>,
    /// Tasks can be buried and dug out again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buried: Option<bool>,
    /// Acked tasks stay as done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<bool>,
    /// Acked tasks stay as zombies for a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zombie: Option<Timed>,
    /// Tasks not taken in time are deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Timed>,
    /// Tasks held beyond their time to run come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttr: Option<Timed>,
    /// Tasks with a smaller number are taken first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<bool>,
    /// Tasks have a label that a take can select.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tube: Option<bool>,
    /// Tubes are sub-queues: each is processed in order, with at most one task in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utube: Option<Utube>,
    /// Attempts are counted and limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// A function that picks the tasks to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pick: Option<Hook>,
    /// Maximum number of tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// A function called on every change of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_task_change: Option<Hook>,
    /// An UPDATE by hand does not change the state or the owner of a task that another session has taken. On if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<bool>,
}

impl Features {
    pub fn is_empty(&self) -> bool {
        *self == Features::default()
    }

    /// Returns these features, overridden by the features set in `newer`.
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
            utube: newer.utube.or(self.utube),
            retry: newer.retry.clone().or(self.retry.clone()),
            pick: newer.pick.clone().or(self.pick.clone()),
            capacity: newer.capacity.or(self.capacity),
            on_task_change: newer.on_task_change.clone().or(self.on_task_change.clone()),
            guard: newer.guard.or(self.guard),
        }
    }

    /// Returns all features with their values in force, including defaults.
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
            "utube": self.utube.unwrap_or(Utube::Off),
            "retry": self.retry.clone().unwrap_or(Retry::Off),
            "pick": self.pick.clone().unwrap_or(Hook(None)),
            "capacity": self.capacity.unwrap_or(Capacity::Off),
            "on_task_change": self.on_task_change.clone().unwrap_or(Hook(None)),
            "guard": self.guards(),
        })
    }

    /// Refuses features that exclude each other.
    pub fn verify(&self) -> Result<(), String> {
        if self.keeps() && self.zombies() {
            return Err("features keep and zombie exclude each other".into());
        }
        if self.has_subqueues() && self.picker().is_some() {
            return Err(
                "features utube and pick exclude each other: both say which task is next".into()
            );
        }
        let Some(tries) = self.tries() else { return Ok(()) };
        if tries.limit.is_some() && self.buried == Some(false) {
            return Err("retry with a limit needs feature buried".into());
        }
        tries.verify()
    }

    /// Converts all times given as text, by `read`.
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

    /// Returns whether tasks can be buried. A limit of attempts implies this: tasks beyond it are buried.
    pub fn buries(&self) -> bool {
        self.buried.unwrap_or(self.limit().is_some())
    }

    pub fn keeps(&self) -> bool {
        self.keep == Some(true)
    }

    /// Returns whether the worker acts on a task in this state at its `runat`.
    pub fn is_timed(&self, status: Status) -> bool {
        match status {
            Status::Waiting => true,
            Status::Taken => self.has_deadlines(),
            Status::Zombie => self.zombies(),
            Status::Ready | Status::Buried | Status::Done => false,
        }
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

    /// Returns whether tasks have tubes; sub-queues are tubes.
    pub fn has_tubes(&self) -> bool {
        self.tube == Some(true) || self.has_subqueues()
    }

    pub fn has_subqueues(&self) -> bool {
        matches!(self.utube, Some(Utube::On { .. }))
    }

    /// Returns whether a waiting task holds up the tasks behind it in its sub-queue.
    pub fn has_strict_subqueues(&self) -> bool {
        self.utube == Some(Utube::On { strict: true })
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

    /// Returns the delays between attempts.
    pub fn backoff(&self) -> Option<Backoff> {
        self.tries()?.backoff()
    }

    /// Returns the function that picks the tasks to take, with its parameters.
    pub fn picker(&self) -> Option<&str> {
        self.pick.as_ref().and_then(|pick| pick.0.as_deref())
    }

    /// Returns the maximum number of tasks; None if unlimited.
    pub fn capacity(&self) -> Option<i64> {
        match self.capacity {
            Some(Capacity::Tasks(tasks)) => Some(tasks),
            Some(Capacity::Off) | None => None,
        }
    }

    /// Returns whether an UPDATE by hand is kept from changing tasks that another session has taken.
    pub fn guards(&self) -> bool {
        self.guard != Some(false)
    }

    pub fn hook(&self) -> Option<&str> {
        self.on_task_change.as_ref().and_then(|hook| hook.0.as_deref())
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
            "retry":{"limit":5,"backoff":1,"factor":3.0,"max":60},"capacity":7,"on_task_change":"app.changed"}"#;
        let read = features(text).expect("features");
        let written = serde_json::to_string(&read).expect("text");
        assert_eq!(features(&written).expect("features"), read);
        assert_eq!(read.default_zombie(), Some(12_500_000));
        assert_eq!((read.limit(), read.capacity()), (Some(5), Some(7)));
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
    fn sub_queues_are_strict_where_that_is_said() {
        let shown = |text: &str| features(text).expect("features").in_force()["utube"].clone();
        assert_eq!(shown("{}"), json!(false));
        assert_eq!(shown(r#"{"utube": true}"#), json!(true));
        assert_eq!(shown(r#"{"utube": {"strict": false}}"#), json!(true));
        assert_eq!(shown(r#"{"utube": {"strict": true}}"#), json!({"strict": true}));
        let strict = features(r#"{"utube": {"strict": true}}"#).expect("features");
        let plain = features(r#"{"utube": true}"#).expect("features");
        assert!(strict.has_subqueues() && strict.has_strict_subqueues());
        assert!(strict.merge(&Features::default()).has_strict_subqueues());
        assert!(!strict.merge(&plain).has_strict_subqueues() && plain.has_subqueues());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            r#"{"keep": true, "zombie": 5}"#,
            r#"{"utube": true, "pick": "app.pick"}"#,
            r#"{"utube": {"strict": true}, "pick": "app.pick"}"#,
            r#"{"utube": 1}"#,
            r#"{"utube": {}}"#,
            r#"{"utube": {"strict": 1}}"#,
            r#"{"utube": {"strict": true, "x": 1}}"#,
            r#"{"retry": {"limit": 0}}"#,
            r#"{"retry": {"limit": 5}, "buried": false}"#,
            r#"{"retry": {"factor": 0.5}}"#,
            r#"{"retry": {"colour": 1}}"#,
            r#"{"retry": 5}"#,
            r#"{"ttl": -1}"#,
            r#"{"ttl": {}}"#,
            r#"{"ttr": 1e12}"#,
            r#"{"capacity": 0}"#,
            r#"{"capacity": 1.5}"#,
            r#"{"capacity": true}"#,
            r#"{"id": 5}"#,
            r#"{"id": ""}"#,
            r#"{"on_task_change": true}"#,
            r#"{"pick": 5}"#,
        ] {
            assert!(features(text).is_err(), "{text}");
        }
    }
}
