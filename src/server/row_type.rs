//! Row types: which columns they have, and whether that has changed.

use crate::server::foreign::attribute;
use pgrx::pg_sys::{self, Oid};
use std::marker::PhantomData;

/// What two rows of one shape have in common of each column: type, modifier, collation, and whether it was dropped.
type Column = (Oid, i32, Oid, bool);

/// What a row type is from one change of its table to the next.
pub struct RowType {
    columns: Vec<Column>,
    version: Version,
}

impl RowType {
    /// The row type as it is now; None for what has no columns.
    pub fn of(oid: Oid) -> Option<RowType> {
        // SAFETY: a look-up; a description is null, or valid at least until the server serves invalidations.
        let (entry, columns) = unsafe {
            let entry = &*pg_sys::lookup_type_cache(oid, pg_sys::TYPECACHE_TUPDESC as i32);
            (entry, Columns::of(entry.tupDesc)?)
        };
        let version = Version { entry, identifier: entry.tupDesc_identifier };
        Some(RowType { columns: columns.shape().collect(), version })
    }

    /// The types of its columns.
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

/// Tells one version of a row type from all others.
#[derive(Clone, Copy)]
pub(super) struct Version {
    entry: *const pg_sys::TypeCacheEntry,
    identifier: u64,
}

impl Version {
    /// Returns whether a type is this, and has not changed since: a look at two numbers.
    pub fn is_current(self, oid: Oid) -> bool {
        // SAFETY: the server keeps the entry for as long as the process lives. It clears the identifier once the
        // table has changed, and uses none again.
        let now = unsafe { &*self.entry };
        now.type_id == oid && now.tupDesc_identifier == self.identifier
    }
}

/// The columns of a tuple descriptor, which is valid for as long as this is.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    description: pg_sys::TupleDesc,
    lifetime: PhantomData<&'a pg_sys::TupleDescData>,
}

impl<'a> Columns<'a> {
    /// # Safety
    /// A tuple descriptor that is valid for this lifetime.
    pub(super) unsafe fn new(description: pg_sys::TupleDesc) -> Columns<'a> {
        Columns { description, lifetime: PhantomData }
    }

    /// The same; None for null.
    ///
    /// # Safety
    /// Null, or a tuple descriptor that is valid for this lifetime.
    pub(super) unsafe fn of(description: pg_sys::TupleDesc) -> Option<Columns<'a>> {
        (!description.is_null()).then_some(Columns { description, lifetime: PhantomData })
    }

    pub(super) fn description(self) -> pg_sys::TupleDesc {
        self.description
    }

    /// A column by its number; None if there is none with it.
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
