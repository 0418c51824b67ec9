//! Rows of the extension's own tables. Reads see the latest committed state, independent of the transaction's snapshot,
//! and ignore privileges. Writes run with the rights of the tables' owner.

use crate::error::{Error, Result};
use crate::server::relation::{LockMode, Relation};
use crate::server::row::{Row, Tuple};
use crate::server::snapshot::Snapshot;
use crate::server::spi::{self, Spi};
use crate::server::value::Value;
use crate::server::{catalog, user};
use pgrx::pg_sys::Oid;
use std::ffi::CStr;

/// The table of queues.
pub const REGISTRY: &CStr = c"queue";

/// Returns the secret of this database.
pub fn secret() -> Result<[u64; 2]> {
    let table = catalog::own_relation(c"secret");
    let table = table.and_then(|table| Relation::open(table, LockMode::AccessShare));
    let key = table.and_then(|table| table.first_of_all(|row| row.value(1).map(Value::to_uuid))?);
    let key = u128::from_le_bytes(key.ok_or_else(Error::not_installed)?);
    Ok([key as u64, (key >> 64) as u64])
}

/// Runs `work` on the extension's own tables, with their owner's rights.
pub fn as_owner<T>(work: impl FnOnce(&Spi) -> T) -> Result<T> {
    let registry = catalog::own_relation(REGISTRY).ok_or_else(Error::not_installed)?;
    let owner =
        Relation::open(registry, LockMode::RowExclusive).ok_or_else(Error::not_installed)?.owner();
    let _role = user::act_restricted_as(owner);
    Ok(spi::connect(work))
}

/// Passes the registry row of a table to `see`.
pub fn registered<T>(table: Oid, see: impl FnOnce(&Tuple) -> T) -> Option<T> {
    let registry = Relation::open(catalog::own_relation(REGISTRY)?, LockMode::AccessShare)?;
    let by_table = (catalog::own_relation(c"queue_pkey")?, 1);
    registry.first(by_table, table, &Snapshot::latest(), see)
}

/// Passes all rows of table `name` to `see`.
pub fn for_each(name: &CStr, mut see: impl FnMut(&Tuple)) {
    let table = catalog::own_relation(name);
    if let Some(table) = table.and_then(|table| Relation::open(table, LockMode::AccessShare)) {
        table.scan(&Snapshot::latest(), |row| {
            see(row);
            true
        });
    }
}

/// Returns the result of `see` for the row whose first column, a uuid, is `key`; uses the index of that column.
pub fn row_of<T>(
    name: &CStr,
    index: &CStr,
    key: [u8; 16],
    see: impl FnOnce(&Tuple) -> T,
) -> Option<T> {
    let table = Relation::open(catalog::own_relation(name)?, LockMode::AccessShare)?;
    let index = catalog::own_relation(index)?;
    table.first_of_uuid((index, 1), key, &Snapshot::latest(), see)
}

/// Counts the rows of table `name` that have an oid in a column, by an index of that column, up to a limit. Includes
/// rows of transactions in progress.
pub fn count(name: &CStr, index: (&CStr, i16), value: Oid, limit: usize) -> usize {
    let table =
        catalog::own_relation(name).and_then(|table| Relation::open(table, LockMode::AccessShare));
    let (table, by) = (table, catalog::own_relation(index.0).map(|oid| (oid, index.1)));
    table.zip(by).map_or(0, |(table, by)| table.count_with_uncommitted(by, value, limit))
}
