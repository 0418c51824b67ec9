//! SQL values outside the fence: each with its type, and a lifetime no longer than that of its memory.
//!
//! A bare datum is eight bytes that can be a pointer to anything. A `Value` takes its type from its source: the
//! description of a row, or the expression of an argument. Reading it as another type raises an error (42804), and
//! reads no memory.

use crate::error::Error;
use crate::server::text::owned;
use crate::server::{foreign, types};
use pgrx::PgSqlErrorCode;
use pgrx::heap_tuple::PgHeapTuple;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Datum, Interval, Oid};
use std::marker::PhantomData;
use xqueue_core::numeric::Stored;

/// A value that is not NULL, with the oid of its type. `'m` is the lifetime of the memory that it can point to.
#[derive(Clone, Copy)]
pub struct Value<'m> {
    datum: Datum,
    oid: Oid,
    _memory: PhantomData<&'m ()>,
}

impl<'m> Value<'m> {
    /// Placeholder for a value that is not read; it has no type.
    pub(super) const NONE: Value<'static> =
        Value { datum: Datum::null(), oid: Oid::INVALID, _memory: PhantomData };

    /// # Safety
    /// The datum is a value of the type, not NULL, and the memory that it points to lives for `'m`.
    pub(super) unsafe fn new(datum: Datum, oid: Oid) -> Value<'m> {
        Value { datum, oid, _memory: PhantomData }
    }

    /// Returns the type of the value, which can be a domain.
    pub fn type_oid(self) -> Oid {
        self.oid
    }

    pub(super) fn datum(self) -> Datum {
        self.datum
    }

    /// Returns whether the value has this type, up to domains over the same base type.
    pub fn is_of(self, oid: Oid) -> bool {
        self.oid == oid || oid != Oid::INVALID && self.base() == types::base_type(oid)
    }

    /// Returns the datum of a value of this type; an error if it has another type.
    pub(super) fn require(self, oid: Oid) -> Datum {
        if self.is_of(oid) { self.datum } else { self.refuse(&types::type_name(oid)) }
    }

    /// Returns the element type of an array value; an error for other values.
    pub(super) fn require_array(self) -> Oid {
        types::element_type(self.base()).unwrap_or_else(|| self.refuse("an array"))
    }

    /// Returns the datum of a row: a record, or a value of a composite type.
    pub(super) fn require_composite(self) -> Datum {
        if self.is_composite() { self.datum } else { self.refuse("a row") }
    }

    /// Returns whether the value is a record, or of a composite type.
    pub fn is_composite(self) -> bool {
        self.oid == types::RECORD || types::is_composite(self.base())
    }

    /// Reads a value of type smallint, integer or bigint.
    pub fn to_integer(self) -> i64 {
        self.try_integer().unwrap_or_else(|| self.refuse("an integer"))
    }

    /// Reads a value of type smallint, integer or bigint; None for other types.
    pub fn try_integer(self) -> Option<i64> {
        let number = |oid| match oid {
            types::INT2 => Some(i64::from(self.datum.value() as i16)),
            types::INT4 => Some(i64::from(self.datum.value() as i32)),
            types::INT8 => Some(self.datum.value() as i64),
            _ => None,
        };
        number(self.oid).or_else(|| number(self.base()))
    }

    /// Reads a value of an integer type, or of type timestamptz or timestamp in microseconds since 2000-01-01.
    pub fn to_integer_or_instant(self) -> i64 {
        match self.try_integer() {
            Some(number) => number,
            None if self.is_of(types::TIMESTAMP) => self.datum.value() as i64,
            None => self.to_instant(),
        }
    }

    /// Reads a value of type timestamptz in microseconds since 2000-01-01.
    pub fn to_instant(self) -> i64 {
        self.require(types::TIMESTAMPTZ).value() as i64
    }

    /// Reads a value of type double precision.
    pub fn to_float(self) -> f64 {
        f64::from_bits(self.require(types::FLOAT8).value() as u64)
    }

    pub fn to_bool(self) -> bool {
        self.require(types::BOOL).value() as u8 != 0
    }

    /// Reads a value of type "char".
    pub fn to_letter(self) -> u8 {
        self.require(types::CHAR).value() as u8
    }

    /// Reads a value of type oid, or of an alias type of oid.
    pub fn to_oid(self) -> Oid {
        const SHOWN_BY_NAME: [Oid; 2] = [pg_sys::REGCLASSOID, pg_sys::REGROLEOID];
        let is_shown_by_name = SHOWN_BY_NAME.contains(&self.oid);
        let datum = if is_shown_by_name { self.datum } else { self.require(types::OID) };
        Oid::from(datum.value() as u32)
    }

    /// Returns the oid of an enum value's label.
    pub fn to_enum_label(self, enum_type: Oid) -> Oid {
        Oid::from(self.require(enum_type).value() as u32)
    }

    pub fn to_uuid(self) -> [u8; 16] {
        let datum = self.require(types::UUID);
        // SAFETY: a value of type uuid is 16 bytes, passed by reference.
        unsafe { *datum.cast_mut_ptr::<[u8; 16]>() }
    }

    pub fn to_interval(self) -> Interval {
        let datum = self.require(types::INTERVAL);
        // SAFETY: a value of type interval is passed by reference.
        unsafe { *datum.cast_mut_ptr::<Interval>() }
    }

    /// Returns the datum of a value of type text, varchar or char(n).
    pub(super) fn require_text(self) -> Datum {
        if !types::TEXTS.contains(&self.oid) && !types::TEXTS.contains(&self.base()) {
            self.refuse("text")
        }
        self.datum
    }

    /// Returns the number of bytes of the detoasted value. The time to detoast it is proportional to this number.
    pub fn length(self) -> usize {
        // SAFETY: a value of the type; a value of variable length records its length wherever it is stored.
        unsafe {
            match pg_sys::get_typlen(self.oid) {
                -1 => pg_sys::toast_raw_datum_size(self.datum),
                _ => size_of::<Datum>(),
            }
        }
    }

    /// Passes the bytes of a value of type text, varchar or char(n) to `see`.
    pub fn with_text<T>(self, see: impl FnOnce(&[u8]) -> T) -> T {
        self.require_text();
        self.with_stored(see)
    }

    /// Passes the stored bytes of a value of type bytea or numeric, or of a string type, to `see`.
    pub fn with_stored<T>(self, see: impl FnOnce(&[u8]) -> T) -> T {
        let is_other = [types::BYTEA, types::NUMERIC].contains(&self.base());
        let datum = if is_other { self.datum } else { self.require_text() };
        // SAFETY: by its type the value is a varlena; it stays alive while it is read.
        unsafe {
            let varlena = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
            see(pgrx::varlena::varlena_to_byte_slice(varlena))
        }
    }

    /// Reads a value of type text, varchar or char(n).
    pub fn to_text(self) -> String {
        self.with_text(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns the value formatted by its type's output function.
    pub fn shown(self) -> String {
        value_text(self)
    }

    /// Returns a copy in the current memory context.
    pub fn copied<'to>(self) -> Value<'to> {
        // SAFETY: the copy has the value's type; a copy of a composite value or another varlena contains all data that
        // it refers to.
        unsafe {
            let (mut length, mut by_value) = (0i16, false);
            pg_sys::get_typlenbyval(self.oid, &mut length, &mut by_value);
            let datum = match length {
                -1 => Datum::from(pg_sys::pg_detoast_datum_copy(self.datum.cast_mut_ptr())),
                _ => pg_guard_ffi_boundary(|| {
                    foreign::datumCopy(self.datum, by_value, length.into())
                }),
            };
            Value::new(datum, self.oid)
        }
    }

    /// Returns the type below all domains.
    pub fn base(self) -> Oid {
        if self.oid == Oid::INVALID { self.oid } else { types::base_type(self.oid) }
    }

    fn refuse(self, wanted: &str) -> ! {
        let found = match self.oid {
            Oid::INVALID => "unknown".into(),
            oid => types::type_name(oid),
        };
        Error::new(
            PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
            format!("a value of type {found} stands where {wanted} is expected"),
        )
        .hint("If a column of the queue has changed its type, change it back, or call xqueue.upgrade() again.")
        .raise()
    }
}

/// Values created here; values passed by reference are allocated in the current memory context.
impl Value<'_> {
    pub fn int4(number: i32) -> Self {
        Value::by_value(Datum::from(number), types::INT4)
    }

    pub fn int8(number: i64) -> Self {
        Value::by_value(Datum::from(number), types::INT8)
    }

    /// Converts microseconds since 2000-01-01 to timestamptz.
    pub fn instant(microseconds: i64) -> Self {
        Value::by_value(Datum::from(microseconds), types::TIMESTAMPTZ)
    }

    pub fn oid(oid: Oid) -> Self {
        Value::by_value(Datum::from(oid), types::OID)
    }

    /// Returns a value of type "char".
    pub fn letter(letter: u8) -> Self {
        Value::by_value(Datum::from(letter), types::CHAR)
    }

    pub fn boolean(is_true: bool) -> Self {
        Value::by_value(Datum::from(is_true), pg_sys::BOOLOID)
    }

    /// Returns the result of a trigger function that the server ignores after a statement or row. In a BEFORE INSERT
    /// trigger it means that no row is inserted.
    pub fn ignored() -> Self {
        Value::by_value(Datum::from(0), pg_sys::VOIDOID)
    }

    /// Returns an integer as a value of type int2, int4 or int8; None if it does not fit, or for other types.
    pub fn integer(number: i64, oid: Oid) -> Option<Self> {
        let datum = match oid {
            types::INT2 => i16::try_from(number).ok().map(Datum::from)?,
            types::INT4 => i32::try_from(number).ok().map(Datum::from)?,
            types::INT8 => Datum::from(number),
            _ => return None,
        };
        Some(Value::by_value(datum, oid))
    }

    /// Returns an integer as a value of an integer type, or of type timestamptz or timestamp; None if it does not fit,
    /// or for other types.
    pub fn integer_or_instant(number: i64, oid: Oid) -> Option<Self> {
        match oid {
            types::TIMESTAMPTZ | types::TIMESTAMP => {
                Some(Value::by_value(Datum::from(number), oid))
            }
            _ => Value::integer(number, oid),
        }
    }

    /// Converts microseconds since 2000-01-01 00:00 of any zone's clocks to timestamp.
    pub fn local_time(microseconds: i64) -> Self {
        Value::by_value(Datum::from(microseconds), types::TIMESTAMP)
    }

    pub fn float(number: f64) -> Self {
        Value::by_value(Datum::from(number.to_bits()), types::FLOAT8)
    }

    pub fn text(text: &str) -> Self {
        Value::varlena(text.as_bytes(), types::TEXT)
    }

    /// Returns bytes as a value of type bytea, or their whole characters as a value of type text, varchar or char(n).
    /// None for other types.
    pub fn bytes(bytes: &[u8], oid: Oid) -> Option<Self> {
        let length = bytes.len() as i32;
        // SAFETY: reads no byte after `length`: the first byte of a character says how long it is.
        let whole = || unsafe { pg_sys::pg_mbcliplen(bytes.as_ptr().cast(), length, length) };
        match oid {
            types::BYTEA => Some(Value::varlena(bytes, oid)),
            _ if types::TEXTS.contains(&oid) => {
                Some(Value::varlena(&bytes[..whole() as usize], oid))
            }
            _ => None,
        }
    }

    pub fn numeric(stored: &Stored) -> Self {
        Value::varlena(stored.bytes(), types::NUMERIC)
    }

    /// Returns a copy of the bytes as a value of a type that stores them as they are.
    fn varlena(bytes: &[u8], oid: Oid) -> Self {
        // SAFETY: the bytes are copied.
        unsafe {
            let value = pg_sys::cstring_to_text_with_len(bytes.as_ptr().cast(), bytes.len() as i32);
            Value::new(Datum::from(value), oid)
        }
    }

    /// Returns a text as a value of type text or varchar; None for other types.
    pub fn string(text: &str, oid: Oid) -> Option<Self> {
        // A varchar is stored like a text.
        [types::TEXT, types::VARCHAR].contains(&oid).then(|| Value { oid, ..Value::text(text) })
    }

    pub fn uuid(uuid: [u8; 16]) -> Self {
        // SAFETY: palloc returns the requested memory, or raises an error.
        unsafe {
            let place = pg_sys::palloc(uuid.len()).cast::<[u8; 16]>();
            place.write(uuid);
            Value::new(Datum::from(place), types::UUID)
        }
    }

    pub fn interval(interval: Interval) -> Self {
        // SAFETY: palloc returns the requested memory, or raises an error.
        unsafe {
            let place = pg_sys::palloc(size_of::<Interval>()).cast::<Interval>();
            place.write(interval);
            Value::new(Datum::from(place), types::INTERVAL)
        }
    }

    /// Returns a row whose columns are all NULL; None for a type that is not composite.
    pub fn empty_row(oid: Oid) -> Option<Self> {
        let row = PgHeapTuple::new_composite_type_by_oid(oid).ok()?;
        row.into_composite_datum().map(|datum| Value { datum, oid, _memory: PhantomData })
    }

    pub fn uuids(uuids: &[[u8; 16]]) -> Self {
        Value::array(uuids.iter().map(|uuid| Value::uuid(*uuid)), types::UUID)
    }

    /// Returns an array of values of a type; an error if a value has another type.
    pub fn array<'a>(values: impl Iterator<Item = Value<'a>>, oid: Oid) -> Self {
        let mut values: Vec<Datum> = values.map(|value| value.require(oid)).collect();
        // SAFETY: the values have this type; its length and alignment are looked up.
        unsafe {
            let (mut length, mut by_value, mut align) = (0i16, false, 0);
            pg_sys::get_typlenbyvalalign(oid, &mut length, &mut by_value, &mut align);
            let array = pg_sys::construct_array(
                values.as_mut_ptr(),
                values.len() as i32,
                oid,
                i32::from(length),
                by_value,
                align,
            );
            Value::new(Datum::from(array), types::array_type(oid))
        }
    }

    fn by_value(datum: Datum, oid: Oid) -> Self {
        Value { datum, oid, _memory: PhantomData }
    }
}

/// Formats a value by the output function of its type.
fn value_text(value: Value) -> String {
    // SAFETY: the output function of the type returns a palloc'ed C string.
    unsafe {
        let (mut function, mut is_varlena) = (Oid::INVALID, false);
        pg_sys::getTypeOutputInfo(value.type_oid(), &mut function, &mut is_varlena);
        owned(pg_sys::OidOutputFunctionCall(function, value.datum())).unwrap_or_default()
    }
}
