//! The types that the extension uses, and their properties.

use crate::server::text::owned;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::CString;

pub const BOOL: Oid = pg_sys::BOOLOID;
pub const OID: Oid = pg_sys::OIDOID;
pub const INT2: Oid = pg_sys::INT2OID;
pub const INT4: Oid = pg_sys::INT4OID;
pub const INT8: Oid = pg_sys::INT8OID;
pub const CHAR: Oid = pg_sys::CHAROID;
pub const TEXT: Oid = pg_sys::TEXTOID;
pub const VARCHAR: Oid = pg_sys::VARCHAROID;
pub const UUID: Oid = pg_sys::UUIDOID;
pub const UUID_ARRAY: Oid = pg_sys::UUIDARRAYOID;
pub const BPCHAR: Oid = pg_sys::BPCHAROID;
pub const NUMERIC: Oid = pg_sys::NUMERICOID;
pub const BYTEA: Oid = pg_sys::BYTEAOID;
pub const JSON: Oid = pg_sys::JSONOID;
pub const JSONB: Oid = pg_sys::JSONBOID;
pub const INTERVAL: Oid = pg_sys::INTERVALOID;
pub const TIMESTAMPTZ: Oid = pg_sys::TIMESTAMPTZOID;
pub const TIMESTAMP: Oid = pg_sys::TIMESTAMPOID;
pub const FLOAT8: Oid = pg_sys::FLOAT8OID;
pub const RECORD: Oid = pg_sys::RECORDOID;
/// Types of results, by their SQL names.
#[allow(non_upper_case_globals, reason = "as SQL calls them")]
pub mod result {
    use super::{Oid, pg_sys};

    pub const boolean: Oid = pg_sys::BOOLOID;
    pub const text: Oid = pg_sys::TEXTOID;
    pub const jsonb: Oid = pg_sys::JSONBOID;
    pub const uuid: Oid = pg_sys::UUIDOID;
    pub const integer: Oid = pg_sys::INT4OID;
    pub const bigint: Oid = pg_sys::INT8OID;
}

/// The types whose values are strings.
pub const TEXTS: [Oid; 3] = [pg_sys::TEXTOID, pg_sys::VARCHAROID, pg_sys::BPCHAROID];

pub fn is_integer(oid: Oid) -> bool {
    [INT2, INT4, INT8].contains(&oid)
}

/// Returns the greatest number of an integer type.
pub fn greatest_integer(oid: Oid) -> i64 {
    match oid {
        INT2 => i64::from(i16::MAX),
        INT4 => i64::from(i32::MAX),
        _ => i64::MAX,
    }
}

/// Returns whether a type is a date, time or timestamp type.
pub fn is_of_time(oid: Oid) -> bool {
    [pg_sys::DATEOID, pg_sys::TIMEOID, pg_sys::TIMESTAMPOID, pg_sys::TIMESTAMPTZOID].contains(&oid)
}

/// Formats a uuid as text.
pub fn uuid_text(uuid: [u8; 16]) -> String {
    let hex: Vec<String> = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex[from..to].concat();
    [part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 16)].join("-")
}

/// Reads a uuid from the text that the server writes for it. Returns None for other notations.
pub fn uuid_of_text(text: &[u8]) -> Option<Uuid> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = text.iter().copied();
    let mut uuid = [0; 16];
    for (index, byte) in uuid.iter_mut().enumerate() {
        if [4, 6, 8, 10].contains(&index) && bytes.next()? != b'-' {
            return None;
        }
        *byte = digit(bytes.next()?)? << 4 | digit(bytes.next()?)?;
    }
    bytes.next().is_none().then_some(uuid)
}

pub type Uuid = [u8; 16];

/// Returns a type's name with its schema, in SQL notation.
pub fn type_name(oid: Oid) -> String {
    // In SQL, "character" without a length means character(1).
    if oid == pg_sys::BPCHAROID {
        return "pg_catalog.bpchar".into();
    }
    // SAFETY: a palloc'ed string.
    unsafe { owned(pg_sys::format_type_be_qualified(oid)) }.unwrap_or_default()
}

/// Returns the hash that identifies a type in the server's invalidation messages. Other types can have the same hash.
pub fn catalog_hash(oid: Oid) -> u32 {
    let (key, none) = (Datum::from(oid), Datum::from(0));
    // SAFETY: hashes an oid.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::TYPEOID as i32;
        pg_sys::GetSysCacheHashValue(cache, key, none, none, none)
    }
}

/// Returns the element type of an array type; None for other types.
pub fn element_type(oid: Oid) -> Option<Oid> {
    // SAFETY: a lookup.
    let element = unsafe { pg_sys::get_element_type(oid) };
    (element != Oid::INVALID).then_some(element)
}

pub fn array_type(element: Oid) -> Oid {
    // SAFETY: a lookup.
    unsafe { pg_sys::get_array_type(element) }
}

/// Returns the type below all domains. Types with hand-assigned oids in the server's sources are never domains.
pub fn base_type(oid: Oid) -> Oid {
    if u32::from(oid) < pg_sys::FirstGenbkiObjectId {
        return oid;
    }
    // SAFETY: a lookup.
    unsafe { pg_sys::getBaseType(oid) }
}

/// Returns the modifier of a type, or, for a domain, the modifier of its base type.
pub fn base_modifier(oid: Oid, modifier: i32) -> i32 {
    let mut modifier = modifier;
    // SAFETY: a lookup; the modifier is read and written.
    unsafe { pg_sys::getBaseTypeAndTypmod(oid, &mut modifier) };
    modifier
}

/// Returns whether a type is a string type, either the server's or an extension's, for example citext.
pub fn is_string(oid: Oid) -> bool {
    let (mut category, mut is_preferred) = (0, false);
    // SAFETY: a lookup, which fills in both.
    unsafe { pg_sys::get_type_category_preferred(oid, &mut category, &mut is_preferred) };
    category as u8 == pg_sys::TYPCATEGORY_STRING
}

/// Returns whether a type is composite.
pub fn is_composite(oid: Oid) -> bool {
    kind(oid) == pg_sys::TYPTYPE_COMPOSITE
}

/// Returns the kind of a type as in `pg_type`.
fn kind(oid: Oid) -> u8 {
    // SAFETY: a lookup.
    unsafe { pg_sys::get_typtype(oid) as u8 }
}

/// Returns whether a type, or the base type of a domain, is PostgreSQL's own.
pub fn is_of_the_server(oid: Oid) -> bool {
    u32::from(base_type(oid)) < pg_sys::FirstNormalObjectId
}

pub fn is_enum(oid: Oid) -> bool {
    kind(oid) == pg_sys::TYPTYPE_ENUM
}

/// Returns the type whose operators compare values of a type: the server has no operators for domains over enums.
pub fn compared_type(oid: Oid) -> Oid {
    let base = base_type(oid);
    if is_enum(base) { base } else { oid }
}

/// Returns the value of an enum by its label.
pub fn enum_value(oid: Oid, label: &str) -> Option<Oid> {
    let label = CString::new(label).ok()?;
    // SAFETY: a lookup by type and label.
    let value = unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::ENUMTYPOIDNAME as _,
            1,
            Datum::from(oid),
            Datum::from(label.as_ptr()),
            Datum::from(0),
            Datum::from(0),
        )
    };
    (value != Oid::INVALID).then_some(value)
}

/// Returns the default collation of a type's columns.
pub fn type_collation(oid: Oid) -> Oid {
    // SAFETY: a lookup.
    unsafe { pg_sys::get_typcollation(oid) }
}

/// Returns whether a type is a domain, or a composite type, whose columns can have domain types.
pub fn has_parts_or_checks(oid: Oid) -> bool {
    [pg_sys::TYPTYPE_COMPOSITE, pg_sys::TYPTYPE_DOMAIN].contains(&kind(oid))
}

/// Returns whether a type is user-defined and not an enum: the functions that order, split or subtract its values can
/// then be a user's.
pub fn is_made_by_users(oid: Oid) -> bool {
    u32::from(oid) >= pg_sys::FirstNormalObjectId && !is_enum(oid)
}
