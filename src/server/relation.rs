//! Finds, locks and describes tables.

use crate::server::row_type::Columns;
use crate::server::types;
use pgrx::pg_sys::{self, Oid};
use std::ffi::CStr;

/// The kind of an ordinary table, in the sense of `relation_kind`.
pub const TABLE: u8 = pg_sys::RELKIND_RELATION;

/// The mode of a table lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// The lock is already held, or not needed.
    None,
    AccessShare,
    RowExclusive,
    ShareRowExclusive,
    AccessExclusive,
}

impl LockMode {
    pub(super) fn mode(self) -> pg_sys::LOCKMODE {
        let mode = match self {
            LockMode::None => pg_sys::NoLock,
            LockMode::AccessShare => pg_sys::AccessShareLock,
            LockMode::RowExclusive => pg_sys::RowExclusiveLock,
            LockMode::ShareRowExclusive => pg_sys::ShareRowExclusiveLock,
            LockMode::AccessExclusive => pg_sys::AccessExclusiveLock,
        };
        mode as pg_sys::LOCKMODE
    }
}

/// Returns the table of a row type; None for other types.
pub fn of_row_type(oid: Oid) -> Option<Oid> {
    // SAFETY: a lookup in the system cache.
    let table = unsafe { pg_sys::get_typ_typrelid(oid) };
    (table != Oid::INVALID).then_some(table)
}

/// Locks a table; waits without a limit.
pub fn lock(table: Oid, lock: LockMode) {
    // SAFETY: takes a lock until the end of the transaction.
    unsafe { pg_sys::LockRelationOid(table, lock.mode()) }
}

/// Locks a table without waiting; returns false if another session is in the way.
pub fn try_lock(table: Oid, lock: LockMode) -> bool {
    // SAFETY: as above.
    unsafe { pg_sys::ConditionalLockRelationOid(table, lock.mode()) }
}

/// Takes the lock that a connection to a database begins with, without waiting. It is held until the end of the
/// transaction. Returns false if another session is in the way.
pub fn try_lock_database(database: u32) -> bool {
    let tag = pg_sys::LOCKTAG {
        locktag_field2: pg_sys::DatabaseRelationId.into(),
        locktag_field3: database,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        ..Default::default()
    };
    // SAFETY: the tag of a shared object, as the server sets it; the lock ends with the transaction.
    let taken = unsafe { pg_sys::LockAcquire(&tag, LockMode::RowExclusive.mode(), false, true) };
    taken != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

/// Locks a table against other checks, and nothing else; waits without a limit. The lock is held until the end of the
/// (sub)transaction.
pub fn lock_for_check(table: Oid) {
    // The server uses no lock of a table's parts, so number 1 has no other meaning.
    // SAFETY: takes a lock of this database.
    unsafe {
        let mode = LockMode::ShareRowExclusive.mode();
        pg_sys::LockDatabaseObject(pg_sys::RelationRelationId, table, 1, mode)
    }
}

/// Locks a table with everything that a statement on it opens: its indexes, its TOAST table and the index of that. Does
/// not wait; returns false if another session is in the way of any of them. The locks are held until the end of the
/// (sub)transaction, so that later statements do not wait for them. A process that serves several roles uses only this
/// function to lock tables.
pub fn try_lock_whole(table: Oid, lock: LockMode) -> bool {
    let with_indexes = |table| {
        let relation = if try_lock(table, lock) {
            Relation::open_any(table, LockMode::None)?
        } else {
            return None;
        };
        let mut indexes = relation.indexes().into_iter();
        indexes.all(|index| try_lock(index, lock)).then(|| relation.form().reltoastrelid)
    };
    with_indexes(table).is_some_and(|toast| toast == Oid::INVALID || with_indexes(toast).is_some())
}

/// Returns whether this session has a table open, for example in the middle of a statement, or has changed rows of it
/// whose triggers have not fired yet, for example by the cascade of a foreign key.
pub fn is_in_use(table: Oid) -> bool {
    let relation = Relation::open(table, LockMode::None);
    // SAFETY: an open relation, which counts one reference of this function; a search in the list of events.
    unsafe {
        relation.is_some_and(|relation| (*relation.pointer).rd_refcnt > 1)
            || pg_sys::AfterTriggerPendingOnRel(table)
    }
}

/// Makes every process read the table's definition again.
pub fn invalidate(table: Oid) {
    // SAFETY: queues a message for the end of the transaction.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(table) }
}

/// An open table.
pub struct Relation {
    pointer: pg_sys::Relation,
}

/// A column as described by the table.
#[derive(Clone, Debug)]
pub struct ColumnType {
    pub name: String,
    pub number: i16,
    pub oid: Oid,
    /// The type below all domains.
    pub base: Oid,
    pub has_default: bool,
    pub is_identity: bool,
    pub is_generated: bool,
    /// Every existing row has a value.
    pub is_not_null: bool,
    /// A NULL is refused; existing rows can have one, by a constraint that is NOT VALID.
    pub refuses_null: bool,
    pub collation: Oid,
    /// The type's modifier; -1 if the type has no modifier.
    pub modifier: i32,
}

impl Relation {
    /// Opens an ordinary table; None if it does not exist. Up to PostgreSQL 15 a rule can turn a table into a view,
    /// which has no storage.
    pub fn open(table: Oid, lock: LockMode) -> Option<Relation> {
        Relation::open_any(table, lock).filter(|relation| relation.form().relkind as u8 == TABLE)
    }

    /// Opens a relation of any kind.
    fn open_any(relation: Oid, lock: LockMode) -> Option<Relation> {
        // SAFETY: closed on drop; the lock stays until the end of the transaction.
        let pointer = unsafe { pg_sys::try_relation_open(relation, lock.mode()) };
        // `then_some` would create the value, and thereby close it, also for null.
        (!pointer.is_null()).then(|| Relation { pointer })
    }

    /// Opens a shared catalog, which is possible without a database.
    pub fn open_shared(catalogue: Oid) -> Relation {
        let mode = LockMode::AccessShare.mode();
        // SAFETY: a shared catalog always exists; closed on drop.
        Relation { pointer: unsafe { pg_sys::relation_open(catalogue, mode) } }
    }

    fn form(&self) -> &pg_sys::FormData_pg_class {
        // SAFETY: an open relation has its form.
        unsafe { &*(*self.pointer).rd_rel }
    }

    pub(super) fn pointer(&self) -> pg_sys::Relation {
        self.pointer
    }

    pub fn oid(&self) -> Oid {
        // SAFETY: an open relation.
        unsafe { (*self.pointer).rd_id }
    }

    /// Returns whether this transaction has created the table, so that no other has written to it.
    pub fn is_created_here(&self) -> bool {
        // SAFETY: an open relation. The field is zero for a relation of an earlier transaction.
        unsafe { (*self.pointer).rd_createSubid != 0 }
    }

    /// Returns whether the server's own heap access method stores its rows.
    pub fn is_heap(&self) -> bool {
        self.form().relam == pg_sys::HEAP_TABLE_AM_OID
    }

    pub fn persistence(&self) -> u8 {
        self.form().relpersistence as u8
    }

    pub fn is_partition(&self) -> bool {
        self.form().relispartition
    }

    /// Returns the indexes of the table.
    pub fn indexes(&self) -> Vec<Oid> {
        // SAFETY: an open table; null, or a list of oids.
        unsafe {
            let list = pg_sys::RelationGetIndexList(self.pointer);
            let Some(list) = list.as_ref() else { return vec![] };
            let oid = |index| (*list.elements.add(index)).oid_value;
            (0..list.length as usize).map(oid).collect()
        }
    }

    /// Returns whether its rows can be read: a standby does not have the rows of an unlogged table.
    pub fn is_readable(&self) -> bool {
        self.persistence() != pg_sys::RELPERSISTENCE_UNLOGGED || !crate::server::xact::in_recovery()
    }

    pub fn owner(&self) -> Oid {
        self.form().relowner
    }

    pub fn row_type(&self) -> Oid {
        self.form().reltype
    }

    pub fn schema(&self) -> Oid {
        self.form().relnamespace
    }

    /// Returns the size in pages.
    pub fn pages(&self) -> u32 {
        // SAFETY: an open table with storage.
        unsafe {
            pg_sys::RelationGetNumberOfBlocksInFork(self.pointer, pg_sys::ForkNumber::MAIN_FORKNUM)
        }
    }

    pub fn is_system(&self) -> bool {
        // SAFETY: an open relation.
        unsafe { pg_sys::IsSystemRelation(self.pointer) }
    }

    pub fn name(&self) -> String {
        name_text(&self.form().relname)
    }

    pub(super) fn description(&self) -> pg_sys::TupleDesc {
        self.described().description()
    }

    pub(super) fn described(&self) -> Columns<'_> {
        // SAFETY: an open relation has its description.
        unsafe { Columns::new((*self.pointer).rd_att) }
    }

    /// Returns the columns in order, without dropped ones.
    pub fn columns(&self) -> Vec<ColumnType> {
        self.described()
            .attributes()
            .filter(|attribute| !attribute.attisdropped)
            .map(|attribute| ColumnType {
                name: name_text(&attribute.attname),
                number: attribute.attnum,
                oid: attribute.atttypid,
                base: types::base_type(attribute.atttypid),
                has_default: attribute.atthasdef,
                is_identity: attribute.attidentity != 0,
                is_generated: attribute.attgenerated != 0,
                is_not_null: self.holds_no_null(attribute),
                refuses_null: attribute.attnotnull,
                collation: attribute.attcollation,
                modifier: attribute.atttypmod,
            })
            .collect()
    }

    /// Returns whether every existing row has a value in a column.
    fn holds_no_null(&self, attribute: &pg_sys::FormData_pg_attribute) -> bool {
        #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
        return attribute.attnotnull;
        // SAFETY: the description has an entry for each column.
        #[cfg(feature = "pg18")]
        unsafe {
            let columns = (*self.description()).compact_attrs.as_ptr();
            let nullability = (*columns.add(attribute.attnum as usize - 1)).attnullability;
            attribute.attnotnull && nullability as u32 == pg_sys::ATTNULLABLE_VALID as u32
        }
    }

    /// Returns the number of check constraints.
    pub fn check_count(&self) -> usize {
        self.form().relchecks.max(0) as usize
    }

    /// Returns whether rules rewrite statements on the table.
    pub fn has_rules(&self) -> bool {
        self.form().relhasrules
    }

    /// Returns whether row security is on.
    pub fn has_row_security(&self) -> bool {
        self.form().relrowsecurity
    }

    /// Returns the number of columns, including dropped ones.
    pub fn width(&self) -> i16 {
        self.form().relnatts
    }
}

impl Drop for Relation {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened in `open`. After an error the resource owner closes it.
            unsafe { pg_sys::relation_close(self.pointer, pg_sys::NoLock as pg_sys::LOCKMODE) }
        }
    }
}

pub(super) fn name_text(name: &pg_sys::nameData) -> String {
    // SAFETY: a catalog name ends with NUL.
    unsafe { CStr::from_ptr(name.data.as_ptr()) }.to_string_lossy().into_owned()
}
