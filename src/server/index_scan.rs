//! Index scans that run no user code and ignore row security. Rows are compared by the functions of operator classes,
//! which only superusers create. The expressions and the predicate of an index are not evaluated; the caller checks
//! each row itself.

use crate::server::heap::{
    Bound, Is, ORDER_FUNCTION, access, column_type, flags, join_row, null_key,
};
use crate::server::relation::{LockMode, Relation};
use crate::server::row::Tuple;
use crate::server::snapshot::Snapshot;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Oid};
use std::ptr::null_mut;

impl Relation {
    /// Passes rows to `see` in the order of a btree index of the table: the rows visible to `snapshot` whose first
    /// index columns are within the bounds. Ends when `see` returns false.
    pub fn scan_by(
        &self,
        index: Oid,
        bounds: &[Bound],
        snapshot: &Snapshot,
        mut see: impl FnMut(&Tuple) -> bool,
    ) {
        // SAFETY: the table is open and the index belongs to it; the snapshot is registered; each row is valid until
        // the next one is fetched. After an error the end of the (sub)transaction closes everything.
        unsafe {
            let index = pg_sys::index_open(index, LockMode::AccessShare.mode());
            let numbered = bounds.iter().enumerate();
            let mut keys: Vec<_> =
                numbered.map(|(column, bound)| key(self, index, column, bound)).collect();
            let _members = join_row(&mut keys);
            let (first, count) = (keys.as_mut_ptr(), keys.len() as i32);
            let slot = pg_sys::table_slot_create(self.pointer(), null_mut());
            let scan = pg_guard_ffi_boundary(|| {
                access::begin_scan(self.pointer(), index, snapshot.pointer(), count)
            });
            pg_sys::index_rescan(scan, first, count, null_mut(), 0);
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            while pg_sys::index_getnext_slot(scan, forward, slot) {
                pgrx::check_for_interrupts!();
                let mut is_copy = false;
                let tuple = pg_sys::ExecFetchSlotHeapTuple(slot, false, &mut is_copy);
                let goes_on = see(&Tuple::new(tuple, self.description()));
                if is_copy {
                    pg_sys::heap_freetuple(tuple);
                }
                if !goes_on {
                    break;
                }
            }
            pg_sys::index_endscan(scan);
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            pg_sys::index_close(index, pg_sys::NoLock as pg_sys::LOCKMODE);
        }
    }
}

/// Returns the scan key that compares a column of an index, counted from 0, with a bound.
///
/// # Safety
/// `index` is an open btree index of the table and has this column.
unsafe fn key(
    table: &Relation,
    index: pg_sys::Relation,
    column: usize,
    bound: &Bound,
) -> pg_sys::ScanKeyData {
    let strategy = match bound.is {
        Is::Equal => pg_sys::BTEqualStrategyNumber,
        Is::AtLeast | Is::RowAtLeast | Is::RowEnds => pg_sys::BTGreaterEqualStrategyNumber,
        Is::After => pg_sys::BTGreaterStrategyNumber,
        Is::Null => return null_key(column + 1),
    };
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: by the contract of this function; a btree operator family has these operators and this function for its
    // types, and the value has the column's type.
    unsafe {
        let value = bound.value.require(column_type(index, column + 1, table.description()));
        let family = *(*index).rd_opfamily.add(column);
        let oid = *(*index).rd_opcintype.add(column);
        let function = match flags(bound.is) {
            0 => pg_sys::get_opcode(pg_sys::get_opfamily_member(family, oid, oid, strategy as i16)),
            _ => pg_sys::get_opfamily_proc(family, oid, oid, ORDER_FUNCTION as i16),
        };
        pg_sys::ScanKeyEntryInitialize(
            &mut key,
            flags(bound.is),
            column as i16 + 1,
            strategy as u16,
            Oid::INVALID,
            *(*index).rd_indcollation.add(column),
            function,
            value,
        );
    }
    key
}
