//! Bounds of index scans, and their scan keys.

use crate::server::foreign;
use crate::server::heap::Comparisons;
use crate::server::value::Value;
use pgrx::pg_sys::{self, Datum, Oid};

/// Number of a btree operator class's function that compares two values.
pub(in crate::server) const ORDER_FUNCTION: u16 = 1;

/// A bound for a column of an index.
pub struct Bound<'m> {
    pub is: Is,
    pub value: Value<'m>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    Equal,
    AtLeast,
    After,
    /// Together with the next bound, which is the last one: a row of at least these two values.
    RowAtLeast,
    RowEnds,
    Null,
}

impl Bound<'_> {
    /// Matches NULL.
    pub const NULL: Bound<'static> = Bound { is: Is::Null, value: Value::NONE };
}

/// # Safety
/// The index of the table is open and has a column of this number (from 1).
pub(super) unsafe fn key(
    table: pg_sys::TupleDesc,
    index: pg_sys::Relation,
    number: usize,
    bound: &Bound,
    column: &Comparisons,
) -> pg_sys::ScanKeyData {
    let (strategy, function) = match bound.is {
        Is::Equal => (pg_sys::BTEqualStrategyNumber, Some(&column.equal)),
        Is::AtLeast => (pg_sys::BTGreaterEqualStrategyNumber, Some(&column.at_least)),
        Is::After => (pg_sys::BTGreaterStrategyNumber, Some(&column.after)),
        Is::RowAtLeast | Is::RowEnds => (pg_sys::BTGreaterEqualStrategyNumber, None),
        Is::Null => return null_key(number),
    };
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: by the contract of this function; the value has the column's type, and the function's description is
    // copied. A member of a row has the function that compares two values, which every operator class has.
    unsafe {
        let value = bound.value.require(column_type(index, number, table));
        let function = match function {
            Some(function) => std::ptr::from_ref(function).cast_mut(),
            None => pg_sys::index_getprocinfo(index, number as i16, ORDER_FUNCTION),
        };
        pg_sys::ScanKeyEntryInitializeWithInfo(
            &mut key,
            flags(bound.is),
            number as i16,
            strategy as u16,
            Oid::INVALID,
            *(*index).rd_indcollation.add(number - 1),
            function,
            value,
        );
    }
    key
}

/// Returns the flags of a bound's key.
pub(in crate::server) fn flags(is: Is) -> i32 {
    let flags = match is {
        Is::Equal | Is::AtLeast | Is::After => 0,
        Is::RowAtLeast => pg_sys::SK_ROW_MEMBER,
        Is::RowEnds => pg_sys::SK_ROW_MEMBER | pg_sys::SK_ROW_END,
        Is::Null => pg_sys::SK_ISNULL | pg_sys::SK_SEARCHNULL,
    };
    flags as i32
}

/// Replaces the two members of a row at the end of the keys by the key of the row. The scan refers to the members,
/// which are returned.
pub(in crate::server) fn join_row(keys: &mut Vec<pg_sys::ScanKeyData>) -> Vec<pg_sys::ScanKeyData> {
    let is_member = |key: &pg_sys::ScanKeyData| key.sk_flags & pg_sys::SK_ROW_MEMBER as i32 != 0;
    let alone = keys.iter().take_while(|key| !is_member(key)).count();
    let mut members = keys.split_off(alone);
    if let Some(first) = members.first() {
        let (sk_attno, sk_strategy) = (first.sk_attno, first.sk_strategy);
        keys.push(pg_sys::ScanKeyData {
            sk_flags: pg_sys::SK_ROW_HEADER as i32,
            sk_attno,
            sk_strategy,
            sk_argument: Datum::from(members.as_mut_ptr()),
            ..pg_sys::ScanKeyData::default()
        });
    }
    members
}

/// Returns the scan key that tests a column of an index for NULL.
pub(in crate::server) fn null_key(number: usize) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData::default();
    let (none, number, flags) = (Oid::INVALID, number as i16, flags(Is::Null));
    // SAFETY: fills in the key; without a function there is no lookup.
    unsafe {
        let value = Datum::from(0);
        pg_sys::ScanKeyEntryInitialize(&mut key, flags, number, 0, none, none, none, value);
    }
    key
}

/// Returns the type of the values that a column of an index is computed from. The index can store another type.
///
/// # Safety
/// The index of the table is open and has a column of this number (from 1).
pub(in crate::server) unsafe fn column_type(
    index: pg_sys::Relation,
    number: usize,
    table: pg_sys::TupleDesc,
) -> Oid {
    // SAFETY: by the contract of this function; there is a number for each column, 0 for an expression.
    unsafe {
        match *(*(*index).rd_index).indkey.values.as_ptr().add(number - 1) {
            0 => foreign::column_type((*index).rd_att, number as i16),
            column => foreign::column_type(table, column),
        }
    }
}
