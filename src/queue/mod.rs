//! The tables that are queues, and their descriptions. Each description is read once and kept until an invalidation
//! reports a change of the table.

pub mod authors;
pub mod census;
pub mod digest;
mod direct;
mod fires;
mod fitness;
mod handle;
mod hash;
mod kept;
mod labels;
mod lacking;
mod order;
pub mod owner;
mod plans;
mod position;
pub mod recount;
mod refusing;
mod requirements;
mod run;
pub mod shown;
mod start;
mod status;
mod store;
mod table_names;
pub mod times;
pub mod triggers;
mod tube;
mod user_code;
mod wanted_index;

use crate::error::{Error, Result};
use crate::parts::slot;
use crate::server::relation::{self, ColumnType, LockMode, Relation};
use crate::server::value::Value;
use crate::server::{callbacks, catalog, injection, process};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::cell::Cell;
use std::rc::Rc;
use xqueue_core::definition::Column;

pub use direct::Direct;
pub use fires::Fired;
pub use fitness::Fitness;
pub use handle::{KeyType, Queue};
pub use kept::{is_unchanged, stale, stale_type};
pub use order::{has_positions, order_columns};
pub use plans::{Arguments, Statement};
pub use start::Start;
pub use status::StatusColumn;
pub use store::{
    Entry, count_of, delete, is_own_table, lock_definition, pause, read, redefine,
    require_registry, resume, tables, tables_with, try_lock, write,
};
pub use table_names::table_names;
pub use wanted_index::WantedIndex;

thread_local! {
    static WATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Returns the queue of a table. The caller holds a lock on the table.
pub fn get(table: Oid) -> Result<Rc<Queue>> {
    find(table)?.ok_or_else(|| not_a_queue(table))
}

/// Returns the queue of a table; None if the table is not a queue.
pub fn find(table: Oid) -> Result<Option<Rc<Queue>>> {
    if let Some(queue) = kept::get(table) {
        return Ok(Some(queue));
    }
    if !WATCHING.replace(true) {
        callbacks::watch_definitions();
    }
    let seen = kept::stale_count();
    let database = process::database();
    let slot = || slot::find(database.into(), table.into()).and_then(slot::lock);
    let redefinitions = slot().map_or(0, |slot| slot.table.redefinitions());
    let Some(entry) = read(table)? else { return Ok(None) };
    injection::point(c"xqueue-queue-is-read");
    let Some(relation) = Relation::open(table, LockMode::AccessShare) else {
        // Creating a rule can have turned the table into a view.
        return catalog::relation_kind(table).map_or(Ok(None), |_| Err(not_a_queue(table)));
    };
    let queue = Rc::new(Queue::describe(&relation, entry, redefinitions)?);
    kept::keep(&queue, seen);
    Ok(Some(queue))
}

/// Returns the current description of a queue, for waiting consumers: they are woken shortly before the invalidation
/// arrives.
pub fn current(table: Oid) -> Result<Rc<Queue>> {
    let queue = get(table)?;
    let redefinitions = slot::lock(queue.slot).map(|slot| slot.table.redefinitions());
    match redefinitions {
        Some(number) if number != queue.redefinitions => {
            find_anew(table)?.ok_or_else(|| not_a_queue(table))
        }
        _ => Ok(queue),
    }
}

/// Returns the queue of a table with its current definition. A definition is visible shortly before its invalidation
/// arrives.
pub fn find_anew(table: Oid) -> Result<Option<Rc<Queue>>> {
    stale(Some(table));
    find(table)
}

/// Returns the column that a definition means: by number, which survives a rename, or by name if no column has that
/// number. In a restored table, whose numbers differ, only the name counts.
pub fn column_of(relation: &Relation, wanted: &Column, same_table: bool) -> Option<ColumnType> {
    let columns = relation.columns();
    let named = columns.iter().find(|column| column.name == wanted.name);
    let numbered = columns.iter().find(|column| column.number == wanted.number);
    // Another column can have got the old name of a renamed one.
    if same_table { numbered.or(named) } else { named }.cloned()
}

pub fn written(column: &ColumnType) -> Column {
    Column { name: column.name.clone(), number: column.number }
}

/// Returns the SQL name of a table.
pub fn display_name(table: Oid) -> String {
    match catalog::table_name(table) {
        Some((schema, name)) => format!("{}.{}", catalog::quote(&schema), catalog::quote(&name)),
        None => format!("with oid {}", u32::from(table)),
    }
}

/// Formats a key for users.
pub fn key_text(key: &[Value]) -> String {
    let parts: Vec<String> = key.iter().map(|value| value.shown()).collect();
    match parts.as_slice() {
        [single] => single.clone(),
        _ => format!("({})", parts.join(", ")),
    }
}

pub fn not_a_queue(table: Oid) -> Error {
    if catalog::table_name(table).is_none() {
        return Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("the table with oid {} has been dropped", u32::from(table)),
        )
        .hint("Create the queue again.");
    }
    let name = display_name(table);
    if catalog::relation_kind(table) != Some(relation::TABLE) {
        return Error::new(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{name}\" is not an ordinary table, and so no queue"),
        )
        .hint("Name the queue's table.");
    }
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("table \"{name}\" is not a queue"),
    )
    .hint(format!("SELECT xqueue.upgrade({}); makes it one.", catalog::quote_literal(&name)))
}
