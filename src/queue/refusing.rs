//! Finds user indexes and generated columns that can refuse a change of a task's state because of its values, without
//! running user code.

use crate::queue::Queue;
use crate::server::relation::{LockMode, Relation};
use crate::server::{index, types};
use pgrx::pg_sys::Oid;
use xqueue_core::field::Field;
use xqueue_core::statement::Index;
use xqueue_core::status::Status;

impl Queue {
    /// Returns whether the table has such an index or column. The caller holds a lock on the table.
    pub fn may_refuse_values(&self) -> bool {
        *self.may_refuse_values.get_or_init(|| {
            let Some(relation) = Relation::open(self.table, LockMode::None) else { return true };
            relation.computes_columns_of(|number| self.is_own_column(number))
                || !self.refusing_indexes(&relation).is_empty()
        })
    }

    /// Returns the user's indexes that can refuse a task when the queue's own columns change.
    pub(super) fn refusing_indexes(&self, relation: &Relation) -> Vec<Oid> {
        let is_own = |number| self.is_own_column(number);
        let mut found =
            relation.indexes_that_may_refuse(is_own, |number| self.keeps_length(number));
        if !found.is_empty() {
            let needed = Index::ALL.into_iter().filter(|index| self.sql.needs_index(*index));
            let own = self.serving(relation, &index::of(relation), needed);
            found.retain(|index| !own.iter().any(|(_, own)| own == index));
        }
        found
    }

    /// Returns whether a column is the status column and all its values have the same length.
    fn keeps_length(&self, number: i16) -> bool {
        let length = |status| self.definition.options.label(status).len();
        let has_one =
            || Status::ALL.into_iter().all(|status| length(status) == length(Status::Ready));
        let is_integer =
            || self.column_of(Field::Status).is_some_and(|c| types::is_integer(c.base));
        number == self.number_of(Field::Status) && (is_integer() || has_one())
    }
}
