//! Checks a table's columns, and names the queue in their errors.

use crate::error::Error;
use crate::server::catalog;
use crate::server::relation::ColumnType;
use pgrx::PgSqlErrorCode;
use xqueue_core::field::Field;
use xqueue_core::options::Options;

/// Checks the columns of a table.
pub struct Fitness<'a> {
    pub options: &'a Options,
    /// The queue that the columns belong to; None while the table is to become one.
    pub queue: Option<&'a str>,
}

impl Fitness<'_> {
    pub(super) fn refused(
        &self,
        field: Field,
        column: &ColumnType,
        what: &str,
        hint: &str,
    ) -> Error {
        let message = format!(
            "column \"{}\"{} cannot be the {}: {what}",
            column.name,
            self.of_queue(),
            field.name()
        );
        Error::new(PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH, message).hint(self.with_remedy(hint))
    }

    /// Formats the queue's name for a message, to follow the name of a column.
    pub(super) fn of_queue(&self) -> String {
        self.queue.map(|queue| format!(" of queue \"{queue}\"")).unwrap_or_default()
    }

    /// Returns a hint that also says how to repair a queue whose table was altered.
    pub(super) fn with_remedy(&self, hint: &str) -> String {
        let Some(queue) = self.queue else { return hint.into() };
        format!(
            "{hint} Undo the change by ALTER TABLE {queue}, or make it an ordinary table: \
             SELECT xqueue.downgrade({});",
            catalog::quote_literal(queue)
        )
    }
}
