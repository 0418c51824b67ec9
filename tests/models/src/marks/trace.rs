//! What a server's log says of marks, and of the tasks that they are about.

use super::rules::{Limits, position};
use crate::model::position::Position;
pub use crate::model::status::Status;
use crate::trace;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// In the order of the numbers. All changes of one transaction have one number.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub number: u64,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A committed transaction has changed a task.
    Changed(Change),
    /// One that was prepared has.
    Prepared(Change),
    Step(Box<Step>),
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Change {
    /// The number of the queue's slot, which none has had before.
    pub slot: u64,
    pub queue: String,
    pub task: String,
    /// The state before; None if it was not there, or is not any more.
    #[serde(deserialize_with = "status")]
    pub from: Option<Status>,
    #[serde(deserialize_with = "status")]
    pub to: Option<Status>,
    /// Where it stands, if it is ready or buried.
    pub stand: Option<Stand>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Stand(pub Noted, #[serde(deserialize_with = "position")] pub Position);

/// As what a transaction notes a task that it has made ready, or buried.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Noted {
    /// Ready, of a tube or a priority.
    Ready,
    Buried,
    /// Ready; stands for tasks of every kind where there is no room to note more, and lowers both marks.
    Any,
}

/// Which of the two marks.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    Ready,
    Buried,
}

/// A step at a queue's slot, under its lock.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Step {
    pub slot: u64,
    pub before: Seen,
    pub after: Seen,
    #[serde(flatten)]
    pub verb: Verb,
}

/// The part of a slot that the steps are about.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Seen {
    pub ready: Limits,
    pub buried: Limits,
    /// A prepared transaction may have changed the table.
    pub prepared: bool,
    /// The worker is looking whether one has.
    pub looking: bool,
}

/// Whatever else a server may log is refused: it is in no model.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "do")]
pub enum Verb {
    /// A process begins to raise a mark.
    Start { group: Group, since: i64, by: i32 },
    /// It ends that. Nothing is found where the look has failed.
    End {
        group: Group,
        since: i64,
        by: i32,
        #[serde(deserialize_with = "optional")]
        found: Option<Position>,
    },
    /// A commit lowers the marks to the first places of its tasks, or forgets them, as it has changed the table.
    Lower {
        commit: u64,
        #[serde(deserialize_with = "optional")]
        ready: Option<Position>,
        #[serde(deserialize_with = "optional")]
        buried: Option<Position>,
        forgets: bool,
    },
    /// Marks are forgotten: consumers that wait beside ready tasks had better look everywhere.
    Forget,
    /// At PRE_PREPARE, and again at PREPARE.
    Prepare { commit: u64 },
    /// The worker begins to look for prepared transactions.
    Clear,
    /// It has found some, or none.
    Settle { found: bool },
    /// After that it has found some, and marked the slot for it, unless it was marked meanwhile.
    Forbid,
}

fn status<'de, D: Deserializer<'de>>(place: D) -> Result<Option<Status>, D::Error> {
    #[derive(Deserialize)]
    struct Place {
        status: Status,
    }
    Ok(Option::<Place>::deserialize(place)?.map(|place| place.status))
}

fn optional<'de, D: Deserializer<'de>>(text: D) -> Result<Option<Position>, D::Error> {
    let text = Option::<String>::deserialize(text)?;
    text.map(|text| text.parse()).transpose().map_err(serde::de::Error::custom)
}

/// The events in a server's log, in their order.
pub fn events(log: &str) -> Vec<Event> {
    let event = |(number, what)| Event { number, what };
    let changes = |part, what: fn(Change) -> What| {
        let of_task = |(number, event): (u64, Value)| {
            // Else it is of a session.
            event.get("task")?;
            let change = serde_json::from_value(event).unwrap_or_else(|e| panic!("{number}: {e}"));
            Some((number, change))
        };
        let changes = trace::events::<Value>(log, part).into_iter().filter_map(of_task);
        changes.map(move |(number, change)| event((number, what(change))))
    };
    let steps = trace::events::<Step>(log, Some("marks")).into_iter();
    let steps = steps.map(|(number, step)| event((number, What::Step(Box::new(step)))));
    let mut events: Vec<Event> = changes(None, What::Changed)
        .chain(changes(Some("prepared"), What::Prepared))
        .chain(steps)
        .collect();
    events.sort_by_key(|event| event.number);
    events
}
