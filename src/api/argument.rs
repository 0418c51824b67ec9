//! Arguments that most functions share: the queue, by name or by row type, and task keys.

use crate::api::values::populated;
use crate::error::{Error, Result};
use crate::parts::leases::session;
use crate::queue::{self, KeyType, Queue, census};
use crate::server::argument::{Argument, NamesQueue, sql_type};
use crate::server::function::{Call, Output};
use crate::server::jsonb::{self, Shape};
use crate::server::relation::{self, LockMode};
use crate::server::value::Value;
use crate::server::{
    catalog, context, nesting, operators, privileges, record, sql_name, time, types, xact,
};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{Interval, Oid};
use std::rc::Rc;
use xqueue_core::form::Form;
use xqueue_core::keys_text::KeysText;

/// The queue that a call names, and the form in which it returns tasks.
pub struct Target<'call> {
    pub table: Oid,
    pub form: Form,
    /// The row given instead of `NULL::jobs`.
    pub row: Option<Value<'call>>,
}

impl<'call> Target<'call> {
    /// Reads the queue argument.
    pub fn of(call: &'call Call, queue: Argument<impl NamesQueue>) -> Result<Target<'call>> {
        session::require_loaded()?;
        let oid = call.type_of(queue);
        let target = if oid == types::TEXT {
            let name = call.value(queue).ok_or_else(|| Error::null(queue.name))?.to_text();
            Target { table: sql_name::find_table(&name)?, form: Form::Json, row: None }
        } else {
            let table = relation::of_row_type(oid).ok_or_else(|| no_queue(oid))?;
            Target { table, form: Form::Row, row: call.value(queue) }
        };
        nesting::refuse_too_deep(|| queue::display_name(target.table))?;
        Ok(target)
    }

    /// Locks the table and looks up the queue. Privileges are checked before the lock, so that a caller without them
    /// gets an error instead of a wait.
    pub fn open(&self, lock: LockMode) -> Result<Rc<Queue>> {
        self.lock(lock)?;
        queue::get(self.table)
    }

    /// Opens the queue; None if the table has been dropped or downgraded while this call waited for the lock.
    pub fn open_if_there(&self, lock: LockMode) -> Result<Option<Rc<Queue>>> {
        self.lock(lock)?;
        queue::find(self.table)
    }

    /// Opens the queue for a monitor, which never waits for a lock.
    pub fn open_at_once(&self) -> Result<Rc<Queue>> {
        lock_at_once(self.table)?;
        self.open(LockMode::AccessShare)
    }

    /// Opens the queue with its current definition, for a call that has been waiting.
    pub fn open_again(&self, lock: LockMode) -> Result<Rc<Queue>> {
        self.lock(lock)?;
        queue::current(self.table)
    }

    fn lock(&self, lock: LockMode) -> Result<()> {
        let is_allowed = match lock {
            LockMode::RowExclusive => privileges::may_change(self.table),
            LockMode::AccessShare => privileges::may_touch(self.table),
            _ => true,
        };
        if !is_allowed {
            return Err(Error::permission_denied(&queue::display_name(self.table)));
        }
        if !matches!(lock, LockMode::None | LockMode::AccessShare) {
            refuse_read_only(|| queue::display_name(self.table))?;
        }
        relation::lock(self.table, lock);
        Ok(())
    }

    /// Opens the call's result set.
    pub fn output(&self, call: &Call, queue: &Queue) -> Result<Output> {
        let output = Output::open(call);
        if self.form == Form::Row {
            output.expects(&queue.row_columns, &queue.name)?;
        }
        Ok(output)
    }
}

/// Locks a table for a monitor; raises an error instead of waiting for the lock.
pub fn lock_at_once(table: Oid) -> Result<()> {
    if relation::try_lock_whole(table, LockMode::AccessShare) {
        return Ok(());
    }
    let message = format!("queue \"{}\" is {}", queue::display_name(table), census::BUSY);
    Err(Error::new(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE, message)
        .hint("Call it again once that session, which pg_locks shows, has ended its transaction."))
}

fn no_queue(oid: Oid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        format!("a queue cannot be named by a value of type {}", types::type_name(oid)),
    )
    .hint("Name it as text, 'jobs', for tasks as jsonb, or by its row type, NULL::jobs, for tasks as rows.")
}

/// Refuses callers that do not own the queue's table.
pub fn require_owner(table: Oid) -> Result<()> {
    if privileges::owns(table) {
        return Ok(());
    }
    refuse_dropped(table)?;
    let name = queue::display_name(table);
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("must be owner of table \"{name}\""),
    )
    .hint("Only the owner of a table decides whether and how it is a queue."))
}

/// Refuses numbers of tasks and their sessions to roles that are not allowed to see all rows.
pub fn require_monitor(table: Oid) -> Result<()> {
    if privileges::may_monitor(table) {
        return Ok(());
    }
    refuse_dropped(table)?;
    let name = queue::display_name(table);
    let denied = Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("permission denied for queue \"{name}\""),
    );
    Err(match privileges::may_select(table) {
        false => denied.hint(format!("GRANT SELECT ON {name} shows its statistics.")),
        true => denied
            .detail("Row security applies to this role: it may not know of tasks that it does not see.")
            .hint("xqueue.peek() and SELECT show what the policies allow; roles with BYPASSRLS see all."),
    })
}

/// Refuses a table that another session has dropped since its name was read.
fn refuse_dropped(table: Oid) -> Result<()> {
    match catalog::table_name(table) {
        Some(_) => Ok(()),
        None => Err(queue::not_a_queue(table)),
    }
}

/// Refuses changes in read-only transactions and on a standby.
pub fn refuse_read_only(queue: impl FnOnce() -> String) -> Result<()> {
    if !xact::is_read_only() {
        return Ok(());
    }
    let refused = format!("queue \"{}\" cannot be changed", queue());
    if xact::in_recovery() {
        return Err(Error::on_standby(refused));
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
        format!("{refused}: this transaction is read-only"),
    )
    .hint("SET TRANSACTION READ WRITE before its first query."))
}

/// The values of a task's key columns.
pub type Key<'m> = Vec<Value<'m>>;

/// Returns an interval argument; None if it is missing, NULL, or zero while `or_zero` is false. Refuses negative and
/// infinite intervals.
pub fn interval<'to>(
    call: &Call,
    argument: Argument<sql_type::interval>,
    or_zero: bool,
) -> Result<Option<Value<'to>>> {
    let duration = duration(call, argument)?.filter(|(_, length)| or_zero || *length > 0);
    Ok(duration.map(|(interval, _)| Value::interval(interval)))
}

/// Returns the task keys of an argument: one, or a batch.
pub fn keys<'call>(
    call: &'call Call,
    id: Argument<sql_type::key>,
    queue: &Queue,
) -> Result<Vec<Key<'call>>> {
    let value = call.value(id).ok_or_else(|| Error::null("id"))?;
    let columns = || queue.key.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(", ");
    let hint = || format!("The key of queue {} is ({}).", queue.name, columns());
    context::hinted(hint, || match queue.key.as_slice() {
        [key] => single_keys(value, key, queue),
        _ => composite_keys(value, queue),
    })
}

/// Returns the key of a task given as a row of the queue's table.
pub fn key_of_row<'to>(row: Value, queue: &Queue) -> Result<Key<'to>> {
    let fields = record::fields(row)?;
    let value = |key: &KeyType| {
        let value = fields.get(key.number as usize - 1).and_then(|value| *value);
        converted(value.ok_or_else(|| missing(&key.name, queue))?, key.oid)
    };
    queue.key.iter().map(value).collect()
}

/// Returns the key of a task given as a jsonb object.
pub fn key_of_object<'to>(object: Value, queue: &Queue) -> Result<Key<'to>> {
    key_in_object(object, queue, |_| -1)
}

/// Returns the key that a task has once it is put: the modifiers of the columns round the values.
pub fn key_to_put<'to>(object: Value, queue: &Queue) -> Result<Key<'to>> {
    key_in_object(object, queue, |key| key.modifier)
}

fn key_in_object<'to>(
    object: Value,
    queue: &Queue,
    modifier: impl Fn(&KeyType) -> i32,
) -> Result<Key<'to>> {
    if jsonb::shape(object) != Shape::Object {
        return Err(Error::invalid("a task must be a JSON object")
            .hint("Give the task as take or next has given it, or an array of such."));
    }
    let part = |key: &KeyType| {
        let member = jsonb::member(object, &key.name).ok_or_else(|| missing(&key.name, queue))?;
        if key.base == types::JSONB {
            return Ok(member.to_jsonb());
        }
        if key.is_array || member.is_nested() {
            return populated(&member, key, queue).ok_or_else(|| missing(&key.name, queue));
        }
        operators::parse_value_for(&member.text(), key.oid, modifier(key))
    };
    queue.key.iter().map(part).collect()
}

/// Returns the key of a task given as a jsonb object, in the form of argument `id`: the plain value for a key of one
/// column, else an object. A nested value stays in an object, because an array would be read as a batch, unless the key
/// is jsonb.
pub fn id_of_object<'to>(object: Value, queue: &Queue) -> Value<'to> {
    let members: Vec<_> = jsonb::members(object)
        .into_iter()
        .filter(|member| queue.key.iter().any(|key| key.name == member.name))
        .collect();
    if let ([member], [key]) = (members.as_slice(), queue.key.as_slice())
        && (key.base == types::JSONB || !member.is_nested())
    {
        return member.to_jsonb();
    }
    jsonb::object(&members)
}

/// Returns an interval argument and its length in microseconds; None if it is NULL.
pub fn duration(
    call: &Call,
    argument: Argument<sql_type::interval>,
) -> Result<Option<(Interval, i64)>> {
    let read = |interval| Ok((interval, time::duration(argument.name, &interval)?));
    call.get(argument).map(read).transpose()
}

/// Returns a number of tasks as a function's result, capped at the maximum of an SQL integer.
pub fn number_of<'to>(tasks: usize) -> Option<Value<'to>> {
    Some(Value::int4(i32::try_from(tasks).unwrap_or(i32::MAX)))
}

fn single_keys<'m>(value: Value<'m>, key: &KeyType, queue: &Queue) -> Result<Vec<Key<'m>>> {
    let (oid, base) = (value.type_oid(), key.base);
    if oid == key.oid || oid == base {
        return Ok(vec![vec![value]]);
    }
    if !key.is_array && types::element_type(oid).is_some() {
        let elements = operators::array_elements(value).into_iter();
        let convert = |value: Option<Value<'m>>| {
            let value = value.ok_or_else(|| Error::null("id"))?;
            Ok(vec![converted(value, key.oid)?])
        };
        return elements.map(convert).collect();
    }
    // A jsonb key in a text is the key itself, and can be an object.
    let may_be_several = !key.is_array && base != types::JSONB && !types::TEXTS.contains(&base);
    if types::TEXTS.contains(&oid) && may_be_several {
        return keys_in_text(&value.to_text(), key, queue);
    }
    if oid == types::JSONB {
        return json_keys(value, queue);
    }
    Ok(vec![vec![converted(value, key.oid)?]])
}

/// Reads the keys in a text: drivers send a parameter without a type as a text. The text is one key, an array in the
/// server's syntax, or JSON made by a client library from an object or an array. Integers and uuids can also be
/// separated by commas alone.
fn keys_in_text<'m>(text: &str, key: &KeyType, queue: &Queue) -> Result<Vec<Key<'m>>> {
    let is_plain = types::is_integer(key.base) || key.base == types::UUID;
    match KeysText::of(text, is_plain) {
        KeysText::Json => json_keys(operators::parse_value(text, types::JSONB)?, queue),
        KeysText::Array => {
            single_keys(operators::parse_value(text, types::array_type(key.base))?, key, queue)
        }
        KeysText::List(parts) => {
            let key = |part| Ok(vec![operators::parse_value(part, key.oid)?]);
            parts.into_iter().map(key).collect()
        }
        KeysText::One => Ok(vec![vec![operators::parse_value(text, key.oid)?]]),
    }
}

fn composite_keys<'to>(value: Value, queue: &Queue) -> Result<Vec<Key<'to>>> {
    let oid = value.type_oid();
    if oid == types::JSONB {
        return json_keys(value, queue);
    }
    if types::TEXTS.contains(&oid) {
        let text = value.to_text();
        if !text.trim_start().starts_with(['{', '[']) {
            return Err(wrong_shape(queue));
        }
        return json_keys(operators::parse_value(&text, types::JSONB)?, queue);
    }
    if types::element_type(oid).is_some() {
        let records = operators::array_elements(value).into_iter();
        let key =
            |record: Option<Value>| record_key(record.ok_or_else(|| Error::null("id"))?, queue);
        return records.map(key).collect();
    }
    if value.is_composite() {
        return Ok(vec![record_key(value, queue)?]);
    }
    Err(wrong_shape(queue))
}

fn record_key<'to>(record: Value, queue: &Queue) -> Result<Key<'to>> {
    if !record.is_composite() {
        return Err(wrong_shape(queue));
    }
    let fields = record::fields(record)?;
    if fields.len() != queue.key.len() {
        return Err(wrong_shape(queue));
    }
    let part = |(value, key): (Option<Value<'to>>, &KeyType)| {
        converted(value.ok_or_else(|| missing(&key.name, queue))?, key.oid)
    };
    fields.into_iter().zip(&queue.key).map(part).collect()
}

/// Reads one key, or an array of keys.
fn json_keys<'to>(json: Value, queue: &Queue) -> Result<Vec<Key<'to>>> {
    match jsonb::shape(json) {
        Shape::Array => {
            jsonb::elements(json).into_iter().map(|element| json_key(element, queue)).collect()
        }
        _ => Ok(vec![json_key(json, queue)?]),
    }
}

fn json_key<'to>(json: Value, queue: &Queue) -> Result<Key<'to>> {
    match (jsonb::shape(json), queue.key.as_slice()) {
        (Shape::Object, _) => key_of_object(json, queue),
        (Shape::Scalar, _) if jsonb::text(json) == "null" => Err(Error::null("id")),
        (Shape::Scalar, [key]) => {
            Ok(vec![operators::parse_value(&jsonb::scalar_text(json), key.oid)?])
        }
        _ => Err(wrong_shape(queue)),
    }
}

/// Converts a value to another type.
pub fn converted<'m>(value: Value<'m>, to: Oid) -> Result<Value<'m>> {
    if value.type_oid() == to {
        return Ok(value);
    }
    if let Some(number) = value.try_integer()
        && let Some(value) = Value::integer(number, to)
    {
        return Ok(value);
    }
    operators::parse_value(&value.shown(), to)
}

pub fn missing(column: &str, queue: &Queue) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
        format!(
            "the task has no value for \"{column}\", which is part of the key of queue \"{}\"",
            queue.name
        ),
    )
    .hint(format!("Give a value for \"{column}\"."))
}

fn wrong_shape(queue: &Queue) -> Error {
    let columns: Vec<&str> = queue.key.iter().map(|key| key.name.as_str()).collect();
    let columns = columns.join(", ");
    Error::new(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        format!("the key of queue \"{}\" is ({columns})", queue.name),
    )
    .hint(format!("Give it as ROW({columns}) or as a jsonb object with these members."))
}
