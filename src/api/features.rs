//! Values and refusals that depend on features: the tube named by a call, and the error for a feature that is off.

use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::server::value::Value;
use crate::server::{catalog, context, operators, types};
use pgrx::PgSqlErrorCode;

/// Converts the tube named by a call to a value of the tube column.
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

/// Returns the error for a method or option whose feature is off.
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
