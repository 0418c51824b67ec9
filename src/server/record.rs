//! The columns of a composite value.
//!
//! Such a value names its row type, and is read by the description that the type has *now*. A variable of a
//! function may hold a row from before its table was altered, laid out by the description of then. So a value that
//! says by which description it was made is refused if that is out of date, and of any other nothing is believed
//! but its length: no column is read beyond it, and none that refers to memory elsewhere.

use crate::error::{Error, Result};
use crate::server::foreign::attribute;
use crate::server::value::Value;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Datum};

/// The columns of a record or of a row, in the order of its type's, None for one that is NULL or dropped. An error
/// for what is no row.
pub fn fields<'to>(record: Value) -> Result<Vec<Option<Value<'to>>>> {
    let datum = record.require_composite();
    // SAFETY: the datum is a composite value; the description is given back before the end.
    unsafe {
        if is_outdated(datum) {
            return Err(changed());
        }
        // Unpacked: a row out of another tuple may have a short header.
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

/// Returns whether a value that a function works on was made by a description that its type has no more.
///
/// # Safety
/// The datum is a composite value.
unsafe fn is_outdated(datum: Datum) -> bool {
    // SAFETY: by the contract of this function; an expanded object begins with its kind.
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

/// Returns whether a value is a pointer to an object in memory, rather than one in a piece.
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

/// A row as it lies in memory.
struct Row {
    start: *const u8,
    length: usize,
    columns: usize,
    /// Where the columns begin.
    data: usize,
    has_nulls: bool,
}

impl Row {
    /// # Safety
    /// A composite value in one piece, which outlives what is made of it.
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

    /// The columns by a description; None if the row does not fit it.
    ///
    /// # Safety
    /// A valid tuple descriptor.
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
            // SAFETY: the description has the column; what `place` gives lies in the row.
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

    /// Where a column begins that comes at or after a place, and its length.
    fn place(&self, at: usize, column: &pg_sys::FormData_pg_attribute) -> Option<(usize, usize)> {
        // A value with a short header is not aligned, and no such header is zero as padding is.
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

    /// The length of a varlena; None for one that refers to memory elsewhere, which a row never holds.
    fn varlena(&self, begin: usize) -> Option<usize> {
        const SHORT: u8 = if cfg!(target_endian = "little") { 0x01 } else { 0x80 };
        let first = self.byte(begin)?;
        // A short header of length zero says that the value is elsewhere.
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

/// The datum of a column.
///
/// # Safety
/// `place` is where the column lies, whole.
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
