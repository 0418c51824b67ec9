//! Tables: finding, locking and describing them.

use crate::server::row_type::Columns;
use crate::server::types;
use pgrx::pg_sys::{self, Oid};
use std::ffi::CStr;

/// The kind of an ordinary table, as `relation_kind` says it.
pub const TABLE: u8 = pg_sys::RELKIND_RELATION;

/// The strength with which a table is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Held already, or not needed.
    None,
    AccessShare,
    RowExclusive,
    ShareRowExclusive,
    AccessExclusive,
}

impl Lock {
    pub(super) fn mode(self) -> pg_sys::LOCKMODE {
        let mode = match self {
            Lock::None => pg_sys::NoLock,
            Lock::AccessShare => pg_sys::AccessShareLock,
            Lock::RowExclusive => pg_sys::RowExclusiveLock,
            Lock::ShareRowExclusive => pg_sys::ShareRowExclusiveLock,
            Lock::AccessExclusive => pg_sys::AccessExclusiveLock,
        };
        mode as pg_sys::LOCKMODE
    }
}

/// The table whose row type this is, if it is one.
pub fn of_row_type(oid: Oid) -> Option<Oid> {
    // SAFETY: a look-up in the system cache.
    let table = unsafe { pg_sys::get_typ_typrelid(oid) };
    (table != Oid::INVALID).then_some(table)
}

/// Locks a table, waiting for as long as it takes.
pub fn lock(table: Oid, lock: Lock) {
    // SAFETY: takes a lock until the end of the transaction.
    unsafe { pg_sys::LockRelationOid(table, lock.mode()) }
}

/// Locks a table if that can be done at once.
pub fn try_lock(table: Oid, lock: Lock) -> bool {
    // SAFETY: as above.
    unsafe { pg_sys::ConditionalLockRelationOid(table, lock.mode()) }
}

/// Locks a table with all that a statement on it opens, its indexes, its TOAST table and the index of that, if that can
/// be done at once: false if another session is in the way of any of them. The locks are held until the end of the
/// (sub)transaction, so that what follows does not wait for them. Whoever serves many roles locks by this function
/// alone.
pub fn try_lock_whole(table: Oid, lock: Lock) -> bool {
    let with_indexes = |table| {
        let relation = if try_lock(table, lock) {
            Relation::open_any(table, Lock::None)?
        } else {
            return None;
        };
        let mut indexes = relation.indexes().into_iter();
        indexes.all(|index| try_lock(index, lock)).then(|| relation.form().reltoastrelid)
    };
    with_indexes(table).is_some_and(|toast| toast == Oid::INVALID || with_indexes(toast).is_some())
}

/// Returns whether this session has a table open, as in the middle of a statement.
pub fn is_in_use(table: Oid) -> bool {
    let relation = Relation::open(table, Lock::None);
    // SAFETY: an open relation, once more than it was before.
    relation.is_some_and(|relation| unsafe { (*relation.pointer).rd_refcnt } > 1)
}

/// Tells every process to look at the table's definition again.
pub fn invalidate(table: Oid) {
    // SAFETY: queues a message for the end of the transaction.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(table) }
}

/// An open table.
pub struct Relation {
    pointer: pg_sys::Relation,
}

/// A column as the table describes it.
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
    pub is_not_null: bool,
    pub collation: Oid,
    /// The type's modifier, -1 without one.
    pub modifier: i32,
}

impl Relation {
    /// Opens an ordinary table; None if there is none (any more). What was a table may have been made a
    /// view since by a rule, up to PostgreSQL 15, and has no storage then.
    pub fn open(table: Oid, lock: Lock) -> Option<Relation> {
        Relation::open_any(table, lock).filter(|relation| relation.form().relkind as u8 == TABLE)
    }

    /// Opens a relation of any kind.
    fn open_any(relation: Oid, lock: Lock) -> Option<Relation> {
        // SAFETY: closed on drop; the lock stays until the end of the transaction.
        let pointer = unsafe { pg_sys::try_relation_open(relation, lock.mode()) };
        // Not `then_some`: a relation that is made is closed.
        (!pointer.is_null()).then(|| Relation { pointer })
    }

    /// Opens a catalogue that all databases share, which works without a database as well.
    pub fn open_shared(catalogue: Oid) -> Relation {
        let mode = Lock::AccessShare.mode();
        // SAFETY: such a catalogue is always there; closed on drop.
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

    /// Returns whether its rows are stored as the server's own tables are.
    pub fn is_heap(&self) -> bool {
        self.form().relam == pg_sys::HEAP_TABLE_AM_OID
    }

    pub fn persistence(&self) -> u8 {
        self.form().relpersistence as u8
    }

    pub fn is_partition(&self) -> bool {
        self.form().relispartition
    }

    /// The indexes of the table.
    pub fn indexes(&self) -> Vec<Oid> {
        // SAFETY: an open table; null, or a list of oids.
        unsafe {
            let list = pg_sys::RelationGetIndexList(self.pointer);
            let Some(list) = list.as_ref() else { return vec![] };
            let oid = |index| (*list.elements.add(index)).oid_value;
            (0..list.length as usize).map(oid).collect()
        }
    }

    /// Returns whether its rows are there to be read: on a standby those of an unlogged table are not.
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

    /// Size in pages.
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
        // SAFETY: an open relation, which has a description for as long.
        unsafe { Columns::new((*self.pointer).rd_att) }
    }

    /// The columns that are there, in order.
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
                collation: attribute.attcollation,
                modifier: attribute.atttypmod,
            })
            .collect()
    }

    /// Returns whether every row that is there has a value in a column.
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

    /// Returns how many check constraints it has.
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

    /// How many columns it has, those that were dropped among them.
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

/// A registered snapshot of the moment at which it was taken.
pub struct Snapshot(TakenSnapshot);

impl Snapshot {
    pub fn latest() -> Snapshot {
        LatestSnapshot(()).take().register()
    }

    /// What a statement that began now would see, with all that the transaction itself has done so far; in repeatable
    /// read what the transaction sees.
    pub fn of_statement() -> Snapshot {
        // SAFETY: changes variables of the server's; no parallel worker comes here.
        let taken = unsafe {
            pg_sys::CommandCounterIncrement();
            pg_sys::GetTransactionSnapshot()
        };
        TakenSnapshot(taken).register()
    }

    /// What is in progress as this snapshot sees it.
    pub fn in_progress(&self) -> InProgress<'_> {
        self.0.in_progress()
    }

    pub(super) fn pointer(&self) -> pg_sys::Snapshot {
        self.0.0
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: registered when it was made. After an error the resource owner does it.
            unsafe { pg_sys::UnregisterSnapshot(self.pointer()) }
        }
    }
}

/// The right to take a snapshot where nothing may fail, as under a lightweight lock.
pub struct LatestSnapshot(());

impl LatestSnapshot {
    /// Allocates what the server needs for it, once for each process. The first call of a transaction may give the
    /// transaction's own snapshot, the second gives the latest.
    pub fn prepare() -> LatestSnapshot {
        drop([Snapshot::latest(), Snapshot::latest()]);
        LatestSnapshot(())
    }

    pub fn take(self) -> TakenSnapshot {
        // SAFETY: the server fills in its own variable; all that it needs is a lightweight lock, once it is prepared.
        TakenSnapshot(unsafe { pg_sys::GetLatestSnapshot() })
    }
}

/// A snapshot in the server's own variable, to be registered before another is taken.
pub struct TakenSnapshot(pg_sys::Snapshot);

impl TakenSnapshot {
    pub fn register(self) -> Snapshot {
        // SAFETY: the server makes a copy; unregistered on drop.
        Snapshot(TakenSnapshot(unsafe { pg_sys::RegisterSnapshot(self.0) }))
    }

    pub fn in_progress(&self) -> InProgress<'_> {
        // SAFETY: an MVCC snapshot, in a variable or registered, with `xcnt` entries in `xip`.
        unsafe {
            let data = &*self.0;
            let others = match data.xcnt {
                0 => &[],
                count => std::slice::from_raw_parts(data.xip, count as usize),
            };
            InProgress { xmin: data.xmin.into(), xmax: data.xmax.into(), others }
        }
    }
}

/// The transactions that a snapshot does not see.
#[derive(Clone, Copy)]
pub struct InProgress<'snapshot> {
    /// The oldest of them.
    pub xmin: u32,
    /// This one and all later ones.
    pub xmax: u32,
    /// Those in between.
    pub others: &'snapshot [pg_sys::TransactionId],
}

pub(super) fn name_text(name: &pg_sys::nameData) -> String {
    // SAFETY: a name of the catalogue ends with NUL.
    unsafe { CStr::from_ptr(name.data.as_ptr()) }.to_string_lossy().into_owned()
}
