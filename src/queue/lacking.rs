//! What a queue's table has lost of what `upgrade` has made.

use crate::queue::Queue;
use crate::server::catalog;
use crate::server::index;
use crate::server::relation::{Lock, Relation};
use crate::statement::Index;

impl Queue {
    /// Returns what is missing, for people, on whose table the caller holds a lock. `is_copy`: the table is a subscriber's
    /// copy.
    pub fn lack(&self, is_copy: bool) -> Option<String> {
        let what = match self.tracking.is_complete(is_copy) {
            false => {
                "triggers are missing or disabled: changes are not counted, and wake no consumer"
                    .into()
            }
            true => {
                let lost = self.lost_indexes.get_or_init(|| self.find_lost_indexes()).as_ref()?;
                format!("missing or not valid: {lost}; calls may read the whole table")
            }
        };
        let name = catalog::quote_literal(&self.name);
        Some(format!("{what}. SELECT xqueue.upgrade({name}); makes them anew"))
    }

    /// Returns the names that the missing indexes would have; None if there are none.
    fn find_lost_indexes(&self) -> Option<String> {
        let relation = Relation::open(self.table, Lock::None)?;
        let needed = || Index::ALL.into_iter().filter(|index| self.sql.needs_index(*index));
        let serving = self.serving(&relation, &index::of(&relation), needed());
        let is_lost = |wanted: &Index| !serving.iter().any(|(index, _)| index == wanted);
        let made = &self.definition.made.indexes;
        let name = |index: Index| match made.get(index.suffix()) {
            Some(name) => format!("index {name}"),
            None => format!("index {}", self.sql.index_shape(index)),
        };
        let lost: Vec<String> = needed().filter(is_lost).map(name).collect();
        (!lost.is_empty()).then(|| lost.join(", "))
    }
}
