//! What a call needs a feature for: the tube that it names, and the refusal where the feature is off.

use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::server::value::Value;
use crate::server::{catalog, context, operators, types};
use pgrx::PgSqlErrorCode;

/// The value of the tube column that a caller names.
pub fn tube_value<'to>(tube: &str, queue: &Queue) -> Result<Value<'to>> {
    match queue.tube() {
        Some(column) => {
            let kind = types::type_name(column.oid);
            let hint = || format!("The tubes of queue {} are of type {kind}.", queue.name);
            context::hinted(hint, || operators::parse_value_for(tube, column.oid, column.modifier))
        }
        None => Err(not_enabled("tube", queue)),
    }
}

/// The error of a method or option whose feature is off.
pub fn not_enabled(feature: &str, queue: &Queue) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!("feature {feature} is not enabled"),
    )
    .detail(format!("Queue \"{}\".", queue.name))
    .hint(format!(
        "SELECT xqueue.upgrade({}, '{{\"features\": {{\"{feature}\": true}}}}');",
        catalog::quote_literal(&queue.name)
    ))
}
