//! Arguments of SQL functions, by name. Position and type follow from the function's declaration in `sql_functions!`; a
//! test compares that with the declaration in SQL.

use super::function::Call;
use super::value::Value;
use crate::error::{Error, Result};
use pgrx::pg_sys::{Interval, Oid};
use std::marker::PhantomData;

/// An argument of a function, of SQL type `T`.
pub struct Argument<T> {
    index: usize,
    pub name: &'static str,
    _type: PhantomData<fn() -> T>,
}

impl<T> Clone for Argument<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Argument<T> {}

impl<T> Argument<T> {
    /// Finds the argument of this name in the ordered list of a function's arguments.
    pub const fn named(name: &'static str, all: &[&str]) -> Argument<T> {
        let mut index = 0;
        while !is_same(all[index], name) {
            index += 1;
        }
        Argument { index, name, _type: PhantomData }
    }
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

/// An SQL type and the Rust type that its values are read as.
pub trait SqlType {
    type Read<'m>;

    fn read(value: Value<'_>) -> Self::Read<'_>;
}

/// A type whose values can name a queue.
pub trait NamesQueue: SqlType {}

/// SQL types by their SQL names, and placeholders for groups of types.
#[allow(non_camel_case_types, reason = "as SQL calls them")]
pub mod sql_type {
    use super::*;

    macro_rules! types {
        ($($(#[$meta:meta])* $name:ident: $read:ty = $how:expr;)+) => {$(
            $(#[$meta])*
            pub enum $name {}

            impl SqlType for $name {
                type Read<'m> = $read;

                fn read(value: Value<'_>) -> Self::Read<'_> {
                    $how(value)
                }
            }
        )+};
    }

    types! {
        /// Stands for two functions: with type text the result is jsonb, with type anyelement it is rows.
        queue: Value<'m> = std::convert::identity;
        /// Of type anycompatible.
        key: Value<'m> = std::convert::identity;
        /// Of type anyelement.
        row: Value<'m> = std::convert::identity;
        jsonb: Value<'m> = std::convert::identity;
        text: String = Value::to_text;
        boolean: bool = Value::to_bool;
        integer: i32 = |value: Value| value.to_integer() as i32;
        bigint: i64 = Value::to_integer;
        interval: Interval = Value::to_interval;
        uuid: [u8; 16] = Value::to_uuid;
        regclass: Oid = Value::to_oid;
    }

    impl NamesQueue for queue {}
    impl NamesQueue for row {}
    impl NamesQueue for text {}
}

impl Call {
    /// Returns an argument's value; None if it is NULL.
    pub fn value<T: SqlType>(&self, argument: Argument<T>) -> Option<Value<'_>> {
        self.value_at(argument.index)
    }

    /// Returns an argument converted to Rust; None if it is NULL. An error if it is declared with another type.
    pub fn get<T: SqlType>(&self, argument: Argument<T>) -> Option<T::Read<'_>> {
        self.value(argument).map(T::read)
    }

    /// Returns an argument converted to Rust; refuses NULL.
    pub fn require<T: SqlType>(&self, argument: Argument<T>) -> Result<T::Read<'_>> {
        self.get(argument).ok_or_else(|| Error::null(argument.name))
    }

    /// Returns the actual type of an argument; `Oid::INVALID` if the call does not determine it.
    pub fn type_of<T: SqlType>(&self, argument: Argument<T>) -> Oid {
        self.type_at(argument.index)
    }
}
