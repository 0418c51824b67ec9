//! What a real server has done, held against the [`rules`](super::rules) that the model explores: each event of its
//! trace (src/trace) has to be a step that the state before permits, and what is left in the end what the table has.

use super::rules::{Row, Rules, Step};
use crate::tampering::Tampering;
use crate::trace;
use serde::{Deserialize, Deserializer};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// A session's identifier.
pub type Uuid = u128;

/// An event, as a line of the log describes it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Event {
    /// In the order in which all could have happened one after the other. Those of one transaction have one.
    #[serde(skip)]
    pub number: u64,
    #[serde(rename = "do")]
    pub verb: Verb,
    /// The session that acts; None for one that has never held a task, and for the worker.
    #[serde(default, deserialize_with = "uuid")]
    pub by: Option<Uuid>,
    #[serde(default)]
    pub task: String,
    /// Of the lease that begins, goes on or ends: its session, attempt and deadline.
    #[serde(default, deserialize_with = "uuid")]
    pub owner: Option<Uuid>,
    #[serde(default)]
    pub attempt: Option<usize>,
    #[serde(default)]
    pub until: Option<i64>,
    /// The deadline before it was put off.
    #[serde(default)]
    pub before: Option<i64>,
    /// The clock.
    #[serde(default)]
    pub at: i64,
}

/// A step. Whatever else a server may log is refused: it is in no model.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Begin,
    End,
    Put,
    Take,
    Ack,
    Release,
    Touch,
    Snatch,
    /// Given back by the worker, as the session has ended.
    Session,
    /// Given back, as the time to run was over.
    Ttr,
}

fn uuid<'de, D: Deserializer<'de>>(text: D) -> Result<Option<Uuid>, D::Error> {
    use serde::de::Error;
    let text = Option::<String>::deserialize(text)?;
    let number = |text: String| Uuid::from_str_radix(&text.replace('-', ""), 16);
    text.map(number).transpose().map_err(Error::custom)
}

/// The events in a server's log, in their order.
pub fn events(log: &str) -> Vec<Event> {
    let events = trace::events(log, None).into_iter();
    events.map(|(number, event)| Event { number, ..event }).collect()
}

/// Why an event is no step, or the end is not that of the server.
#[derive(Debug)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tasks of a table by their keys, with their owners.
pub type Left = HashMap<String, Option<Uuid>>;

/// What there is after some events.
#[derive(Default)]
pub struct Replay<'trace> {
    tasks: HashMap<&'trace str, Task>,
    /// Whether they are there yet.
    sessions: HashMap<Uuid, bool>,
}

struct Task {
    row: Row<Uuid>,
    attempts: usize,
    deadline: Option<i64>,
}

impl Default for Task {
    fn default() -> Task {
        Task { row: Row::Gone, attempts: 0, deadline: None }
    }
}

impl Task {
    /// The step that an event is, with the conditions that are none of the row's alone.
    fn step_of(
        &self,
        event: &Event,
        sessions: &HashMap<Uuid, bool>,
    ) -> Result<Step<Uuid>, &'static str> {
        let is_there = |session: Uuid| sessions.get(&session) == Some(&true);
        if event.by.is_some_and(|session| !is_there(session)) {
            return Err("the session is not there");
        }
        let deadline = if event.verb == Verb::Touch { event.before } else { event.until };
        if self.row.lease().is_some() && deadline != self.deadline {
            return Err("the lease has another deadline");
        }
        let by = || event.by.ok_or("it is done by no session");
        let attempt = event.attempt.unwrap_or_default();
        match event.verb {
            Verb::Put => Ok(Step::Put),
            Verb::Take if attempt != self.attempts + 1 => Err("it is another attempt"),
            Verb::Take if event.owner != event.by => Err("it is taken for another session"),
            Verb::Take => Ok(Step::Take(by()?, attempt)),
            Verb::Ack => Ok(Step::Ack(by()?, attempt)),
            Verb::Release => Ok(Step::Release(by()?, attempt)),
            Verb::Touch if event.until <= event.before => Err("it has no more time"),
            Verb::Touch => Ok(Step::Touch(by()?)),
            Verb::Snatch => Ok(Step::Snatch),
            Verb::Ttr => Ok(Step::ReturnOverdue),
            Verb::Session => match event.owner.map(|owner| (owner, sessions.get(&owner))) {
                Some((owner, Some(false))) => Ok(Step::ReturnOf(owner)),
                _ => Err("the session has not ended"),
            },
            Verb::Begin | Verb::End => Err("it is about no task"),
        }
    }

    fn change(
        &mut self,
        event: &Event,
        sessions: &HashMap<Uuid, bool>,
    ) -> Result<(), &'static str> {
        if event.verb == Verb::Ttr && self.deadline.is_some_and(|deadline| deadline <= event.at) {
            self.row.expire();
        }
        let step = self.step_of(event, sessions)?;
        if !Rules::ALL.permit(&self.row, step) {
            return Err("the row does not permit it");
        }
        self.row = self.row.after(step);
        self.deadline = event.until.filter(|_| self.row.lease().is_some());
        match event.verb {
            Verb::Put => self.attempts = 0,
            Verb::Take => self.attempts += 1,
            // It uses up no attempt.
            Verb::Snatch => self.attempts = self.attempts.saturating_sub(1),
            _ => {}
        }
        Ok(())
    }
}

impl<'trace> Replay<'trace> {
    /// Replays a trace from an empty table to the tasks that are there in the end, with their owners, and to the end
    /// of all sessions.
    pub fn run(trace: impl IntoIterator<Item = &'trace Event>, left: &Left) -> Result<(), Refusal> {
        let mut replay = Replay::default();
        for event in trace {
            replay.step(event).map_err(|why| Refusal(format!("{why}: {event:?}")))?;
        }
        replay.end(left)
    }

    fn step(&mut self, event: &'trace Event) -> Result<(), &'static str> {
        let session = event.by.unwrap_or_default();
        match event.verb {
            Verb::Begin => match self.sessions.insert(session, true) {
                Some(_) => Err("the session has begun before"),
                None => Ok(()),
            },
            Verb::End => match self.sessions.insert(session, false) {
                Some(true) => Ok(()),
                _ => Err("the session is not there"),
            },
            _ => self.tasks.entry(&event.task).or_default().change(event, &self.sessions),
        }
    }

    fn end(&self, left: &Left) -> Result<(), Refusal> {
        if let Some((session, _)) = self.sessions.iter().find(|(_, is_there)| **is_there) {
            return Err(Refusal(format!("session {session:x} is there yet")));
        }
        let there = self.tasks.iter().filter(|(_, task)| task.row != Row::Gone);
        let there: HashMap<&str, Option<Uuid>> =
            there.map(|(key, task)| (*key, task.row.lease().map(|lease| lease.owner))).collect();
        let left = left.iter().map(|(key, owner)| (key.as_str(), *owner)).collect();
        if there == left {
            return Ok(());
        }
        let differs = |key: &&&str| there.get(**key) != left.get(**key);
        let keys: HashSet<&&str> = there.keys().chain(left.keys()).collect();
        let differing: Vec<_> = keys.iter().map(|key| **key).filter(|key| differs(&key)).collect();
        Err(Refusal(format!("tasks {differing:?} are not in the table as the trace leaves them")))
    }
}

/// Returns all that can be done to one event of a trace: dropped, doubled, and swapped with the next event of the
/// same task, or with the beginning or the end of its session.
pub fn tamperings(trace: &[Event]) -> Vec<Tampering> {
    let mut all = Vec::with_capacity(3 * trace.len());
    let mut last_of_task: HashMap<&str, usize> = HashMap::new();
    let mut last_of_session: HashMap<Uuid, usize> = HashMap::new();
    for (index, event) in trace.iter().enumerate() {
        all.extend([Tampering::Dropped(index), Tampering::Doubled(index)]);
        let is_of_session = matches!(event.verb, Verb::Begin | Verb::End);
        let before = match is_of_session {
            true => event.by.and_then(|session| last_of_session.get(&session).copied()),
            false => last_of_task.insert(&event.task, index),
        };
        all.extend(before.map(|before| Tampering::Swapped(before, index)));
        if let Some(session) = event.by {
            let begun = last_of_session.insert(session, index);
            let begun = begun.filter(|begun| trace[*begun].verb == Verb::Begin);
            let begun = begun.filter(|_| !is_of_session);
            all.extend(begun.map(|begun| Tampering::Swapped(begun, index)));
        }
    }
    all
}
