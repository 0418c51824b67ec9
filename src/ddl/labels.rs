//! Renamed enum labels: the registry follows the new label, and every process reads the queue again.

use crate::error::Result;
use crate::queue::{self, Entry};
use crate::server::command::RenamedLabel;
use crate::server::relation::{self, LockMode, Relation};
use xqueue_core::field::Field;
use xqueue_core::status::Status;

/// Replaces the old label by the new one in the definitions of queues. The statement has already renamed it.
pub fn follow(renamed: &RenamedLabel) -> Result<()> {
    let RenamedLabel { kind, old, new } = renamed;
    for table in queue::tables_with(*kind)? {
        // The table is locked before its row of the registry, as everywhere: the worker waits for such a row if the
        // table was dropped meanwhile.
        let Some(relation) = Relation::open(table, LockMode::RowExclusive) else { continue };
        queue::lock_definition(table)?;
        // An unreadable definition raises its error on every use of the queue; it does not fail this command.
        let Ok(Some(Entry { mut definition, same_table, .. })) = queue::read(table) else {
            continue;
        };
        let is_of_enum = |field| {
            let column = definition.fields.get(&field);
            let column = column.and_then(|c| queue::column_of(&relation, c, same_table));
            column.is_some_and(|column| column.base == *kind)
        };
        let (has_states, has_tubes) = (is_of_enum(Field::Status), is_of_enum(Field::Tube));
        if !has_states && !has_tubes {
            continue;
        }
        let options = &mut definition.options;
        let is_old = |status: &Status| has_states && options.label(*status) == *old;
        if let Some(status) = Status::ALL.into_iter().find(is_old) {
            options.states.insert(status, new.clone());
        }
        let tubes =
            options.tube_stats.iter_mut().flatten().filter(|tube| has_tubes && *tube == old);
        tubes.for_each(|tube| tube.clone_from(new));
        queue::redefine(table, &definition)?;
        // Consumers are not woken for this change: they would read the new definition before their caches know the new
        // label. This invalidation renews both together.
        relation::invalidate(table);
    }
    Ok(())
}
