//! Repairs of a queue after manual commands:
//! 1. Triggers that were disabled and enabled again, for example by a program that loads fixtures, fire for local
//!    changes only. They have to fire always, because replication brings changes too.
//! 2. A renamed column still has its old name in the registry and in the table's note. A dump contains names only.

use crate::error::OrRaise;
use crate::queue::triggers::{self, Tracking};
use crate::queue::{self, Entry, Queue};
use crate::server::relation::{self, LockMode, Relation};
use crate::server::{catalog, injection, spi, xact};
use crate::upgrade::{is_noted, write_note};
use pgrx::pg_sys::Oid;
use xqueue_core::definition::Definition;

/// Returns whether a queue's table needs a repair. The caller holds a lock on the table.
pub fn is_ill(queue: &Queue) -> bool {
    let has_its_names = |relation: Relation| {
        let entry = queue::read(queue.table).or_raise();
        entry.is_none_or(|Entry { definition, same_table, .. }| {
            is_noted(&relation, &definition, same_table)
                && present(&definition, &relation, same_table) == definition
        })
    };
    queue.tracking == Tracking::Local
        || !Relation::open(queue.table, LockMode::None).is_none_or(has_its_names)
}

/// Returns the definition with the present names of the columns.
fn present(definition: &Definition, relation: &Relation, same_table: bool) -> Definition {
    let mut present = definition.clone();
    let Definition { options, key, order, fields, made, .. } = &mut present;
    let columns = key.iter_mut().chain(order.iter_mut()).chain(fields.values_mut());
    for column in columns.chain(&mut made.columns) {
        if let Some(found) = queue::column_of(relation, column, same_table).filter(|_| same_table) {
            *column = queue::written(&found);
        }
    }
    for (field, name) in &mut options.fields.columns {
        if let Some(column) = fields.get(field) {
            name.clone_from(&column.name);
        }
    }
    if !order.is_empty() {
        options.fields.order = Some(order.iter().map(|column| column.name.clone()).collect());
    }
    present
}

/// Makes the enabled triggers of a queue fire always, and corrects the names of its columns. Returns false if the table is locked or
/// the repair fails.
pub fn heal(table: Oid) -> bool {
    let healed = xact::try_in_transaction(|| {
        if !relation::try_lock(table, LockMode::ShareRowExclusive) {
            return false;
        }
        // Commands name the table, and the name can become that of a locked table. The worker waits for no session.
        spi::connect(|spi| drop(spi.run("SET LOCAL lock_timeout = 1")));
        let Some(relation) = Relation::open(table, LockMode::None) else { return true };
        let Some(queue) = queue::find(table).or_raise() else { return true };
        let mut triggers = triggers::own(&relation);
        triggers.retain(|trigger| {
            trigger.fires
                && !trigger.fires_always
                && triggers::is_right(trigger, &relation, &queue.sql)
        });
        if let Some(Entry { definition, same_table, .. }) = queue::read(table).or_raise() {
            let present = present(&definition, &relation, same_table);
            if present != definition {
                queue::redefine(table, &present).or_raise();
            }
            if !is_noted(&relation, &present, same_table) {
                write_note(&relation, &present, same_table);
            }
        }
        drop(relation);
        let name = queue::display_name(table);
        injection::point(c"xqueue-queue-is-healed");
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
