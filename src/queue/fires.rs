//! Which changes of a task fire something of a user's: a trigger, the check or action of a foreign key, a rule, or the
//! hook. The direct path makes the other changes, and fires the row triggers of puts, takes and acks.
//!
//! An update of the queue's own columns leaves the columns of a foreign key alone, on either side. The server then
//! skips the triggers of that key, with two exceptions:
//!
//! - The row was inserted or changed by the same transaction. A check of the row that is still put off tests only its
//!   newest version, so a statement has to put off the check of each new version.
//! - A reference of several columns is MATCH FULL, not valid, and only some of its columns are null. A statement
//!   refuses to update such a row; the direct path updates it.

use crate::queue::{Queue, triggers};
use crate::server::index;
use crate::server::relation::Relation;
use crate::server::row::Row;
use crate::server::trigger::{Event, ForeignKey};
use crate::server::xact;
use xqueue_core::statement::Table;

/// Something of a user's that a change fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fired {
    Nothing,
    /// Row triggers without transition tables.
    RowTriggers,
    /// Something that only a statement fires.
    More,
}

/// The changes of a task that fire something of a user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fires {
    insert: Fired,
    /// A BEFORE trigger can change a new row.
    before_insert: bool,
    /// An update that sets only columns of the queue's own.
    update: Fired,
    delete: Fired,
    /// A BEFORE trigger can prevent a deletion.
    keeps: bool,
    /// Such an update of a row that the same transaction has inserted or changed.
    second_update: bool,
}

impl Fires {
    pub(super) const ALL: Fires = Fires {
        insert: Fired::More,
        before_insert: true,
        update: Fired::More,
        delete: Fired::More,
        keeps: true,
        second_update: true,
    };

    /// `is_own`: a column is the queue's own.
    pub(super) fn of(relation: &Relation, sql: &Table, is_own: impl Fn(i16) -> bool) -> Fires {
        if relation.has_rules() {
            return Fires::ALL;
        }
        let is_any_own = |columns: &[i16]| columns.iter().any(|number| is_own(*number));
        let nothing = Fired::Nothing;
        let mut fires = Fires {
            insert: nothing,
            before_insert: false,
            update: nothing,
            delete: nothing,
            keeps: false,
            second_update: false,
        };
        // A BEFORE trigger can change columns from which others are computed.
        let has_generated = relation.columns().iter().any(|column| column.is_generated);
        for trigger in relation.triggers() {
            if trigger.is_disabled || triggers::is_right(&trigger, relation, sql) {
                continue;
            }
            let fires_at_update = || match trigger.foreign_key {
                Some(ForeignKey::From) => is_any_own(&relation.foreign_key_columns()),
                Some(ForeignKey::To) => index::keys(relation).iter().any(|key| is_any_own(key)),
                None => trigger.columns.is_empty() || is_any_own(&trigger.columns),
            };
            let is_simple = trigger.is_for_row() && !trigger.has_tables;
            let fired = if is_simple { Fired::RowTriggers } else { Fired::More };
            if trigger.has(Event::Insert) {
                fires.insert = fires.insert.max(fired);
                fires.before_insert |= trigger.is_before();
            }
            if trigger.has(Event::Update) && fires_at_update() {
                fires.update = fires.update.max(if has_generated { Fired::More } else { fired });
            }
            if trigger.has(Event::Delete) {
                fires.delete = fires.delete.max(fired);
                fires.keeps |= trigger.is_before();
            }
            fires.second_update |= trigger.foreign_key == Some(ForeignKey::From);
        }
        fires
    }

    pub fn at(self, event: Event) -> bool {
        match event {
            Event::Insert => self.insert != Fired::Nothing,
            Event::Update => self.update != Fired::Nothing,
            Event::Delete => self.delete != Fired::Nothing,
            Event::Truncate => true,
        }
    }

    /// Returns what a put fires.
    pub fn at_put(self) -> Fired {
        self.insert
    }

    /// Returns whether a trigger can change a new task.
    pub fn may_change_new_rows(self) -> bool {
        self.before_insert
    }

    /// Returns what a take fires.
    pub fn at_take(self) -> Fired {
        self.update
    }

    /// Returns whether a trigger can prevent the deletion of a task.
    pub fn may_keep_rows(self) -> bool {
        self.keeps
    }

    /// Returns what an ack fires that deletes the task.
    pub fn at_ack(self) -> Fired {
        self.delete
    }
}

impl Queue {
    /// Returns whether an update of this row fires something only because this transaction has written the row.
    pub fn fires_again(&self, row: &impl Row) -> bool {
        self.fires.second_update && row.writer().is_some_and(xact::is_own)
    }

    /// Returns whether one of the worker's changes fires something. The worker deletes tasks only if a feature ends
    /// them at a time, and it never updates a row that its transaction has inserted.
    pub fn fires_in_worker(&self) -> bool {
        let deletes = self.features().expires() || self.features().zombies();
        self.fires.at(Event::Update) || deletes && self.fires.at(Event::Delete)
    }
}
