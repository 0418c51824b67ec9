//! The order in which tasks of equal priority are taken, and the orders that low-water marks support.

use crate::server::relation::ColumnType;
use crate::server::types;

/// Returns the columns by which tasks of equal priority are taken: those of option `order`, then the rest of the key.
pub fn order_columns(mut order: Vec<ColumnType>, key: &[ColumnType]) -> Vec<ColumnType> {
    for column in key {
        if !order.iter().any(|known| known.name == column.name) {
            order.push(column.clone());
        }
    }
    order
}

/// The types of columns that low-water marks support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Integers and instants, with the least and greatest value.
    Integer(i64, i64),
    Uuid,
}

impl Order {
    pub(super) fn of(columns: &[ColumnType]) -> Option<Order> {
        let [column] = columns else { return None };
        match column.base {
            types::INT2 => Some(Order::Integer(i16::MIN.into(), i16::MAX.into())),
            types::INT4 => Some(Order::Integer(i32::MIN.into(), i32::MAX.into())),
            types::INT8 | types::TIMESTAMPTZ => Some(Order::Integer(i64::MIN, i64::MAX)),
            types::UUID => Some(Order::Uuid),
            _ => None,
        }
    }
}
