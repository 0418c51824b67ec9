//! Uniqueness checks that are separate from the insertion: the server's insertion walks over all entries of equal
//! values, and an old snapshot can keep many dead ones.

use crate::server::heap::access;
use crate::server::raw;
use crate::server::relation::{Lock, Relation};
use crate::server::row::Tuple;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ptr::null_mut;

/// Raises 23505 if another row has the values of this one, which the index already contains. Waits for transactions
/// that are writing or removing such a row, like the server's check of a deferred constraint.
pub fn require(table: Oid, index: Oid, row: &Tuple) {
    let Some(table) = Relation::open(table, Lock::None) else { return };
    // SAFETY: an open table and its row; the slot is freed here, or with its memory after an error.
    unsafe {
        let slot = pg_sys::MakeSingleTupleTableSlot(
            table.description(),
            &raw const pg_sys::TTSOpsHeapTuple,
        );
        pg_sys::ExecStoreHeapTuple(row.pointer(), slot, false);
        require_of(&table, index, slot);
        pg_sys::ExecDropSingleTupleTableSlot(slot);
    }
}

/// Raises 23505 if another row has the values of the row in a slot.
///
/// # Safety
/// `row` holds a row of the table and its location.
pub(super) unsafe fn require_of(table: &Relation, index: Oid, row: *mut pg_sys::TupleTableSlot) {
    // SAFETY: by the contract of this function; everything opened or allocated here is released here, or by the end of
    // the transaction after an error.
    unsafe {
        // A row that the transaction itself has changed again is not checked here but with its newest version: the
        // server would not find this version in the index.
        let (mut place, now) = ((*row).tts_tid, &raw mut pg_sys::SnapshotSelfData);
        if !pg_sys::table_index_fetch_tuple_check(table.pointer(), &mut place, now, null_mut()) {
            return;
        }
        let index = pg_sys::index_open(index, Lock::RowExclusive.mode());
        let info = pg_sys::BuildIndexInfo(index);
        let state = pg_sys::CreateExecutorState();
        let check = pg_sys::IndexUniqueCheck::UNIQUE_CHECK_EXISTING;
        pg_guard_ffi_boundary(|| add(table.pointer(), (index, info), row, state, check));
        pg_sys::FreeExecutorState(state);
        pg_sys::index_close(index, pg_sys::NoLock as pg_sys::LOCKMODE);
    }
}

/// Adds a stored row to an index that contains equal rows, or only checks it. Tells the server that the key is
/// unchanged, so that it removes dead entries before it splits a page; the insertion itself does not visit them.
///
/// # Safety
/// Table and index are open. The row belongs to the table and has its location. `state` is the state in which the
/// index's expressions are prepared. To be called within a guard.
pub(super) unsafe fn add(
    table: pg_sys::Relation,
    (index, info): (pg_sys::Relation, *mut pg_sys::IndexInfo),
    row: *mut pg_sys::TupleTableSlot,
    state: *mut pg_sys::EState,
    check: pg_sys::IndexUniqueCheck::Type,
) {
    const COLUMNS: usize = pg_sys::INDEX_MAX_KEYS as usize;
    let (mut values, mut nulls) = ([Datum::from(0); COLUMNS], [false; COLUMNS]);
    // SAFETY: by the contract of this function; the arrays have room for all columns.
    unsafe {
        (*access::per_tuple_context(state)).ecxt_scantuple = row;
        raw::FormIndexDatum(info, row, state, values.as_mut_ptr(), nulls.as_mut_ptr());
        let place = &mut (*row).tts_tid;
        let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
        raw::index_insert(index, values, nulls, place, table, check, true, info);
    }
}
