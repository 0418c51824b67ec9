//! Registry rows that a dump restores. If the table is a queue already, after `pg_dump -a` for example, the existing
//! definition is kept. The column numbers of a restored row are not valid, even if its table has its old oid by chance.

use crate::error::{Error, Result};
use crate::queue::{self, display_name};
use crate::server::function::Call;
use crate::server::row::Row;
use crate::server::trigger::{Firing, Timing};
use crate::server::value::Value;
use crate::server::{catalog, jsonb};
use crate::{sql_functions, upgrade};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use xqueue_core::definition::Definition;

sql_functions! {
    "queue_arrives" as queue_arrives, pg_finfo_queue_arrives() -> trigger => queue_arrives_impl;
}

/// Runs BEFORE INSERT on the registry, for each row.
fn queue_arrives_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let firing = Firing::of(call, Timing::BeforeInsertRow)?;
    queue::require_registry(firing.table())?;
    let row = firing.row();
    let Some(table) = row.value(1).map(Value::to_oid) else { return Ok(firing.unchanged()) };
    let text = row.value(3).map(jsonb::text).unwrap_or_default();
    const INCARNATION: i16 = 2;
    match queue::read(table) {
        Ok(None) => return Ok(firing.with_columns(&[(INCARNATION, Value::oid(Oid::INVALID))])),
        Ok(Some(known)) => {
            if let Ok(restored) = serde_json::from_str::<Definition>(&text) {
                warn_of_difference(table, &known.definition, &restored);
            }
        }
        // An error would end the COPY, with the rows of all other queues.
        Err(unreadable) => unreadable.warn(),
    }
    Ok(Some(Value::ignored()))
}

fn warn_of_difference(table: Oid, known: &Definition, restored: &Definition) {
    let name = display_name(table);
    let mut options = upgrade::describe(&name, restored);
    if options == upgrade::describe(&name, known) {
        return;
    }
    if let Some(options) = options.as_object_mut() {
        options.retain(|option, _| !["queue", "key"].contains(&option.as_str()));
    }
    Error::new(
        PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
        format!("queue \"{name}\" keeps its definition, which is not the one that is restored"),
    )
    .hint(format!(
        "SELECT xqueue.upgrade({}, {}); makes it the other one.",
        catalog::quote_literal(&name),
        catalog::quote_literal(&options.to_string())
    ))
    .warn();
}
