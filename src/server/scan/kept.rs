//! Keeps the rows of a call until they are fetched: in a list, or in a tuplestore once they need more memory than a
//! query is allowed to use.

use crate::server::foreign::list_nth;
use crate::server::raw;
use pgrx::pg_sys::{self, Datum};
use std::ptr::null_mut;

/// The destination of a function's rows; starts with the structure that the server would pass.
#[repr(C)]
pub struct Kept {
    info: pg_sys::ReturnSetInfo,
    /// A memory context that lives as long as the query.
    memory: pg_sys::MemoryContext,
    /// The query's resource owner: a call can run in a subtransaction, whose end closes the resources of that.
    owner: pg_sys::ResourceOwner,
    /// The first row, the only row of most calls; null if there is no row.
    first: *mut pg_sys::varlena,
    /// The rows after the first.
    rows: *mut pg_sys::List,
    /// Number of all rows.
    count: i32,
    bytes: usize,
    store: *mut pg_sys::Tuplestorestate,
    /// A slot with the columns of the stored rows.
    stored: *mut pg_sys::TupleTableSlot,
    /// The number of rows before the next one, unless the rows are stored.
    given: i32,
}

/// Marks in `allowedModes` that the structure starts a [`Kept`]; the server does not use this bit.
const KEPT: i32 = 1 << 16;

/// Returns the destination of the rows if the extension's own node calls a function.
///
/// # Safety
/// `info` is the call information of a C function.
pub unsafe fn kept(info: pg_sys::FunctionCallInfo) -> Option<*mut Kept> {
    // SAFETY: by the contract of this function; the tag determines the node's type.
    unsafe {
        let asked = (*info).resultinfo.cast::<pg_sys::ReturnSetInfo>();
        let is_set = !asked.is_null() && (*asked).type_ == pg_sys::NodeTag::T_ReturnSetInfo;
        (is_set && (*asked).allowedModes & KEPT != 0).then(|| asked.cast())
    }
}

/// A kept row.
pub enum KeptRow {
    /// A composite value, or another varlena.
    Value(*mut pg_sys::varlena),
    /// A slot with all its columns read.
    Slot(*mut pg_sys::TupleTableSlot),
}

impl Kept {
    /// Prepares for a call.
    pub(super) fn begin(
        &mut self,
        description: pg_sys::TupleDesc,
        context: *mut pg_sys::ExprContext,
        memory: pg_sys::MemoryContext,
    ) {
        self.info.type_ = pg_sys::NodeTag::T_ReturnSetInfo;
        self.info.econtext = context;
        self.info.allowedModes = KEPT;
        self.info.expectedDesc = description;
        self.memory = memory;
        // SAFETY: reads a variable of the backend: the query's resource owner, because no call has started yet.
        self.owner = unsafe { pg_sys::CurrentResourceOwner };
    }

    /// Returns the expected columns of the rows; null for a type that is not composite.
    pub(in crate::server) fn description(&self) -> pg_sys::TupleDesc {
        self.info.expectedDesc
    }

    /// Adds a row.
    ///
    /// # Safety
    /// The value is a composite value of the expected type, or jsonb without one. To be called from a function that got
    /// this destination.
    pub unsafe fn push(&mut self, value: Datum) {
        // SAFETY: by the contract of this function; the query's memory outlives the rows.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(self.memory);
            if self.store.is_null() {
                let row = pg_sys::pg_detoast_datum_copy(value.cast_mut_ptr());
                if self.first.is_null() {
                    self.first = row;
                } else {
                    self.rows = pg_sys::lappend(self.rows, row.cast());
                }
                self.count += 1;
                self.bytes += pgrx::varlena::varsize(row);
                if self.bytes > pg_sys::work_mem as usize * 1024 {
                    self.spill();
                }
            } else {
                self.put(pg_sys::pg_detoast_datum(value.cast_mut_ptr()));
            }
            pg_sys::MemoryContextSwitchTo(before);
        }
    }

    /// Moves the rows into a tuplestore.
    ///
    /// # Safety
    /// The query's memory context is current.
    unsafe fn spill(&mut self) {
        // SAFETY: by the contract of this function; everything allocated lives as long as the query.
        unsafe {
            let mut columns = self.info.expectedDesc;
            if columns.is_null() {
                columns = pg_sys::CreateTemplateTupleDesc(1);
                pg_sys::TupleDescInitEntry(columns, 1, null_mut(), pg_sys::JSONBOID, -1, 0);
            }
            // After an error, the end of the (sub)transaction sets the resource owner itself.
            let before = pg_sys::CurrentResourceOwner;
            pg_sys::CurrentResourceOwner = self.owner;
            self.stored =
                pg_sys::MakeSingleTupleTableSlot(columns, &raw const pg_sys::TTSOpsMinimalTuple);
            self.store = pg_sys::tuplestore_begin_heap(true, false, pg_sys::work_mem);
            pg_sys::CurrentResourceOwner = before;
            for index in 0..self.count {
                let row = self.row(index);
                self.put(row);
                pg_sys::pfree(row.cast());
            }
            pg_sys::list_free(self.rows);
            (self.first, self.rows) = (null_mut(), null_mut());
        }
    }

    /// Returns a row that is not in a tuplestore.
    ///
    /// # Safety
    /// `index` is less than the number of rows.
    unsafe fn row(&self, index: i32) -> *mut pg_sys::varlena {
        // SAFETY: by the contract of this function.
        if index == 0 { self.first } else { unsafe { list_nth(self.rows, index - 1) } }
    }

    /// # Safety
    /// The rows are in a tuplestore, and the row has its columns.
    unsafe fn put(&mut self, row: *mut pg_sys::varlena) {
        // SAFETY: by the contract of this function.
        unsafe {
            if self.info.expectedDesc.is_null() {
                let (mut values, mut nulls) = ([Datum::from(row)], [false]);
                let columns = (*self.stored).tts_tupleDescriptor;
                pg_sys::tuplestore_putvalues(
                    self.store,
                    columns,
                    values.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                );
            } else {
                let mut tuple = tuple_of(row);
                pg_sys::tuplestore_puttuple(self.store, &mut tuple);
            }
        }
    }

    /// Returns the next row, or the previous one with `back`; None at the end. Has no guard, and drops nothing.
    ///
    /// # Safety
    /// The function has returned, and errors can pass through the caller.
    pub unsafe fn next(&mut self, back: bool) -> Option<KeptRow> {
        // SAFETY: by the contract of this function; the index is inside the list.
        unsafe {
            if !self.store.is_null() {
                let slot = self.stored;
                if !raw::tuplestore_gettupleslot(self.store, !back, false, slot) {
                    return None;
                }
                raw::slot_getsomeattrs_int(slot, (*(*slot).tts_tupleDescriptor).natts);
                return Some(KeptRow::Slot(slot));
            }
            // From the position before the first row to the position after the last one.
            let next = if back { self.given - 1 } else { self.given + 1 };
            self.given = next.clamp(0, self.count + 1);
            let is_there = (1..=self.count).contains(&self.given);
            is_there.then(|| KeptRow::Value(self.row(self.given - 1)))
        }
    }

    /// Starts again at the first row.
    ///
    /// # Safety
    /// The requirements of `next`.
    pub unsafe fn rewind(&mut self) {
        self.given = 0;
        if !self.store.is_null() {
            // SAFETY: the tuplestore was created with random access.
            unsafe { raw::tuplestore_rescan(self.store) }
        }
    }

    /// Releases resources that the end of the query's memory does not release.
    ///
    /// # Safety
    /// The requirements of `next`.
    pub unsafe fn end(&mut self) {
        let description = self.info.expectedDesc;
        // SAFETY: created for these rows, and not used any more.
        unsafe {
            if !self.store.is_null() {
                raw::ExecDropSingleTupleTableSlot(self.stored);
                raw::tuplestore_end(self.store);
                self.store = null_mut();
            }
            if !description.is_null() && (*description).tdrefcount >= 0 {
                raw::DecrTupleDescRefCount(description);
            }
            self.info.expectedDesc = null_mut();
        }
    }
}

/// Returns a composite value as a tuple.
///
/// # Safety
/// `row` is a contiguous composite value that outlives the tuple.
pub unsafe fn tuple_of(row: *mut pg_sys::varlena) -> pg_sys::HeapTupleData {
    let header = row.cast::<pg_sys::HeapTupleHeaderData>();
    let length = pgrx::heap_tuple_header_get_datum_length(header);
    pg_sys::HeapTupleData { t_len: length as u32, t_data: header, ..Default::default() }
}
