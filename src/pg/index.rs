//! The indexes of a table as the catalogues show them.

use super::relation::Relation;
use super::{spi, types};
use pgrx::pg_sys::Oid;

/// A valid btree index in the default order.
pub struct Index {
    pub oid: Oid,
    pub name: String,
    /// Numbers of the columns, 0 for an expression.
    pub columns: Vec<i16>,
    /// The expressions, as the server shows them.
    pub expressions: String,
    /// What rows it holds, as the server shows it, if not all.
    pub predicate: Option<String>,
    pub is_unique: bool,
}

pub fn of(relation: &Relation) -> Vec<Index> {
    spi::connect(|spi| {
        let rows = spi.run_with(
            "SELECT pg_catalog.array_to_string(i.indkey::pg_catalog.int2[], ' '), \
             pg_catalog.pg_get_expr(i.indpred, i.indrelid), c.relname, \
             coalesce(pg_catalog.pg_get_expr(i.indexprs, i.indrelid), ''), i.indisunique, c.oid \
             FROM pg_catalog.pg_index i \
             JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
             JOIN pg_catalog.pg_am am ON am.oid = c.relam AND am.amname = 'btree' \
             WHERE i.indrelid = $1 AND i.indisvalid \
             AND 0 = ALL (i.indoption::pg_catalog.int2[])",
            &[(types::OID, Some(relation.oid().into()))],
        );
        let numbers = |text: String| text.split(' ').filter_map(|part| part.parse().ok()).collect();
        (0..rows.len())
            .map(|row| Index {
                columns: numbers(rows.text(row, 1).unwrap_or_default()),
                predicate: rows.text(row, 2),
                name: rows.text(row, 3).unwrap_or_default(),
                expressions: rows.text(row, 4).unwrap_or_default(),
                is_unique: rows.text(row, 5).is_some_and(|flag| flag == "t"),
                oid: rows.datum(row, 6).map_or(Oid::INVALID, types::oid),
            })
            .collect()
    })
}
