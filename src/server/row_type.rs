//! Row types: their columns, and whether these have changed.

use crate::error::Error;
use crate::server::foreign::attribute;
use pgrx::pg_sys::{self, Oid};
use std::marker::PhantomData;

/// The properties of a column that compatible rows share: type, modifier, collation, and whether it was dropped.
type Column = (Oid, i32, Oid, bool);

/// A row type between two changes of its table.
pub struct RowType {
    columns: Vec<Column>,
    version: Version,
}

impl RowType {
    /// Returns the present row type; None for a type without columns.
    pub fn of(oid: Oid) -> Option<RowType> {
        // SAFETY: a lookup; a description is null, or valid at least until the server serves invalidations.
        let (entry, columns) = unsafe {
            let entry = &*pg_sys::lookup_type_cache(oid, pg_sys::TYPECACHE_TUPDESC as i32);
            (entry, Columns::of(entry.tupDesc)?)
        };
        let version = Version { entry, identifier: entry.tupDesc_identifier };
        Some(RowType { columns: columns.shape().collect(), version })
    }

    /// Returns the types of its columns.
    pub fn types(&self) -> impl Iterator<Item = Oid> {
        self.columns.iter().filter(|column| !column.3).map(|column| column.0)
    }

    pub(super) fn matches(&self, columns: Columns) -> bool {
        columns.shape().eq(self.columns.iter().copied())
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }
}

/// Identifies one version of a row type.
#[derive(Clone, Copy)]
pub(super) struct Version {
    entry: *const pg_sys::TypeCacheEntry,
    identifier: u64,
}

impl Version {
    /// Returns whether a type is the recorded one, and has not changed since. Compares only two numbers.
    pub fn is_current(self, oid: Oid) -> bool {
        // SAFETY: the server keeps the entry as long as the process lives. It clears the identifier after the table has
        // changed, and never reuses an identifier.
        let now = unsafe { &*self.entry };
        now.type_id == oid && now.tupDesc_identifier == self.identifier
    }
}

/// The columns of a tuple descriptor, which outlives this value.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    description: pg_sys::TupleDesc,
    lifetime: PhantomData<&'a pg_sys::TupleDescData>,
}

impl<'a> Columns<'a> {
    /// # Safety
    /// `description` is a tuple descriptor that is valid for this lifetime.
    pub(super) unsafe fn new(description: pg_sys::TupleDesc) -> Columns<'a> {
        Columns { description, lifetime: PhantomData }
    }

    /// Returns the columns of a tuple descriptor; None for null.
    ///
    /// # Safety
    /// `description` is null, or a tuple descriptor that is valid for this lifetime.
    pub(super) unsafe fn of(description: pg_sys::TupleDesc) -> Option<Columns<'a>> {
        (!description.is_null()).then_some(Columns { description, lifetime: PhantomData })
    }

    pub(super) fn description(self) -> pg_sys::TupleDesc {
        self.description
    }

    /// Returns a column by number; None if it does not exist.
    pub(super) fn get(self, number: i16) -> Option<&'a pg_sys::FormData_pg_attribute> {
        self.attributes().nth(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    pub(super) fn attributes(
        self,
    ) -> impl ExactSizeIterator<Item = &'a pg_sys::FormData_pg_attribute> {
        // SAFETY: a valid tuple descriptor has `natts` attributes.
        unsafe {
            let count = (*self.description).natts as usize;
            (0..count).map(move |index| attribute(self.description, index))
        }
    }

    fn shape(self) -> impl Iterator<Item = Column> {
        self.attributes().map(|column| {
            (column.atttypid, column.atttypmod, column.attcollation, column.attisdropped)
        })
    }
}

/// Returns the error for a query planned before the columns of a queue were changed. The session makes all kept plans
/// again: the server does not know which of them depend on the columns.
pub fn outdated(queue: &str) -> Error {
    // SAFETY: marks the plans.
    unsafe { pg_sys::ResetPlanCache() };
    Error::columns_changed(queue)
}
