//! Key orders that low-water marks support.

use crate::server::relation::ColumnType;
use crate::server::types;

/// The types of keys that low-water marks support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Integers and instants, with the least and greatest value.
    Integer(i64, i64),
    Uuid,
}

impl Order {
    pub(super) fn of(key: &[ColumnType]) -> Option<Order> {
        let [key] = key else { return None };
        match key.base {
            types::INT2 => Some(Order::Integer(i16::MIN.into(), i16::MAX.into())),
            types::INT4 => Some(Order::Integer(i32::MIN.into(), i32::MAX.into())),
            types::INT8 | types::TIMESTAMPTZ => Some(Order::Integer(i64::MIN, i64::MAX)),
            types::UUID => Some(Order::Uuid),
            _ => None,
        }
    }
}
