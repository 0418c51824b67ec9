//! Wraps the server's functions for access methods, slots and indexes, with one signature for all versions.

use crate::server::value::Value;
use crate::server::{foreign, raw};
use pgrx::pg_sys::{self, Oid};
use std::ffi::c_int;
use xqueue_core::row_id::RowId;

/// Inserts a row by a table's access method.
pub type Insert = unsafe extern "C-unwind" fn(
    pg_sys::Relation,
    *mut pg_sys::TupleTableSlot,
    pg_sys::CommandId,
    c_int,
    *mut pg_sys::BulkInsertStateData,
);

#[cfg(feature = "pg15")]
pub type UpdateIndexes = bool;
#[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
pub type UpdateIndexes = pg_sys::TU_UpdateIndexes::Type;

/// Updates a row by a table's access method.
pub type Update = unsafe extern "C-unwind" fn(
    pg_sys::Relation,
    pg_sys::ItemPointer,
    *mut pg_sys::TupleTableSlot,
    pg_sys::CommandId,
    pg_sys::Snapshot,
    pg_sys::Snapshot,
    bool,
    *mut pg_sys::TM_FailureData,
    *mut pg_sys::LockTupleMode::Type,
    *mut UpdateIndexes,
) -> pg_sys::TM_Result::Type;

/// Locks a row by a table's access method.
pub type Lock = unsafe extern "C-unwind" fn(
    pg_sys::Relation,
    pg_sys::ItemPointer,
    pg_sys::Snapshot,
    *mut pg_sys::TupleTableSlot,
    pg_sys::CommandId,
    pg_sys::LockTupleMode::Type,
    pg_sys::LockWaitPolicy::Type,
    u8,
    *mut pg_sys::TM_FailureData,
) -> pg_sys::TM_Result::Type;

/// Deletes a row by a table's access method.
pub type Delete = unsafe extern "C-unwind" fn(
    pg_sys::Relation,
    pg_sys::ItemPointer,
    pg_sys::CommandId,
    pg_sys::Snapshot,
    pg_sys::Snapshot,
    bool,
    *mut pg_sys::TM_FailureData,
    bool,
) -> pg_sys::TM_Result::Type;

/// Returns the context in which an executor state evaluates expressions.
///
/// # Safety
/// `state` is a valid executor state.
pub unsafe fn per_tuple_context(state: *mut pg_sys::EState) -> *mut pg_sys::ExprContext {
    // SAFETY: by the contract of this function.
    unsafe {
        let context = (*state).es_per_tuple_exprcontext;
        if context.is_null() { raw::MakePerTupleExprContext(state) } else { context }
    }
}

/// Frees the memory in which a state has evaluated expressions.
///
/// # Safety
/// `state` is a valid executor state, and none of its expressions is being evaluated. To be called within a guard.
pub unsafe fn reset(state: *mut pg_sys::EState) {
    // SAFETY: by the contract of this function.
    unsafe { raw::MemoryContextReset((*per_tuple_context(state)).ecxt_per_tuple_memory) }
}

/// Returns the value of a column of the row in a slot; None if the slot is empty, or the column does not exist.
///
/// # Safety
/// `slot` is a valid slot of one of the server's own kinds, and keeps its row while the value is used.
pub unsafe fn value<'row>(slot: *mut pg_sys::TupleTableSlot, number: i16) -> Option<Value<'row>> {
    // SAFETY: by the contract of this function; a filled slot raises no error for a column of its descriptor.
    unsafe {
        let oid = foreign::column_type((*slot).tts_tupleDescriptor, number);
        if oid == Oid::INVALID || u32::from((*slot).tts_flags) & pg_sys::TTS_FLAG_EMPTY != 0 {
            return None;
        }
        if (*slot).tts_nvalid < number {
            raw::slot_getsomeattrs_int(slot, number.into());
        }
        let index = number as usize - 1;
        let is_null = *(*slot).tts_isnull.add(index);
        (!is_null).then(|| Value::new(*(*slot).tts_values.add(index), oid))
    }
}

/// Returns the identifier of the transaction that wrote the row in a slot; None if the slot does not hold a heap tuple.
///
/// # Safety
/// `slot` is a valid slot, and keeps its row while the result is used.
pub unsafe fn writer(slot: *mut pg_sys::TupleTableSlot) -> Option<u32> {
    // SAFETY: by the contract of this function; a slot of this kind starts with the fields of a heap tuple slot.
    unsafe {
        let is_heap = (*slot).tts_ops == &raw const pg_sys::TTSOpsBufferHeapTuple;
        let tuple = (*slot.cast::<pg_sys::HeapTupleTableSlot>()).tuple;
        (is_heap && !tuple.is_null()).then(|| (*(*tuple).t_data).t_choice.t_heap.t_xmin.into())
    }
}

/// Returns the location of a slot's row in its table.
///
/// # Safety
/// `slot` is a valid slot.
pub unsafe fn row_id(slot: *mut pg_sys::TupleTableSlot) -> RowId {
    // SAFETY: by the contract of this function.
    let place = unsafe { (*slot).tts_tid };
    let block = u32::from(place.ip_blkid.bi_hi) << 16 | u32::from(place.ip_blkid.bi_lo);
    RowId::new(block, place.ip_posid)
}

/// Returns the command that the changes of an open table belong to. User code in the middle runs later commands, and
/// the server refuses to change a row that they have changed.
///
/// # Safety
/// The snapshot of the open table is active. To be called within a guard.
pub unsafe fn command() -> pg_sys::CommandId {
    // SAFETY: by the contract of this function.
    unsafe {
        raw::GetCurrentCommandId(true);
        (*raw::GetActiveSnapshot()).curcid
    }
}

/// Fetches into a slot the version of a row that the snapshot sees: the version at this location, or a later one on the
/// same page. Tries the access of an index scan first, which prunes a page full of dead versions, but does not start at
/// a version that no index points to.
///
/// # Safety
/// The table is an open heap on which the caller holds a lock, and which contains the block. The slot belongs to it,
/// and the snapshot is valid. To be called within a guard.
pub unsafe fn fetch(
    table: pg_sys::Relation,
    row: RowId,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: by the contract of this function.
    unsafe {
        let methods = &*(*table).rd_tableam;
        let (Some(begin), Some(fetch), Some(end), Some(fetch_version)) = (
            methods.index_fetch_begin,
            methods.index_fetch_tuple,
            methods.index_fetch_end,
            methods.tuple_fetch_row_version,
        ) else {
            return false;
        };
        let (block, mut place) = (row.block(), pg_sys::ItemPointerData::default());
        place.ip_blkid.bi_hi = (block >> 16) as u16;
        place.ip_blkid.bi_lo = block as u16;
        place.ip_posid = row.item();
        let (mut goes_on, mut is_dead) = (false, false);
        let scan = begin(table);
        let is_seen = fetch(scan, &mut place, snapshot, slot, &mut goes_on, &mut is_dead);
        end(scan);
        is_seen || fetch_version(table, &mut place, snapshot, slot)
    }
}

/// Begins a scan of an index.
///
/// # Safety
/// Both are open, the snapshot is valid until the scan is ended. To be called within a guard.
pub unsafe fn begin_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    keys: i32,
) -> pg_sys::IndexScanDesc {
    // SAFETY: by the contract of this function; the scan is not instrumented.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
        let scan = raw::index_beginscan(table, index, snapshot, keys, 0);
        #[cfg(feature = "pg18")]
        let scan = raw::index_beginscan(table, index, snapshot, std::ptr::null_mut(), keys, 0);
        scan
    }
}

/// Adds a newly stored row to the indexes of its table. `update`: the indexes to which an update must be added; None
/// for a new row.
///
/// # Safety
/// The target's indexes are open and `state` is its executor state. To be called within a guard.
pub unsafe fn insert_index_tuples(
    target: *mut pg_sys::ResultRelInfo,
    row: *mut pg_sys::TupleTableSlot,
    state: *mut pg_sys::EState,
    update: Option<UpdateIndexes>,
) {
    #[cfg(feature = "pg15")]
    let is_needed = update != Some(false);
    #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
    let is_needed = update != Some(pg_sys::TU_UpdateIndexes::TU_None);
    if !is_needed {
        return;
    }
    let (is_update, none, no_list) = (update.is_some(), std::ptr::null_mut(), std::ptr::null_mut());
    // The result has a name, so that a major without a branch does not compile. Its rows would lack their index entries.
    // SAFETY: by the contract of this function; no index of the target defers its check.
    let _deferred = unsafe {
        // Access methods keep state from one insertion to the next, in memory that is freed with each row. An error
        // leaves a reference to it.
        each_index(target, |_, info| (*info).ii_AmCache = std::ptr::null_mut());
        #[cfg(feature = "pg15")]
        let deferred =
            raw::ExecInsertIndexTuples(target, row, state, is_update, false, none, no_list);
        #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
        let deferred = raw::ExecInsertIndexTuples(
            target,
            row,
            state,
            is_update,
            false,
            none,
            no_list,
            update == Some(pg_sys::TU_UpdateIndexes::TU_Summarizing),
        );
        // Such state can pin a buffer, which must not stay pinned at the end of a row's subtransaction.
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        let release = |_: pg_sys::Relation, _: *mut pg_sys::IndexInfo| ();
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        let release = |index: pg_sys::Relation, info: *mut pg_sys::IndexInfo| {
            if !index.is_null() {
                raw::index_insert_cleanup(index, info);
            }
        };
        each_index(target, release);
        deferred
    };
}

/// Passes each index of a target to `act`; null for an index that is not open.
///
/// # Safety
/// `target` describes a table and its indexes.
unsafe fn each_index(
    target: *mut pg_sys::ResultRelInfo,
    act: impl Fn(pg_sys::Relation, *mut pg_sys::IndexInfo),
) {
    // SAFETY: by the contract of this function.
    unsafe {
        for position in 0..(*target).ri_NumIndices as usize {
            let index = *(*target).ri_IndexRelationDescs.add(position);
            act(index, *(*target).ri_IndexRelationInfo.add(position));
        }
    }
}
