//! Rows of a table, wherever they are.

use pgrx::pg_sys::{self, Datum};

/// A row of a table.
pub trait Row {
    /// The value of a column by number, None if it is NULL.
    fn datum(&self, number: i16) -> Option<Datum>;
}

/// A row as the table stores it.
pub struct Tuple {
    tuple: pg_sys::HeapTuple,
    description: pg_sys::TupleDesc,
}

impl Tuple {
    /// # Safety
    /// Both are valid while the tuple is used, and belong together.
    pub(super) unsafe fn new(tuple: pg_sys::HeapTuple, description: pg_sys::TupleDesc) -> Tuple {
        Tuple { tuple, description }
    }

    pub(super) fn pointer(&self) -> pg_sys::HeapTuple {
        self.tuple
    }

    /// The row as a composite value.
    pub fn to_record(&self) -> Datum {
        // SAFETY: by the contract of `new`; a table's descriptor names its row type.
        unsafe { pg_sys::heap_copy_tuple_as_datum(self.tuple, self.description) }
    }
}

impl Row for Tuple {
    fn datum(&self, number: i16) -> Option<Datum> {
        let mut is_null = false;
        // SAFETY: by the contract of `new`; numbers beyond the tuple give NULL.
        let datum = unsafe {
            pg_sys::heap_getattr(self.tuple, i32::from(number), self.description, &mut is_null)
        };
        (!is_null).then_some(datum)
    }
}
