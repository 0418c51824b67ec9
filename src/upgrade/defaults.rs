//! Recognizes the defaults that `upgrade` sets, by the server's text of them. A default of the user's own is left alone:
//! in the user's own columns, and for the values that tasks give.

use crate::server::relation::{ColumnType, Relation};
use crate::server::user::Pinned;
use crate::server::value::Value;
use crate::server::{catalog, spi, types};
use std::collections::BTreeMap;
use xqueue_core::definition::Made;
use xqueue_core::field::Field;
use xqueue_core::names::Id;
use xqueue_core::statement::Table;

/// Adds DDL for the fields' defaults that are missing or are not as an earlier upgrade set them.
pub fn set_fields(
    relation: &Relation,
    sql: &Table,
    fields: &BTreeMap<Field, ColumnType>,
    ddl: &mut Vec<String>,
    made: &mut Made,
) {
    // A column that this upgrade adds has no number yet.
    for (field, column) in fields.iter().filter(|(_, column)| column.number != 0) {
        let is_made = made.columns.iter().any(|made| made.number == column.number);
        let is_right = match field {
            Field::Status if !column.has_default => false,
            Field::Status => !(is_made || made.status_default) || is_ready(relation, sql, column),
            Field::Attempts | Field::Priority if !column.has_default => {
                !(is_made && column.is_not_null)
            }
            Field::Attempts => {
                !is_made || shown(relation, column).is_none_or(|shown| shown.default == "0")
            }
            _ => true,
        };
        if !is_right {
            ddl.push(sql.set_default(*field));
            made.status_default |= *field == Field::Status && !is_made;
        }
    }
}

fn is_ready(relation: &Relation, sql: &Table, column: &ColumnType) -> bool {
    let ready = sql.ready();
    shown(relation, column).is_none_or(|Shown { default, kind }| {
        let is_number = types::is_integer(column.base) && default == ready.trim_matches('\'');
        is_number || as_shown(ready).iter().any(|ready| default == format!("{ready}::{kind}"))
    })
}

/// Returns a literal as the server can show it: without E, and with single backslashes unless
/// `standard_conforming_strings` is off.
fn as_shown(literal: &str) -> [String; 2] {
    match literal.strip_prefix('E') {
        Some(escaped) => [escaped.replace(r"\\", r"\"), escaped.into()],
        None => [literal.into(), literal.into()],
    }
}

/// Returns whether the key's default or identity is as an earlier upgrade made it. A function's name can have changed
/// since, so that defaults with functions of users are not compared.
pub fn is_of_id(id: &Id, relation: &Relation, sql: &Table, column: &ColumnType) -> bool {
    let functions = match id {
        Id::AutoIncrement => return column.is_identity,
        Id::Time64 => {
            let table = catalog::quote_literal(&sql.qualified());
            as_shown(&table).map(|table| format!("xqueue.time64({table}::regclass)")).to_vec()
        }
        // The server's own function exists since PostgreSQL 18.
        Id::Uuid => vec!["xqueue.uuidv7()".to_string(), "uuidv7()".to_string()],
        Id::Off | Id::Required | Id::Function(_) => return true,
    };
    shown(relation, column).is_none_or(|Shown { default, .. }| {
        functions
            .iter()
            .any(|function| default == *function || default == format!("({function})::text"))
    })
}

pub(super) struct Shown {
    pub(super) default: String,
    /// The type of a constant for the column, without a length.
    kind: String,
}

/// Returns a column's default with names that do not depend on the caller's search path; None if the caller's snapshot
/// is older than the default.
pub(super) fn shown(relation: &Relation, column: &ColumnType) -> Option<Shown> {
    let _path = Pinned::search_path();
    let number = column.number.into();
    spi::connect(|spi| {
        let rows = spi.run_with(
            "SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid), pg_catalog.format_type($3, -1) \
             FROM pg_catalog.pg_attrdef d WHERE d.adrelid OPERATOR(pg_catalog.=) $1 \
             AND d.adnum OPERATOR(pg_catalog.=) $2",
            &[
                (types::OID, Some(Value::oid(relation.oid()))),
                (types::INT4, Some(Value::int4(number))),
                (types::OID, Some(Value::oid(column.base))),
            ],
        );
        let (default, kind) = rows.text(0, 1).zip(rows.text(0, 2))?;
        Some(Shown { default, kind })
    })
}
