//! The order in which tasks of equal priority are taken, and its positions.

use crate::server::relation::ColumnType;
use crate::server::types;
use crate::server::value::Value;
use pgrx::pg_sys::Oid;
use xqueue_core::order::{Number, Order, Part};

/// Returns the columns by which tasks of equal priority are taken: those of option `order`, then the rest of the key.
pub fn order_columns(mut order: Vec<ColumnType>, key: &[ColumnType]) -> Vec<ColumnType> {
    for column in key {
        if !order.iter().any(|known| known.name == column.name) {
            order.push(column.clone());
        }
    }
    order
}

/// Returns the order of the columns if tasks have positions by them.
pub(super) fn order_of(columns: &[ColumnType]) -> Option<Order> {
    let parts: Vec<Option<Part>> = columns.iter().map(|column| part(column.base)).collect();
    Order::of(&parts)
}

fn part(base: Oid) -> Option<Part> {
    match base {
        types::INT2 => Some(Part::Integer(i16::MIN.into(), i16::MAX.into())),
        types::INT4 => Some(Part::Integer(i32::MIN.into(), i32::MAX.into())),
        types::INT8 | types::TIMESTAMPTZ | types::TIMESTAMP => {
            Some(Part::Integer(i64::MIN, i64::MAX))
        }
        types::UUID => Some(Part::Uuid),
        _ => None,
    }
}

/// Returns a value of a column that has a part in positions.
pub(super) fn number(value: Value) -> Number {
    match value.is_of(types::UUID) {
        true => Number::Uuid(value.to_uuid()),
        false => Number::Integer(value.to_integer_or_instant()),
    }
}

/// Returns the value of a column of this type for a number.
pub(super) fn value<'to>(number: Number, base: Oid) -> Option<Value<'to>> {
    match number {
        Number::Uuid(uuid) => Some(Value::uuid(uuid)),
        Number::Integer(number) => Value::integer_or_instant(number, base),
    }
}
