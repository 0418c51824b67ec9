//! The indexes and triggers that a queue needs, and those that a table has.

use crate::model::definition::{Field, Made};
use crate::pg::relation::{ColumnType, Relation};
use crate::pg::{catalog, spi, types};
use crate::statement::{Index, TRIGGERS, Table};
use std::collections::BTreeMap;

pub fn add_indexes(
    relation: &Relation,
    sql: &Table,
    fields: &BTreeMap<Field, ColumnType>,
    key: &[ColumnType],
    ddl: &mut Vec<String>,
    made: &mut Made,
) {
    let present = present_indexes(relation);
    let status = fields.get(&Field::Status).map_or(types::CHAR, |status| status.oid);
    for index in Index::ALL {
        if !sql.needs_index(index) {
            drop_index(relation, index, ddl, made);
            continue;
        }
        // An expression stands as 0 among the numbers of the columns.
        let (lane, expressions) = match index.is_by_lane() {
            true => (Some(0), sql.deparsed_lane()),
            false => (None, String::new()),
        };
        let begins = sql.index_fields(index).into_iter();
        let begins = begins.filter_map(|field| fields.get(&field)).map(|column| column.number);
        let ends = key.iter().take(sql.index_key(index).len()).map(|column| column.number);
        let numbers: Vec<i16> = lane.into_iter().chain(begins).chain(ends).collect();
        let predicates = sql.deparsed_predicates(index, &catalog::short_type_name(status));
        // What we have made ourselves need not be recognised by its text.
        let ours = made.indexes.get(index.suffix()).cloned();
        let fits = |known: &PresentIndex| {
            let is_told = predicates.contains(&known.predicate) && known.expressions == expressions;
            known.columns == numbers
                && (known.is_unique || !index.is_unique())
                && (is_told || ours.as_ref() == Some(&known.name))
        };
        if !present.iter().any(fits) {
            drop_index(relation, index, ddl, made);
            let name = catalog::free_name(&relation.name(), index.suffix(), relation.schema());
            ddl.push(sql.create_index(index, &catalog::quote(&name)));
            made.indexes.insert(index.suffix().to_string(), name);
        }
    }
}

/// An index that is not needed (any more), if it is ours.
fn drop_index(relation: &Relation, index: Index, ddl: &mut Vec<String>, made: &mut Made) {
    if let Some(name) = made.indexes.remove(index.suffix()) {
        ddl.extend(drop_index_if_there(relation, &name));
    }
}

pub fn drop_index_if_there(relation: &Relation, name: &str) -> Option<String> {
    let schema = catalog::quote(&catalog::schema_name(relation.schema()));
    catalog::has_relation(name, relation.schema())
        .then(|| format!("DROP INDEX {schema}.{}", catalog::quote(name)))
}

struct PresentIndex {
    name: String,
    columns: Vec<i16>,
    expressions: String,
    predicate: String,
    is_unique: bool,
}

/// The partial indexes of a table that have the default order.
fn present_indexes(relation: &Relation) -> Vec<PresentIndex> {
    spi::connect(|spi| {
        let rows = spi.run_with(
            "SELECT pg_catalog.array_to_string(i.indkey::pg_catalog.int2[], ' '), \
             pg_catalog.pg_get_expr(i.indpred, i.indrelid), c.relname, \
             coalesce(pg_catalog.pg_get_expr(i.indexprs, i.indrelid), ''), i.indisunique FROM pg_catalog.pg_index i \
             JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
             JOIN pg_catalog.pg_am am ON am.oid = c.relam AND am.amname = 'btree' \
             WHERE i.indrelid = $1 AND i.indisvalid AND i.indpred IS NOT NULL \
             AND 0 = ALL (i.indoption::pg_catalog.int2[])",
            &[(types::OID, Some(relation.oid().into()))],
        );
        let numbers = |text: String| text.split(' ').filter_map(|part| part.parse().ok()).collect();
        (0..rows.len())
            .map(|row| PresentIndex {
                columns: numbers(rows.text(row, 1).unwrap_or_default()),
                predicate: rows.text(row, 2).unwrap_or_default(),
                name: rows.text(row, 3).unwrap_or_default(),
                expressions: rows.text(row, 4).unwrap_or_default(),
                is_unique: rows.text(row, 5).is_some_and(|flag| flag == "t"),
            })
            .collect()
    })
}

/// The triggers that are missing, or not as they have to be. `before`: the queue as it was. True if
/// some of those that it had have not fired for all, so that nobody knows what has happened.
pub fn add_triggers(
    relation: &Relation,
    sql: &Table,
    before: Option<&Table>,
    ddl: &mut Vec<String>,
) -> bool {
    let enabled = enabled_triggers(relation);
    let mut has_missed = false;
    let wanted = sql.triggers();
    let known = before.map(Table::triggers).unwrap_or_default();
    for name in TRIGGERS {
        let of = |triggers: &[(&'static str, Vec<String>)]| {
            triggers.iter().find(|(trigger, _)| *trigger == name).map(|(_, ddl)| ddl.clone())
        };
        let there = enabled.iter().find(|(trigger, _)| trigger == name);
        let (wanted, known) = (of(&wanted), of(&known));
        let is_right = known == wanted;
        has_missed |= known.is_some() && !there.is_some_and(|(_, always)| *always);
        match (there, wanted) {
            (Some((_, always)), Some(wanted)) if is_right => {
                ddl.extend(wanted[1..].iter().filter(|_| !always).cloned());
            }
            (there, wanted) => {
                ddl.extend(there.map(|_| sql.drop_trigger(name)));
                ddl.extend(wanted.unwrap_or_default());
            }
        }
    }
    has_missed
}

/// Our triggers on a table, and whether each fires always.
pub fn enabled_triggers(relation: &Relation) -> Vec<(String, bool)> {
    spi::connect(|spi| {
        let rows = spi.run_with(
            "SELECT t.tgname, t.tgenabled = 'A' FROM pg_catalog.pg_trigger t \
             WHERE t.tgrelid = $1 AND NOT t.tgisinternal",
            &[(types::OID, Some(relation.oid().into()))],
        );
        (0..rows.len())
            .filter_map(|row| Some((rows.text(row, 1)?, rows.text(row, 2)? == "t")))
            .filter(|(name, _)| TRIGGERS.contains(&name.as_str()))
            .collect()
    })
}
