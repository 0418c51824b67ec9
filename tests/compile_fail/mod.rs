//! Functions that must not compile. `run` compiles the crate with the functions of one group at a time, and looks for the
//! error named above each. The compiler reports the errors of different groups in different phases. The first function
//! is right and must compile, or none of the others would prove anything.

#![allow(unused, reason = "one group at a time")]

use crate::server::spi::{Rows, Spi};
use crate::server::value::Value;

/// compiles
#[cfg(compile_fail = "right")]
pub fn a_value_is_read_as_its_type(spi: &Spi) -> i64 {
    spi.run("SELECT 1").value(0, 1).map_or(0, Value::to_integer)
}

/// E0624: only the fence makes values out of datums.
#[cfg(compile_fail = "privacy")]
pub fn a_value_out_of_a_datum(datum: pgrx::pg_sys::Datum) -> Value<'static> {
    Value::new(datum, pgrx::pg_sys::TEXTOID)
}

/// E0624: only the fence sees the datum of a value.
#[cfg(compile_fail = "privacy")]
pub fn the_datum_of_a_value(value: Value) -> usize {
    value.datum().value()
}

/// E0451: only the fence fills in the fields of a value.
#[cfg(compile_fail = "fields")]
pub fn a_value_put_together(value: Value) -> Value {
    Value { oid: pgrx::pg_sys::TEXTOID, ..value }
}

/// E0505: a value does not outlive the rows that it lies in.
#[cfg(compile_fail = "lifetimes")]
pub fn a_value_outlives_its_rows(rows: Rows) -> Option<String> {
    let value = rows.value(0, 1);
    drop(rows);
    value.map(Value::to_text)
}

/// lifetime: nor the connection that its rows belong to.
#[cfg(compile_fail = "lifetimes")]
pub fn rows_outlive_their_connection() -> usize {
    crate::server::spi::connect(|spi| spi.run("SELECT 1")).len()
}

/// unsafe_code: nothing outside the fence is unsafe.
#[cfg(compile_fail = "fence")]
pub fn unsafe_outside_the_fence() -> u32 {
    unsafe { u32::from(pgrx::pg_sys::GetUserId()) }
}
