//! Requirements on the columns of a queue. `upgrade` checks them, and so does every read of a definition, because the
//! owner can have altered the table. All code that reads rows relies on them.

use crate::error::{Error, Result};
use crate::queue::fitness::Fitness;
use crate::queue::owner;
use crate::queue::status::StatusColumn;
use crate::queue::times::time_column;
use crate::server::relation::ColumnType;
use crate::server::{operators, types};
use pgrx::PgSqlErrorCode;
use std::collections::BTreeMap;
use xqueue_core::field::Field;

const TIMES: &str = "timestamp with or without time zone, or, as seconds since 1970, integer, bigint or double precision";

impl Fitness<'_> {
    /// Refuses the columns of a queue unless all of them meet the requirements.
    pub fn require(
        &self,
        fields: &BTreeMap<Field, ColumnType>,
        key: &[ColumnType],
        order: &[ColumnType],
    ) -> Result<()> {
        fields.iter().try_for_each(|(field, column)| self.require_field(*field, column))?;
        key.iter().try_for_each(|column| self.equality("key", column).map(drop))?;
        order.iter().try_for_each(|column| self.equality("order", column).map(drop))
    }

    /// Refuses a column that cannot be a field.
    pub fn require_field(&self, field: Field, column: &ColumnType) -> Result<()> {
        match field {
            Field::Status => drop(StatusColumn::new(column, self)?),
            Field::Tube => drop(self.equality("tube", column)?),
            _ => {}
        }
        if let Some(wanted) = self.lacking(field, column) {
            let what = format!("it is of type {}", types::type_name(column.oid));
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

    /// Returns the types that a field's column is allowed to have, if it has a different one.
    fn lacking(&self, field: Field, column: &ColumnType) -> Option<&'static str> {
        let (is_fit, wanted) = match field {
            // The allowed types of a status column depend on the labels; both are checked together.
            Field::Status => (true, ""),
            Field::Owner => {
                (owner::is_fit(column), "uuid, text, or varchar of at least 36 characters")
            }
            Field::Runat | Field::Expires => (time_column(column).is_some(), TIMES),
            Field::Priority | Field::Attempts => {
                (types::is_integer(column.base), "smallint, integer or bigint")
            }
            Field::Ttr => (column.base == types::INTERVAL, "interval"),
            Field::Reason => (types::TEXTS.contains(&column.base), "text"),
            Field::Tube => (
                !self.options.features.has_subqueues() || operators::is_hashable(column.oid),
                "text, integer, uuid or another that can be hashed",
            ),
        };
        (!is_fit).then_some(wanted)
    }

    /// Returns the operator that compares values of a key or tube column, which need an order. The operator follows the
    /// column name in SQL, with a cast if the server has no operator for a domain.
    pub fn equality(&self, part: &str, column: &ColumnType) -> Result<String> {
        let compared = types::compared_type(column.oid);
        let cast = match compared == column.oid {
            true => String::new(),
            false => format!("::{} ", types::type_name(compared)),
        };
        let operator = operators::equality(column.oid).map(|operator| cast + &operator);
        operator.ok_or_else(|| {
            let message = format!(
                "type {} of {part} column \"{}\"{} has no order",
                types::type_name(column.oid),
                column.name,
                self.of_queue()
            );
            let hint = "Keys, tubes and orders need types with a btree order.";
            Error::new(PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH, message)
                .hint(self.with_remedy(hint))
        })
    }
}
