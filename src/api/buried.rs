//! `buried`, which lists a queue's first buried tasks for the board.

use crate::api::look::key_shown;
use crate::error::Result;
use crate::parts::leases::session;
use crate::queue::Queue;
use crate::queue::census::{self, Sight};
use crate::server::function::{Call, Output};
use crate::server::row::{Row, Tuple};
use crate::server::value::Value;
use crate::server::{jsonb, types};
use crate::sql_functions;
use serde_json::{Map, Value as Json, json};
use xqueue_core::field::Field;

sql_functions! {
    "buried" as buried, pg_finfo_buried(queue: regclass, count: integer) -> [jsonb] => buried_impl;
}

/// Maximum number of characters shown of a value.
const CHARACTERS: usize = 1000;

/// Returns the first buried tasks of a queue, up to `count`.
fn buried_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    let count = usize::try_from(call.require(arg::buried::count)?).unwrap_or(0);
    let mut tasks = Vec::new();
    let see = |queue: &Queue| match count {
        0 => Ok(()),
        _ => census::buried(queue, |row| {
            tasks.push(described(queue, row));
            tasks.len() < count
        }),
    };
    if let Sight::Seen(()) = census::sight(call.require(arg::buried::queue)?, see)? {
        tasks.iter().for_each(|task| output.push(jsonb::from_value(task)));
    }
    Ok(None)
}

/// Describes a buried task. The output functions of the column types show the values, because these functions belong to
/// superusers, and a cast can belong to the table's owner. NULL columns are left out, and so are virtual generated
/// columns, which would have to be computed.
fn described(queue: &Queue, row: &Tuple) -> Json {
    let shown = |value: Value| value.shown().chars().take(CHARACTERS).collect::<String>();
    let is_of_user = |number| {
        !queue.key.iter().any(|key| key.number == number)
            && !Field::ALL.iter().any(|field| queue.number_of(*field) == number)
    };
    let columns = queue.columns().iter().filter(|column| is_of_user(column.number));
    let columns = columns
        .filter_map(|column| Some((column.name.clone(), shown(row.value(column.number)?).into())));
    // The id is an argument of type jsonb. An object would be a key of that type itself.
    let id = match (queue.key.as_slice(), key_shown(row, queue)) {
        ([key], Json::Object(mut parts)) if key.base == types::JSONB => parts.remove(&key.name),
        (_, id) => Some(id),
    };
    json!({
        "id": id,
        "key": queue.key_text_of(row),
        "attempts": queue.value_of(row, Field::Attempts).and_then(Value::try_integer),
        "reason": queue.value_of(row, Field::Reason).map(shown),
        "columns": columns.collect::<Map<_, _>>(),
    })
}
