//! Random features of a queue, and their consequences for the model.

use rand::Rng;
use rand::rngs::StdRng;
use xqueue_tests::{Value, json};

use super::model::Time;

/// A feature with an optional default time: off, on, on with a default of an hour.
pub type Timed = Option<bool>;

#[derive(Clone, Debug)]
pub struct Features {
    pub delayed: bool,
    pub buried: bool,
    pub keep: bool,
    pub zombie: Timed,
    pub ttl: Timed,
    pub ttr: Timed,
    pub priority: bool,
    pub tube: bool,
    pub retry: Option<Retry>,
}

#[derive(Clone, Debug)]
pub struct Retry {
    pub limit: Option<i64>,
    pub backoff: bool,
}

impl Features {
    pub fn random(random: &mut StdRng) -> Features {
        let mut timed = |chance| random.random_bool(chance).then(|| random.random_bool(0.5));
        let (zombie, ttl, ttr) = (timed(0.4), timed(0.6), timed(0.6));
        let retry = random.random_bool(0.6).then(|| Retry {
            limit: random.random_bool(0.6).then(|| random.random_range(1..4)),
            backoff: random.random_bool(0.5),
        });
        let is_limited = retry.as_ref().is_some_and(|retry| retry.limit.is_some());
        Features {
            delayed: random.random_bool(0.7),
            buried: is_limited || random.random_bool(0.7),
            keep: zombie.is_none() && random.random_bool(0.5),
            zombie,
            ttl,
            ttr,
            priority: random.random_bool(0.5),
            tube: random.random_bool(0.5),
            retry,
        }
    }

    /// Returns the options for `upgrade`.
    pub fn options(&self) -> Value {
        let timed = |timed: Timed| match timed {
            None => json!(false),
            Some(false) => json!(true),
            Some(true) => json!("1 hour"),
        };
        let retry = match &self.retry {
            None => json!(false),
            Some(Retry { limit: None, backoff: false }) => json!(true),
            Some(Retry { limit: None, backoff: true }) => json!({"backoff": 3600}),
            Some(Retry { limit, backoff: false }) => json!({"limit": limit}),
            Some(Retry { limit, backoff: true }) => json!({"limit": limit, "backoff": 3600}),
        };
        json!({
            "delayed": self.delayed, "buried": self.buried, "keep": self.keep,
            "zombie": timed(self.zombie), "ttl": timed(self.ttl), "ttr": timed(self.ttr),
            "priority": self.priority, "tube": self.tube, "retry": retry,
        })
    }

    pub fn has(&self, status: char) -> bool {
        match status {
            'R' | 'T' => true,
            'W' => self.delayed || self.backs_off(),
            'B' => self.buried,
            'Z' => self.zombie.is_some(),
            'D' => self.keep,
            _ => false,
        }
    }

    /// Returns the end of a life that begins now.
    pub fn new_life(&self) -> Option<Time> {
        (self.ttl == Some(true)).then_some(Time::Future)
    }

    pub fn backs_off(&self) -> bool {
        self.retry.as_ref().is_some_and(|retry| retry.backoff)
    }

    pub fn limit(&self) -> Option<i64> {
        self.retry.as_ref().and_then(|retry| retry.limit)
    }

    /// Returns whether the table has a column for the next due time.
    pub fn has_runat(&self) -> bool {
        self.delayed || self.zombie.is_some() || self.ttr.is_some() || self.backs_off()
    }

    /// Returns whether an ack deletes the task.
    pub fn ack_deletes(&self, has_delay: bool) -> bool {
        let lingers = self.zombie.is_some() && (has_delay || self.zombie == Some(true));
        !(self.keep || lingers)
    }
}
