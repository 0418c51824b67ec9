//! Scans of tables that run no user code and know no row security.

use super::relation::{Relation, Snapshot};
use super::row::Tuple;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Oid};
use std::ptr::null_mut;

impl Relation {
    /// Sees every row that `snapshot` sees, whatever the table's access method. Ends early, with false, when
    /// `see` says so.
    pub fn scan(&self, snapshot: &Snapshot, mut see: impl FnMut(&Tuple) -> bool) -> bool {
        const FLAGS: u32 = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
            | pg_sys::ScanOptions::SO_ALLOW_PAGEMODE
            | pg_sys::ScanOptions::SO_ALLOW_STRAT;
        // SAFETY: a sequential scan of an open table under a registered snapshot, by the functions that every
        // access method has; each tuple is valid until the next one is fetched.
        unsafe {
            let Some(methods) = (*self.pointer()).rd_tableam.as_ref() else { return true };
            let (Some(begin), Some(next), Some(end)) =
                (methods.scan_begin, methods.scan_getnextslot, methods.scan_end)
            else {
                return true;
            };
            let slot = pg_sys::table_slot_create(self.pointer(), null_mut());
            let scan = pg_guard_ffi_boundary(|| {
                begin(self.pointer(), snapshot.0, 0, null_mut(), null_mut(), FLAGS)
            });
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            let mut complete = true;
            while complete && pg_guard_ffi_boundary(|| next(scan, forward, slot)) {
                let mut is_copy = false;
                let tuple = pg_sys::ExecFetchSlotHeapTuple(slot, false, &mut is_copy);
                complete = see(&Tuple::new(tuple, self.description()));
                if is_copy {
                    pg_sys::heap_freetuple(tuple);
                }
            }
            pg_guard_ffi_boundary(|| end(scan));
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            complete
        }
    }

    /// What `see` makes of the first row with this oid in a column that is the first one of the index.
    pub fn first<T>(
        &self,
        (index, column): (Oid, i16),
        value: Oid,
        snapshot: &Snapshot,
        see: impl FnOnce(&Tuple) -> T,
    ) -> Option<T> {
        // SAFETY: an index scan of an open catalogue under a registered snapshot, with one key.
        unsafe {
            let mut key = pg_sys::ScanKeyData::default();
            let equal = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
            let operator = pg_sys::F_OIDEQ.into();
            pg_sys::ScanKeyInit(&mut key, column, equal, operator, value.into());
            let scan =
                pg_sys::systable_beginscan(self.pointer(), index, true, snapshot.0, 1, &mut key);
            let tuple = pg_sys::systable_getnext(scan);
            let found = !tuple.is_null();
            let seen = found.then(|| see(&Tuple::new(tuple, self.description())));
            pg_sys::systable_endscan(scan);
            seen
        }
    }
}
