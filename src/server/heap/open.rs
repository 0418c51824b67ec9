//! Changes rows of a table that is open for changes.

mod found;
mod key;
mod refused;

pub use found::{Fired, FoundRow, Holder};
pub use key::{Bound, Is};
pub(in crate::server) use key::{ORDER_FUNCTION, column_type, flags, join_row, null_key};

use crate::server::heap::firing::Firing;
use crate::server::heap::{Default, Heap, access};
use crate::server::relation::{LockMode, Relation};
use crate::server::row::Row;
use crate::server::value::Value;
use crate::server::{foreign, raw};
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Datum, Oid};
use std::cell::Cell;
use std::ptr::null_mut;
use xqueue_core::row_id::RowId;

/// A table that is open for changes.
pub struct Open<'heap> {
    pub(super) heap: &'heap Heap,
    pub(super) relation: Relation,
    /// Null for an index that is not open.
    pub(super) indexes: Vec<Cell<pg_sys::Relation>>,
    /// The row triggers that changes fire.
    pub(super) firing: Option<Firing>,
    /// A row has been changed.
    pub(super) has_changed: Cell<bool>,
    /// A lower bound of the table's number of blocks.
    pub(super) blocks: Cell<u32>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.heap.is_open.set(false);
        if std::thread::panicking() {
            // The end of the (sub)transaction closes the indexes.
            self.heap.is_broken.set(true);
            return;
        }
        // SAFETY: pushed and opened in `open`; the locks stay until the end of the transaction. Memory used for the
        // last row is freed.
        unsafe {
            pg_guard_ffi_boundary(|| {
                raw::clear(self.heap.row);
                access::reset(self.heap.state);
                if let Some(firing) = self.firing.take() {
                    firing.discard();
                }
                raw::PopActiveSnapshot();
                raw::CommandCounterIncrement();
                for index in self.indexes.iter().filter(|index| !index.get().is_null()) {
                    raw::index_close(index.get(), pg_sys::NoLock as pg_sys::LOCKMODE);
                }
            })
        }
    }
}

/// Whether a scan continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanStep {
    GoesOn,
    Ends,
}

impl Open<'_> {
    /// Inserts a row with the given values and the defaults of the other columns, and returns it. If changes fire
    /// triggers, returns the row as BEFORE triggers have left it; None if one of them refuses it.
    pub fn insert<'a, 'to>(
        &self,
        given: impl Iterator<Item = &'a (i16, Option<Value<'a>>)> + Clone,
    ) -> Option<Value<'to>> {
        let defaults = self.heap.defaults.iter().flatten();
        let values = (1..).zip(defaults).map(|(number, default)| {
            match given.clone().find(|(given, _)| *given == number) {
                Some((_, value)) => value.map(|value| self.datum_for(number, value)),
                None if default.expression.is_null() => None,
                None => self.evaluated(default, number),
            }
        });
        let values: Vec<Option<Datum>> = values.collect();
        pgrx::check_for_interrupts!();
        // SAFETY: the slot belongs to the table. The values that triggers have returned live until the next row.
        unsafe {
            let fill = || {
                access::reset(self.heap.state);
                self.store(&values)
            };
            let Some(firing) = &self.firing else {
                return Some(pg_guard_ffi_boundary(|| self.add(fill())));
            };
            pg_guard_ffi_boundary(|| {
                let row = fill();
                firing.before_insert(row).then(|| {
                    let record = self.add(row);
                    firing.after_insert(row);
                    record
                })
            })
        }
    }

    /// Adds the row in a slot to the table and its indexes, and returns it.
    ///
    /// # Safety
    /// The slot holds a row of the table. To be called within a guard.
    unsafe fn add<'to>(&self, row: *mut pg_sys::TupleTableSlot) -> Value<'to> {
        let (heap, relation) = (self.heap, self.relation.pointer());
        // SAFETY: by the contract of this function; the table and its indexes are open.
        unsafe {
            if heap.computes_columns {
                let insert = pg_sys::CmdType::CMD_INSERT;
                foreign::ExecComputeStoredGenerated(heap.target, heap.state, row, insert);
            }
            self.check(row);
            (heap.methods.insert)(relation, row, access::command(), 0, null_mut());
            access::insert_index_tuples(heap.target, row, heap.state, None);
            self.record(row)
        }
    }

    /// Returns the datum of a value for a column; an error if its type differs.
    fn datum_for(&self, number: i16, value: Value) -> Datum {
        // SAFETY: the descriptor belongs to an open table.
        value.require(unsafe { foreign::column_type(self.relation.description(), number) })
    }

    /// Returns the row in a slot as a composite value.
    ///
    /// # Safety
    /// The slot holds a row of the table. To be called within a guard.
    unsafe fn record<'to>(&self, row: *mut pg_sys::TupleTableSlot) -> Value<'to> {
        // SAFETY: by the contract of this function; the slot has the table's descriptor.
        unsafe {
            let row_type = (*self.relation.description()).tdtypeid;
            Value::new(raw::ExecFetchSlotHeapTupleDatum(row), row_type)
        }
    }

    /// Passes rows to `see` in the order of an index, until it ends the scan. Opens the index if necessary.
    pub fn scan(&self, index: Oid, bounds: &[Bound], mut see: impl FnMut(&FoundRow) -> ScanStep) {
        let Some(position) = self.heap.position(index) else { return };
        let columns = &self.heap.indexes[position].columns;
        let index = self.open_index(position);
        let table = self.relation.description();
        let keys = (1..).zip(bounds).zip(columns);
        // SAFETY: the table and the index are open. The scan ends before they are closed; after an error the end of the
        // (sub)transaction ends it.
        unsafe {
            let keys =
                keys.map(|((number, bound), column)| key::key(table, index, number, bound, column));
            let mut keys: Vec<_> = keys.collect();
            let _members = join_row(&mut keys);
            let relation = self.relation.pointer();
            let (first, count) = (keys.as_mut_ptr(), keys.len() as i32);
            let (slot, scan) = pg_guard_ffi_boundary(|| {
                let slot = raw::table_slot_create(relation, null_mut());
                let snapshot = raw::GetActiveSnapshot();
                let scan = access::begin_scan(relation, index, snapshot, count);
                raw::index_rescan(scan, first, count, null_mut(), 0);
                (slot, scan)
            });
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            while pg_sys::index_getnext_slot(scan, forward, slot) {
                pgrx::check_for_interrupts!();
                if see(&FoundRow { open: self, slot }) == ScanStep::Ends {
                    break;
                }
            }
            pg_guard_ffi_boundary(|| {
                raw::index_endscan(scan);
                raw::ExecDropSingleTupleTableSlot(slot);
            })
        }
    }

    /// Returns the index at a position of the table's list; opens it if necessary.
    fn open_index(&self, position: usize) -> pg_sys::Relation {
        let index = &self.indexes[position];
        if index.get().is_null() {
            let oid = self.heap.indexes[position].oid;
            // SAFETY: the lock on the table keeps its indexes; the index is closed with the table.
            index.set(unsafe { pg_sys::index_open(oid, LockMode::RowExclusive.mode()) });
        }
        index.get()
    }

    /// Returns the location of the row written last.
    pub fn written_id(&self) -> RowId {
        // SAFETY: the slot belongs to this table while it is open.
        unsafe { access::row_id(self.heap.row) }
    }

    /// Makes changes visible that have been committed until now. If updates fire triggers, this transaction's changes
    /// since the table was opened stay invisible, as in a statement; triggers have made some of them.
    pub fn renew_snapshot(&self) {
        // SAFETY: the snapshot was pushed when the table was opened, and no scan is in progress. The server has made a
        // copy of it, which nothing else refers to.
        unsafe {
            pg_guard_ffi_boundary(|| {
                let command = (*raw::GetActiveSnapshot()).curcid;
                raw::PopActiveSnapshot();
                raw::CommandCounterIncrement();
                raw::PushActiveSnapshot(raw::GetTransactionSnapshot());
                if self.firing.is_some() {
                    (*raw::GetActiveSnapshot()).curcid = command;
                }
            })
        }
    }

    /// Passes the version of a row at a location to `see`, if the snapshot sees it.
    pub fn see_at(&mut self, row: RowId, see: impl FnOnce(&FoundRow)) {
        pgrx::check_for_interrupts!();
        let (relation, slot) = (self.relation.pointer(), self.heap.seen);
        // SAFETY: the table is open, which keeps the server from truncating blocks, and only existing blocks are read.
        // The slot belongs to the table and is empty, because it is filled only here.
        unsafe {
            let is_seen = pg_guard_ffi_boundary(|| {
                if row.block() >= self.blocks.get() {
                    let main = pg_sys::ForkNumber::MAIN_FORKNUM;
                    self.blocks.set(raw::RelationGetNumberOfBlocksInFork(relation, main));
                }
                let has_block = row.block() < self.blocks.get();
                has_block && access::fetch(relation, row, raw::GetActiveSnapshot(), slot)
            });
            if is_seen {
                see(&FoundRow { open: self, slot });
            }
            pg_guard_ffi_boundary(|| raw::clear(slot));
        }
    }

    /// Evaluates the default of a column.
    fn evaluated(&self, default: &Default, number: i16) -> Option<Datum> {
        let mut is_null = false;
        // SAFETY: prepared with this state; a prepared expression has its function. The result can be a read-write
        // expanded object, but it is not modified after this.
        unsafe {
            if default.prepared.get().is_null() {
                let expression = default.expression.cast();
                default.prepared.set(pg_sys::ExecPrepareExpr(expression, self.heap.state));
            }
            let expression = default.prepared.get();
            let context = access::per_tuple_context(self.heap.state);
            let evaluate = (*expression).evalfunc?;
            let column = foreign::attribute(self.relation.description(), number as usize - 1);
            let value = pg_guard_ffi_boundary(|| {
                let value = evaluate(expression, context, &mut is_null);
                match column.attlen {
                    -1 if !is_null => raw::MakeExpandedObjectReadOnlyInternal(value),
                    _ => value,
                }
            });
            (!is_null).then_some(value)
        }
    }

    /// Adds the new version of an updated row to the indexes.
    ///
    /// Before the server splits a full page of an index, it deletes dead versions there if the update is marked as
    /// leaving the key unchanged. Indexes whose keys these changes leave alone get the mark, which the executor would
    /// set too. The other indexes get it only for the first row of a call. If tasks are taken one by one, their old
    /// entries are soon dead; if many are taken in one call, these entries are all still live.
    ///
    /// # Safety
    /// The row has been stored. To be called within a guard.
    unsafe fn add_to_indexes(
        &self,
        row: *mut pg_sys::TupleTableSlot,
        indexes: access::UpdateIndexes,
        changes: &[(i16, Option<Value>)],
    ) {
        let (target, state) = (self.heap.target, self.heap.state);
        let is_first = !self.has_changed.replace(true);
        // SAFETY: by the contract of this function; the target has an entry for each index.
        unsafe {
            for (position, index) in self.heap.indexes.iter().enumerate() {
                let info = *(*target).ri_IndexRelationInfo.add(position);
                (*info).ii_CheckedUnchanged = true;
                (*info).ii_IndexUnchanged =
                    is_first || !changes.iter().any(|(column, _)| index.key.contains(column));
            }
            access::insert_index_tuples(target, row, state, Some(indexes));
        }
    }

    /// Stores the values in the row's slot and checks the constraints.
    ///
    /// # Safety
    /// There is a value for each column. To be called within a guard.
    unsafe fn write(&self, values: &[Option<Datum>]) -> *mut pg_sys::TupleTableSlot {
        // SAFETY: by the contract of this function.
        unsafe {
            access::reset(self.heap.state);
            let row = self.store(values);
            self.check(row);
            row
        }
    }

    /// Checks the constraints of a row.
    ///
    /// # Safety
    /// The slot holds a row of the table. To be called within a guard.
    unsafe fn check(&self, row: *mut pg_sys::TupleTableSlot) {
        // SAFETY: by the contract of this function.
        unsafe {
            if !(*self.relation.description()).constr.is_null() {
                raw::ExecConstraints(self.heap.target, row, self.heap.state);
            }
        }
    }

    /// Stores the values in the row's slot.
    ///
    /// # Safety
    /// There is a value for each column. To be called within a guard.
    unsafe fn store(&self, values: &[Option<Datum>]) -> *mut pg_sys::TupleTableSlot {
        let row = self.heap.row;
        // SAFETY: the row has room for all columns.
        unsafe {
            raw::clear(row);
            for (index, value) in values.iter().enumerate() {
                *(*row).tts_values.add(index) = value.unwrap_or(Datum::from(0));
                *(*row).tts_isnull.add(index) = value.is_none();
            }
            raw::ExecStoreVirtualTuple(row);
            (*row).tts_tableOid = self.heap.table;
        }
        row
    }
}

/// The row written last.
impl Row for Open<'_> {
    fn value(&self, number: i16) -> Option<Value<'_>> {
        // SAFETY: the slot belongs to this table while it is open.
        unsafe { access::value(self.heap.row, number) }
    }
}
