//! What the columns of a queue have to be: asked by `upgrade`, and whenever a definition is read, as the owner may
//! have altered the table since. Whatever reads a row relies on it.

use crate::error::{Error, Result};
use crate::model::definition::Field;
use crate::model::options::Options;
use crate::queue::status::StatusColumn;
use crate::server::relation::ColumnType;
use crate::server::{catalog, types};
use pgrx::PgSqlErrorCode;
use std::collections::BTreeMap;

/// Judges the columns of a table.
pub struct Fitness<'a> {
    pub options: &'a Options,
    /// The queue that the columns belong to; None while the table is to become one.
    pub queue: Option<&'a str>,
}

impl Fitness<'_> {
    /// Refuses the columns of a queue unless each of them fits.
    pub fn require(&self, fields: &BTreeMap<Field, ColumnType>, key: &[ColumnType]) -> Result<()> {
        fields.iter().try_for_each(|(field, column)| self.require_field(*field, column))?;
        key.iter().try_for_each(|column| self.equality("key", column).map(drop))
    }

    /// Refuses a column that cannot be a field.
    pub fn require_field(&self, field: Field, column: &ColumnType) -> Result<()> {
        match field {
            Field::Status => drop(StatusColumn::new(column, self)?),
            Field::Tube => drop(self.equality("tube", column)?),
            _ => {}
        }
        if let Some(wanted) = self.lacking(field, column) {
            let what = format!("it is of type {}", catalog::type_name(column.oid));
            return Err(self.refused(
                field,
                column,
                &what,
                &format!("It has to be of type {wanted}."),
            ));
        }
        if column.is_generated {
            let hint = "Use a column that can be changed.";
            return Err(self.refused(field, column, "it is generated", hint));
        }
        Ok(())
    }

    /// The types of which a field's column has to be, if it is of another.
    fn lacking(&self, field: Field, column: &ColumnType) -> Option<&'static str> {
        let (is_fit, wanted) = match field {
            // What can be a status depends on the labels, and is looked at with them.
            Field::Status => (true, ""),
            Field::Owner => (column.oid == types::UUID, "uuid"),
            Field::Runat | Field::Expires => {
                (column.oid == types::TIMESTAMPTZ, "timestamp with time zone")
            }
            Field::Priority | Field::Attempts => {
                (types::is_integer(column.base), "smallint, integer or bigint")
            }
            Field::Ttr => (column.base == types::INTERVAL, "interval"),
            Field::Reason => (types::TEXTS.contains(&column.base), "text"),
            Field::Tube => (
                !self.options.features.has_subqueues() || catalog::is_hashable(column.oid),
                "text, integer, uuid or another that can be hashed",
            ),
        };
        (!is_fit).then_some(wanted)
    }

    /// The operator that compares values of a column of the key or of the tubes, which need an order.
    pub fn equality(&self, part: &str, column: &ColumnType) -> Result<String> {
        catalog::equality(column.oid).ok_or_else(|| {
            let message = format!(
                "type {} of {part} column \"{}\"{} has no order",
                catalog::type_name(column.oid),
                column.name,
                self.of_queue()
            );
            let hint = "Keys and tubes need types with a btree order.";
            Error::new(PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH, message)
                .hint(self.with_remedy(hint))
        })
    }

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

    /// The queue, as a message names it behind one of its columns.
    pub(super) fn of_queue(&self) -> String {
        self.queue.map(|queue| format!(" of queue \"{queue}\"")).unwrap_or_default()
    }

    /// A hint, and how a queue comes to be whole again whose table was altered.
    pub(super) fn with_remedy(&self, hint: &str) -> String {
        let Some(queue) = self.queue else { return hint.into() };
        format!(
            "{hint} ALTER TABLE {queue} back to what it was, or make it an ordinary table: \
             SELECT xqueue.downgrade({});",
            catalog::quote_literal(queue)
        )
    }
}
