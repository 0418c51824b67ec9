//! Finds what a queue's table has lost: columns, and objects made by `upgrade`.

use crate::error::{Error, Result};
use crate::queue::triggers::{self, Tracking};
use crate::queue::{self, Queue};
use crate::server::catalog;
use crate::server::index;
use crate::server::relation::{LockMode, Relation};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use xqueue_core::statement::{Index, TRACKING_TRIGGERS};

impl Queue {
    /// Describes the missing objects for users. The caller holds a lock on the table. `is_copy`: the table is a
    /// subscriber's copy.
    pub fn lack(&self, is_copy: bool) -> Option<String> {
        if !self.tracking.is_complete(is_copy) {
            let what =
                "triggers are missing or disabled: changes are not counted, and wake no consumer";
            return Some(self.made_anew(what));
        }
        self.lost.get_or_init(|| self.find_lost()).clone()
    }

    /// Returns whether the table seems to be in the middle of a restore: its definition is restored, but not all of its
    /// triggers exist. Disabled triggers exist. The caller holds a lock on the table.
    pub fn awaits_triggers(&self) -> Result<bool> {
        if self.tracking != Tracking::Nothing
            || queue::read(self.table)?.is_none_or(|entry| entry.same_table)
        {
            return Ok(false);
        }
        let Some(relation) = Relation::open(self.table, LockMode::None) else { return Ok(false) };
        let own = triggers::own(&relation);
        let exists = |name: &&str| own.iter().any(|known| known.name == **name);
        Ok(!TRACKING_TRIGGERS.iter().all(exists))
    }

    /// Returns which key or indexes are missing; None if all exist.
    fn find_lost(&self) -> Option<String> {
        let relation = Relation::open(self.table, LockMode::None)?;
        let key: Vec<i16> = self.key.iter().map(|key| key.number).collect();
        let is_never_null = |number| {
            self.columns().iter().any(|column| column.number == number && column.is_not_null)
        };
        let is_key = |known: &Vec<i16>| {
            known.len() == key.len() && known.iter().all(|number| key.contains(number))
        };
        let keys = index::plain_keys(&relation);
        if !key.iter().copied().all(is_never_null) || !keys.iter().any(is_key) {
            let (table, key) = (&self.name, self.sql.key_list(""));
            return Some(format!(
                "the key ({key}) is not unique. ALTER TABLE {table} ADD PRIMARY KEY ({key}); makes it so"
            ));
        }
        // The database's worker calls this, so a table with many expressions is not examined.
        if relation.has_many_expressions() {
            return None;
        }
        let needed = || Index::ALL.into_iter().filter(|index| self.sql.needs_index(*index));
        let serving = self.serving(&relation, &index::of(&relation), needed());
        let is_lost = |wanted: &Index| !serving.iter().any(|(index, _)| index == wanted);
        let made = &self.definition.made.indexes;
        let name = |index: Index| match made.get(index.suffix()) {
            Some(name) => format!("index {name}"),
            None => format!("index {}", self.sql.index_shape(index)),
        };
        let lost: Vec<String> = needed().filter(is_lost).map(name).collect();
        let what =
            || format!("missing or not valid: {}; calls may read the whole table", lost.join(", "));
        (!lost.is_empty()).then(|| self.made_anew(&what()))
    }

    fn made_anew(&self, what: &str) -> String {
        let name = catalog::quote_literal(&self.name);
        format!("{what}. SELECT xqueue.upgrade({name}); makes them again")
    }
}

/// Returns the error for a queue whose table lacks one of its columns.
pub(super) fn lost_column(table: Oid, column: &str) -> Error {
    let name = queue::display_name(table);
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
        format!("queue \"{name}\" has lost its column \"{column}\""),
    )
    .hint(format!(
        "SELECT xqueue.upgrade({}); adds what is missing.",
        catalog::quote_literal(&name)
    ))
}

/// Returns the error for a queue whose table lacks a column of its order, which `upgrade` cannot add.
pub(super) fn lost_order(table: Oid, column: &str) -> Error {
    let name = catalog::quote_literal(&queue::display_name(table));
    lost_column(table, column).hint(format!(
        "SELECT xqueue.upgrade({name}, '{{\"fields\": {{\"order\": []}}}}'); orders the tasks by the key alone. \
         Other columns can be named in the list."
    ))
}
