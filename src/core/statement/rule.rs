//! The effect of each verb, defined once: the tasks it applies to, and the new values of their fields. Two interpreters
//! read these rules: [`super::assign`] turns them into SQL, `write::assign` of the extension computes the values for
//! the direct path.

use crate::field::Field;
use crate::statement::{Parameter, Put, Step, Table, Verb};
use crate::status::Status;
use crate::time_column::ENDLESS;

/// The new value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assignment {
    pub field: Field,
    pub value: Assigned,
    /// Replaces `value` if the failed attempt was the last.
    pub after_last: Assigned,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Assigned {
    State(Status),
    Null,
    Argument(Parameter),
    /// The current time, plus one or two lengths.
    Later(Length, Option<Length>),
    /// The old value plus a length; beyond the year 200,000 it stays.
    PutOff(Length),
    /// The old value plus one, up to the maximum of the column's type.
    OneMore,
    /// The old value minus one, down to zero.
    OneLess,
    /// The end of a new life if the task was in a final state. Otherwise the old end of life, put off by the delay.
    Renewed {
        delay: bool,
    },
    /// The reason of a burial: the kind of failure, the limit of attempts, and the error that the caller gives.
    Burial(&'static str, u32, Option<Parameter>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    Argument(Parameter),
    Microseconds(i64),
    /// The task's own time to run, or the default in microseconds; NULL without either.
    OwnTtr(Option<i64>),
    /// The delay before the next attempt.
    Backoff,
}

/// The tasks that a verb applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applies {
    pub states: States,
    /// Only tasks that the caller's session holds.
    pub own: bool,
    /// Only tasks whose life has not ended.
    pub alive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum States {
    Any,
    OneOf(&'static [Status]),
    AllBut(Status),
}

impl Applies {
    pub const TO_TAKE: Applies = Applies::to_takeable(&[Status::Ready]);
    /// A take by key can also be asked to take waiting and buried tasks.
    pub const TO_TAKE_ANY: Applies =
        Applies::to_takeable(&[Status::Ready, Status::Waiting, Status::Buried]);

    const fn to_takeable(states: &'static [Status]) -> Applies {
        Applies { alive: true, ..Applies::to(states) }
    }

    const fn to(states: &'static [Status]) -> Applies {
        Applies { states: States::OneOf(states), own: false, alive: false }
    }
}

impl States {
    pub fn include(self, status: Status) -> bool {
        match self {
            States::Any => true,
            States::OneOf(states) => states.contains(&status),
            States::AllBut(other) => status != other,
        }
    }
}

impl Verb {
    pub fn applies(self) -> Applies {
        let to = |states| Applies { states, own: false, alive: false };
        match self {
            Verb::Ack | Verb::Release | Verb::Bury | Verb::Touch => {
                Applies { own: true, ..Applies::to(&[Status::Taken]) }
            }
            Verb::Snatch => Applies::to(&[Status::Taken]),
            Verb::Dig => Applies::to(&[Status::Buried]),
            Verb::Restart => Applies::to(&[Status::Waiting, Status::Zombie, Status::Done]),
            Verb::Switch(_) => to(States::AllBut(Status::Taken)),
            Verb::Delete => to(States::Any),
        }
    }
}

/// How a task comes back to be taken again.
#[derive(Clone, Copy, Default)]
pub(super) struct Return {
    /// The caller gives a delay.
    pub delay: bool,
    /// The caller gives a time to live.
    pub ttl: bool,
    /// The reason, if a taken task comes back without being done: this counts as a failed attempt.
    pub failed: Option<&'static str>,
    /// The attempt does not count: the next take has its number.
    pub unused: bool,
    /// The caller gives the error of the attempt.
    pub error: bool,
    /// The task can come from a final state, from which it starts a new life.
    pub renews: bool,
    /// Without the delay between attempts.
    pub at_once: bool,
}

const DELAY: Length = Length::Argument(Parameter::Delay);
const TTL: Length = Length::Argument(Parameter::Ttl);

fn set(field: Field, value: Assigned) -> Assignment {
    Assignment { field, value, after_last: value }
}

impl Table {
    /// Returns whether the field's column is a time column that is NOT NULL.
    pub fn is_never_null(&self, field: Field) -> bool {
        self.times.get(&field).is_some_and(|column| column.is_not_null)
    }

    /// Returns the length up to an end that does not come, if the column cannot say so by NULL (µs).
    pub(super) fn endless(&self, field: Field) -> Option<i64> {
        self.is_never_null(field).then_some(ENDLESS)
    }

    /// Assignments for a new task, besides the values given with it.
    pub fn on_put(&self, put: &Put) -> impl Iterator<Item = Assignment> {
        let due_now = self.is_never_null(Field::Runat).then_some(Assigned::Null);
        let runat = if put.delay { Some(Assigned::Later(DELAY, None)) } else { due_now };
        let has_default = self.times.get(&Field::Expires).is_some_and(|column| column.has_default);
        let endless = self.endless(Field::Expires).filter(|_| !has_default);
        let default = self.features.default_ttl().filter(|_| self.has(Field::Expires));
        let default = default.or(endless);
        let ttl = if put.ttl { Some(TTL) } else { default.map(Length::Microseconds) };
        let expires = ttl.map(|ttl| match put.delay {
            true => Assigned::Later(DELAY, Some(ttl)),
            false => Assigned::Later(ttl, None),
        });
        let given = |is_given: bool, parameter| is_given.then_some(Assigned::Argument(parameter));
        [
            (Field::Status, Some(Assigned::State(put.status()))),
            (Field::Runat, runat),
            (Field::Expires, expires),
            (Field::Ttr, given(put.ttr, Parameter::Ttr)),
            (Field::Priority, given(put.priority, Parameter::Priority)),
            (Field::Priority, given(put.front, Parameter::Level)),
            (Field::Tube, given(put.tube, Parameter::Tube)),
        ]
        .into_iter()
        .filter_map(|(field, value)| Some(set(field, value?)))
    }

    /// Assignments for a task that is taken. `ttr`: the caller gives a time to run.
    pub fn on_take(&self, ttr: bool) -> impl Iterator<Item = Assignment> {
        let length = match ttr {
            true => Length::Argument(Parameter::Ttr),
            false => Length::OwnTtr(self.features.default_ttr().or(self.endless(Field::Runat))),
        };
        let deadline = self.features.has_deadlines().then_some(Assigned::Later(length, None));
        let attempts = self.has(Field::Attempts).then_some(Assigned::OneMore);
        [
            (Field::Status, Some(Assigned::State(Status::Taken))),
            (Field::Owner, Some(Assigned::Argument(Parameter::Session))),
            (Field::Runat, deadline),
            (Field::Attempts, attempts),
        ]
        .into_iter()
        .filter_map(|(field, value)| Some(set(field, value?)))
    }

    /// Assignments for a taken task that was ready, waiting or buried.
    pub(super) fn on_take_of_any(&self, ttr: bool) -> impl Iterator<Item = Assignment> {
        let runat = Some(Field::Runat).filter(|_| !self.features.has_deadlines());
        let cleared = runat.into_iter().chain([Field::Reason]);
        let cleared = cleared.filter(|field| self.has(*field));
        self.on_take(ttr).chain(cleared.map(|field| set(field, Assigned::Null)))
    }

    /// Assignments for a waiting task that is due.
    pub(super) fn on_promotion(&self) -> [Assignment; 2] {
        [set(Field::Status, Assigned::State(Status::Ready)), set(Field::Runat, Assigned::Null)]
    }

    /// Returns whether an ack deletes the task.
    pub fn ack_deletes(&self, has_delay: bool) -> bool {
        let features = &self.features;
        let stays = has_delay || features.default_zombie().is_some();
        !(features.keeps() || features.zombies() && stays)
    }

    /// Assignments of a step; None if it deletes the task.
    pub(super) fn on_step(&self, step: &Step) -> Option<Vec<Assignment>> {
        let renews = matches!(step.verb, Verb::Restart | Verb::Switch(_));
        let (delay, ttl, error) = (step.delay, step.ttl, step.error);
        let back = |failed, unused| {
            let at_once = step.at_once;
            self.on_return(Return { delay, ttl, failed, unused, error, renews, at_once })
        };
        Some(match step.verb {
            Verb::Delete => return None,
            Verb::Ack if self.ack_deletes(delay) => return None,
            Verb::Ack if self.features.keeps() => self.put_away(Status::Done, Assigned::Null),
            Verb::Ack => self.put_away(Status::Zombie, self.end_of_zombie(delay)),
            Verb::Release => back((!step.unused).then_some("released"), step.unused),
            Verb::Bury => {
                let mut set = self.put_away(Status::Buried, Assigned::Null);
                set.extend(self.prolonged(false, ttl));
                set
            }
            Verb::Touch => self.on_touch(),
            Verb::Snatch => back(None, true),
            Verb::Dig | Verb::Restart => back(None, false),
            Verb::Switch(Status::Ready | Status::Waiting) => back(None, false),
            Verb::Switch(Status::Zombie) => {
                self.put_away(Status::Zombie, self.end_of_zombie(delay))
            }
            Verb::Switch(status) => {
                let mut set = self.put_away(status, Assigned::Null);
                set.extend(self.renewed(false).filter(|_| status == Status::Buried));
                set
            }
        })
    }

    /// Assignments for a task that comes back: ready, waiting with a delay or between attempts, or buried after the
    /// last attempt.
    pub(super) fn on_return(&self, back: Return) -> Vec<Assignment> {
        let tries = back.failed.and(self.features.tries());
        let limit = tries.and_then(|tries| tries.limit);
        let backs_off = tries.is_some() && !back.at_once && self.features.backoff().is_some();
        let wait = match back.delay {
            true => Some(DELAY),
            false => backs_off.then_some(Length::Backoff),
        };
        let status = if wait.is_some() { Status::Waiting } else { Status::Ready };
        let unless_last = |field, value, after_last| {
            let after_last = if limit.is_some() { after_last } else { value };
            Assignment { field, value, after_last }
        };
        let buried = Assigned::State(Status::Buried);
        let runat = wait.map_or(Assigned::Null, |wait| Assigned::Later(wait, None));
        let given = back.error.then_some(Parameter::Error);
        let reason = given.map_or(Assigned::Null, Assigned::Argument);
        let last_reason = back.failed.zip(limit);
        let last_reason =
            last_reason.map_or(reason, |(why, limit)| Assigned::Burial(why, limit, given));
        let mut assignments = vec![
            unless_last(Field::Status, Assigned::State(status), buried),
            set(Field::Owner, Assigned::Null),
            unless_last(Field::Runat, runat, Assigned::Null),
            unless_last(Field::Reason, reason, last_reason),
        ];
        assignments.extend(back.unused.then_some(set(Field::Attempts, Assigned::OneLess)));
        assignments.retain(|assignment| self.has(assignment.field));
        assignments.extend(match back.renews {
            true => self.renewed(back.delay),
            false => self.prolonged(back.delay, back.ttl),
        });
        assignments
    }

    /// Assignments for a task that enters a state consumers never take (buried, done, zombie).
    pub(super) fn put_away(&self, status: Status, runat: Assigned) -> Vec<Assignment> {
        // The reason of an earlier burial is cleared, unless the task stays buried.
        let reason = Some(Field::Reason).filter(|_| status != Status::Buried);
        let mut assignments = vec![
            set(Field::Status, Assigned::State(status)),
            set(Field::Owner, Assigned::Null),
            set(Field::Runat, runat),
        ];
        assignments.extend(reason.map(|field| set(field, Assigned::Null)));
        assignments.retain(|assignment| self.has(assignment.field));
        assignments
    }

    /// Returns the new end of life of a task that can come from a final state.
    pub(super) fn renewed(&self, delay: bool) -> Option<Assignment> {
        self.has(Field::Expires).then_some(set(Field::Expires, Assigned::Renewed { delay }))
    }

    fn on_touch(&self) -> Vec<Assignment> {
        let deadline = self.features.has_deadlines().then_some(Field::Runat);
        let life = self.features.expires().then_some(Field::Expires);
        let put_off = Assigned::PutOff(Length::Argument(Parameter::Increment));
        deadline.into_iter().chain(life).map(|field| set(field, put_off)).collect()
    }

    /// Returns the instant at which a task acked now is deleted; NULL if it stays.
    fn end_of_zombie(&self, delay: bool) -> Assigned {
        let default = self.features.default_zombie().map(Length::Microseconds);
        let length = if delay { Some(DELAY) } else { default };
        length.map_or(Assigned::Null, |length| Assigned::Later(length, None))
    }

    /// Returns the new end of life, if it changes. With `ttl` it is counted from now, or from the end of the delay; a
    /// delay alone puts it off.
    fn prolonged(&self, delay: bool, ttl: bool) -> Option<Assignment> {
        let value = match (delay, ttl) {
            (true, true) => Assigned::Later(DELAY, Some(TTL)),
            (false, true) => Assigned::Later(TTL, None),
            (true, false) => Assigned::PutOff(DELAY),
            (false, false) => return None,
        };
        self.has(Field::Expires).then_some(set(Field::Expires, value))
    }
}
