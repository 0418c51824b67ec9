//! The table `xqueue.queue`, which holds the definitions of all queues.

use crate::error::{Error, Result};
use crate::queue::display_name;
use crate::server::own_table::{self, REGISTRY, as_owner};
use crate::server::relation::{self, LockMode, Relation};
use crate::server::row::Row;
use crate::server::value::Value;
use crate::server::{catalog, injection, jsonb, spi, types};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use xqueue_core::definition::Definition;

/// The registry row of a table.
pub struct Entry {
    pub definition: Definition,
    /// The stored column numbers are valid: dump and restore change them.
    pub same_table: bool,
    /// No task is taken before this instant.
    pub paused_until: Option<i64>,
}

pub fn read(table: Oid) -> Result<Option<Entry>> {
    let row = own_table::registered(table, |row| {
        let same_table = row.value(2).map(Value::to_oid) == Some(table);
        let paused_until = row.value(4).map(Value::to_instant);
        (row.value(3).map(jsonb::text).unwrap_or_default(), same_table, paused_until)
    });
    let Some((text, same_table, paused_until)) = row else { return Ok(None) };
    let definition = serde_json::from_str(&text).map_err(|error| {
        Error::new(
            PgSqlErrorCode::ERRCODE_DATA_CORRUPTED,
            format!("the definition of queue \"{}\" cannot be read: {error}", display_name(table)),
        )
        .hint(format!(
            "As a superuser: DELETE FROM xqueue.queue WHERE relation = {0}::regclass; SELECT xqueue.upgrade({0});",
            catalog::quote_literal(&display_name(table))
        ))
    })?;
    Ok(Some(Entry { definition, same_table, paused_until }))
}

/// Returns the tables of this database's queues. Another session can drop one of them at any time.
pub fn tables() -> Vec<Oid> {
    let tables = spi::connect(|spi| {
        let rows = spi.run("SELECT relation::pg_catalog.oid FROM xqueue.queue ORDER BY 1");
        (0..rows.len()).filter_map(|row| rows.value(row, 1).map(Value::to_oid)).collect()
    });
    injection::point(c"xqueue-queues-are-listed");
    tables
}

/// Locks the registry for a worker, which must not wait for DROP EXTENSION. Returns false if the lock is not available
/// immediately.
pub fn try_lock() -> bool {
    oid().is_some_and(|registry| relation::try_lock(registry, LockMode::AccessShare))
}

/// Returns the registry; None if the extension is not installed.
pub fn oid() -> Option<Oid> {
    catalog::own_relation(REGISTRY)
}

/// Refuses a trigger of another table than the registry. Any role can create one that calls the same function.
pub fn require_registry(table: Oid) -> Result<()> {
    if oid() == Some(table) {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
        "this function works only as the trigger that the table xqueue.queue has",
    )
    .hint("Use xqueue.upgrade() to make a table a queue."))
}

/// Stores a definition with the privileges of the registry's owner. The caller has checked that the current role owns
/// the table.
pub fn write(table: Oid, definition: &Definition) -> Result<()> {
    let value = json(definition)?;
    let arguments =
        [(types::OID, Some(Value::oid(table))), (types::JSONB, Some(jsonb::from_value(&value)))];
    // ON CONFLICT is not used: the registry's trigger skips rows of tables that are already registered.
    let update = "UPDATE xqueue.queue SET incarnation = $1, definition = $2 \
                  WHERE relation::pg_catalog.oid OPERATOR(pg_catalog.=) $1 RETURNING 1";
    let insert = "INSERT INTO xqueue.queue (relation, incarnation, definition) VALUES ($1, 0, $2) RETURNING 1";
    let is_written = as_owner(|spi| {
        let write = |sql| !spi.run_with(sql, &arguments).is_empty();
        // The registry's trigger treats each inserted row like a restored one.
        write(update) || write(insert) && write(update)
    })?;
    require_written(table, is_written)
}

/// Refuses a change that has not found the entry of a queue. Statements do not see an entry that is newer than the
/// transaction's snapshot, but `read` does.
fn require_written(table: Oid, is_written: bool) -> Result<()> {
    if is_written {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        format!("queue \"{}\" was made by a concurrent transaction", display_name(table)),
    )
    .hint("Repeat the transaction."))
}

/// Changes the entry of a queue, which the caller has read.
fn change(table: Oid, sql: &str, more: Option<(Oid, Option<Value>)>) -> Result<()> {
    let arguments: Vec<_> =
        [(types::OID, Some(Value::oid(table)))].into_iter().chain(more).collect();
    let sql = format!("{sql} WHERE relation::pg_catalog.oid OPERATOR(pg_catalog.=) $1 RETURNING 1");
    let is_written = as_owner(|spi| !spi.run_with(&sql, &arguments).is_empty())?;
    require_written(table, is_written)
}

/// Replaces a definition by one that describes the table in the same way.
pub fn redefine(table: Oid, definition: &Definition) -> Result<()> {
    let value = jsonb::from_value(&json(definition)?);
    let sql = "UPDATE xqueue.queue SET definition = $2";
    change(table, sql, Some((types::JSONB, Some(value))))
}

/// Returns the tables of queues whose column for the status or the tube is of a type, or of a domain over it, in one
/// order for all callers. The definitions are not locked: the caller checks the columns again under its lock.
pub fn tables_with(kind: Oid) -> Result<Vec<Oid>> {
    if oid().is_none() {
        return Ok(vec![]);
    }
    as_owner(|spi| {
        let rows = spi.run_with(
            "WITH RECURSIVE kind (oid) AS (SELECT $1 \
             UNION SELECT d.oid FROM pg_catalog.pg_type d JOIN kind k \
             ON d.typbasetype OPERATOR(pg_catalog.=) k.oid) \
             SELECT q.relation::pg_catalog.oid FROM xqueue.queue q WHERE EXISTS ( \
             SELECT FROM pg_catalog.pg_attribute a JOIN kind k \
             ON a.atttypid OPERATOR(pg_catalog.=) k.oid \
             CROSS JOIN (VALUES ('status'), ('tube')) AS f (field) \
             WHERE a.attrelid OPERATOR(pg_catalog.=) q.relation::pg_catalog.oid \
             AND (a.attname::pg_catalog.text OPERATOR(pg_catalog.=) \
             pg_catalog.jsonb_extract_path_text(q.definition, 'fields', f.field, 'name') \
             OR a.attnum::pg_catalog.text OPERATOR(pg_catalog.=) \
             pg_catalog.jsonb_extract_path_text(q.definition, 'fields', f.field, 'number'))) ORDER BY 1",
            &[(types::OID, Some(Value::oid(kind)))],
        );
        (0..rows.len()).filter_map(|row| rows.value(row, 1).map(Value::to_oid)).collect()
    })
}

/// Locks the definition of a queue against other changes of it. The caller has locked the table.
pub fn lock_definition(table: Oid) -> Result<()> {
    as_owner(|spi| {
        spi.run_with(
            "SELECT FROM xqueue.queue WHERE relation::pg_catalog.oid OPERATOR(pg_catalog.=) $1 FOR UPDATE",
            &[(types::OID, Some(Value::oid(table)))],
        );
    })
}

fn json(definition: &Definition) -> Result<serde_json::Value> {
    serde_json::to_value(definition).map_err(|error| {
        Error::new(PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, format!("cannot write: {error}"))
    })
}

/// Returns how many tables of an owner are queues in this database. Runs no statement, because a committing transaction
/// has no snapshot for it.
pub fn count_of(owner: Oid) -> usize {
    let mut count = 0;
    own_table::for_each(REGISTRY, |row| {
        let table = row.value(1).map(Value::to_oid);
        count += usize::from(table.and_then(catalog::owner_of) == Some(owner));
    });
    count
}

/// Pauses a queue for `length`, or until it is resumed if `length` is None.
pub fn pause(table: Oid, length: Option<Value>) -> Result<()> {
    let sql = "UPDATE xqueue.queue SET paused_until = coalesce(pg_catalog.clock_timestamp() \
               OPERATOR(pg_catalog.+) $2, 'infinity')";
    change(table, sql, Some((types::INTERVAL, length)))
}

pub fn resume(table: Oid) -> Result<()> {
    change(table, "UPDATE xqueue.queue SET paused_until = NULL", None)
}

pub fn delete(table: Oid) -> Result<()> {
    change(table, "DELETE FROM xqueue.queue", None)
}

/// Returns whether a table is in the schema of the extension, which is for the extension's own tables.
pub fn is_own_table(relation: &Relation) -> bool {
    let schema_of = |table| catalog::table_name(table).map(|(schema, _)| schema);
    let registry = catalog::own_relation(REGISTRY);
    registry.is_some_and(|registry| schema_of(registry) == schema_of(relation.oid()))
}
