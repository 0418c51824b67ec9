//! The order in which tasks of equal priority are taken, and its positions.

use crate::server::relation::ColumnType;
use crate::server::value::Value;
use crate::server::{operators, types};
use pgrx::pg_sys::Oid;
use xqueue_core::order::{Number, Order, Part};
use xqueue_core::{numeric, position};

/// Returns the columns by which tasks of equal priority are taken: those of option `order`, then the rest of the key.
pub fn order_columns(mut order: Vec<ColumnType>, key: &[ColumnType]) -> Vec<ColumnType> {
    for column in key {
        if !order.iter().any(|known| known.name == column.name) {
            order.push(column.clone());
        }
    }
    order
}

/// Returns whether tasks have positions by these columns.
pub fn has_positions(columns: &[ColumnType]) -> bool {
    order_of(columns).is_some()
}

/// Returns the order of the columns if tasks have positions by them.
pub(super) fn order_of(columns: &[ColumnType]) -> Option<Order> {
    let parts: Vec<Option<Part>> = columns.iter().map(part).collect();
    Order::of(&parts)
}

fn part(column: &ColumnType) -> Option<Part> {
    match column.base {
        types::INT2 => Some(Part::Integer(i16::MIN.into(), i16::MAX.into())),
        types::INT4 => Some(Part::Integer(i32::MIN.into(), i32::MAX.into())),
        types::INT8 | types::TIMESTAMPTZ | types::TIMESTAMP => {
            Some(Part::Integer(i64::MIN, i64::MAX))
        }
        types::UUID => Some(Part::Uuid),
        types::NUMERIC | types::BYTEA => Some(Part::Prefix),
        base if types::TEXTS.contains(&base) && operators::is_bytewise(column.collation) => {
            Some(Part::Prefix)
        }
        _ => None,
    }
}

/// Returns a value of a column that has a part in positions.
pub(super) fn number(value: Value) -> Number {
    match value.base() {
        types::UUID => Number::Wide(position::of_bytes(value.to_uuid())),
        types::NUMERIC => Number::Wide(value.with_stored(numeric::of_stored)),
        // Blanks at the end of a char(n) do not count.
        types::BPCHAR => {
            let end =
                |text: &[u8]| text.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
            Number::Wide(value.with_text(|text| position::of_prefix(&text[..end(text)])))
        }
        types::TEXT | types::VARCHAR | types::BYTEA => {
            Number::Wide(value.with_stored(position::of_prefix))
        }
        _ => Number::Integer(value.to_integer_or_instant()),
    }
}

/// Returns the value of a column of this type for a number.
pub(super) fn value<'to>(number: Number, base: Oid) -> Option<Value<'to>> {
    match number {
        Number::Integer(number) => Value::integer_or_instant(number, base),
        Number::Wide(at) => match base {
            types::UUID => Some(Value::uuid(position::to_bytes(at))),
            types::NUMERIC => Some(Value::numeric(&numeric::to_stored(at))),
            _ => Value::bytes(&position::to_prefix(at), base),
        },
    }
}
