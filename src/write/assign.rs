//! The rules of [`xqueue_core::statement::rule`] for the direct path: the values that tasks get, and which tasks they
//! apply to.

use crate::queue::{Arguments, Queue};
use crate::server::row::Row;
use crate::server::time;
use crate::server::types::{self, Uuid};
use crate::server::value::Value;
use xqueue_core::field::Field;
use xqueue_core::statement::rule::{Applies, Assigned, Assignment, Length};

/// Values with their column numbers.
pub type Values<'m> = Vec<(i16, Option<Value<'m>>)>;

/// The values that one call assigns.
pub struct Assignments<'m> {
    /// Values that are equal for all tasks of the call.
    common: Values<'m>,
    /// Assignments that depend on the task's old row.
    own: Vec<Assignment>,
}

impl<'m> Assignments<'m> {
    /// Evaluates the assignments that do not depend on a task. Returns None if a statement has to do it, which then
    /// also reports values out of range.
    pub fn of(
        queue: &Queue,
        assignments: impl IntoIterator<Item = Assignment>,
        arguments: &Arguments<'m>,
    ) -> Option<Assignments<'m>> {
        let (mut common, mut own) = (Vec::with_capacity(4), Vec::new());
        for assignment in assignments {
            let Assignment { field, value, after_last } = assignment;
            if value != after_last || depends_on_task(value) {
                let is_known = |value| is_known_of_task(queue, field, value);
                if !is_known(value) || !is_known(after_last) {
                    return None;
                }
                own.push(assignment);
                continue;
            }
            let value = match value {
                Assigned::State(status) => Some(queue.status_value(status).ok()?),
                Assigned::Null => queue.empty_value(field),
                Assigned::Argument(parameter) => {
                    Some(fitting(queue, field, arguments.get(parameter)?)?)
                }
                Assigned::Later(first, second) => {
                    queue.instant_value(field, later(first, second, arguments)?)
                }
                _ => return None,
            };
            common.push((queue.number_of(field), value));
        }
        Some(Assignments { common, own })
    }

    /// Returns the values that all tasks of the call get.
    pub fn common(&self) -> &Values<'m> {
        &self.common
    }

    /// Returns the numbers of the columns that the call sets.
    pub fn columns(&self, queue: &Queue) -> Vec<i16> {
        let own = self.own.iter().map(|assignment| queue.number_of(assignment.field));
        self.common.iter().map(|(number, _)| *number).chain(own).collect()
    }

    /// Returns the values that one task gets. Returns None if a value is out of range.
    pub fn values(&self, queue: &Queue, old: &impl Row) -> Option<Values<'m>> {
        let mut values = self.common.clone();
        for Assignment { field, value, after_last } in &self.own {
            let is_last = value != after_last && is_last_attempt(queue, old);
            let value = match if is_last { *after_last } else { *value } {
                Assigned::State(status) => Some(queue.status_value(status).ok()?),
                Assigned::Null => queue.empty_value(*field),
                Assigned::OneMore => Some(one_more(queue, *field, old)?),
                Assigned::Later(Length::OwnTtr(default), _) => {
                    let end = end_of_ttr(queue, default, old);
                    end.and_then(|end| queue.instant_value(*field, end))
                }
                Assigned::Later(Length::Backoff, _) => {
                    let end = time::after(time::now(), backoff(queue, old))?;
                    queue.instant_value(*field, end)
                }
                Assigned::Burial(why, limit, _) => Some(burial(queue, why, limit, old)?),
                _ => return None,
            };
            values.push((queue.number_of(*field), value));
        }
        Some(values)
    }
}

fn depends_on_task(value: Assigned) -> bool {
    matches!(
        value,
        Assigned::OneMore
            | Assigned::Later(Length::OwnTtr(_) | Length::Backoff, None)
            | Assigned::Burial(..)
    )
}

/// Returns whether a value that depends on the task can be computed here. Only a statement checks the constraints of
/// domains.
fn is_known_of_task(queue: &Queue, field: Field, value: Assigned) -> bool {
    let column = queue.column_of(field);
    match value {
        Assigned::State(_) | Assigned::Null => true,
        Assigned::OneMore => column.is_some_and(|column| Value::integer(0, column.oid).is_some()),
        Assigned::Burial(_, _, None) => {
            column.is_some_and(|column| [types::TEXT, types::VARCHAR].contains(&column.oid))
        }
        value => depends_on_task(value) && !matches!(value, Assigned::Burial(..)),
    }
}

fn attempts(queue: &Queue, row: &impl Row) -> Option<i64> {
    queue.value_of(row, Field::Attempts).and_then(Value::try_integer)
}

/// Returns whether a task is buried if its current attempt fails.
fn is_last_attempt(queue: &Queue, row: &impl Row) -> bool {
    let limit = queue.features().limit().map_or(0, i64::from);
    let is_last = |attempts: i64| attempts > 0 && attempts.checked_rem(limit) == Some(0);
    attempts(queue, row).is_some_and(is_last)
}

/// Returns the delay before the next attempt (µs).
fn backoff(queue: &Queue, row: &impl Row) -> i64 {
    let Some(backoff) = queue.features().backoff() else { return 0 };
    let before = attempts(queue, row).map_or(0, |attempts| attempts.saturating_sub(1));
    // The counter of attempts never restarts; `done` counts only the current round.
    let done = queue.features().limit().map_or(before, |limit| before % i64::from(limit));
    let done = done.clamp(0, backoff.steps().into());
    let seconds = backoff.longest.min(backoff.first * backoff.factor.powf(done as f64));
    (seconds * 1e6).round_ties_even() as i64
}

/// Returns the reason for burying a task after its last attempt, truncated to the length of the column.
fn burial<'m>(queue: &Queue, why: &str, limit: u32, row: &impl Row) -> Option<Value<'m>> {
    let attempts = attempts(queue, row).map_or(String::new(), |attempts| attempts.to_string());
    let text = format!("{why} after attempt {attempts}, the limit is {limit}");
    let most = queue.sql.reason_length.map_or(usize::MAX, |length| length.max(0) as usize);
    let text: String = text.chars().take(most).collect();
    Value::string(&text, queue.column_of(Field::Reason)?.oid)
}

/// Returns an argument converted to the column's type: priorities are given as bigint, sessions as uuid.
fn fitting<'m>(queue: &Queue, field: Field, value: Value<'m>) -> Option<Value<'m>> {
    match field {
        Field::Owner => Some(queue.owner_value(value.to_uuid())),
        Field::Priority => Value::integer(value.to_integer(), queue.column_of(field)?.oid),
        Field::Status
        | Field::Runat
        | Field::Tube
        | Field::Attempts
        | Field::Expires
        | Field::Ttr
        | Field::Reason => Some(value),
    }
}

fn later(first: Length, second: Option<Length>, arguments: &Arguments) -> Option<i64> {
    [Some(first), second].into_iter().flatten().try_fold(
        time::now(),
        |instant, length| match length {
            Length::Argument(parameter) => Some(time::plus(instant, arguments.get(parameter)?)),
            Length::Microseconds(length) => time::after(instant, length),
            Length::OwnTtr(_) | Length::Backoff => None,
        },
    )
}

fn end_of_ttr(queue: &Queue, default: Option<i64>, old: &impl Row) -> Option<i64> {
    let now = time::now();
    match queue.value_of(old, Field::Ttr) {
        Some(own) => Some(time::plus(now, time::sensible(own))),
        None => default.and_then(|default| time::after(now, default)),
    }
}

fn one_more<'m>(queue: &Queue, field: Field, old: &impl Row) -> Option<Value<'m>> {
    let before = queue.value_of(old, field).map_or(Some(0), Value::try_integer)?;
    let next = before.saturating_add(1).min(queue.sql.most_attempts);
    Value::integer(next, queue.column_of(field)?.oid)
}

/// Returns whether a verb that is not limited to the session's own tasks applies to a task.
pub fn applies(queue: &Queue, verb: Applies, row: &impl Row) -> bool {
    !verb.own && is_in_state(queue, verb, row) && is_alive(queue, verb, row)
}

/// Returns whether a verb applies to a task that this session holds.
pub fn applies_to_own(queue: &Queue, verb: Applies, row: &impl Row, session: Uuid) -> bool {
    queue.session_of(row) == Some(session)
        && is_in_state(queue, verb, row)
        && is_alive(queue, verb, row)
}

pub fn is_in_state(queue: &Queue, verb: Applies, row: &impl Row) -> bool {
    let status = queue.status_read(row.value(queue.number_of(Field::Status)));
    status.is_some_and(|status| verb.states.include(status))
}

/// Returns whether a task has not expired yet, if the verb demands that.
pub fn is_alive(queue: &Queue, verb: Applies, row: &impl Row) -> bool {
    !verb.alive || queue.instant_of(row, Field::Expires).is_none_or(|end| end > time::now())
}
