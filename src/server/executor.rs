//! Statements that run without the row triggers of their table.

use crate::server::foreign::{list_nth, standard_ExecutorStart};
use pgrx::pg_sys::{self, Oid};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static mut PREVIOUS: pg_sys::ExecutorStart_hook_type = None;

/// The next statement that changes rows of this table has no triggers. No thread's own, as a server
/// process has but one, and every statement looks here.
static TABLE: AtomicU32 = AtomicU32::new(0);

/// Hooks into the executor. To be called once, while the library is loaded.
pub fn init() {
    // SAFETY: the previous hook is kept and called.
    unsafe {
        PREVIOUS = pg_sys::ExecutorStart_hook;
        pg_sys::ExecutorStart_hook = Some(start);
    }
}

/// Runs `work`, whose first statement that changes rows of `table` does so without triggers: the
/// caller knows that they would do nothing but what it does itself.
pub fn without_triggers<T>(table: Oid, work: impl FnOnce() -> T) -> T {
    TABLE.store(table.into(), Relaxed);
    let _restore = Restore;
    work()
}

/// The triggers are back, in case of an error as well.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        TABLE.store(0, Relaxed);
    }
}

/// Not guarded, since that would take its CONTEXT from every error at the start of a statement, and
/// there is nothing here to drop.
unsafe extern "C-unwind" fn start(query: *mut pg_sys::QueryDesc, flags: c_int) {
    // SAFETY: the query is one that is about to start, and has started afterwards; the next hook,
    // or the server's own function, gets the arguments.
    unsafe {
        let next = PREVIOUS.unwrap_or(standard_ExecutorStart);
        let table = Oid::from(TABLE.load(Relaxed));
        if table == Oid::INVALID || !changes((*query).plannedstmt, table) {
            return next(query, flags);
        }
        TABLE.store(0, Relaxed);
        next(query, flags);
        let opened = (*(*query).estate).es_opened_result_relations;
        if let Some(list) = opened.as_ref() {
            for index in 0..list.length {
                let target = list_nth::<pg_sys::ResultRelInfo>(opened, index);
                if (*(*target).ri_RelationDesc).rd_id == table {
                    (*target).ri_TrigDesc = std::ptr::null_mut();
                }
            }
        }
    }
}

/// Returns whether a statement changes rows of a table.
///
/// # Safety
/// `statement` is a planned statement.
unsafe fn changes(statement: *const pg_sys::PlannedStmt, table: Oid) -> bool {
    // SAFETY: by the contract of this function; result relations are indexes into the range table,
    // from 1.
    unsafe {
        let Some(targets) = (*statement).resultRelations.as_ref() else { return false };
        (0..targets.length as usize).any(|index| {
            let relation = (*targets.elements.add(index)).int_value - 1;
            let entry = list_nth::<pg_sys::RangeTblEntry>((*statement).rtable, relation);
            (*entry).relid == table
        })
    }
}
