//! Keeps errors of the server complete on their way through Rust. pgrx turns each into a panic, and the panic into an
//! error again when it leaves Rust. The panic carries message, DETAIL, HINT and a SQLSTATE that pgrx knows. It loses
//! other SQLSTATEs, the CONTEXT, and the names of constraint, table, column and type. So the error is copied when it is
//! raised, and the copy is raised again when the panic leaves Rust.
//!
//! 1. [`guard`] pushes a callback on the error context stack.
//! 2. The callback appends [`LAST`] behind all other callbacks for this error: only then is the CONTEXT complete.
//! 3. `LAST` copies the error, and removes itself from the stack.
//! 4. pgrx catches the error and panics.
//! 5. [`guard`] catches the panic, and raises the copy.
//!
//! Panics for other errors are left to pgrx. So is the server's out-of-memory error, which is not copied.

use crate::server::{allocator, foreign, raw};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel, pgrx_extern_c_guard};
use pgrx::pg_sys::{self, ErrorContextCallback, ErrorData, MemoryContext};
use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{addr_eq, null_mut};

thread_local! {
    /// The last error that passed through Rust, in its own memory context.
    static KEPT: Cell<Option<Kept>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Kept {
    memory: MemoryContext,
    error: *mut ErrorData,
}

/// The callback that is called last.
static mut LAST: ErrorContextCallback =
    ErrorContextCallback { previous: null_mut(), callback: Some(keep), arg: null_mut() };

/// Keeps backtraces out of errors of this process and the processes that it forks. With RUST_BACKTRACE in the server's
/// environment, pgrx would add a backtrace of several kilobytes to the DETAIL that clients get. Must be called before
/// anything can fail, while the process has a single thread.
pub fn leave_out_backtraces() {
    const VARIABLE: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(VARIABLE);
    // The first backtrace decides for all later ones. The variable is restored, because other libraries in the process
    // read it.
    // SAFETY: the process has one thread.
    unsafe {
        std::env::set_var(VARIABLE, "0");
        let _decided = std::backtrace::Backtrace::capture();
        match before {
            Some(value) => std::env::set_var(VARIABLE, value),
            None => std::env::remove_var(VARIABLE),
        }
    }
}

/// Runs `work` for the server. A server error that leaves it is raised again unchanged; any other panic becomes an
/// error.
///
/// # Safety
/// The caller is called by the server and has nothing to drop: errors leave its frame by a long jump.
pub unsafe fn guard<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the callback is removed from the stack at the end; an error handler restores the stack itself.
    unsafe {
        let handler = pg_sys::PG_exception_stack;
        let mut callback = ErrorContextCallback {
            previous: pg_sys::error_context_stack,
            callback: Some(link_last),
            arg: null_mut(),
        };
        pg_sys::error_context_stack = &mut callback;
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(value) => {
                pg_sys::error_context_stack = callback.previous;
                value
            }
            Err(panic) => {
                // If pgrx found no memory to copy the error, both stacks still point into frames that have been left.
                pg_sys::PG_exception_stack = handler;
                pg_sys::error_context_stack = &mut callback;
                leave(panic)
            }
        }
    }
}

/// # Safety
/// The requirements of `guard`.
#[cold]
unsafe fn leave(panic: Box<dyn Any + Send>) -> ! {
    let kept = match panic.downcast_ref::<CaughtError>() {
        Some(CaughtError::PostgresError(report)) => kept(report),
        _ => None,
    };
    // SAFETY: the server copies the error before it jumps, and nothing is left to drop here.
    unsafe {
        if let Some(error) = kept {
            drop(panic);
            foreign::ReThrowError(error);
        }
        pgrx_extern_c_guard(|| resume_unwind(panic))
    }
}

/// Frees the copy of the last error, which has been reported.
pub fn forget() {
    if let Some(kept) = KEPT.take() {
        // SAFETY: nothing else points into this memory.
        unsafe { raw::MemoryContextDelete(kept.memory) }
    }
}

/// Returns the SQLSTATE of a caught error in the server's encoding; users can define their own SQLSTATEs.
pub(super) fn code(caught: &CaughtError) -> i32 {
    let (CaughtError::PostgresError(report)
    | CaughtError::ErrorReport(report)
    | CaughtError::RustPanic { ereport: report, .. }) = caught;
    // SAFETY: the copy made by the server is valid.
    kept(report).map_or(report.sql_error_code() as i32, |error| unsafe { (*error).sqlerrcode })
}

/// Returns the copy of the error that pgrx has caught.
fn kept(report: &ErrorReportWithLevel) -> Option<*mut ErrorData> {
    let error = KEPT.get()?.error;
    // SAFETY: the copy made by the server is valid; its message is null or a C string.
    let is_same = unsafe {
        let (code, line) = ((*error).sqlerrcode, (*error).lineno as u32);
        PgSqlErrorCode::from(code) == report.sql_error_code()
            && line == report.line_number()
            && !(*error).message.is_null()
            && CStr::from_ptr((*error).message).to_string_lossy() == report.message()
    };
    is_same.then_some(error)
}

/// Appends `LAST` to the callbacks of the error that is being raised.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn link_last(_argument: *mut c_void) {
    // SAFETY: an error is being raised, so the stack has entries, whose frames are live; `LAST` is static.
    unsafe {
        if is_out_of_memory() {
            return allocator::make_room_for_error();
        }
        let mut entry = pg_sys::error_context_stack;
        while !(*entry).previous.is_null() {
            entry = (*entry).previous;
        }
        if !addr_eq(entry, &raw const LAST) {
            (*entry).previous = &raw mut LAST;
        }
    }
}

/// Copies the error after all other callbacks have added to it.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn keep(_argument: *mut c_void) {
    // SAFETY: see above. `LAST` is the end of the stack, because it was just called.
    unsafe {
        let mut link = &raw mut pg_sys::error_context_stack;
        while !(*link).is_null() && !addr_eq(*link, &raw const LAST) {
            link = &raw mut (**link).previous;
        }
        *link = null_mut();
        if cannot_copy() {
            return;
        }
        let copy = copy(pg_sys::TopMemoryContext);
        if (*copy.error).elevel == pgrx::PgLogLevel::ERROR as i32 {
            forget();
            KEPT.set(Some(copy));
        } else {
            raw::MemoryContextDelete(copy.memory);
        }
    }
}

/// An error that is being raised.
pub struct Raised {
    /// Its SQLSTATE in the server's encoding.
    pub code: i32,
    pub has_hint: bool,
    pub detail: Option<String>,
    /// The statement that cannot be parsed, if a function runs it.
    pub query: Option<String>,
    /// Where it was raised, from the inside to the outside.
    pub context: Option<String>,
}

/// Returns the error that is being raised; None if it cannot be copied.
///
/// # Safety
/// Called by an error context callback.
pub(super) unsafe fn raised() -> Option<Raised> {
    if cannot_copy() {
        return None;
    }
    // SAFETY: an error is being raised, whose strings are null or C strings.
    unsafe {
        let copy = copy(pg_sys::ErrorContext);
        let error = &*copy.error;
        let text = |text: *const std::ffi::c_char| {
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        let (detail, query) = (text(error.detail), text(error.internalquery));
        let (has_hint, context) = (!error.hint.is_null(), text(error.context));
        let raised = Raised { code: error.sqlerrcode, has_hint, detail, query, context };
        raw::MemoryContextDelete(copy.memory);
        Some(raised)
    }
}

/// # Safety
/// An error is being raised, other than the out-of-memory error.
unsafe fn copy(parent: MemoryContext) -> Kept {
    // SAFETY: by the contract of this function. The copy has its own memory context, because FreeErrorData does not
    // free all of it.
    unsafe {
        let memory = pg_sys::AllocSetContextCreateExtended(
            parent,
            c"xqueue's last error".as_ptr(),
            pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
            pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
            pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
        );
        let before = pg_sys::MemoryContextSwitchTo(memory);
        let error = pg_sys::CopyErrorData();
        pg_sys::MemoryContextSwitchTo(before);
        Kept { memory, error }
    }
}

/// Returns whether the message that is being raised cannot be copied. In a critical section memory must not be allocated,
/// and the server writes debug messages there.
fn cannot_copy() -> bool {
    // SAFETY: reads a counter of this process.
    unsafe { pg_sys::CritSectionCount > 0 || is_out_of_memory() }
}

/// Returns whether the error that is being raised is the out-of-memory error. Such an error is copied only after the
/// callback has returned.
fn is_out_of_memory() -> bool {
    // SAFETY: called while an error is being raised.
    unsafe { pg_sys::geterrcode() == PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as i32 }
}
