//! Logical replication: recognizes tables that are copies of another server's.

use crate::server::relation::{LockMode, Relation};
use crate::server::snapshot::Snapshot;
use pgrx::pg_sys::Oid;

/// The catalogs `pg_subscription` and `pg_subscription_rel`, and the latter's index by table.
pub const CATALOGUE: Oid = Oid::from_u32(6100);
const TABLES: Oid = Oid::from_u32(6102);
const TABLES_BY_OID: Oid = Oid::from_u32(6117);
/// The column that contains the table.
const TABLE: i16 = 2;

/// Returns whether a table is a copy now, independently of the transaction's snapshot.
pub fn copies(table: Oid) -> bool {
    let tables = Relation::open(TABLES, LockMode::AccessShare);
    let by_oid = (TABLES_BY_OID, TABLE);
    let row = tables.and_then(|tables| tables.first(by_oid, table, &Snapshot::latest(), |_| ()));
    row.is_some()
}
