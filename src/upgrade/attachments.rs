//! The indexes and triggers that a queue needs, and those that a table has.

use crate::model::definition::Made;
use crate::pg::relation::{ColumnType, Relation};
use crate::pg::{catalog, spi, types};
use crate::statement::{Index, TRIGGERS, Table};

#[allow(clippy::too_many_arguments, reason = "the parts of one table")]
pub fn add_indexes(
    relation: &Relation,
    sql: &Table,
    status: &ColumnType,
    owner: &ColumnType,
    runat: Option<&ColumnType>,
    key: &[ColumnType],
    ddl: &mut Vec<String>,
    made: &mut Made,
) {
    let present = present_indexes(relation);
    for index in Index::ALL {
        let numbers: Vec<i16> = match index {
            Index::Ready => key.iter().map(|column| column.number).collect(),
            Index::Taken => vec![owner.number],
            Index::Due => runat.map(|column| column.number).into_iter().collect(),
        };
        if numbers.is_empty() {
            drop_index(relation, index, ddl, made);
            continue;
        }
        let predicates = sql.deparsed_predicates(index, &catalog::short_type_name(status.oid));
        let fits = |known: &PresentIndex| {
            known.columns == numbers && predicates.contains(&known.predicate)
        };
        if !present.iter().any(fits) {
            let name = catalog::free_name(&relation.name(), index.suffix(), relation.schema());
            ddl.push(sql.create_index(index, &catalog::quote(&name)));
            made.indexes.insert(index.suffix().to_string(), name);
        }
    }
}

/// An index whose feature is off, if it is ours.
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
    columns: Vec<i16>,
    predicate: String,
}

/// The partial indexes of a table that have the default order.
fn present_indexes(relation: &Relation) -> Vec<PresentIndex> {
    spi::connect(|spi| {
        let rows = spi.run_with(
            "SELECT pg_catalog.array_to_string(i.indkey::pg_catalog.int2[], ' '), \
             pg_catalog.pg_get_expr(i.indpred, i.indrelid) FROM pg_catalog.pg_index i \
             JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
             JOIN pg_catalog.pg_am am ON am.oid = c.relam AND am.amname = 'btree' \
             WHERE i.indrelid = $1 AND i.indisvalid AND i.indpred IS NOT NULL \
             AND i.indexprs IS NULL AND 0 = ALL (i.indoption::pg_catalog.int2[])",
            &[(types::OID, Some(relation.oid().into()))],
        );
        let numbers = |text: String| text.split(' ').filter_map(|part| part.parse().ok()).collect();
        (0..rows.len())
            .map(|row| PresentIndex {
                columns: numbers(rows.text(row, 1).unwrap_or_default()),
                predicate: rows.text(row, 2).unwrap_or_default(),
            })
            .collect()
    })
}

pub fn add_triggers(relation: &Relation, sql: &Table, retrigger: bool, ddl: &mut Vec<String>) {
    let enabled = enabled_triggers(relation);
    let wanted = sql.triggers();
    for name in TRIGGERS {
        let is_wanted = wanted.iter().any(|(trigger, _)| *trigger == name);
        let is_there = enabled.iter().any(|(trigger, _)| trigger == name);
        if is_there && (!is_wanted || retrigger && name == "xqueue_update") {
            ddl.push(sql.drop_trigger(name));
        }
    }
    for (name, statements) in &wanted {
        match enabled.iter().find(|(trigger, _)| trigger == name) {
            Some((_, always)) if !retrigger || *name != "xqueue_update" => {
                ddl.extend(statements[1..].iter().filter(|_| !always).cloned());
            }
            _ => ddl.extend(statements.iter().cloned()),
        }
    }
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
