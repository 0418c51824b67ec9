//! Prepares the check constraints of a table once, for all rows.

use crate::server::heap::Heap;
use crate::server::xact;
use pgrx::pg_sys;

impl Heap {
    /// Prepares the checks, which the server would do at the first row. An error in a constant part of a check, such as a
    /// division by zero, would leave the server's own list half prepared. Returns false if there is such an error.
    ///
    /// # Safety
    /// The state's memory is current, and `description` belongs to the open table.
    pub(super) unsafe fn prepare_checks(&mut self, description: pg_sys::TupleDesc) -> bool {
        // SAFETY: by the contract of this function; the server has a place for each check, which is empty for a check
        // that is not enforced.
        unsafe {
            let Some(constraints) = (*description).constr.as_ref() else { return true };
            let count = constraints.num_check as usize;
            if count == 0 {
                return true;
            }
            let prepared = pg_sys::palloc0(count * size_of::<*mut pg_sys::ExprState>())
                .cast::<*mut pg_sys::ExprState>();
            let prepare = || {
                for index in 0..count {
                    let check = &*constraints.check.add(index);
                    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
                    let is_enforced = true;
                    #[cfg(feature = "pg18")]
                    let is_enforced = check.ccenforced;
                    if is_enforced {
                        let expression = pg_sys::stringToNode(check.ccbin).cast();
                        *prepared.add(index) = pg_sys::ExecPrepareExpr(expression, self.state);
                    }
                }
            };
            let is_prepared = xact::unless_of_task_holding(prepare).is_ok();
            #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
            let place = &raw mut (*self.target).ri_ConstraintExprs;
            #[cfg(feature = "pg18")]
            let place = &raw mut (*self.target).ri_CheckConstraintExprs;
            *place = prepared;
            is_prepared
        }
    }
}
