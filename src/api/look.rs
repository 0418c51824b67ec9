//! `peek`, `tasks_by_state` and `stats` of a task: read tasks without changing them.

use crate::api::argument::{Target, require_monitor};
use crate::api::settle::named_keys;
use crate::error::{Error, Result};
use crate::parts::leases::store;
use crate::queue::{Arguments, KeyType, Queue, Statement, census};
use crate::server::function::{Call, Output};
use crate::server::relation::LockMode;
use crate::server::row::Row;
use crate::server::value::Value;
use crate::server::{jsonb, spi, time, types, user};
use crate::sql_functions;
use pgrx::pg_sys::Oid;
use serde_json::{Map, Value as Json};
use xqueue_core::field::Field;
use xqueue_core::names::Id;
use xqueue_core::status::Status;

sql_functions! {
    #[stable] "peek" as peek, pg_finfo_peek(queue: queue, id: key = [NULL]) -> [tasks] => peek_impl;
    #[stable] "tasks_by_state" as tasks_by_state, pg_finfo_tasks_by_state(
        queue: queue, status: text, count: integer = NULL,
    ) -> [tasks] => tasks_by_state_impl;
    #[stable] "stats" as stats_task, pg_finfo_stats_task(queue: queue, id: key) -> [jsonb]
        => stats_task_impl;
}

fn peek_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::peek::queue)?;
    let queue = target.open(LockMode::AccessShare)?;
    let output = target.output(call, &queue)?;
    let mut arguments = Arguments::default();
    for key in named_keys(call, arg::peek::id, &target, &queue)? {
        arguments.set_key(&key);
        spi::connect(|spi| {
            let rows = queue.run(spi, &Statement::Peek, &arguments);
            queue.show(&output, &rows, target.form);
        });
    }
    Ok(None)
}

/// Returns the details of tasks. Uses a scan instead of a SELECT, because a SELECT can run code of the table's owner.
fn stats_task_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::stats_task::queue)?;
    require_monitor(target.table)?;
    let queue = target.open_at_once()?;
    // Row security can have been enabled in the meantime.
    require_monitor(target.table)?;
    let owner = census::table(&queue)?.owner();
    let output = Output::open(call);
    // Domain checks are the owner's code.
    let keys = {
        let _role = user::act_as_owner(owner);
        named_keys(call, arg::stats_task::id, &target, &queue)?
    };
    for key in keys {
        if let Some(known) = census::find(&queue, &key, |row| account(row, &queue))? {
            output.push(jsonb::from_value(&known));
        }
    }
    Ok(None)
}

/// Returns the details of a task.
fn account(row: &impl Row, queue: &Queue) -> Result<Json> {
    let number = |field| queue.value_of(row, field).map(Value::to_integer);
    let now = time::now();
    let seconds = |microseconds: i64| Json::from(time::seconds_of(microseconds.max(0)));
    // An infinite instant is treated as no instant.
    let left = |field| {
        let instant = queue.instant_of(row, field);
        // The subtraction saturates for -infinity.
        instant
            .filter(|instant| *instant < i64::MAX)
            .map(|instant| seconds(instant.saturating_sub(now)))
    };
    let status = queue.status_of(row).ok();
    let session = queue.session_of(row);
    let holder = session.and_then(store::holder);
    let birth = match (&queue.features().id, queue.key.as_slice()) {
        (Some(Id::Time64), [key]) => row.value(key.number).map(Value::to_integer),
        _ => None,
    };
    let is_timed = status.is_some_and(|status| queue.is_timed(status));
    let length = |ttr| time::length(&time::sensible(ttr).to_interval());
    let own_ttr = || queue.value_of(row, Field::Ttr).map(length);
    let ttr = match queue.features().has_deadlines() {
        true => own_ttr().or(queue.features().default_ttr()),
        false => None,
    };
    let known = [
        ("queue", Some(queue.name.clone().into())),
        ("key", Some(key_shown(row, queue))),
        ("state", status.map(|status| status.name().into())),
        ("session", session.map(|session| types::uuid_text(session).into())),
        ("pid", holder.map(Json::from)),
        ("attempts", number(Field::Attempts).map(Json::from)),
        ("ttr", ttr.map(seconds)),
        ("time_left", left(Field::Runat).filter(|_| is_timed)),
        ("life_left", left(Field::Expires)),
        ("priority", number(Field::Priority).map(Json::from)),
        ("tube", queue.value_of(row, Field::Tube).map(|tube| tube.shown().into())),
        ("age", birth.map(|birth| seconds(time::unix_microseconds(now).saturating_sub(birth)))),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
    Ok(known.collect::<Map<_, _>>().into())
}

/// Returns a task's key as an object, in the form of `to_jsonb`. Values of user-defined types are shown as text,
/// because their conversion to jsonb can be a cast of the type's owner. So are numerics with too many digits for
/// floating point.
pub fn key_shown(row: &impl Row, queue: &Queue) -> Json {
    let shown = |value: Value, base: Oid| {
        if !types::is_of_the_server(value.type_oid()) {
            return value.shown().into();
        }
        let text = jsonb::text(jsonb::of(value));
        let is_long = base == types::NUMERIC && digits(&text) > DIGITS;
        if is_long { text.into() } else { serde_json::from_str(&text).unwrap_or(Json::Null) }
    };
    let part = |column: &KeyType| {
        let value = row.value(column.number);
        (column.name.clone(), value.map_or(Json::Null, |value| shown(value, column.base)))
    };
    queue.key.iter().map(part).collect::<Map<_, _>>().into()
}

/// Number of decimal digits that floating point keeps.
const DIGITS: usize = 15;

/// Returns the number of significant digits of a number without an exponent.
fn digits(number: &str) -> usize {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').len()
}

fn tasks_by_state_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::tasks_by_state::queue)?;
    let status = call.require(arg::tasks_by_state::status)?;
    let count = call.get(arg::tasks_by_state::count);
    if count.is_some_and(|count| count < 0) {
        return Err(Error::invalid("count must not be negative")
            .hint("Give the number of tasks, or leave it out for all."));
    }
    let queue = target.open(LockMode::AccessShare)?;
    let output = target.output(call, &queue)?;
    let status = named_status(&status, &queue)?;
    let mut left = count.map_or(i64::MAX, i64::from);
    for sql in queue.sql.tasks_in(status) {
        spi::connect(|spi| {
            let rows = spi.run_with(&sql, &[(types::INT8, Some(Value::int8(left)))]);
            queue.show(&output, &rows, target.form);
            left -= rows.len() as i64;
        });
    }
    Ok(None)
}

/// Returns the state named by its letter, its word or its label in the status column.
pub fn named_status(text: &str, queue: &Queue) -> Result<Status> {
    let options = &queue.definition.options;
    let by_label = Status::ALL.into_iter().find(|status| options.label(*status) == text);
    by_label.or(Status::named(text)).ok_or_else(|| {
        Error::invalid(format!("\"{text}\" is no state of a task"))
            .hint("Give R, T, W, B, Z or D: ready, taken, waiting, buried, zombie or done.")
    })
}
