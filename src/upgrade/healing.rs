//! What commands by hand leave behind. Triggers that were disabled and enabled again, as programs do that load
//! fixtures, fire for local changes only: they have to fire always, as replication brings changes too. A column that
//! was renamed has its old name in the table's note.

use crate::error::OrRaise;
use crate::queue::triggers::{self, Tracking};
use crate::queue::{self, Entry, Queue};
use crate::server::relation::{self, Lock, Relation};
use crate::server::{catalog, spi, xact};
use crate::upgrade::{is_noted, write_note};
use pgrx::pg_sys::Oid;

/// Returns whether there is something to heal of a queue's table, on which the caller holds a lock.
pub fn is_ill(queue: &Queue) -> bool {
    let is_noted = |relation: Relation| {
        let entry = queue::read(queue.table).or_raise();
        entry.is_none_or(|entry| is_noted(&relation, &entry.definition, entry.same_table))
    };
    queue.tracking == Tracking::Local
        || !Relation::open(queue.table, Lock::None).is_none_or(is_noted)
}

/// Makes the enabled triggers of a queue fire always, and its note say what is so; false if the table is locked, or
/// that fails.
pub fn heal(table: Oid) -> bool {
    let healed = xact::try_in_transaction(|| {
        if !relation::try_lock(table, Lock::ShareRowExclusive) {
            return false;
        }
        let Some(relation) = Relation::open(table, Lock::None) else { return true };
        let Some(queue) = queue::find(table).or_raise() else { return true };
        let mut triggers = triggers::own(&relation);
        triggers.retain(|trigger| {
            trigger.fires
                && !trigger.fires_always
                && triggers::is_right(trigger, &relation, &queue.sql)
        });
        if let Some(Entry { definition, same_table, .. }) = queue::read(table).or_raise()
            && !is_noted(&relation, &definition, same_table)
        {
            write_note(&relation, &definition, same_table);
        }
        drop(relation);
        let name = queue::display_name(table);
        spi::connect(|spi| {
            for trigger in triggers {
                let trigger = catalog::quote(&trigger.name);
                spi.run(&format!("ALTER TABLE {name} ENABLE ALWAYS TRIGGER {trigger}"));
            }
        });
        true
    });
    healed.unwrap_or(false)
}
