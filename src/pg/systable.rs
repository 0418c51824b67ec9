//! Scans of tables that run no user code and know no row security.

use super::relation::{Relation, Snapshot};
use super::row::Tuple;
use pgrx::pg_sys::{self, Oid};

impl Relation {
    /// Sees every row that `snapshot` sees. Ends early, with false, when `see` says so.
    pub fn scan(&self, snapshot: &Snapshot, mut see: impl FnMut(&Tuple) -> bool) -> bool {
        // SAFETY: a sequential scan of an open table under a registered snapshot; each tuple is
        // valid until the next one is fetched.
        unsafe {
            let scan = pg_sys::systable_beginscan(
                self.pointer(),
                Oid::INVALID,
                false,
                snapshot.0,
                0,
                std::ptr::null_mut(),
            );
            let mut complete = true;
            loop {
                let tuple = pg_sys::systable_getnext(scan);
                if tuple.is_null() {
                    break;
                }
                if !see(&Tuple::new(tuple, self.description())) {
                    complete = false;
                    break;
                }
            }
            pg_sys::systable_endscan(scan);
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
