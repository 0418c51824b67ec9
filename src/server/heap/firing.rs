//! Fires a table's row triggers around changes through the access method, by the server's own functions. The server
//! makes the same calls, without a plan, when it applies the changes of a subscription.
//!
//! The description of the triggers is a copy, made for one call. So it is of no importance that a trigger changes the
//! table's triggers, or that functions are replaced later. The queue's own triggers are disabled in the copy, and not
//! removed: an action of a foreign key can change other rows of the table, and the server runs their AFTER triggers by
//! this copy too. It does not ask there whether a trigger is enabled.

use crate::server::heap::{Open, access, target};
use crate::server::value::Value;
use crate::server::{durability, foreign, raw, types};
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::varlena::varsize_any;
use std::cell::Cell;
use std::ptr::null_mut;

/// The row triggers of an open table, from the start of a call until its AFTER triggers have run.
pub(super) struct Firing {
    state: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    /// A BEFORE UPDATE trigger has done something that must survive a crash.
    has_lasting_effect: Cell<bool>,
}

impl Firing {
    /// Begins to collect the events of AFTER triggers. `left_out`: triggers that do not fire. `columns`: the columns
    /// that the call sets, on which `UPDATE OF` depends.
    ///
    /// # Safety
    /// The table is open until the end.
    pub unsafe fn begin(table: pg_sys::Relation, left_out: &[Oid], columns: &[i16]) -> Firing {
        // SAFETY: by the contract of this function; everything allocated is in the state's own memory.
        unsafe {
            let (state, target) = pg_guard_ffi_boundary(|| {
                let state = raw::CreateExecutorState();
                let outer = pg_sys::MemoryContextSwitchTo((*state).es_query_cxt);
                set_columns(state, table, columns);
                let target = target(table, 0);
                (*target).ri_RangeTableIndex = 1;
                disable((*target).ri_TrigDesc, left_out);
                (*state).es_opened_result_relations = raw::lappend(null_mut(), target.cast());
                pg_sys::MemoryContextSwitchTo(outer);
                raw::AfterTriggerBeginQuery();
                (state, target)
            });
            Firing { state, target, has_lasting_effect: Cell::new(false) }
        }
    }

    /// Prepares for the BEFORE triggers of the next row.
    ///
    /// # Safety
    /// The snapshot of the open table is active. To be called within a guard.
    unsafe fn begin_row(&self) {
        // SAFETY: by the contract of this function.
        unsafe {
            access::reset(self.state);
            (*self.state).es_snapshot = raw::GetActiveSnapshot();
            (*self.state).es_output_cid = access::command();
        }
    }

    /// Runs the BEFORE triggers for an insertion; they can change the new row. Returns false if one of them refuses the
    /// row.
    ///
    /// # Safety
    /// The slot holds the new row of the table, and the snapshot of the open table is active. To be called within a
    /// guard.
    pub unsafe fn before_insert(&self, row: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: by the contract of this function.
        unsafe {
            self.begin_row();
            let triggers = (*self.target).ri_TrigDesc.as_ref();
            !triggers.is_some_and(|triggers| triggers.trig_insert_before_row)
                || raw::ExecBRInsertTriggers(self.state, self.target, row)
        }
    }

    /// Queues the AFTER triggers of an insertion.
    ///
    /// # Safety
    /// The row in the slot was inserted. To be called within a guard.
    pub unsafe fn after_insert(&self, row: *mut pg_sys::TupleTableSlot) {
        let (state, target) = (self.state, self.target);
        // SAFETY: by the contract of this function; no index defers its check.
        unsafe { raw::ExecARInsertTriggers(state, target, row, null_mut(), null_mut()) }
    }

    /// Runs the BEFORE triggers for an update of the row at `place`; they can change the new row. Returns false if one
    /// of them leaves the old row as it is.
    ///
    /// # Safety
    /// The transaction has locked the row for an update, so the server neither waits for others nor looks for a later
    /// version. The slot holds the new row of the table.
    pub unsafe fn before_update(
        &self,
        place: &mut pg_sys::ItemPointerData,
        row: *mut pg_sys::TupleTableSlot,
    ) -> bool {
        // SAFETY: by the contract of this function. The server uses the lookup only for a later version of the row.
        unsafe {
            pg_guard_ffi_boundary(|| self.begin_row());
            let triggers = (*self.target).ri_TrigDesc.as_ref();
            if !triggers.is_some_and(|triggers| triggers.trig_update_before_row) {
                return true;
            }
            let (state, target, none) = (self.state, self.target, null_mut());
            let (mut lookup, mut failure) =
                (pg_sys::EPQState::default(), pg_sys::TM_FailureData::default());
            let written = durability::written();
            let is_written = pg_sys::ExecBRUpdateTriggers(
                state,
                &mut lookup,
                target,
                place,
                none,
                row,
                #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
                null_mut(),
                &mut failure,
                #[cfg(feature = "pg18")]
                false,
            );
            self.note_lasting_effect(durability::written() != written);
            is_written
        }
    }

    fn note_lasting_effect(&self, is_one: bool) {
        self.has_lasting_effect.set(self.has_lasting_effect.get() || is_one);
    }

    /// Queues the AFTER triggers of an update.
    ///
    /// # Safety
    /// The row at `place` was updated to the row in the slot.
    pub unsafe fn after_update(
        &self,
        place: &mut pg_sys::ItemPointerData,
        row: *mut pg_sys::TupleTableSlot,
    ) {
        let none = null_mut();
        // SAFETY: by the contract of this function; the table is no partition, and no index defers its check.
        unsafe {
            pg_sys::ExecARUpdateTriggers(
                self.state,
                self.target,
                null_mut(),
                null_mut(),
                place,
                none,
                row,
                null_mut(),
                null_mut(),
                false,
            );
        }
    }

    /// Runs the BEFORE triggers for a deletion of the row at `place`. Returns false if one of them keeps the row.
    ///
    /// # Safety
    /// As for `before_update`, with a lock for a deletion.
    pub unsafe fn before_delete(&self, place: &mut pg_sys::ItemPointerData) -> bool {
        // SAFETY: as in `before_update`.
        unsafe {
            pg_guard_ffi_boundary(|| self.begin_row());
            let triggers = (*self.target).ri_TrigDesc.as_ref();
            if !triggers.is_some_and(|triggers| triggers.trig_delete_before_row) {
                return true;
            }
            let (state, target, none) = (self.state, self.target, null_mut());
            let mut lookup = pg_sys::EPQState::default();
            pg_sys::ExecBRDeleteTriggers(
                state,
                &mut lookup,
                target,
                place,
                none,
                null_mut(),
                #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
                null_mut(),
                #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
                &mut pg_sys::TM_FailureData::default(),
                #[cfg(feature = "pg18")]
                false,
            )
        }
    }

    /// Queues the AFTER triggers of a deletion.
    ///
    /// # Safety
    /// The row at `place` was deleted.
    pub unsafe fn after_delete(&self, place: &mut pg_sys::ItemPointerData) {
        let (state, target, none) = (self.state, self.target, null_mut());
        // SAFETY: by the contract of this function.
        unsafe { pg_sys::ExecARDeleteTriggers(state, target, place, none, null_mut(), false) }
    }

    /// Runs the queued AFTER triggers that are not deferred.
    ///
    /// # Safety
    /// The table is open, and a snapshot is active. To be called within a guard.
    pub unsafe fn end(self) {
        // SAFETY: by the contract of this function; it belongs to the call of `begin`.
        unsafe {
            raw::AfterTriggerEndQuery(self.state);
            self.discard();
        }
    }

    /// Frees the memory. Unless the AFTER triggers have run, the subtransaction has to be rolled back.
    ///
    /// # Safety
    /// None of the state's slots is used after this. To be called within a guard.
    pub unsafe fn discard(self) {
        // SAFETY: by the contract of this function; a cascade of a foreign key can have opened other tables.
        unsafe {
            raw::ExecResetTupleTable((*self.state).es_tupleTable, false);
            raw::ExecCloseResultRelations(self.state);
            raw::FreeExecutorState(self.state);
        }
    }
}

impl Open<'_> {
    /// Lets changes fire the table's row triggers, except `own`. `columns`: the columns that updates set.
    pub fn fire_triggers(&mut self, own: &[Oid], columns: &[i16]) {
        // SAFETY: the table is open until the drop, which ends the firing.
        self.firing = Some(unsafe { Firing::begin(self.relation.pointer(), own, columns) });
    }

    /// Returns whether changes fire triggers.
    pub fn fires(&self) -> bool {
        self.firing.is_some()
    }

    /// Returns whether a BEFORE trigger of an update has done something that must survive a crash. It has written to the
    /// log, or has changed a column of another type than a time that the update does not set.
    pub fn has_lasting_effect(&self) -> bool {
        self.firing.as_ref().is_some_and(|firing| firing.has_lasting_effect.get())
    }

    /// Compares the row in a slot with the values that it had before the BEFORE triggers. `changes`: the columns that
    /// the update sets.
    ///
    /// # Safety
    /// The slot holds a row of the table, and the values are those of its columns.
    pub(super) unsafe fn note_changed_columns(
        &self,
        before: &[Option<Datum>],
        changes: &[(i16, Option<Value>)],
        row: *mut pg_sys::TupleTableSlot,
    ) {
        let Some(firing) = &self.firing else { return };
        let is_changed = |(index, before): (usize, &Option<Datum>)| {
            let number = index as i16 + 1;
            // SAFETY: by the contract of this function.
            let (column, is_same) = unsafe {
                let column = foreign::attribute(self.relation.description(), index);
                let after = access::value(row, number).map(Value::datum);
                (column, before.map(|it| image(it, column)) == after.map(|it| image(it, column)))
            };
            let is_time = || {
                [types::TIMESTAMPTZ, types::TIMESTAMP].contains(&types::base_type(column.atttypid))
            };
            !is_same && !is_time() && changes.iter().all(|(set, _)| *set != number)
        };
        firing.note_lasting_effect(before.iter().enumerate().any(is_changed));
    }

    /// Runs the AFTER triggers. Without this call, the surrounding subtransaction must be rolled back.
    pub fn fire_after(&mut self) {
        if let Some(firing) = self.firing.take() {
            // SAFETY: the table is open, and its snapshot is active. The row can refer to the memory of a trigger.
            unsafe {
                pg_guard_ffi_boundary(|| {
                    raw::clear(self.heap.row);
                    firing.end();
                });
            }
        }
    }
}

/// Returns a value's own bytes, or its datum if it has none.
///
/// # Safety
/// The datum is a value of the column, which lives during the call.
unsafe fn image<'m>(
    datum: Datum,
    column: &pg_sys::FormData_pg_attribute,
) -> Result<&'m [u8], Datum> {
    // SAFETY: by the contract of this function; no column has a type of C strings.
    unsafe {
        let start = datum.cast_mut_ptr::<u8>();
        let length = match column.attlen {
            _ if column.attbyval => return Err(datum),
            length @ 1.. => length as usize,
            _ => varsize_any(start.cast()),
        };
        Ok(std::slice::from_raw_parts(start, length))
    }
}

/// Tells the server which columns an update sets.
///
/// # Safety
/// The state's memory is current, and the table is open. To be called within a guard.
unsafe fn set_columns(state: *mut pg_sys::EState, table: pg_sys::Relation, columns: &[i16]) {
    // SAFETY: by the contract of this function; a set without members is null.
    unsafe {
        let first = pg_sys::FirstLowInvalidHeapAttributeNumber;
        let add = |set, number: &i16| raw::bms_add_member(set, i32::from(*number) - first);
        let entry: *mut pg_sys::RangeTblEntry = node(pg_sys::NodeTag::T_RangeTblEntry);
        (*entry).rtekind = pg_sys::RTEKind::RTE_RELATION;
        (*entry).relid = (*table).rd_id;
        (*state).es_range_table = raw::lappend(null_mut(), entry.cast());
        (*state).es_range_table_size = 1;
        #[cfg(feature = "pg15")]
        let updated = &raw mut (*entry).updatedCols;
        #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
        let updated = {
            let rights: *mut pg_sys::RTEPermissionInfo = node(pg_sys::NodeTag::T_RTEPermissionInfo);
            (*rights).relid = (*table).rd_id;
            (*entry).perminfoindex = 1;
            (*state).es_rteperminfos = raw::lappend(null_mut(), rights.cast());
            &raw mut (*rights).updatedCols
        };
        *updated = columns.iter().fold(null_mut(), add);
    }
}

/// Allocates a node with zeros.
///
/// # Safety
/// `T` is the struct of the tag. To be called within a guard.
unsafe fn node<T>(tag: pg_sys::NodeTag) -> *mut T {
    // SAFETY: by the contract of this function; each node begins with its tag.
    unsafe {
        let node = raw::palloc0(size_of::<T>());
        *node.cast() = tag;
        node.cast()
    }
}

/// Disables triggers in the description of a table's triggers.
///
/// # Safety
/// `description` is null, or a copy that belongs to the caller.
unsafe fn disable(description: *mut pg_sys::TriggerDesc, left_out: &[Oid]) {
    // SAFETY: by the contract of this function; there are `numtriggers` triggers.
    unsafe {
        let Some(description) = description.as_mut() else { return };
        let count = description.numtriggers as usize;
        let all = std::slice::from_raw_parts_mut(description.triggers, count);
        for trigger in all.iter_mut().filter(|trigger| left_out.contains(&trigger.tgoid)) {
            trigger.tgenabled = pg_sys::TRIGGER_DISABLED as std::ffi::c_char;
        }
        let before = pg_sys::TRIGGER_TYPE_BEFORE;
        let fires = |event: u32, timing: u32| {
            let bits = pg_sys::TRIGGER_TYPE_ROW | event;
            let is_enabled = |trigger: &&pg_sys::Trigger| !left_out.contains(&trigger.tgoid);
            let mut types = all.iter().filter(is_enabled).map(|trigger| trigger.tgtype);
            types.any(|kind| u32::from(kind as u16) & (bits | before) == bits | timing)
        };
        let (update, delete) = (pg_sys::TRIGGER_TYPE_UPDATE, pg_sys::TRIGGER_TYPE_DELETE);
        let insert = pg_sys::TRIGGER_TYPE_INSERT;
        description.trig_insert_before_row = fires(insert, before);
        description.trig_insert_after_row = fires(insert, 0);
        description.trig_update_before_row = fires(update, before);
        description.trig_update_after_row = fires(update, 0);
        description.trig_delete_before_row = fires(delete, before);
        description.trig_delete_after_row = fires(delete, 0);
    }
}
