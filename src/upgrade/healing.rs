//! Repairs of a queue after manual commands:
//! 1. Triggers that were disabled and enabled again, for example by a program that loads fixtures, fire for local
//!    changes only. They have to fire always, because replication brings changes too.
//! 2. A renamed column still has its old name in the table's note.

use crate::error::OrRaise;
use crate::queue::triggers::{self, Tracking};
use crate::queue::{self, Entry, Queue};
use crate::server::relation::{self, LockMode, Relation};
use crate::server::{catalog, spi, xact};
use crate::upgrade::{is_noted, write_note};
use pgrx::pg_sys::Oid;

/// Returns whether a queue's table needs a repair. The caller holds a lock on the table.
pub fn is_ill(queue: &Queue) -> bool {
    let is_noted = |relation: Relation| {
        let entry = queue::read(queue.table).or_raise();
        entry.is_none_or(|entry| is_noted(&relation, &entry.definition, entry.same_table))
    };
    queue.tracking == Tracking::Local
        || !Relation::open(queue.table, LockMode::None).is_none_or(is_noted)
}

/// Makes the enabled triggers of a queue fire always, and corrects its note. Returns false if the table is locked or
/// the repair fails.
pub fn heal(table: Oid) -> bool {
    let healed = xact::try_in_transaction(|| {
        if !relation::try_lock(table, LockMode::ShareRowExclusive) {
            return false;
        }
        let Some(relation) = Relation::open(table, LockMode::None) else { return true };
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
