//! Reads the columns of a composite value.
//!
//! Such a value names its row type, and is read by the *present* description of that type. A function's variable can
//! contain a row from before its table was altered, with the layout of that time. Two rules follow:
//!
//! 1. A value that records the description of its creation is refused if that is out of date.
//! 2. Any other value is trusted only for its length: no column is read beyond it, and no column that refers to memory
//!    elsewhere.

use crate::error::{Error, Result};
use crate::server::foreign::attribute;
use crate::server::value::Value;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Datum};

/// Returns the columns of a record or row in the order of its type; None for a column that is NULL or dropped. Raises
/// an error for a value that is not a row.
pub fn fields<'to>(record: Value) -> Result<Vec<Option<Value<'to>>>> {
    let datum = record.require_composite();
    // SAFETY: the datum is a composite value; the description is released before the end.
    unsafe {
        if is_outdated(datum) {
            return Err(changed());
        }
        // Detoasted, because a row nested in another tuple can have a short header.
        let row =
            pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::HeapTupleHeaderData>();
        let description = pg_sys::lookup_rowtype_tupdesc_copy(
            pgrx::htup::heap_tuple_header_get_type_id(row),
            pgrx::htup::heap_tuple_header_get_typmod(row),
        );
        Row::of(row).fields(description).ok_or_else(changed)
    }
}

fn changed() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        "the row was made before the columns of its type were changed",
    )
    .hint("Read the row again.")
}

/// Returns true if the record was formed with an older row type than the table has now.
///
/// # Safety
/// The datum is a composite value.
unsafe fn is_outdated(datum: Datum) -> bool {
    // SAFETY: by the contract of this function; an expanded object starts with its kind.
    unsafe {
        if !is_expanded(datum) {
            return false;
        }
        let record = pg_sys::DatumGetEOHP(datum).cast::<pg_sys::ExpandedRecordHeader>();
        let record = &*record;
        record.er_magic as u32 == pg_sys::ER_MAGIC
            && record.er_typeid != pg_sys::RECORDOID
            && record.er_tupdesc_id
                != pg_sys::assign_record_type_identifier(record.er_typeid, record.er_typmod)
    }
}

/// Returns whether a value is a pointer to an object in memory instead of contiguous data.
///
/// # Safety
/// The datum is a varlena.
unsafe fn is_expanded(datum: Datum) -> bool {
    // SAFETY: by the contract of this function; an external value has a tag in its second byte.
    unsafe {
        let varlena = datum.cast_mut_ptr::<pg_sys::varlena>();
        let is_external = pgrx::varlena::varatt_is_1b_e(varlena);
        is_external
            && *varlena.cast::<u8>().add(1) & !1
                == pg_sys::vartag_external::VARTAG_EXPANDED_RO as u8
    }
}

/// A row in memory.
struct Row {
    start: *const u8,
    length: usize,
    columns: usize,
    /// Offset of the first column.
    data: usize,
    has_nulls: bool,
}

impl Row {
    /// # Safety
    /// `row` is a contiguous composite value that outlives the result.
    unsafe fn of(row: pg_sys::HeapTupleHeader) -> Row {
        // SAFETY: by the contract of this function.
        unsafe {
            Row {
                start: row.cast(),
                length: pgrx::heap_tuple_header_get_datum_length(row),
                columns: usize::from((*row).t_infomask2) & pg_sys::HEAP_NATTS_MASK as usize,
                data: usize::from((*row).t_hoff),
                has_nulls: u32::from((*row).t_infomask) & pg_sys::HEAP_HASNULL != 0,
            }
        }
    }

    /// Returns the columns according to a description; None if the row does not match it.
    ///
    /// # Safety
    /// `description` is a valid tuple descriptor.
    unsafe fn fields<'to>(
        &self,
        description: pg_sys::TupleDesc,
    ) -> Option<Vec<Option<Value<'to>>>> {
        let mut at = self.data;
        // SAFETY: by the contract of this function.
        let count = unsafe { (*description).natts } as usize;
        let mut fields = Vec::with_capacity(count);
        for index in 0..count {
            if index >= self.columns || self.is_null(index)? {
                fields.push(None);
                continue;
            }
            // SAFETY: the description has the column; the range that `place` returns is within the row.
            unsafe {
                let column = attribute(description, index);
                let (begin, length) = self.place(at, column)?;
                at = begin + length;
                let value = || Value::new(datum(self.start.add(begin), column), column.atttypid);
                fields.push((!column.attisdropped).then(value));
            }
        }
        Some(fields)
    }

    fn is_null(&self, index: usize) -> Option<bool> {
        const BITMAP: usize = std::mem::offset_of!(pg_sys::HeapTupleHeaderData, t_bits);
        Some(self.has_nulls && self.byte(BITMAP + index / 8)? & 1 << (index % 8) == 0)
    }

    /// Returns the offset and length of a column that starts at or after an offset.
    fn place(&self, at: usize, column: &pg_sys::FormData_pg_attribute) -> Option<(usize, usize)> {
        // A value with a short header is not aligned, and its header is never zero, unlike padding.
        let is_packed = column.attlen == -1 && self.byte(at)? != 0;
        let alignment = match column.attalign as u8 {
            _ if is_packed => 1,
            pg_sys::TYPALIGN_SHORT => align_of::<i16>(),
            pg_sys::TYPALIGN_INT => align_of::<i32>(),
            pg_sys::TYPALIGN_DOUBLE => align_of::<f64>(),
            _ => 1,
        };
        let begin = at.next_multiple_of(alignment);
        let length = match column.attlen {
            -1 => self.varlena(begin)?,
            -2 => (begin..self.length).position(|at| self.byte(at) == Some(0))? + 1,
            length => usize::try_from(length).ok()?,
        };
        (begin.checked_add(length)? <= self.length).then_some((begin, length))
    }

    /// Returns the length of a varlena; None for a reference to memory elsewhere, which a row never contains.
    fn varlena(&self, begin: usize) -> Option<usize> {
        const SHORT: u8 = if cfg!(target_endian = "little") { 0x01 } else { 0x80 };
        let first = self.byte(begin)?;
        // A short header of length zero marks a reference to memory elsewhere.
        if first == SHORT {
            return None;
        }
        if first & SHORT == SHORT {
            let length = if cfg!(target_endian = "little") { first >> 1 } else { first & 0x7f };
            return Some(usize::from(length));
        }
        let mut header = [0; 4];
        for (index, byte) in header.iter_mut().enumerate() {
            *byte = self.byte(begin + index)?;
        }
        let header = u32::from_ne_bytes(header);
        let length =
            if cfg!(target_endian = "little") { header >> 2 } else { header & 0x3fff_ffff };
        (length as usize >= pg_sys::VARHDRSZ).then_some(length as usize)
    }

    fn byte(&self, at: usize) -> Option<u8> {
        // SAFETY: within the row.
        (at < self.length).then(|| unsafe { *self.start.add(at) })
    }
}

/// Returns the datum of a column.
///
/// # Safety
/// `place` points to the complete data of the column.
unsafe fn datum(place: *const u8, column: &pg_sys::FormData_pg_attribute) -> Datum {
    // SAFETY: by the contract of this function.
    unsafe {
        match column.attlen {
            1 if column.attbyval => Datum::from(place.cast::<i8>().read_unaligned()),
            2 if column.attbyval => Datum::from(place.cast::<i16>().read_unaligned()),
            4 if column.attbyval => Datum::from(place.cast::<i32>().read_unaligned()),
            8 if column.attbyval => Datum::from(place.cast::<i64>().read_unaligned()),
            _ => Datum::from(place.cast_mut()),
        }
    }
}
