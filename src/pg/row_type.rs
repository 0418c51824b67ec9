//! Row types: which columns they have, and whether that has changed.

use super::foreign::attribute;
use pgrx::pg_sys::{self, Oid};

/// What a row type is from one change of its table to the next.
pub struct RowType {
    /// The type of each column, and whether it was dropped: by these two rows have the same shape or not.
    columns: Vec<(Oid, bool)>,
    version: Version,
}

impl RowType {
    /// The row type as it is now; None for what has no columns.
    pub fn of(oid: Oid) -> Option<RowType> {
        // SAFETY: a look-up; a description is valid at least until the server serves invalidations.
        let entry = unsafe { &*pg_sys::lookup_type_cache(oid, pg_sys::TYPECACHE_TUPDESC as i32) };
        let description = entry.tupDesc;
        let version = Version { entry, identifier: entry.tupDesc_identifier };
        let row_type = || RowType { columns: shape(description).collect(), version };
        (!description.is_null()).then(row_type)
    }

    /// # Safety
    /// `description` is null or a valid tuple descriptor.
    pub(super) unsafe fn matches(&self, description: pg_sys::TupleDesc) -> bool {
        !description.is_null() && shape(description).eq(self.columns.iter().copied())
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }
}

/// Tells one version of a row type from all others.
#[derive(Clone, Copy)]
pub(super) struct Version {
    entry: *const pg_sys::TypeCacheEntry,
    identifier: u64,
}

impl Version {
    /// Whether a type is this, and has not changed since: a look at two numbers.
    pub fn is_current(self, oid: Oid) -> bool {
        // SAFETY: the server keeps the entry for as long as the process lives. It clears the identifier once the
        // table has changed, and uses none again.
        let now = unsafe { &*self.entry };
        now.type_id == oid && now.tupDesc_identifier == self.identifier
    }
}

fn shape(description: pg_sys::TupleDesc) -> impl Iterator<Item = (Oid, bool)> {
    attributes(description).map(|column| (column.atttypid, column.attisdropped))
}

/// The columns of a description, which is a valid one.
pub(super) fn attributes<'a>(
    description: pg_sys::TupleDesc,
) -> impl Iterator<Item = &'a pg_sys::FormData_pg_attribute> {
    // SAFETY: a valid tuple descriptor has `natts` attributes.
    unsafe {
        let count = (*description).natts as usize;
        (0..count).map(move |index| attribute(description, index))
    }
}
