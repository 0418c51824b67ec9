//! The priority that a call of `put` gives to its tasks.

use crate::api::producer::{Put, PutOption};
use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::server::relation::ColumnType;
use crate::server::value::Value;
use crate::server::{catalog, types};
use pgrx::PgSqlErrorCode;
use xqueue_core::field::Field;

impl Put<'_> {
    /// Gives all tasks a priority; refuses one that does not fit its column.
    pub(super) fn give_priority(&mut self, priority: Option<i64>) -> Result<()> {
        let queue = self.queue;
        self.give(priority.map(Value::int8), PutOption::Priority)?;
        match priority.zip(queue.column_of(Field::Priority)) {
            Some((priority, column)) if Value::integer(priority, column.base).is_none() => {
                Err(out_of_range(priority, column, queue))
            }
            _ => Ok(()),
        }
    }
}

fn out_of_range(priority: i64, column: &ColumnType, queue: &Queue) -> Error {
    let greatest = types::greatest_integer(column.base);
    let least = -greatest - 1;
    let kind = types::type_name(column.base);
    Error::new(
        PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        format!("priority {priority} is out of range for queue \"{}\"", queue.name),
    )
    .detail(format!("Its column \"{}\" is of type {kind}.", column.name))
    .hint(format!(
        "Give a number from {least} to {greatest}. To allow greater ones: xqueue.downgrade(), ALTER COLUMN {} \
         TYPE bigint, xqueue.upgrade().",
        catalog::quote(&column.name)
    ))
}
