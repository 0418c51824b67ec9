//! What a real server has done, held against the [`rules`](super::rules) that the model explores: each event of its
//! trace (src/parts/waiters/traced.rs) has to be a step that the state before permits.
//!
//! The wait queue is known here only by the processes that have joined and left it. Which process is woken follows
//! from that, and what becomes of each token from the looks: so a wake-up out of order, and a token that vanishes or
//! comes from nothing, are no steps.

use super::rules::{Knows, Rules, Vain};
use crate::trace;
use serde::Deserialize;
use std::collections::{HashMap, VecDeque};

pub type Process = u32;
pub type Number = u64;

/// Wakes all that wait.
const ALL: u32 = u32::MAX;

/// An event, as a line of the log describes it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Event {
    pub by: Process,
    pub queue: u32,
    /// The number of the last wake-up; none where it is no step of the line.
    #[serde(default)]
    pub wakes: Option<Number>,
    #[serde(flatten)]
    pub step: Step,
}

/// A step. Whatever else a server may log is refused: it is in no model.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "do")]
pub enum Step {
    /// Joins the wait queue at `place`, to look for the task that a token announces.
    Join {
        place: usize,
        since: i64,
        token: Option<Number>,
        of_any: bool,
    },
    Look,
    Found,
    /// A look in vain has ended.
    EndVain {
        token: Option<Number>,
        kept: Option<Number>,
        by_caller: bool,
        looks_again: bool,
    },
    /// Consumers are to be woken.
    Wake {
        why: String,
        count: u32,
    },
    /// A token goes on, unless nothing is ready.
    PassOn {
        number: Number,
        is_empty: bool,
    },
    /// All sleeping consumers are to look once more, whatever they have been told.
    Nudge {},
    /// A process is removed from the wait queue, with a token; 0 stands for a wake-up that is not handed on.
    Notify {
        who: Process,
        number: Number,
    },
    /// It was woken while it had a token; with whether others may find what it does not.
    Again {
        by_caller: bool,
    },
    /// Leaves the line, with the tokens that it has not used; each with whether others may find what it does not.
    Leave {
        unused: Option<(Number, bool)>,
        another: Option<(Number, bool)>,
    },
}

impl Step {
    pub fn name(&self) -> &'static str {
        match self {
            Step::Join { token: None, .. } => "Join",
            Step::Join { .. } => "Stand",
            Step::Look => "Look",
            Step::Found => "Found",
            Step::EndVain { looks_again: true, .. } => "LookAgain",
            Step::EndVain { .. } => "Sleep",
            Step::Wake { why, .. } => match why.as_str() {
                "Commit" => "Wake for a commit",
                "Undo" => "Wake for a rollback",
                "HandOn" => "Wake as handed on",
                _ => "Wake",
            },
            Step::PassOn { .. } => "PassOn",
            Step::Nudge {} => "Nudge",
            Step::Notify { number: 0, .. } => "Notify by a nudge",
            Step::Notify { .. } => "Notify",
            Step::Again { .. } => "Again",
            Step::Leave { unused: None, another: None } => "Leave",
            Step::Leave { .. } => "Leave with a token",
        }
    }
}

/// The events in a server's log, in their order.
pub fn events(log: &str) -> Vec<Event> {
    trace::events(log, Some("wake-ups")).into_iter().map(|(_, event)| event).collect()
}

/// What a consumer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has joined, or is to look again.
    Stands,
    Looks,
    Found,
    Sleeps,
}

#[derive(Debug)]
struct Consumer {
    phase: Phase,
    since: i64,
    knows: Knows<Number>,
}

/// What a step of a process leads to at once, under the same lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    HandOn,
    PassOn(Number),
    Notify(Process, Number),
}

#[derive(Default)]
struct Queue {
    line: Vec<Process>,
    consumers: HashMap<Process, Consumer>,
    wakes: Number,
    due: VecDeque<(Process, Due)>,
    /// Process that nudges.
    nudges: Option<Process>,
}

/// What there is after some events.
#[derive(Default)]
pub struct Replay {
    queues: HashMap<u32, Queue>,
}

type Judged = Result<(), &'static str>;

/// An error unless a condition holds.
fn holds(condition: bool, otherwise: &'static str) -> Judged {
    if condition { Ok(()) } else { Err(otherwise) }
}

impl Replay {
    /// Replays a trace from the server's start to a state at rest, in which `sleepers` consumers sleep in all wait
    /// queues and there are `ready` ready tasks.
    pub fn run<'a>(
        trace: impl IntoIterator<Item = &'a Event>,
        sleepers: usize,
        ready: usize,
    ) -> Result<(), String> {
        let mut replay = Replay::default();
        for (index, event) in trace.into_iter().enumerate() {
            let queue = replay.queues.entry(event.queue).or_default();
            queue.step(event).map_err(|why| format!("{why}: event {index}, {event:?}"))?;
        }
        replay.queues.values().try_for_each(Queue::is_at_rest)?;
        let left: usize = replay.queues.values().map(|queue| queue.line.len()).sum();
        holds(left == sleepers, "there are others in line")?;
        holds(left == 0 || ready == 0, "a consumer sleeps beside a ready task")?;
        Ok(())
    }
}

impl Queue {
    fn is_at_rest(&self) -> Judged {
        holds(self.due.is_empty(), "a token has vanished")?;
        for consumer in self.consumers.values() {
            let Knows { token, woken, .. } = consumer.knows;
            holds(consumer.phase == Phase::Sleeps, "a consumer in line does not sleep")?;
            holds(token.is_none() && woken.is_none(), "a consumer sleeps with a token")?;
        }
        Ok(())
    }

    fn consumer(&mut self, process: Process) -> Result<&mut Consumer, &'static str> {
        self.consumers.get_mut(&process).ok_or("it is in no line")
    }

    /// Takes the step that is due, if this is one.
    fn is_due(&mut self, by: Process, due: Due) -> Judged {
        holds(self.due.pop_front() == Some((by, due)), "it does not follow from anything")
    }

    fn step(&mut self, event: &Event) -> Judged {
        let by = event.by;
        let follows =
            matches!(event.step, Step::Wake { .. } | Step::PassOn { .. } | Step::Notify { .. });
        let is_of_line = event.wakes.is_some();
        holds(!is_of_line || follows || self.due.is_empty(), "a token has vanished")?;
        if is_of_line && !matches!(event.step, Step::Notify { .. }) {
            self.nudges = None;
        }
        let is_wake = matches!(event.step, Step::Wake { .. });
        let last = self.wakes + Number::from(is_wake);
        holds(event.wakes.is_none_or(|wakes| wakes == last), "a wake-up is missing")?;
        self.wakes = last;
        match &event.step {
            Step::Join { place, since, token, of_any } => {
                holds(*of_any, "it waits for something that is in no model")?;
                self.join(by, *place, *since, *token)
            }
            Step::Look => {
                let consumer = self.consumer(by)?;
                let may_look = std::mem::replace(&mut consumer.phase, Phase::Looks);
                holds(may_look == Phase::Stands, "it does not stand in line to look")
            }
            Step::Found => {
                let consumer = self.consumer(by)?;
                let looked = std::mem::replace(&mut consumer.phase, Phase::Found);
                holds(looked == Phase::Looks, "it has not looked")
            }
            Step::EndVain { token, kept, by_caller, looks_again } => {
                self.end_vain(by, (*token, *kept), *by_caller, *looks_again)
            }
            Step::Wake { why, count } => self.wake(by, why == "HandOn", *count),
            Step::PassOn { number, is_empty } => self.pass_on(by, *number, *is_empty),
            Step::Nudge {} => {
                self.nudges = Some(by);
                Ok(())
            }
            Step::Notify { who, number } => self.notify(by, *who, *number),
            Step::Again { by_caller } => {
                let knows = &mut self.consumer(by)?.knows;
                let unused = knows.token.take().ok_or("it has no token")?;
                holds(knows.woken.is_some(), "it was not woken")?;
                let due = if *by_caller { Due::PassOn(unused) } else { Due::HandOn };
                self.due.push_back((by, due));
                Ok(())
            }
            Step::Leave { unused, another } => self.leave(by, *unused, *another),
        }
    }

    fn join(&mut self, by: Process, place: usize, since: i64, token: Option<Number>) -> Judged {
        let last = self.wakes;
        match self.consumers.get(&by) {
            None => holds(token.is_none(), "a token from nothing")?,
            Some(Consumer { phase, since: before, knows }) => {
                holds(knows.woken.is_some(), "it stands in line already")?;
                // Where its time was over when the look ended, nothing has followed from that.
                let may_stand = matches!(phase, Phase::Sleeps | Phase::Looks);
                holds(may_stand, "it has not slept")?;
                holds(knows.token.is_none(), "it keeps a token")?;
                holds(knows.woken == token, "it looks for another task")?;
                holds(since == *before, "its place is another")?;
            }
        }
        let stands_before = |other: &&Process| self.consumers[*other].since <= since;
        let before = self.line.iter().take_while(stands_before).count();
        holds(place == before, "it does not stand in its place")?;
        self.line.insert(place, by);
        let knows = Knows { token, woken: None, seen: last };
        self.consumers.insert(by, Consumer { phase: Phase::Stands, since, knows });
        Ok(())
    }

    fn end_vain(
        &mut self,
        by: Process,
        (token, kept): (Option<Number>, Option<Number>),
        by_caller: bool,
        looks_again: bool,
    ) -> Judged {
        let last = self.wakes;
        let consumer = self.consumer(by)?;
        holds(consumer.phase == Phase::Looks, "it has not looked since it joined the line")?;
        holds(consumer.knows.token == token, "it has looked for another task")?;
        let follows = Rules::ALL.vain(consumer.knows, last, by_caller);
        let Vain { passed, .. } = follows;
        let told = Vain { looks_again, kept, passed };
        holds(follows == told, "something else follows from its look")?;
        (consumer.knows.token, consumer.knows.seen) = (kept, last);
        consumer.phase = if looks_again { Phase::Stands } else { Phase::Sleeps };
        self.due.extend(passed.map(|number| (by, Due::PassOn(number))));
        Ok(())
    }

    fn wake(&mut self, by: Process, is_handed_on: bool, count: u32) -> Judged {
        if is_handed_on {
            self.is_due(by, Due::HandOn)?;
            holds(count == 1, "one token has become several")?;
        } else {
            holds(self.due.is_empty(), "a token has vanished")?;
        }
        let count = if count == ALL { self.line.len() } else { count as usize };
        let woken = self.line.iter().take(count);
        let due: Vec<_> = woken.map(|who| (by, Due::Notify(*who, self.wakes))).collect();
        // Before what else the step leads to.
        due.into_iter().rev().for_each(|due| self.due.push_front(due));
        Ok(())
    }

    fn pass_on(&mut self, by: Process, number: Number, is_empty: bool) -> Judged {
        self.is_due(by, Due::PassOn(number))?;
        if is_empty || number == 0 {
            return Ok(());
        }
        let last = self.wakes;
        let may_have = |who: &&Process| Rules::ALL.may_go_to(self.consumers[*who].knows.seen, last);
        let next = self.line.iter().find(may_have).copied();
        if let Some(who) = next {
            self.due.push_front((by, Due::Notify(who, last)));
        }
        Ok(())
    }

    fn notify(&mut self, by: Process, who: Process, number: Number) -> Judged {
        match number {
            0 => holds(self.nudges == Some(by) && self.due.is_empty(), "a token from nothing")?,
            _ => self.is_due(by, Due::Notify(who, number))?,
        }
        let place = self.line.iter().position(|other| *other == who);
        self.line.remove(place.ok_or("it is not in line")?);
        self.consumer(who)?.knows.woken = Some(number);
        Ok(())
    }

    fn leave(
        &mut self,
        by: Process,
        unused: Option<(Number, bool)>,
        another: Option<(Number, bool)>,
    ) -> Judged {
        let Consumer { phase, knows, .. } = self.consumers.remove(&by).ok_or("it is in no line")?;
        let tokens = Rules::ALL.left(knows, phase == Phase::Found);
        let told = [unused, another].map(|token| token.map(|(number, _)| number));
        holds(told == tokens, "a token has vanished, or come from nothing")?;
        self.line.retain(|other| *other != by);
        let handed = [unused, another].into_iter().flatten().map(|(number, by_caller)| {
            let due = if by_caller { Due::PassOn(number) } else { Due::HandOn };
            (by, due)
        });
        self.due.extend(handed);
        Ok(())
    }
}
