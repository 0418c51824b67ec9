//! The indexes and triggers that a queue needs, and those that a table has.

use crate::model::definition::{Field, Made};
use crate::pg::relation::{ColumnType, Relation};
use crate::pg::{catalog, index, spi, types};
use crate::registry::WantedIndex;
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
    let present = index::of(relation);
    for index in Index::ALL {
        if !sql.needs_index(index) {
            drop_index(relation, index, ddl, made);
            continue;
        }
        let wanted = WantedIndex::new(sql, index, fields, key, made);
        if !present.iter().any(|known| wanted.is_served_by(known)) {
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
            "SELECT t.tgname, t.tgenabled OPERATOR(pg_catalog.=) 'A' FROM pg_catalog.pg_trigger t \
             WHERE t.tgrelid OPERATOR(pg_catalog.=) $1 AND NOT t.tgisinternal",
            &[(types::OID, Some(relation.oid().into()))],
        );
        (0..rows.len())
            .filter_map(|row| Some((rows.text(row, 1)?, rows.text(row, 2)? == "t")))
            .filter(|(name, _)| TRIGGERS.contains(&name.as_str()))
            .collect()
    })
}
