//! Rows of a table, in any kind of storage.

use crate::server::foreign::column_type;
use crate::server::value::Value;
use pgrx::pg_sys::{self, Oid};

/// A row of a table.
pub trait Row {
    /// Returns the value of a column by number; None if it is NULL or does not exist.
    fn value(&self, number: i16) -> Option<Value<'_>>;

    /// Returns the identifier of the transaction that wrote the row, if it is known.
    fn writer(&self) -> Option<u32> {
        None
    }
}

/// A row in its stored form.
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

    /// Returns the row as a composite value.
    pub fn to_record<'to>(&self) -> Value<'to> {
        // SAFETY: by the contract of `new`; a table's descriptor names its row type.
        unsafe {
            let record = pg_sys::heap_copy_tuple_as_datum(self.tuple, self.description);
            Value::new(record, (*self.description).tdtypeid)
        }
    }
}

impl Row for Tuple {
    fn value(&self, number: i16) -> Option<Value<'_>> {
        let mut is_null = false;
        // SAFETY: by the contract of `new`; the number belongs to a column of the description.
        unsafe {
            let oid = column_type(self.description, number);
            if oid == Oid::INVALID {
                return None;
            }
            let datum =
                pg_sys::heap_getattr(self.tuple, i32::from(number), self.description, &mut is_null);
            (!is_null).then(|| Value::new(datum, oid))
        }
    }

    fn writer(&self) -> Option<u32> {
        // SAFETY: by the contract of `new`; a table row has a transaction identifier in this field.
        Some(unsafe { (*(*self.tuple).t_data).t_choice.t_heap.t_xmin.into() })
    }
}
