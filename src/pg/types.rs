//! The types that the extension deals with, and their values.

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Datum, Oid};

pub const OID: Oid = pg_sys::OIDOID;
pub const INT2: Oid = pg_sys::INT2OID;
pub const INT4: Oid = pg_sys::INT4OID;
pub const INT8: Oid = pg_sys::INT8OID;
pub const CHAR: Oid = pg_sys::CHAROID;
pub const TEXT: Oid = pg_sys::TEXTOID;
pub const UUID: Oid = pg_sys::UUIDOID;
pub const UUID_ARRAY: Oid = pg_sys::UUIDARRAYOID;
pub const BPCHAR: Oid = pg_sys::BPCHAROID;
pub const JSON: Oid = pg_sys::JSONOID;
pub const JSONB: Oid = pg_sys::JSONBOID;
pub const INTERVAL: Oid = pg_sys::INTERVALOID;
pub const TIMESTAMPTZ: Oid = pg_sys::TIMESTAMPTZOID;
pub const RECORD: Oid = pg_sys::RECORDOID;
/// The types whose values are strings.
pub const TEXTS: [Oid; 3] = [pg_sys::TEXTOID, pg_sys::VARCHAROID, pg_sys::BPCHAROID];

pub fn oid(value: Datum) -> Oid {
    Oid::from(value.value() as u32)
}

/// A value of type "char".
pub fn char(value: Datum) -> u8 {
    value.value() as u8
}

pub fn from_char(letter: u8) -> Datum {
    Datum::from(letter)
}

pub fn timestamp(value: Datum) -> i64 {
    value.value() as i64
}

pub fn is_integer(oid: Oid) -> bool {
    [INT2, INT4, INT8].contains(&oid)
}

/// A value of type int2, int4 or int8; None for other types.
pub fn integer(value: Datum, oid: Oid) -> Option<i64> {
    match oid {
        INT2 => Some(i64::from(value.value() as i16)),
        INT4 => Some(i64::from(value.value() as i32)),
        INT8 => Some(value.value() as i64),
        _ => None,
    }
}

/// An integer as a value of type int2, int4 or int8; None if it does not fit or for other types.
pub fn from_integer(number: i64, oid: Oid) -> Option<Datum> {
    match oid {
        INT2 => i16::try_from(number).ok().map(Datum::from),
        INT4 => i32::try_from(number).ok().map(Datum::from),
        INT8 => Some(Datum::from(number)),
        _ => None,
    }
}

/// A value of an integer type or of type timestamptz.
pub fn integer_or_instant(value: Datum, oid: Oid) -> i64 {
    integer(value, oid).unwrap_or_else(|| timestamp(value))
}

/// A value of one of these types, if it fits.
pub fn from_integer_or_instant(number: i64, oid: Oid) -> Option<Datum> {
    if oid == TIMESTAMPTZ { Some(Datum::from(number)) } else { from_integer(number, oid) }
}

/// Lets `see` look at the bytes of a value of type text, varchar or char(n).
pub fn with_text<T>(value: Datum, see: impl FnOnce(&[u8]) -> T) -> T {
    // SAFETY: by its type the value is a varlena; it stays alive while it is looked at.
    unsafe {
        let varlena = pg_sys::pg_detoast_datum_packed(value.cast_mut_ptr());
        see(pgrx::varlena::varlena_to_byte_slice(varlena))
    }
}

/// A text in memory of the current context.
pub fn from_text(text: &str) -> Datum {
    // SAFETY: the bytes are copied.
    unsafe {
        Datum::from(pg_sys::cstring_to_text_with_len(text.as_ptr().cast(), text.len() as i32))
    }
}

/// A uuid in memory of the current context.
pub fn from_uuid(uuid: [u8; 16]) -> Datum {
    // SAFETY: palloc gives the memory asked for, or raises an error.
    unsafe {
        let place = pg_sys::palloc(uuid.len()).cast::<u8>();
        std::ptr::copy_nonoverlapping(uuid.as_ptr(), place, uuid.len());
        Datum::from(place)
    }
}

/// An array of uuids in memory of the current context.
pub fn from_uuids(uuids: &[[u8; 16]]) -> Datum {
    let mut values: Vec<Datum> = uuids.iter().map(|uuid| from_uuid(*uuid)).collect();
    // SAFETY: uuids have a fixed length of 16 bytes, are passed by reference and aligned as bytes.
    unsafe {
        let array = pg_sys::construct_array(
            values.as_mut_ptr(),
            values.len() as i32,
            UUID,
            16,
            false,
            pg_sys::TYPALIGN_CHAR as std::ffi::c_char,
        );
        Datum::from(array)
    }
}

/// An array of values of a type in memory of the current context.
pub fn from_values(mut values: Vec<Datum>, oid: Oid) -> Datum {
    // SAFETY: the values are of this type, as the caller says; its form is looked up.
    unsafe {
        let (mut length, mut by_value, mut align) = (0i16, false, 0);
        pg_sys::get_typlenbyvalalign(oid, &mut length, &mut by_value, &mut align);
        Datum::from(pg_sys::construct_array(
            values.as_mut_ptr(),
            values.len() as i32,
            oid,
            i32::from(length),
            by_value,
            align,
        ))
    }
}

pub fn uuid(value: Datum) -> [u8; 16] {
    // SAFETY: a value of type uuid is 16 bytes, passed by reference.
    unsafe { *value.cast_mut_ptr::<[u8; 16]>() }
}

/// A uuid as text.
pub fn uuid_text(uuid: [u8; 16]) -> String {
    let hex: Vec<String> = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex[from..to].concat();
    [part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 16)].join("-")
}

pub fn interval(value: Datum) -> pg_sys::Interval {
    // SAFETY: a value of type interval is passed by reference.
    unsafe { *value.cast_mut_ptr::<pg_sys::Interval>() }
}

/// An interval in memory of the current context.
pub fn from_interval(interval: pg_sys::Interval) -> Datum {
    // SAFETY: palloc gives the memory asked for, or raises an error.
    unsafe {
        let place = pg_sys::palloc(size_of::<pg_sys::Interval>()).cast::<pg_sys::Interval>();
        place.write(interval);
        Datum::from(place)
    }
}

/// A copy of a value in memory of the context that is current.
pub fn copy(value: Datum, oid: Oid) -> Datum {
    // SAFETY: the value is of this type, as the caller says.
    unsafe {
        let (mut length, mut by_value) = (0i16, false);
        pg_sys::get_typlenbyval(oid, &mut length, &mut by_value);
        let length = i32::from(length);
        pg_guard_ffi_boundary(|| super::foreign::datumCopy(value, by_value, length))
    }
}

/// A copy of a composite or jsonb value in memory of the context that is current.
pub fn copy_varlena(value: Datum) -> Datum {
    // SAFETY: the value is a varlena; the copy is palloc'ed.
    unsafe { Datum::from(pg_sys::pg_detoast_datum_copy(value.cast_mut_ptr())) }
}
