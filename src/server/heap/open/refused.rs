//! Changes of a row that an index can refuse.

use crate::server::heap::access;
use crate::server::heap::open::Open;
use crate::server::xact::{self, Failure};
use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;

impl Open<'_> {
    /// Returns whether the row enters an index that can refuse it. The index predicate can raise an error; it holds no
    /// resources then.
    ///
    /// # Safety
    /// The slot holds a row of the table.
    pub(super) unsafe fn may_be_refused(&self, row: *mut pg_sys::TupleTableSlot) -> bool {
        let mut indexes = self.heap.indexes.iter().enumerate();
        // SAFETY: by the contract of this function.
        indexes.any(|(position, index)| unsafe {
            index.may_refuse && index.is_wanted.get() && self.comes_into(position, row)
        })
    }

    /// # Safety
    /// The slot holds a row of the table, and `position` is the position of an index in the table's list.
    unsafe fn comes_into(&self, position: usize, row: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: by the contract of this function; the predicate is prepared as the server prepares it before an
        // insertion, and kept with the same state. A missing predicate, or one that is always true, is null.
        unsafe {
            let info = &mut **(*self.heap.target).ri_IndexRelationInfo.add(position);
            if info.ii_PredicateState.is_null() {
                info.ii_PredicateState =
                    pg_sys::ExecPrepareQual(info.ii_Predicate, self.heap.state);
            }
            let predicate = info.ii_PredicateState;
            let Some(evaluate) = predicate.as_ref().and_then(|predicate| predicate.evalfunc) else {
                return true;
            };
            let (context, mut is_null) = (access::per_tuple_context(self.heap.state), false);
            (*context).ecxt_scantuple = row;
            let comes = pg_guard_ffi_boundary(|| {
                // Memory used for long values is freed with the row.
                let outer = pg_sys::MemoryContextSwitchTo((*context).ecxt_per_tuple_memory);
                let comes = evaluate(predicate, context, &mut is_null);
                pg_sys::MemoryContextSwitchTo(outer);
                comes
            });
            comes.value() != 0
        }
    }

    /// Runs a change that an index can refuse; a refusal undoes it.
    pub(super) fn unless_refused<T, E: From<Failure>>(
        &self,
        change: impl FnOnce() -> T,
    ) -> Result<T, E> {
        xact::in_subtransaction_unless_of_task(|| Ok(change()))
    }
}
