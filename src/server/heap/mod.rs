//! Changes rows of a table through its access method and its indexes, with the effect of a statement that fires no
//! triggers, but without the statement's startup cost.

pub(super) mod access;
mod checks;
mod firing;
mod open;

pub use open::{Bound, Fired, FoundRow, Holder, Is, Open, ScanStep};
pub(super) use open::{ORDER_FUNCTION, column_type, flags, join_row, null_key};

use crate::server::memory::{Memory, Scratch};
use crate::server::relation::{LockMode, Relation};
use crate::server::{callbacks, expression, foreign, raw};
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Oid};
use std::cell::Cell;
use std::ptr::null_mut;

/// Data about a table that is kept between changes, until its definition changes. It is valid for the role that was
/// current when it was made, because that role's privileges to call functions were checked.
pub struct Heap {
    table: Oid,
    state: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    indexes: Vec<Index>,
    /// The defaults of columns without a given value. None if some of them must not be kept.
    defaults: Option<Vec<Default>>,
    /// An insertion computes stored generated columns.
    computes_columns: bool,
    /// The number of function changes when the expressions were read.
    changed_functions: u64,
    methods: Methods,
    /// Slot for the row that is being written.
    row: *mut pg_sys::TupleTableSlot,
    /// Slot for a row that is read at its location.
    seen: *mut pg_sys::TupleTableSlot,
    is_open: Cell<bool>,
    /// An error can have left a change incomplete.
    is_broken: Cell<bool>,
}

/// The default of a column; null if the column has no default, or is generated.
struct Default {
    expression: *mut pg_sys::Node,
    /// The prepared expression, after its first use. Preparing it can fail, or need privileges.
    prepared: Cell<*mut pg_sys::ExprState>,
}

/// An index of the table.
struct Index {
    oid: Oid,
    /// The index is needed for the states that the table was last opened for.
    is_wanted: Cell<bool>,
    /// The index can refuse a row that enters it because of the row's values.
    may_refuse: bool,
    /// The table columns that its key uses.
    key: Vec<i16>,
    /// The comparisons with each of its columns.
    columns: Vec<Comparisons>,
}

/// The access methods of the server. Others can expect more of their caller.
const METHODS: [Oid; 6] = [
    pg_sys::BTREE_AM_OID,
    pg_sys::HASH_AM_OID,
    pg_sys::GIN_AM_OID,
    pg_sys::GIST_AM_OID,
    pg_sys::SPGIST_AM_OID,
    pg_sys::BRIN_AM_OID,
];

/// Comparisons of a column of a btree index.
struct Comparisons {
    equal: pg_sys::FmgrInfo,
    at_least: pg_sys::FmgrInfo,
    after: pg_sys::FmgrInfo,
}

/// The functions of the table's access method.
#[derive(Clone, Copy)]
struct Methods {
    insert: access::Insert,
    update: access::Update,
    lock: access::Lock,
    delete: access::Delete,
}

impl Methods {
    fn of(relation: &Relation) -> Option<Methods> {
        // SAFETY: null for a relation without storage, else a descriptor that is never freed.
        let methods = unsafe { (*relation.pointer()).rd_tableam.as_ref()? };
        Some(Methods {
            insert: methods.tuple_insert?,
            update: methods.tuple_update?,
            lock: methods.tuple_lock?,
            delete: methods.tuple_delete?,
        })
    }
}

impl Heap {
    /// Describes a table; None if a statement does more than this module. The caller checks triggers, rules and row
    /// security, and that updates make the server compute no generated column.
    pub fn describe(relation: &Relation) -> Option<Heap> {
        // Other access methods give weaker guarantees about locks and row versions than this module needs.
        if relation.is_partition() || !relation.is_heap() || relation.has_virtual_columns() {
            return None;
        }
        let methods = Methods::of(relation)?;
        let indexes = relation.indexes();
        let description = relation.description();
        // Temporary data is not allocated in the state's memory.
        let scratch = Scratch::new();
        // SAFETY: an open table; everything allocated is in the state's own memory, which is freed completely on
        // failure and outlives the call otherwise.
        unsafe {
            let has_plain_checks = scratch.run(|| {
                expression::checks(description).all(|check| expression::only_looks_at_row(check))
            });
            let state = pg_sys::CreateExecutorState();
            let before = pg_sys::MemoryContextSwitchTo((*state).es_query_cxt);
            let columns = pg_sys::CreateTupleDescCopy(description);
            let mut heap = Heap {
                table: relation.oid(),
                state,
                target: pg_guard_ffi_boundary(|| target(relation.pointer(), indexes.len())),
                indexes: Vec::with_capacity(indexes.len()),
                defaults: None,
                computes_columns: relation.columns().iter().any(|column| column.is_generated),
                changed_functions: callbacks::changed_functions(),
                methods,
                row: pg_sys::MakeTupleTableSlot(columns, &raw const pg_sys::TTSOpsVirtual),
                // Supplies the values of columns that were added after a row was written.
                seen: pg_sys::MakeTupleTableSlot(
                    pg_sys::CreateTupleDescCopyConstr(description),
                    &raw const pg_sys::TTSOpsBufferHeapTuple,
                ),
                is_open: Cell::new(false),
                is_broken: Cell::new(false),
            };
            heap.defaults = Heap::look_up_defaults(relation, &scratch);
            let is_plain = indexes.iter().all(|index| heap.add_index(*index, &scratch))
                && has_plain_checks
                && heap.prepare_checks(description);
            pg_sys::MemoryContextSwitchTo(before);
            pg_sys::MemoryContextSetParent((*state).es_query_cxt, pg_sys::CacheMemoryContext);
            is_plain.then_some(heap)
        }
    }

    /// Returns the defaults; None if one of them, or the expression of a generated column, must not be kept.
    ///
    /// # Safety
    /// The state's memory is current.
    unsafe fn look_up_defaults(relation: &Relation, scratch: &Scratch) -> Option<Vec<Default>> {
        // SAFETY: by the contract of this function; a type can have its own default. Data in the scratch memory is
        // copied before that is freed.
        unsafe {
            let memory = Memory::current();
            let none = || Default { expression: null_mut(), prepared: Cell::new(null_mut()) };
            let count = (*relation.description()).natts as usize;
            let mut defaults: Vec<Default> = (0..count).map(|_| none()).collect();
            for column in relation.columns() {
                let number = i32::from(column.number);
                let kept = scratch.run(|| {
                    let expression = pg_sys::build_column_default(relation.pointer(), number);
                    let is_plain = expression.is_null() || expression::is_of_the_server(expression);
                    is_plain.then(|| match column.is_generated {
                        true => null_mut(),
                        false => memory.run(|| pg_sys::copyObjectImpl(expression.cast())),
                    })
                });
                defaults[number as usize - 1].expression = kept?.cast();
            }
            Some(defaults)
        }
    }

    /// Returns whether rows can be inserted.
    pub fn inserts(&self) -> bool {
        self.defaults.is_some()
    }

    /// Sets which indexes can refuse a row that enters them because of its values.
    pub fn set_refusing(&mut self, indexes: &[Oid]) {
        for index in &mut self.indexes {
            index.may_refuse = indexes.contains(&index.oid);
        }
    }

    /// Returns whether a change can need a rollback because an index refuses the row.
    pub fn may_refuse(&self) -> bool {
        self.indexes.iter().any(|index| index.may_refuse)
    }

    pub fn has_index(&self, oid: Oid) -> bool {
        self.position(oid).is_some()
    }

    fn position(&self, oid: Oid) -> Option<usize> {
        self.indexes.iter().position(|index| index.oid == oid)
    }

    /// Adds an index; returns false for an index that needs more than an insertion.
    ///
    /// # Safety
    /// The target has room for one more; the state's memory is current.
    unsafe fn add_index(&mut self, oid: Oid, scratch: &Scratch) -> bool {
        // SAFETY: an index of an open table, opened and closed here.
        unsafe {
            let index = pg_sys::index_open(oid, LockMode::RowExclusive.mode());
            // The server caches the data that it reads here, and copies it from then on.
            scratch.run(|| {
                pg_sys::RelationGetIndexExpressions(index);
                pg_sys::RelationGetIndexPredicate(index);
            });
            let info = pg_sys::BuildIndexInfo(index);
            // Some access methods keep state from one insertion to the next; here it lives as long as the row.
            let context = pg_guard_ffi_boundary(|| access::per_tuple_context(self.state));
            (*info).ii_Context = (*context).ecxt_per_tuple_memory;
            *(*self.target).ri_IndexRelationInfo.add(self.indexes.len()) = info;
            let is_checked_at_once = (*(*index).rd_index).indimmediate;
            let lists = [(*info).ii_Predicate, (*info).ii_Expressions];
            let mut expressions = lists.into_iter().flat_map(|list| foreign::list(list));
            let method = (*(*index).rd_rel).relam;
            let count =
                if method == pg_sys::BTREE_AM_OID { (*info).ii_NumIndexKeyAttrs } else { 0 };
            let columns = (0..count as usize).map(|column| comparisons(index, column));
            self.indexes.push(Index {
                oid,
                is_wanted: Cell::default(),
                may_refuse: false,
                key: scratch.run(|| key(info)),
                columns: columns.collect(),
            });
            pg_sys::index_close(index, pg_sys::NoLock as pg_sys::LOCKMODE);
            METHODS.contains(&method)
                && (*info).ii_ExclusionOps.is_null()
                // An index that is not ready for inserts rules the direct path out: nothing reports when it becomes
                // ready.
                && (*info).ii_ReadyForInserts
                && (is_checked_at_once || !(*info).ii_Unique)
                && scratch.run(|| expressions.all(|node| expression::is_of_the_server(node)))
        }
    }

    /// Returns whether an extension hooks permission checks of statements, which the direct path would bypass.
    pub fn is_watched() -> bool {
        // SAFETY: reads a variable of the backend.
        unsafe { pg_sys::ExecutorCheckPerms_hook }.is_some()
    }

    /// Returns whether the description can still be used: no function has changed, and no change of a row has failed.
    pub fn is_valid(&self) -> bool {
        let is_changed = self.changed_functions != callbacks::changed_functions();
        !Heap::is_watched() && !is_changed && !self.is_broken.get()
    }

    /// Returns whether the table cannot be opened, because it is open or an error has left it open.
    pub fn is_in_use(&self) -> bool {
        self.is_open.get() || self.is_broken.get()
    }

    /// Opens the table, and the indexes selected by `is_wanted`, for changes under a new snapshot. The caller holds a
    /// lock on the table. None while it is already open, for example during a default expression that puts into the
    /// same queue.
    pub fn open(&self, is_wanted: impl Fn(Oid) -> bool) -> Option<Open<'_>> {
        if self.is_in_use() {
            return None;
        }
        let relation = Relation::open(self.table, LockMode::None)?;
        self.indexes.iter().for_each(|index| index.is_wanted.set(is_wanted(index.oid)));
        self.is_open.set(true);
        let indexes = Vec::with_capacity(self.indexes.len());
        let mut open = Open {
            heap: self,
            relation,
            indexes,
            firing: None,
            has_changed: Cell::new(false),
            blocks: Cell::new(0),
        };
        // SAFETY: the target's arrays have room for all indexes; everything is closed on drop.
        unsafe {
            (*self.target).ri_RelationDesc = open.relation.pointer();
            pg_guard_ffi_boundary(|| {
                for (position, Index { oid, is_wanted, .. }) in self.indexes.iter().enumerate() {
                    // The server's functions skip indexes that are not open.
                    let index = match is_wanted.get() {
                        true => raw::index_open(*oid, LockMode::RowExclusive.mode()),
                        false => null_mut(),
                    };
                    open.indexes.push(Cell::new(index));
                    *(*self.target).ri_IndexRelationDescs.add(position) = index;
                }
                raw::CommandCounterIncrement();
                raw::PushActiveSnapshot(raw::GetTransactionSnapshot());
            });
        }
        Some(open)
    }
}

/// Returns the server's description of a target table, with room for its indexes.
///
/// # Safety
/// The table is open. To be called within a guard.
unsafe fn target(table: pg_sys::Relation, indexes: usize) -> *mut pg_sys::ResultRelInfo {
    // SAFETY: memory of the size asked for, or an error.
    unsafe {
        let target =
            raw::palloc0(size_of::<pg_sys::ResultRelInfo>()).cast::<pg_sys::ResultRelInfo>();
        raw::InitResultRelInfo(target, table, 0, std::ptr::null_mut(), 0);
        let room = |size| raw::palloc0(indexes * size);
        (*target).ri_NumIndices = indexes as i32;
        (*target).ri_IndexRelationDescs = room(size_of::<pg_sys::Relation>()).cast();
        (*target).ri_IndexRelationInfo = room(size_of::<*mut pg_sys::IndexInfo>()).cast();
        target
    }
}

/// Returns the table columns that the key of an index uses.
///
/// # Safety
/// `info` describes an index of the table.
unsafe fn key(info: *mut pg_sys::IndexInfo) -> Vec<i16> {
    // SAFETY: by the contract of this function.
    unsafe {
        let info = &*info;
        let columns = &info.ii_IndexAttrNumbers[..info.ii_NumIndexKeyAttrs as usize];
        let mut key: Vec<i16> = columns.iter().copied().filter(|column| *column != 0).collect();
        key.extend(expression::columns_of(info.ii_Expressions.cast()));
        key
    }
}

/// # Safety
/// An open btree index and a column of it, counted from 0; the current memory context keeps the functions.
unsafe fn comparisons(index: pg_sys::Relation, column: usize) -> Comparisons {
    // SAFETY: by the contract of this function; a btree operator family has these operators for its types.
    unsafe {
        let family = *(*index).rd_opfamily.add(column);
        let oid = *(*index).rd_opcintype.add(column);
        let function = |strategy: u32| {
            let operator = pg_sys::get_opfamily_member(family, oid, oid, strategy as i16);
            let mut function = pg_sys::FmgrInfo::default();
            pg_sys::fmgr_info(pg_sys::get_opcode(operator), &mut function);
            function
        };
        Comparisons {
            equal: function(pg_sys::BTEqualStrategyNumber),
            at_least: function(pg_sys::BTGreaterEqualStrategyNumber),
            after: function(pg_sys::BTGreaterStrategyNumber),
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: no other reference to the state exists; the row is in its memory.
            unsafe { pg_sys::FreeExecutorState(self.state) }
        }
    }
}
