//! The rows of a call, kept until they are asked for: in a list, or in a tuplestore once they are too many
//! for the memory that a query may use.

use crate::server::foreign::list_nth;
use crate::server::raw;
use pgrx::pg_sys::{self, Datum};
use std::ptr::null_mut;

/// What a function is to give its rows back by: begins as what the server would give it.
#[repr(C)]
pub struct Kept {
    info: pg_sys::ReturnSetInfo,
    /// It lives as long as the query.
    memory: pg_sys::MemoryContext,
    /// The query's: a call may run in a subtransaction, whose end closes what belongs to that.
    owner: pg_sys::ResourceOwner,
    /// The first row, and the only one of most calls; null if there is none.
    first: *mut pg_sys::varlena,
    /// The rows behind it.
    rows: *mut pg_sys::List,
    /// How many there are in all.
    count: i32,
    bytes: usize,
    store: *mut pg_sys::Tuplestorestate,
    /// The columns of what is stored, and room for a row of that.
    stored: *mut pg_sys::TupleTableSlot,
    /// How many rows are before the one that comes next, unless they are stored.
    given: i32,
}

/// Says in `allowedModes` that it is the beginning of a [`Kept`]; no mode of the server's.
const KEPT: i32 = 1 << 16;

/// Where the rows go, if it is our own node that calls a function.
///
/// # Safety
/// `info` is what a function in C was called with.
pub unsafe fn kept(info: pg_sys::FunctionCallInfo) -> Option<*mut Kept> {
    // SAFETY: by the contract of this function; the tag says what kind of node it is.
    unsafe {
        let asked = (*info).resultinfo.cast::<pg_sys::ReturnSetInfo>();
        let is_set = !asked.is_null() && (*asked).type_ == pg_sys::NodeTag::T_ReturnSetInfo;
        (is_set && (*asked).allowedModes & KEPT != 0).then(|| asked.cast())
    }
}

/// A row that is kept.
pub enum Row {
    /// A composite value, or another varlena.
    Value(*mut pg_sys::varlena),
    /// A slot with all its columns read.
    Slot(*mut pg_sys::TupleTableSlot),
}

impl Kept {
    /// Makes it ready for a call.
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
        // SAFETY: reads a variable of the backend: the owner of the query, as no call has begun yet.
        self.owner = unsafe { pg_sys::CurrentResourceOwner };
    }

    /// The columns of the rows wanted; null for what is not composite.
    pub(in crate::server) fn description(&self) -> pg_sys::TupleDesc {
        self.info.expectedDesc
    }

    /// Adds a row.
    ///
    /// # Safety
    /// The value is a composite one of the type wanted, or jsonb if none is. To be called from a function
    /// that was given this.
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

    /// Moves the rows into a store.
    ///
    /// # Safety
    /// The query's memory is current.
    unsafe fn spill(&mut self) {
        // SAFETY: by the contract of this function; what is made lives as long as the query.
        unsafe {
            let mut columns = self.info.expectedDesc;
            if columns.is_null() {
                columns = pg_sys::CreateTemplateTupleDesc(1);
                pg_sys::TupleDescInitEntry(columns, 1, null_mut(), pg_sys::JSONBOID, -1, 0);
            }
            // An error leaves the other owner to the end of the (sub)transaction, which sets its own.
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

    /// One of the rows that are not stored.
    ///
    /// # Safety
    /// There are more than `index`.
    unsafe fn row(&self, index: i32) -> *mut pg_sys::varlena {
        // SAFETY: by the contract of this function.
        if index == 0 { self.first } else { unsafe { list_nth(self.rows, index - 1) } }
    }

    /// # Safety
    /// There is a store, and the row is of its columns.
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

    /// The next row, or with `back` the one before it; None at the end. Not guarded, and drops nothing.
    ///
    /// # Safety
    /// The function has returned, and errors may pass through the caller.
    pub unsafe fn next(&mut self, back: bool) -> Option<Row> {
        // SAFETY: by the contract of this function; the index is inside the list.
        unsafe {
            if !self.store.is_null() {
                let slot = self.stored;
                if !raw::tuplestore_gettupleslot(self.store, !back, false, slot) {
                    return None;
                }
                raw::slot_getsomeattrs_int(slot, (*(*slot).tts_tupleDescriptor).natts);
                return Some(Row::Slot(slot));
            }
            // One before the first, up to one behind the last.
            let next = if back { self.given - 1 } else { self.given + 1 };
            self.given = next.clamp(0, self.count + 1);
            let is_there = (1..=self.count).contains(&self.given);
            is_there.then(|| Row::Value(self.row(self.given - 1)))
        }
    }

    /// Begins anew with the first row.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn rewind(&mut self) {
        self.given = 0;
        if !self.store.is_null() {
            // SAFETY: the store was begun with this in view.
            unsafe { raw::tuplestore_rescan(self.store) }
        }
    }

    /// Gives back what the end of the query's memory does not.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn end(&mut self) {
        let description = self.info.expectedDesc;
        // SAFETY: begun, made and looked up for this, and not used any more.
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

/// A composite value as a tuple.
///
/// # Safety
/// It is one, in one piece, and outlives the tuple.
pub unsafe fn tuple_of(row: *mut pg_sys::varlena) -> pg_sys::HeapTupleData {
    let header = row.cast::<pg_sys::HeapTupleHeaderData>();
    let length = pgrx::heap_tuple_header_get_datum_length(header);
    pg_sys::HeapTupleData { t_len: length as u32, t_data: header, ..Default::default() }
}
