//! A row found by a scan, and its changes.

use crate::server::heap::access;
use crate::server::heap::open::Open;
use crate::server::row::Row;
use crate::server::value::Value;
use crate::server::xact::{self, Failure};
use crate::server::{process, raw};
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Datum};
use std::ptr::null_mut;
use xqueue_core::row_id::RowId;

/// Gets the complete new row before it is written.
type See<'a, E> = &'a mut dyn FnMut(Value<'static>) -> Result<(), E>;

/// The result of an update that fires triggers.
pub enum Fired {
    /// The row was written; the value is the new row.
    Written(Value<'static>),
    /// Another transaction has locked the row, or has changed it since.
    Held,
    /// Since the table was opened, this transaction has changed the row, in this call or in a trigger.
    Changed,
    /// A trigger has kept the row, or made it unfit. The surrounding subtransaction must be rolled back.
    Unfit,
}

/// A row found by a scan.
pub struct FoundRow<'open> {
    pub(super) open: &'open Open<'open>,
    pub(super) slot: *mut pg_sys::TupleTableSlot,
}

/// Other transactions that change or lock a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    None,
    /// This transaction changes or deletes the row.
    Changes(u32),
    Locks(u32),
    /// Several transactions lock the row; one of them can be changing it.
    Several,
}

impl Holder {
    /// Returns the transaction that holds the row, if it is known.
    pub fn transaction(self) -> Option<u32> {
        match self {
            Holder::Changes(transaction) | Holder::Locks(transaction) => Some(transaction),
            Holder::None | Holder::Several => None,
        }
    }
}

impl Row for FoundRow<'_> {
    fn value(&self, number: i16) -> Option<Value<'_>> {
        // SAFETY: the slot holds the row while the found row exists.
        unsafe { access::value(self.slot, number) }
    }

    fn writer(&self) -> Option<u32> {
        // SAFETY: as above.
        unsafe { access::writer(self.slot) }
    }
}

impl FoundRow<'_> {
    /// Returns the location of this version of the row.
    pub fn id(&self) -> RowId {
        // SAFETY: the slot is valid while it is seen.
        unsafe { access::row_id(self.slot) }
    }

    /// Returns the transactions that last changed or locked the row; they can have ended or been rolled back. If
    /// another transaction changes the row header at this moment, the number can belong to a different transaction, or
    /// to no transaction.
    pub fn holder(&self) -> Holder {
        // SAFETY: the slot holds a row of a heap, in a pinned page. Other processes can change the two words
        // concurrently; each is read with a single load.
        let (mask, id) = unsafe {
            let header =
                &raw const *(*(*self.slot.cast::<pg_sys::HeapTupleTableSlot>()).tuple).t_data;
            let mask = (&raw const (*header).t_infomask).read_volatile();
            (u32::from(mask), (&raw const (*header).t_choice.t_heap.t_xmax).read_volatile())
        };
        let has = |bits: u32| mask & bits != 0;
        // The encoding of rows locked before PostgreSQL 9.3.
        let locks = pg_sys::HEAP_XMAX_EXCL_LOCK | pg_sys::HEAP_XMAX_KEYSHR_LOCK;
        let is_old = mask & (locks | pg_sys::HEAP_XMAX_IS_MULTI) == pg_sys::HEAP_XMAX_EXCL_LOCK;
        if has(pg_sys::HEAP_XMAX_INVALID) {
            Holder::None
        } else if has(pg_sys::HEAP_XMAX_IS_MULTI) {
            Holder::Several
        } else if has(pg_sys::HEAP_XMAX_LOCK_ONLY) || is_old {
            Holder::Locks(id.into())
        } else {
            Holder::Changes(id.into())
        }
    }

    /// Returns the values of all columns; None for dropped columns.
    fn values(&self) -> Vec<Option<Datum>> {
        let count = self.open.relation.width();
        // Reading the last column deforms all others.
        self.value(count);
        (1..=count).map(|number| self.value(number).map(Value::datum)).collect()
    }

    /// Changes some columns. Returns false, without waiting, if another transaction has locked the row for a change, or
    /// has changed it since.
    pub fn update(&self, changes: &[(i16, Option<Value>)]) -> bool {
        self.update_row::<Failure>(changes, false, None).unwrap_or(false)
    }

    /// Changes some columns, unless the table's checks or indexes, or `see`, refuse the new row; then the row is
    /// unchanged. `see` gets the new row before it is written. `locks_first`: `see` can take long, so the row is
    /// locked first and others skip it meanwhile.
    pub fn update_unless_refused<E: From<Failure>>(
        &self,
        changes: &[(i16, Option<Value>)],
        locks_first: bool,
        mut see: impl FnMut(Value<'static>) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.update_row(changes, locks_first, Some(&mut see))
    }

    fn update_row<E: From<Failure>>(
        &self,
        changes: &[(i16, Option<Value>)],
        locks_first: bool,
        mut see: Option<See<E>>,
    ) -> Result<bool, E> {
        // Without the separate row lock, there is one buffer lock and one WAL record less. A server with assertions
        // needs the lock first: it asserts that `heap_update` waits.
        let may_skip_lock =
            !locks_first && !process::has_assertions() && self.holder() == Holder::None;
        let is_written = may_skip_lock && self.write(changes, false, &mut see)?;
        let mode = pg_sys::LockTupleMode::LockTupleNoKeyExclusive;
        Ok(is_written || self.lock(mode) && self.write(changes, true, &mut see)?)
    }

    /// Writes the new version of the row, and returns whether it was written. If another transaction is changing the
    /// row or has locked it, waits for that if `waits`, else returns false.
    fn write<E: From<Failure>>(
        &self,
        changes: &[(i16, Option<Value>)],
        waits: bool,
        see: &mut Option<See<E>>,
    ) -> Result<bool, E> {
        let (open, values) = (self.open, self.values_with(changes));
        // SAFETY: see `insert`; the old row stays pinned while the new one refers to its values. Checks only look at the
        // row, index predicates are immutable, and both fail before anything is written.
        unsafe {
            let fill = || pg_guard_ffi_boundary(|| open.write(&values));
            let (row, may_be_refused) = match see {
                None => (fill(), false),
                Some(see) => {
                    let filled = || {
                        let row = fill();
                        (row, open.may_be_refused(row))
                    };
                    // A check that fails within a composite value leaves a reference to its type.
                    let filled = match open.relation.check_count() > 0 {
                        true => xact::unless_of_task_holding(filled),
                        false => xact::unless_of_task(filled),
                    }?;
                    see(pg_guard_ffi_boundary(|| open.record(filled.0)))?;
                    filled
                }
            };
            let change = || pg_guard_ffi_boundary(|| self.replace(row, changes, waits));
            if may_be_refused { open.unless_refused(change) } else { Ok(change()) }
        }
    }

    /// Changes some columns and fires the table's row triggers, whose BEFORE triggers can change more columns. Does not
    /// wait for other transactions. `is_fit`: the row can be written as these triggers have left it.
    pub fn update_and_fire(
        &self,
        changes: &[(i16, Option<Value>)],
        is_fit: impl FnOnce(&Open) -> bool,
    ) -> Fired {
        let open = self.open;
        let Some(firing) = &open.firing else { return Fired::Unfit };
        match self.lock_row(pg_sys::LockTupleMode::LockTupleNoKeyExclusive) {
            pg_sys::TM_Result::TM_Ok => {}
            pg_sys::TM_Result::TM_SelfModified => return Fired::Changed,
            _ => return Fired::Held,
        }
        let values = self.values_with(changes);
        // SAFETY: see `write`. The row is locked, and the values that triggers have returned live until the next row.
        unsafe {
            let mut place = (*self.slot).tts_tid;
            let row = pg_guard_ffi_boundary(|| {
                access::reset(open.heap.state);
                open.store(&values)
            });
            if !firing.before_update(&mut place, row) || !is_fit(open) {
                return Fired::Unfit;
            }
            open.note_changed_columns(&values, changes, row);
            let is_written = pg_guard_ffi_boundary(|| {
                open.check(row);
                self.replace(row, changes, true)
            });
            if !is_written {
                return Fired::Unfit;
            }
            firing.after_update(&mut place, row);
            Fired::Written(pg_guard_ffi_boundary(|| open.record(row)))
        }
    }

    /// Returns the values of all columns with some changes.
    fn values_with(&self, changes: &[(i16, Option<Value>)]) -> Vec<Option<Datum>> {
        let mut values = self.values();
        for (number, value) in changes {
            let value = value.map(|value| self.open.datum_for(*number, value));
            if let Some(place) = values.get_mut((*number as usize).wrapping_sub(1)) {
                *place = value;
            }
        }
        values
    }

    /// Replaces the row by the one in a slot, and returns whether it was written. If another transaction is changing
    /// the row or has locked it, waits for that if `waits`, else returns false.
    ///
    /// # Safety
    /// The slot holds a row of the table that satisfies its constraints. To be called within a guard.
    unsafe fn replace(
        &self,
        row: *mut pg_sys::TupleTableSlot,
        changes: &[(i16, Option<Value>)],
        waits: bool,
    ) -> bool {
        let (open, relation) = (self.open, self.open.relation.pointer());
        let (update, mut failure) = (open.heap.methods.update, pg_sys::TM_FailureData::default());
        let (mut lock, mut indexes) = (0, access::UpdateIndexes::default());
        // SAFETY: see `insert`.
        unsafe {
            raw::CheckCmdReplicaIdentity(relation, pg_sys::CmdType::CMD_UPDATE);
            let result = update(
                relation,
                &mut (*self.slot).tts_tid,
                row,
                access::command(),
                raw::GetActiveSnapshot(),
                null_mut(),
                waits,
                &mut failure,
                &mut lock,
                &mut indexes,
            );
            let is_written = result == pg_sys::TM_Result::TM_Ok;
            if is_written {
                open.add_to_indexes(row, indexes, changes);
            }
            is_written
        }
    }

    /// Returns the row that the last `update` has written.
    pub fn written(&self) -> &Open<'_> {
        self.open
    }

    /// Locks the row for a change without waiting; returns false if that is not possible.
    fn lock(&self, mode: pg_sys::LockTupleMode::Type) -> bool {
        self.lock_row(mode) == pg_sys::TM_Result::TM_Ok
    }

    fn lock_row(&self, mode: pg_sys::LockTupleMode::Type) -> pg_sys::TM_Result::Type {
        let relation = self.open.relation.pointer();
        let mut failure = pg_sys::TM_FailureData::default();
        let lock = self.open.heap.methods.lock;
        // SAFETY: see `insert`; the slot holds the same row afterwards.
        unsafe {
            let mut place = (*self.slot).tts_tid;
            pg_guard_ffi_boundary(|| {
                lock(
                    relation,
                    &mut place,
                    raw::GetActiveSnapshot(),
                    self.slot,
                    access::command(),
                    mode,
                    pg_sys::LockWaitPolicy::LockWaitSkip,
                    0,
                    &mut failure,
                )
            })
        }
    }

    /// Deletes the row, waiting for its lock, and returns it. None if the row was changed since.
    pub fn delete<'to>(&self) -> Option<Value<'to>> {
        // Includes the values of columns that were added after the row was written.
        let values = self.values();
        // SAFETY: the row belongs to the table.
        unsafe {
            pg_guard_ffi_boundary(|| {
                let row = self.open.record(self.open.store(&values));
                self.remove().then_some(row)
            })
        }
    }

    /// Deletes the row without waiting, fires the table's row triggers, and returns the row. None if it was not
    /// deleted; the surrounding subtransaction must then be rolled back.
    pub fn delete_and_fire<'to>(&self) -> Option<Value<'to>> {
        let firing = self.open.firing.as_ref()?;
        if !self.lock(pg_sys::LockTupleMode::LockTupleExclusive) {
            return None;
        }
        let values = self.values();
        // SAFETY: the row belongs to the table and is locked.
        unsafe {
            let mut place = (*self.slot).tts_tid;
            let row = pg_guard_ffi_boundary(|| self.open.record(self.open.store(&values)));
            let is_deleted =
                firing.before_delete(&mut place) && pg_guard_ffi_boundary(|| self.remove());
            if is_deleted {
                firing.after_delete(&mut place);
            }
            is_deleted.then_some(row)
        }
    }

    /// Deletes the row without waiting. Returns false if another transaction has locked it, or has changed it since.
    pub fn delete_at_once(&self) -> bool {
        let mode = pg_sys::LockTupleMode::LockTupleExclusive;
        // SAFETY: within a guard.
        self.lock(mode) && unsafe { pg_guard_ffi_boundary(|| self.remove()) }
    }

    /// # Safety
    /// To be called within a guard.
    unsafe fn remove(&self) -> bool {
        let (relation, delete) = (self.open.relation.pointer(), self.open.heap.methods.delete);
        let mut failure = pg_sys::TM_FailureData::default();
        // SAFETY: see `insert`.
        let result = unsafe {
            raw::CheckCmdReplicaIdentity(relation, pg_sys::CmdType::CMD_DELETE);
            delete(
                relation,
                &mut (*self.slot).tts_tid,
                access::command(),
                raw::GetActiveSnapshot(),
                null_mut(),
                true,
                &mut failure,
                false,
            )
        };
        result == pg_sys::TM_Result::TM_Ok
    }
}
