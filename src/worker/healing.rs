//! Triggers that were disabled and enabled again by hand, as programs do that load fixtures, fire for local changes only.
//! They have to fire always: replication brings changes too.

use crate::queue::triggers;
use crate::server::relation::{self, Lock, Relation};
use crate::server::{catalog, spi, xact};
use pgrx::pg_sys::Oid;

/// Makes the enabled triggers of a queue fire always; false if the table is locked, or that fails.
pub fn heal(table: Oid) -> bool {
    let healed = xact::try_in_transaction(|| {
        if !relation::try_lock(table, Lock::ShareRowExclusive) {
            return false;
        }
        let Some(relation) = Relation::open(table, Lock::None) else { return true };
        let is_to_heal = |trigger: &triggers::NamedTrigger| {
            trigger.is_right && trigger.fires && !trigger.fires_always
        };
        let triggers: Vec<_> = triggers::own(&relation).into_iter().filter(is_to_heal).collect();
        drop(relation);
        let name = crate::queue::display_name(table);
        spi::connect(|spi| {
            for trigger in triggers {
                let trigger = catalog::quote(trigger.name);
                spi.run(&format!("ALTER TABLE {name} ENABLE ALWAYS TRIGGER {trigger}"));
            }
        });
        true
    });
    healed.unwrap_or(false)
}
