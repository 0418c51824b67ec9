//! The session in the owner's column, which is a uuid or the uuid's text.
//!
//! Users and other programs can write any text there. A task with a text that is no session counts as a task of the
//! session `NOBODY`, which never lives: the worker gives the task back.

use crate::queue::Queue;
use crate::server::relation::ColumnType;
use crate::server::row::Row;
use crate::server::types::{self, Uuid};
use crate::server::value::Value;
use xqueue_core::field::Field;

/// Stands for owners that are no sessions.
pub const NOBODY: Uuid = [0; 16];

/// Length of a uuid's text.
const LENGTH: i32 = 36;

/// Returns whether a column can hold the session.
pub(super) fn is_fit(column: &ColumnType) -> bool {
    match column.oid {
        types::UUID | types::TEXT => true,
        // The modifier of varchar(n) is n + 4.
        types::VARCHAR => column.modifier < 0 || column.modifier - 4 >= LENGTH,
        _ => false,
    }
}

/// Returns the session that a value of the owner's column stands for.
pub fn holder(owner: Value) -> Uuid {
    match owner.is_of(types::UUID) {
        true => owner.to_uuid(),
        false => owner.with_text(types::uuid_of_text).unwrap_or(NOBODY),
    }
}

impl Queue {
    /// Returns the session in a row; None without an owner, or if the owner is no session.
    pub fn session_of(&self, row: &impl Row) -> Option<Uuid> {
        self.holder_of(row).filter(|session| *session != NOBODY)
    }

    /// Returns the session in a row; None without an owner, `NOBODY` if the owner is no session.
    pub fn holder_of(&self, row: &impl Row) -> Option<Uuid> {
        self.value_of(row, Field::Owner).map(holder)
    }

    /// Returns the value of the owner's column for a session.
    pub fn owner_value(&self, session: Uuid) -> Value<'static> {
        let kind = self.column_of(Field::Owner).map_or(types::UUID, |column| column.oid);
        match kind {
            types::UUID => Value::uuid(session),
            kind => {
                let text = types::uuid_text(session);
                Value::string(&text, kind).unwrap_or_else(|| Value::text(&text))
            }
        }
    }
}
