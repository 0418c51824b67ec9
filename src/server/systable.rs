//! Scans of tables that run no user code and ignore row security.

use crate::server::relation::Relation;
use crate::server::row::Tuple;
use crate::server::snapshot::Snapshot;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ptr::null_mut;

/// The types that name objects, such as regrole, have the length of oid.
const OID_LENGTH: i16 = 4;
/// Number of pages after which a scan of a possibly large table checks whether to continue.
const PART: u32 = 1024;

impl Relation {
    /// Passes every row visible to `snapshot` to `see`, for any access method. Ends early and returns false when `see`
    /// returns false.
    pub fn scan(&self, snapshot: &Snapshot, see: impl FnMut(&Tuple) -> bool) -> bool {
        self.scan_part(snapshot, None, see)
    }

    /// Scans page by page and calls `goes_on` in between: a table can have any number of pages of dead rows. A table
    /// with an access method other than heap is scanned in one part.
    pub fn scan_in_parts(
        &self,
        snapshot: &Snapshot,
        mut see: impl FnMut(&Tuple) -> bool,
        goes_on: impl Fn() -> bool,
    ) -> bool {
        if !self.is_heap() {
            return self.scan_part(snapshot, None, see);
        }
        // Rows in pages added later are not visible to the snapshot.
        let pages = self.pages();
        let mut parts =
            (0..pages).step_by(PART as usize).map(|from| (from, PART.min(pages - from)));
        parts.all(|part| goes_on() && self.scan_part(snapshot, Some(part), &mut see))
    }

    /// `part`: the first page and the number of pages.
    fn scan_part(
        &self,
        snapshot: &Snapshot,
        part: Option<(u32, u32)>,
        mut see: impl FnMut(&Tuple) -> bool,
    ) -> bool {
        const FLAGS: u32 = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
            | pg_sys::ScanOptions::SO_ALLOW_PAGEMODE
            | pg_sys::ScanOptions::SO_ALLOW_STRAT;
        // SAFETY: a sequential scan of an open table under a registered snapshot, by the functions that every access
        // method has; each tuple is valid until the next one is fetched. Only a heap that has these pages is scanned in
        // parts, without synchronization with other scans.
        unsafe {
            let Some(methods) = (*self.pointer()).rd_tableam.as_ref() else { return true };
            let (Some(begin), Some(next), Some(end)) =
                (methods.scan_begin, methods.scan_getnextslot, methods.scan_end)
            else {
                return true;
            };
            let slot = pg_sys::table_slot_create(self.pointer(), null_mut());
            let scan = pg_guard_ffi_boundary(|| {
                begin(self.pointer(), snapshot.pointer(), 0, null_mut(), null_mut(), FLAGS)
            });
            if let Some((from, count)) = part {
                pg_sys::heap_setscanlimits(scan, from, count);
            }
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

    /// Returns the result of `see` for the first row, in the latest catalog snapshot. This works in a parallel
    /// operation too, which cannot take another snapshot of the present.
    pub(super) fn first_of_all<T>(&self, see: impl FnOnce(&Tuple) -> T) -> Option<T> {
        // SAFETY: a scan of an open table without keys; the server takes the snapshot.
        unsafe {
            let scan = pg_sys::systable_beginscan(
                self.pointer(),
                Oid::INVALID,
                false,
                null_mut(),
                0,
                null_mut(),
            );
            let tuple = pg_sys::systable_getnext(scan);
            let seen = (!tuple.is_null()).then(|| see(&Tuple::new(tuple, self.description())));
            pg_sys::systable_endscan(scan);
            seen
        }
    }

    /// Returns the result of `see` for the first row with this oid in a column that is the first of the index.
    pub fn first<T>(
        &self,
        at: (Oid, i16),
        value: Oid,
        snapshot: &Snapshot,
        see: impl FnOnce(&Tuple) -> T,
    ) -> Option<T> {
        // SAFETY: operator and value have type oid.
        unsafe { self.first_equal(at, (pg_sys::F_OIDEQ, value.into()), snapshot, see) }
    }

    /// Returns the result of `see` for the first row with this uuid in a column that is the first of the index.
    pub(super) fn first_of_uuid<T>(
        &self,
        at: (Oid, i16),
        value: [u8; 16],
        snapshot: &Snapshot,
        see: impl FnOnce(&Tuple) -> T,
    ) -> Option<T> {
        let key = (pg_sys::F_UUID_EQ, Datum::from(value.as_ptr()));
        let is_uuid = self.described().get(at.1)?.atttypid == pg_sys::UUIDOID;
        // SAFETY: the operator belongs to type uuid, which is the column's type; its values are 16 bytes passed by
        // reference.
        is_uuid.then(|| unsafe { self.first_equal(at, key, snapshot, see) }).flatten()
    }

    /// Counts the rows with this oid in a column that is the first of the index, up to a limit. Counts rows that
    /// transactions in progress have added, but not the ones that these have changed or deleted.
    pub(super) fn count_with_uncommitted(
        &self,
        (index, column): (Oid, i16),
        value: Oid,
        limit: usize,
    ) -> usize {
        if self.described().get(column).is_none_or(|column| column.attlen != OID_LENGTH) {
            return 0;
        }
        let mut snapshot = pg_sys::SnapshotData {
            snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY,
            ..Default::default()
        };
        // SAFETY: an index scan of an open table, with one key of type oid. The snapshot, of an unregistered kind,
        // outlives it. It reports for each row whether a transaction in progress has changed the row.
        unsafe {
            let mut key = pg_sys::ScanKeyData::default();
            let equal = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
            pg_sys::ScanKeyInit(&mut key, column, equal, pg_sys::F_OIDEQ.into(), value.into());
            let seen = &raw mut snapshot;
            let scan = pg_sys::systable_beginscan(self.pointer(), index, true, seen, 1, &mut key);
            let mut count = 0;
            while count < limit && !pg_sys::systable_getnext(scan).is_null() {
                count += usize::from((*seen).xmax == pg_sys::InvalidTransactionId);
            }
            pg_sys::systable_endscan(scan);
            count
        }
    }

    /// # Safety
    /// The operator is an equality of the column's type, and the value has that type.
    unsafe fn first_equal<T>(
        &self,
        (index, column): (Oid, i16),
        (operator, value): (u32, Datum),
        snapshot: &Snapshot,
        see: impl FnOnce(&Tuple) -> T,
    ) -> Option<T> {
        // SAFETY: an index scan of an open table under a registered snapshot, with one key.
        unsafe {
            let mut key = pg_sys::ScanKeyData::default();
            let equal = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
            pg_sys::ScanKeyInit(&mut key, column, equal, operator.into(), value);
            let scan = pg_sys::systable_beginscan(
                self.pointer(),
                index,
                true,
                snapshot.pointer(),
                1,
                &mut key,
            );
            let tuple = pg_sys::systable_getnext(scan);
            let found = !tuple.is_null();
            let seen = found.then(|| see(&Tuple::new(tuple, self.description())));
            pg_sys::systable_endscan(scan);
            seen
        }
    }
}
