//! `peek`, `tasks_by_state`, `stats` of a task: tasks looked at without touching them.

use super::argument::Target;
use super::settle::named_keys;
use crate::error::{Error, Result};
use crate::model::definition::Field;
use crate::model::names::Id;
use crate::model::status::Status;
use crate::pg::function::{Call, Output};
use crate::pg::relation::Lock;
use crate::pg::spi::{self, Rows};
use crate::pg::value::Value;
use crate::pg::{jsonb, time, types};
use crate::registry::{Arguments, Queue, Statement};
use crate::session::store;
use crate::sql_functions;
use serde_json::{Map, Value as Json};

sql_functions! {
    peek, pg_finfo_peek => peek_impl,
    tasks_by_state, pg_finfo_tasks_by_state => tasks_by_state_impl,
    stats_task, pg_finfo_stats_task => stats_task_impl,
}

/// peek(queue, id anycompatible)
fn peek_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call)?;
    let queue = target.open(Lock::AccessShare)?;
    let output = target.output(call, &queue)?;
    each_named(call, &target, &queue, &Statement::Peek(target.form), |rows| {
        output.push_all(rows, target.form);
        Ok(())
    })?;
    Ok(None)
}

/// stats(queue, id anycompatible)
fn stats_task_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call)?;
    let queue = target.open(Lock::AccessShare)?;
    let output = Output::open(call);
    each_named(call, &target, &queue, &Statement::Account, |rows| {
        if !rows.is_empty() {
            output.push(jsonb::from_value(&account(rows, &queue)?));
        }
        Ok(())
    })?;
    Ok(None)
}

/// Shows what a statement says of each of the tasks that a call names.
fn each_named(
    call: &Call,
    target: &Target,
    queue: &Queue,
    statement: &Statement,
    mut see: impl FnMut(&Rows) -> Result<()>,
) -> Result<()> {
    let mut arguments = Arguments::default();
    for key in named_keys(call, target, queue)? {
        arguments.set_key(&key);
        spi::connect(|spi| see(&queue.run(spi, statement, &arguments)))?;
    }
    Ok(())
}

/// What is known of a task: the row that [`crate::statement::Table::account`] gives.
fn account(rows: &Rows, queue: &Queue) -> Result<Json> {
    let number = |column| rows.value(0, column).map(|value| value.to_integer());
    let now = time::now();
    let seconds = |microseconds: i64| Json::from(microseconds.max(0) as f64 / 1e6);
    // An instant that never comes is as good as none.
    let left = |column| {
        let instant = rows.value(0, column).map(Value::to_instant);
        instant.filter(|instant| *instant < i64::MAX).map(|instant| seconds(instant - now))
    };
    let status = queue.status_named(&rows.text(0, 1).unwrap_or_default());
    let owner = rows.value(0, 2).map(Value::to_uuid);
    let holder = owner.and_then(store::holder);
    let key: Json = rows
        .value(0, 3)
        .map_or(Json::Null, |key| serde_json::from_str(&jsonb::text(key)).unwrap_or(Json::Null));
    let age = number(8).filter(|_| queue.features().id == Some(Id::Time64));
    let age = age.map(|birth| seconds(time::unix_microseconds(now).saturating_sub(birth)));
    let is_timed = queue.definition.fields.contains_key(&Field::Runat)
        && status.is_some_and(|status| queue.is_timed(status));
    let known = [
        ("queue", Some(queue.name.clone().into())),
        ("key", Some(key)),
        ("state", status.map(|status| status.name().into())),
        ("session", owner.map(|owner| types::uuid_text(owner).into())),
        ("pid", holder.map(Json::from)),
        ("attempts", number(4).map(Json::from)),
        ("time_left", left(5).filter(|_| is_timed)),
        ("life_left", left(6)),
        ("priority", number(7).map(Json::from)),
        ("tube", rows.text(0, 9).map(Json::from)),
        ("age", age),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
    Ok(known.collect::<Map<_, _>>().into())
}

/// tasks_by_state(queue, status text, count integer)
fn tasks_by_state_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call)?;
    let status = call.require(1, "status")?.to_text();
    let count = call.int4(2);
    if count.is_some_and(|count| count < 0) {
        return Err(Error::invalid("count must not be negative")
            .hint("Give the number of tasks, or leave it out for all."));
    }
    let queue = target.open(Lock::AccessShare)?;
    let output = target.output(call, &queue)?;
    let status = named_status(&status, &queue)?;
    let mut left = count.map_or(i64::MAX, i64::from);
    for sql in queue.sql.tasks_in(status, target.form) {
        spi::connect(|spi| {
            let rows = spi.run_with(&sql, &[(types::INT8, Some(Value::int8(left)))]);
            output.push_all(&rows, target.form);
            left -= rows.len() as i64;
        });
    }
    Ok(None)
}

/// The state that a caller names, by letter, by word, or as the status column has it.
pub fn named_status(text: &str, queue: &Queue) -> Result<Status> {
    let options = &queue.definition.options;
    let by_label = Status::ALL.into_iter().find(|status| options.label(*status) == text);
    by_label.or(Status::named(text)).ok_or_else(|| {
        Error::invalid(format!("\"{text}\" is no state of a task"))
            .hint("Give R, T, W, B, Z or D: ready, taken, waiting, buried, zombie or done.")
    })
}
