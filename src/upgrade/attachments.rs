//! Compares the indexes and triggers of a table with the ones that its queue needs.

use crate::error::Result;
use crate::queue::{WantedIndex, triggers};
use crate::server::relation::{ColumnType, Relation};
use crate::server::value::Value;
use crate::server::{catalog, index, spi, types, xact};
use std::collections::BTreeMap;
use xqueue_core::definition::Made;
use xqueue_core::field::Field;
use xqueue_core::statement::{Index, TRIGGERS, Table};

/// The trigger that the indexes depend on.
pub const BINDER: &str = "xqueue_insert";

/// Adds DDL for indexes that are missing, wrong or not needed. Returns true if the queue's triggers do not depend on
/// one of the indexes that stay, for example after pg_upgrade.
pub fn add_indexes(
    relation: &Relation,
    sql: &Table,
    fields: &BTreeMap<Field, ColumnType>,
    order: &[ColumnType],
    is_restored: bool,
    ddl: &mut Vec<String>,
    made: &mut Made,
) -> bool {
    let (present, bound) = (index::of(relation), bound_indexes(relation));
    let is_known = |name: &&String| made.indexes.values().any(|known| known == *name);
    let mut renamed: Vec<String> = bound.iter().filter(|name| !is_known(name)).cloned().collect();
    for index in Index::ALL {
        if !sql.needs_index(index) {
            drop_index(relation, index, ddl, made);
            continue;
        }
        let wanted = WantedIndex::new(relation, sql, index, fields, order);
        let prefix = format!("xqueue_{}", relation.name());
        if let Some(known) = present.iter().find(|known| wanted.is_served_by(known)) {
            // The registry does not know an index that was renamed, or that of a restored table, yet.
            let name = catalog::table_name(known.oid).map(|(_, name)| name);
            let is_ours =
                |name: &String| renamed.contains(name) || is_restored && is_own_name(name, index);
            if let Some(name) = name.filter(is_ours) {
                renamed.retain(|other| *other != name);
                made.indexes.insert(index.suffix().to_string(), name);
            }
        } else {
            let dropped = drop_index(relation, index, ddl, made);
            let free = || catalog::free_name(&prefix, index.suffix(), relation.schema());
            let name = dropped.unwrap_or_else(free);
            ddl.push(sql.create_index(index, &catalog::quote(&name)));
            made.indexes.insert(index.suffix().to_string(), name);
        }
    }
    ddl.extend(renamed.iter().filter_map(|name| drop_index_if_there(relation, name)));
    let is_unbound = |name: &String| !bound.contains(name) && has_index(relation, name);
    // A fixed snapshot can be older than the dependencies.
    let may_bind = !xact::has_fixed_snapshot() && !xact::is_read_only();
    may_bind && made.indexes.values().any(is_unbound)
}

/// Returns whether the extension gives such a name to an index of this kind. The table can have been renamed since, and
/// long names are cut before the suffix; digits follow it where the name was in use.
fn is_own_name(name: &str, index: Index) -> bool {
    let name = name.trim_end_matches(|end: char| end.is_ascii_digit());
    name.starts_with("xqueue_") && name.ends_with(&format!("_{}", index.suffix()))
}

/// Drops an index that the extension made and that is no longer needed or has the wrong form. Returns its name if it
/// exists.
fn drop_index(
    relation: &Relation,
    index: Index,
    ddl: &mut Vec<String>,
    made: &mut Made,
) -> Option<String> {
    let name = made.indexes.remove(index.suffix())?;
    ddl.push(drop_index_if_there(relation, &name)?);
    Some(name)
}

/// Returns DDL that drops an index of the table by name. None if the table has no such index: another table of the
/// schema can have taken the name.
pub fn drop_index_if_there(relation: &Relation, name: &str) -> Option<String> {
    let schema = catalog::quote(&catalog::schema_name(relation.schema()));
    has_index(relation, name).then(|| format!("DROP INDEX {schema}.{}", catalog::quote(name)))
}

fn has_index(relation: &Relation, name: &str) -> bool {
    let is_it = |oid| catalog::table_name(oid).is_some_and(|(_, found)| found == name);
    relation.indexes().into_iter().any(is_it)
}

/// Makes the queue's triggers depend on the indexes that the extension made. This keeps others, for example schema
/// tools that do not know the indexes, from dropping them while the queue needs them.
pub fn bind_indexes(relation: &Relation, made: &Made) {
    let is_made = |index| {
        let name = catalog::table_name(index).map(|(_, name)| name);
        name.is_some_and(|name| made.indexes.values().any(|made| *made == name))
    };
    relation.bind_indexes(BINDER, is_made);
}

/// Returns the names of the indexes that `bind_indexes` has bound. A renamed index stays bound.
pub fn bound_indexes(relation: &Relation) -> Vec<String> {
    let sql = format!(
        "SELECT c.relname FROM pg_catalog.pg_trigger t \
         JOIN pg_catalog.pg_depend d ON d.objid OPERATOR(pg_catalog.=) t.oid \
         AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_trigger'::pg_catalog.regclass \
         AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass \
         JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) d.refobjid \
         AND c.relkind OPERATOR(pg_catalog.=) 'i' \
         WHERE t.tgrelid OPERATOR(pg_catalog.=) $1 AND t.tgname OPERATOR(pg_catalog.=) '{BINDER}'"
    );
    spi::connect(|spi| {
        let rows = spi.run_with(&sql, &[(types::OID, Some(Value::oid(relation.oid())))]);
        (0..rows.len()).filter_map(|row| rows.text(row, 1)).collect()
    })
}

/// Removes the dependencies, so that the indexes can be dropped and recreated.
pub fn unbind_indexes(relation: &Relation) {
    relation.unbind_indexes(BINDER);
}

/// Adds DDL for triggers that are missing or wrong. `before`: the queue's previous names. Returns true if one of the
/// queue's triggers did not fire in all sessions, so that it can have missed changes.
pub fn add_triggers(
    relation: &Relation,
    sql: &Table,
    before: Option<&Table>,
    ddl: &mut Vec<String>,
) -> Result<bool> {
    triggers::refuse_namesakes(relation)?;
    let present = triggers::own(relation);
    let mut has_missed = false;
    let wanted = sql.triggers();
    let known = before.map(Table::triggers).unwrap_or_default();
    for name in TRIGGERS {
        let there = present.iter().find(|trigger| trigger.name == name);
        let is_right =
            |sql: &Table| there.is_some_and(|trigger| triggers::is_right(trigger, relation, sql));
        let fires_always = there.is_some_and(|trigger| trigger.fires_always);
        let is_known = known.iter().any(|(known, _)| *known == name);
        has_missed |= is_known && !(fires_always && before.is_some_and(is_right));
        match wanted.iter().find(|(wanted, _)| *wanted == name) {
            Some((_, wanted)) if is_right(sql) => {
                ddl.extend(wanted[1..].iter().filter(|_| !fires_always).cloned());
            }
            wanted => {
                ddl.extend(there.map(|_| sql.drop_trigger(name)));
                ddl.extend(wanted.into_iter().flat_map(|(_, wanted)| wanted.clone()));
            }
        }
    }
    Ok(has_missed)
}
