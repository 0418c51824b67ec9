//! What a real server has done with its sub-queues, held against the [`rules`](super::rules): each step of its trace
//! (src/trace/claims.rs) has to be one that the state before permits, and leave the state that the rules say.
//!
//! The numbers of steps are drawn under the lock of all sub-queues in shared memory: their order is that in which this
//! was changed, so each step finds what the one before it has left. The numbers of changed tasks are drawn in
//! PRE_COMMIT (src/trace/mod.rs). Three things follow from both, and are checked:
//! - After each number, one task of a sub-queue is in flight at the most. A transaction that takes a second one has
//!   seen that the first is settled, in a snapshot or by waiting for that in the unique index: the other had drawn
//!   its number.
//! - While a sub-queue that is clear is free, none of its tasks is in flight. A take by hand claims it, or says that
//!   it is not clear, before it draws its number. It is free again by the callback of a transaction that has settled
//!   the task, and drawn its number before.
//! - When all processes have gone, all callbacks have run: no sub-queue is claimed, one that is busy has a task in
//!   flight, and one that has something to take is in the ring.
//!
//! The trace is that of one queue without priorities, from its beginning, with room for all sub-queues and without
//! prepared transactions.

use super::rules::{Act, Entry, Move, Refused, State, Subqueue};
use crate::model::status::Status;
use crate::tampering::Tampering;
use crate::trace;
use serde::Deserialize;
use std::collections::{HashMap, VecDeque};
use std::fmt;

/// An event, as a line of the log describes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Step(Box<Step>),
    Task(Task),
}

/// A step in shared memory.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Step {
    /// The queue's slot.
    pub slot: (u32, u64),
    pub subqueue: Option<u64>,
    /// The process.
    pub by: i32,
    #[serde(flatten)]
    pub act: Act,
    pub was: Seen,
    pub is: Seen,
}

/// What is known in shared memory.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Seen {
    pub ring: Option<Ring>,
    pub subqueue: Option<Entry>,
}

/// What is known of a queue's ring, beside its order.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Ring {
    pub waiting: usize,
    pub incomplete: bool,
    pub unclaimed: bool,
    pub invalidations: u64,
    pub pass: u64,
    pub cursor: i64,
}

/// A change of a task that is committed.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Task {
    #[serde(rename = "do")]
    pub call: String,
    pub task: String,
    pub from: Option<Place>,
    pub to: Option<Place>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub struct Place {
    pub status: Status,
    pub tube: Option<u64>,
}

impl Place {
    fn is_in_flight(&self) -> bool {
        self.status == Status::Taken
    }
}

impl Event {
    /// Whether it has changed nothing, neither in shared memory nor of a task.
    pub fn changes_nothing(&self) -> bool {
        match self {
            Event::Step(step) => step.was == step.is,
            Event::Task(task) => task.from == task.to,
        }
    }
}

/// What is traced of leases.
#[derive(Deserialize)]
#[serde(untagged)]
enum Leases {
    Task(Task),
    Session {
        #[serde(rename = "do")]
        _verb: Verb,
    },
}

#[derive(Deserialize)]
enum Verb {
    Begin,
    End,
}

/// The events in a server's log, in their order.
pub fn events(log: &str) -> Vec<Event> {
    let steps = trace::events(log, Some("claims")).into_iter();
    let tasks = trace::events(log, None).into_iter();
    let tasks = tasks.filter_map(|(number, event)| match event {
        Leases::Task(task) => Some((number, Event::Task(task))),
        Leases::Session { .. } => None,
    });
    let mut all: Vec<_> =
        steps.map(|(number, step)| (number, Event::Step(Box::new(step)))).chain(tasks).collect();
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, event)| event).collect()
}

/// Why an event is no step, or the end is not that of the server.
#[derive(Debug)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tasks of a table by their keys.
pub type Left = HashMap<String, Status>;

/// What there is after some events.
#[derive(Clone, Default)]
pub struct Replay {
    slot: Option<(u32, u64)>,
    ring: Option<Ring>,
    /// The sub-queues in the ring, in their order.
    waiting: VecDeque<u64>,
    subqueues: HashMap<u64, Subqueue>,
    tasks: HashMap<String, Place>,
}

impl Replay {
    /// Replays a trace from an empty table to the tasks that are there in the end.
    pub fn run<'e>(trace: impl IntoIterator<Item = &'e Event>, left: &Left) -> Result<(), Refusal> {
        Replay::default().go_on(trace, left)
    }

    /// Replays events from this state on.
    pub fn go_on<'e>(
        mut self,
        trace: impl IntoIterator<Item = &'e Event>,
        left: &Left,
    ) -> Result<(), Refusal> {
        trace.into_iter().try_for_each(|event| self.step(event))?;
        self.end(left)
    }

    pub fn step(&mut self, event: &Event) -> Result<(), Refusal> {
        let done = match event {
            Event::Step(step) => self.act(step),
            Event::Task(task) => self.change(task),
        };
        done.map_err(|why| Refusal(format!("{why}: {event:?}")))
    }

    fn act(&mut self, step: &Step) -> Refused<()> {
        if step.act == Act::Open {
            if self.ring.is_some() {
                return Err("there is a ring already");
            }
            *self = Replay { tasks: std::mem::take(&mut self.tasks), ..Replay::default() };
            self.slot = Some(step.slot);
            self.ring = step.is.ring.clone();
            let is_new = |ring: &Ring| ring.incomplete && ring.waiting == 0;
            return match step.is.ring.as_ref().is_some_and(is_new) {
                true => Ok(()),
                false => Err("a new ring knows something"),
            };
        }
        if self.slot != Some(step.slot) {
            return Err("it is of another queue");
        }
        self.is_seen(&step.was, step.subqueue, "it finds what the step before has not left")?;
        match step.subqueue {
            Some(subqueue) => self.act_on(subqueue, step)?,
            None => self.act_on_all(&step.act)?,
        }
        if let Some(ring) = &mut self.ring {
            ring.waiting = self.waiting.len();
        }
        self.is_seen(&step.is, step.subqueue, "it leaves what the rules do not say")
    }

    fn is_seen(&self, seen: &Seen, subqueue: Option<u64>, why: &'static str) -> Refused<()> {
        let entry = subqueue.and_then(|subqueue| self.subqueues.get(&subqueue)?.entry.as_ref());
        if seen.ring == self.ring && seen.subqueue.as_ref() == entry { Ok(()) } else { Err(why) }
    }

    fn act_on(&mut self, subqueue: u64, step: &Step) -> Refused<()> {
        if step.act == Act::Next && self.waiting.front() != Some(&subqueue) {
            return Err("it is not the head of the ring");
        }
        let is_in_flight = self.is_in_flight(subqueue);
        let rules = self.subqueues.entry(subqueue).or_default();
        let ring = self.ring.as_mut().ok_or("there is no ring")?;
        let is_claim = matches!(step.act, Act::Next | Act::Claim);
        if is_claim && rules.is_clear() && is_in_flight {
            return Err("it is clear, and a task of it is in flight");
        }
        if step.act == Act::TakeUnclaimed {
            ring.unclaimed |= rules.entry.is_none();
        }
        match rules.step(step.by, &step.act, !ring.unclaimed)? {
            Move::Stays => {}
            Move::ToFront => self.waiting.push_front(subqueue),
            Move::ToTail => self.waiting.push_back(subqueue),
            Move::Leaves => self.waiting.retain(|waiting| *waiting != subqueue),
        }
        Ok(())
    }

    fn act_on_all(&mut self, act: &Act) -> Refused<()> {
        let ring = self.ring.as_mut().ok_or("there is no ring")?;
        match act {
            Act::Reset => {
                let forgotten = self.subqueues.values().filter_map(|of| of.entry.as_ref());
                let mut forgotten = forgotten.filter(|entry| entry.state != State::Claimed);
                ring.unclaimed |= forgotten.any(|entry| entry.unclaimed);
                (ring.incomplete, ring.invalidations) = (true, ring.invalidations + 1);
                self.subqueues.values_mut().for_each(Subqueue::reset);
                self.waiting.clear();
                Ok(())
            }
            Act::Close => {
                self.ring = None;
                self.subqueues.clear();
                self.waiting.clear();
                Ok(())
            }
            // A pass makes the ring complete if it has gone from the first sub-queue to the last, and nothing
            // has come into doubt since it began.
            Act::EndScan { from, invalidations, next } => {
                if *from == ring.cursor {
                    ring.pass = if *from == i64::MIN { *invalidations } else { ring.pass };
                    ring.cursor = next.unwrap_or(i64::MIN);
                    ring.incomplete &= next.is_some() || ring.pass != ring.invalidations;
                }
                Ok(())
            }
            _ => Err("it concerns one sub-queue"),
        }
    }

    fn is_in_flight(&self, subqueue: u64) -> bool {
        self.in_flight(subqueue) > 0
    }

    fn in_flight(&self, subqueue: u64) -> usize {
        let of_subqueue = self.tasks.values().filter(|place| place.tube == Some(subqueue));
        of_subqueue.filter(|place| place.is_in_flight()).count()
    }

    fn change(&mut self, task: &Task) -> Refused<()> {
        if self.tasks.get(&task.task) != task.from.as_ref() {
            return Err("the task is somewhere else");
        }
        match task.to {
            Some(to) => self.tasks.insert(task.task.clone(), to),
            None => self.tasks.remove(&task.task),
        };
        match task.to.and_then(|to| to.tube) {
            Some(subqueue) if self.in_flight(subqueue) > 1 => {
                Err("two tasks of a sub-queue are in flight")
            }
            _ => Ok(()),
        }
    }

    fn end(&self, left: &Left) -> Result<(), Refusal> {
        let there = self.tasks.iter().map(|(key, place)| (key.clone(), place.status));
        if there.collect::<Left>() != *left {
            return Err(Refusal("other tasks are in the table than the trace leaves".into()));
        }
        let is_complete = self.ring.as_ref().is_some_and(|ring| !ring.incomplete);
        let subqueues = self.tasks.values().filter_map(|place| place.tube);
        for subqueue in subqueues.chain(self.subqueues.keys().copied()) {
            let state = self.subqueues.get(&subqueue).and_then(Subqueue::state);
            let is_ready = |place: &Place| place.status == Status::Ready;
            let has_ready =
                self.tasks.values().any(|place| place.tube == Some(subqueue) && is_ready(place));
            let why = match (state, self.is_in_flight(subqueue)) {
                (Some(State::Claimed), _) => "is claimed by one that has gone",
                (Some(State::Busy), false) => "is busy, and no task of it is in flight",
                (None | Some(State::Idle), false) if has_ready && is_complete => "is forgotten",
                _ => continue,
            };
            return Err(Refusal(format!("sub-queue {subqueue} {why}")));
        }
        Ok(())
    }
}

/// Returns whether a tampering describes the same history: only events that change nothing are concerned, and each
/// finds what it would find without the tampering.
pub fn is_harmless(tampering: Tampering, trace: &[Event]) -> bool {
    match tampering {
        Tampering::Dropped(index) | Tampering::Doubled(index) => trace[index].changes_nothing(),
        Tampering::Swapped(one, other) => {
            trace[one].changes_nothing() && trace[other].changes_nothing()
        }
    }
}

/// Returns all that can be done to one event of a trace: each event may be swapped with the one before it of the same
/// sub-queue or task; with each, whether the trace is then refused.
pub fn tamperings(trace: &[Event], left: &Left) -> Vec<(Tampering, bool)> {
    let mut last: HashMap<Subject, usize> = HashMap::new();
    let mut all: Vec<Tampering> = Vec::with_capacity(3 * trace.len());
    for (index, event) in trace.iter().enumerate() {
        all.extend(Tampering::of_event(index, last.insert(Subject::of(event), index)));
    }
    all.sort_by_key(|tampering| tampering.begins());
    let (mut replay, mut done) = (Replay::default(), 0);
    let is_refused = |tampering: Tampering| {
        while done < tampering.begins() {
            replay.step(&trace[done]).expect("the trace is a good one");
            done += 1;
        }
        let replayed = replay.clone().go_on(tampering.rest(trace), left);
        (tampering, replayed.is_err())
    };
    all.into_iter().map(is_refused).collect()
}

/// What an event is about.
#[derive(PartialEq, Eq, Hash)]
enum Subject<'e> {
    Subqueue(Option<u64>),
    Task(&'e str),
}

impl Subject<'_> {
    fn of(event: &Event) -> Subject<'_> {
        match event {
            Event::Step(step) => Subject::Subqueue(step.subqueue),
            Event::Task(task) => Subject::Task(&task.task),
        }
    }
}
