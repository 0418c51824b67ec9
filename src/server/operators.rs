//! Operators and functions of types: equality, hashes, parsing of values, elements of arrays.

use crate::error::{Error, Result};
use crate::server::catalog::quote;
use crate::server::foreign::list_nth;
use crate::server::types::{self, base_type};
use crate::server::value::Value;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::{CStr, CString};

/// Returns `OPERATOR(schema.name)` for equality in the default order of a type. None for a type without such an order.
pub fn equality(oid: Oid) -> Option<String> {
    // SAFETY: lookups in the system cache; the list contains two C strings.
    unsafe {
        let class = &*pg_sys::lookup_type_cache(oid, pg_sys::TYPECACHE_BTREE_OPFAMILY as i32);
        let (family, input) = (class.btree_opf, class.btree_opintype);
        if family == Oid::INVALID {
            return None;
        }
        let operator =
            pg_sys::get_opfamily_member(family, input, input, pg_sys::BTEqualStrategyNumber as i16);
        if operator == Oid::INVALID {
            return None;
        }
        let (mut names, mut arguments) = (std::ptr::null_mut(), std::ptr::null_mut());
        pg_sys::format_operator_parts(operator, &mut names, &mut arguments, false);
        let schema = CStr::from_ptr(list_nth(names, 0)).to_string_lossy();
        let name = CStr::from_ptr(list_nth(names, 1)).to_string_lossy();
        Some(format!("OPERATOR({}.{name})", quote(&schema)))
    }
}

/// Parses a value of a type; errors come from the type's input function.
pub fn parse_value<'to>(text: &str, oid: Oid) -> Result<Value<'to>> {
    parse_value_for(text, oid, -1)
}

/// Parses a value of a type with a modifier, such as the length of char(n).
pub fn parse_value_for<'to>(text: &str, oid: Oid, modifier: i32) -> Result<Value<'to>> {
    let text = CString::new(text).map_err(|_| {
        Error::new(
            PgSqlErrorCode::ERRCODE_UNTRANSLATABLE_CHARACTER,
            "a value holds a NUL character",
        )
        .hint("Give a value without NUL characters.")
    })?;
    // SAFETY: the input function of the type reads a C string and returns a value of the type.
    unsafe {
        let (mut function, mut parameter) = (Oid::INVALID, Oid::INVALID);
        pg_sys::getTypeInputInfo(oid, &mut function, &mut parameter);
        let text = text.as_ptr().cast_mut();
        let value = pg_sys::OidInputFunctionCall(function, text, parameter, modifier);
        Ok(Value::new(value, oid))
    }
}

/// Returns a hash that is equal for values equal in the order of their type. None for types without a hash function.
pub fn hash(value: Value, collation: Oid, seed: u64) -> Option<u64> {
    // SAFETY: the cache entry lives as long as the process; its function takes a value of the type and a seed.
    unsafe {
        let entry = pg_sys::lookup_type_cache(
            base_type(value.type_oid()),
            pg_sys::TYPECACHE_HASH_EXTENDED_PROC_FINFO as i32,
        );
        let function = &raw mut (*entry).hash_extended_proc_finfo;
        if (*function).fn_oid == Oid::INVALID {
            return None;
        }
        let hash = pg_sys::FunctionCall2Coll(function, collation, value.datum(), Datum::from(seed));
        Some(hash.value() as u64)
    }
}

/// Returns whether different strings can be equal under a collation.
pub fn tells_by_rules(collation: Oid) -> bool {
    // SAFETY: a lookup.
    collation != Oid::INVALID && unsafe { !pg_sys::get_collation_isdeterministic(collation) }
}

/// The collations that compare byte by byte: "C", "POSIX", ucs_basic, pg_c_utf8 and pg_unicode_fast.
const BYTEWISE: [u32; 5] = [950, 951, 962, 811, 6411];

/// Returns whether a collation is one of the server's own that compare byte by byte.
pub fn is_bytewise(collation: Oid) -> bool {
    BYTEWISE.contains(&collation.into())
}

/// Returns whether two strings are equal as values of type text, varchar or char(n) with a collation.
pub fn equal_texts(first: &str, second: &str, oid: Oid, collation: Oid) -> bool {
    equals_text(Value::text(first), second, oid, collation)
}

/// Returns whether a value and a string are equal as values of type text, varchar or char(n). False for other types.
pub fn equals_text(value: Value, text: &str, oid: Oid, collation: Oid) -> bool {
    if !types::TEXTS.contains(&oid) {
        return false;
    }
    let (value, text) = (value.require_text(), Value::text(text).datum());
    // SAFETY: the cache entry lives as long as the process; these types share the server's equality functions and their
    // storage.
    unsafe {
        let kind = pg_sys::TYPECACHE_EQ_OPR_FINFO as i32;
        let entry = pg_sys::lookup_type_cache(oid, kind);
        let function = &raw mut (*entry).eq_opr_finfo;
        pg_sys::FunctionCall2Coll(function, collation, value, text).value() != 0
    }
}

/// Returns whether two values of a type are equal in its default order. False for types without one.
pub fn equal(one: Value, other: Value, collation: Oid) -> bool {
    let oid = base_type(one.type_oid());
    let kind = pg_sys::TYPECACHE_EQ_OPR_FINFO;
    let other = other.require(oid);
    // SAFETY: the cache entry lives as long as the process; its function takes two values of the type.
    unsafe {
        let entry = pg_sys::lookup_type_cache(oid, kind as i32);
        let function = &raw mut (*entry).eq_opr_finfo;
        (*function).fn_oid != Oid::INVALID
            && pg_sys::FunctionCall2Coll(function, collation, one.datum(), other).value() != 0
    }
}

/// Returns whether values of a type can be hashed.
pub fn is_hashable(oid: Oid) -> bool {
    let kind = pg_sys::TYPECACHE_HASH_EXTENDED_PROC;
    // SAFETY: the cache entry lives as long as the process.
    unsafe {
        (*pg_sys::lookup_type_cache(base_type(oid), kind as i32)).hash_extended_proc != Oid::INVALID
    }
}

/// Types of eight bytes whose values are equal if and only if their bytes are. The server's hash of such a value, if it
/// has one, has only four bytes.
const IMAGES: [Oid; 6] = [
    pg_sys::TIMESTAMPOID,
    pg_sys::TIMESTAMPTZOID,
    pg_sys::TIMEOID,
    pg_sys::XID8OID,
    pg_sys::PG_LSNOID,
    pg_sys::MONEYOID,
];

/// Other types whose different values have different hashes under a seed that users do not know. The hash of an array,
/// a composite value, a range or jsonb does not qualify: it combines the hashes of the parts, and ignores their
/// nesting.
const TOLD_BY_HASH: [Oid; 13] = [
    pg_sys::UUIDOID,
    pg_sys::BYTEAOID,
    pg_sys::BOOLOID,
    pg_sys::CHAROID,
    pg_sys::DATEOID,
    pg_sys::OIDOID,
    pg_sys::FLOAT4OID,
    pg_sys::FLOAT8OID,
    pg_sys::INETOID,
    pg_sys::CIDROID,
    pg_sys::MACADDROID,
    pg_sys::MACADDR8OID,
    types::NUMERIC,
];

/// Returns the bytes of a value whose type is in `IMAGES`.
pub fn image(value: Value) -> Option<u64> {
    let is_image = IMAGES.contains(&base_type(value.type_oid()));
    is_image.then(|| value.datum().value() as u64)
}

/// Returns whether values of a base type are equal if and only if the queue's hashes of them are.
pub fn is_told_by_hash(oid: Oid) -> bool {
    types::is_integer(oid)
        || types::is_string(oid) && is_hashable(oid)
        || types::is_enum(oid)
        || IMAGES.contains(&oid)
        || TOLD_BY_HASH.contains(&oid)
}

/// Returns the elements of an array; None for a NULL element. Raises an error for other values.
pub fn array_elements<'to>(array: Value) -> Vec<Option<Value<'to>>> {
    let element = array.require_array();
    // SAFETY: the value is an array of this element type; the server's function fills in the palloc'ed arrays and their
    // length.
    unsafe {
        let (mut length, mut by_value, mut alignment) = (0i16, false, 0);
        pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut alignment);
        let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(
            pg_sys::pg_detoast_datum(array.datum().cast_mut_ptr()).cast(),
            element,
            i32::from(length),
            by_value,
            alignment,
            &mut values,
            &mut nulls,
            &mut count,
        );
        let value = |index| Value::new(*values.add(index), element);
        (0..count as usize).map(|index| (!*nulls.add(index)).then(|| value(index))).collect()
    }
}
