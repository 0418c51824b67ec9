//! Errors of the server on their way through Rust. pgrx makes a panic of each, and an error of the panic where it
//! leaves Rust. The panic has a SQLSTATE that pgrx knows, message, DETAIL and HINT: another SQLSTATE, the CONTEXT and
//! the names of constraint, table, column and type would be lost. So the error is copied as it is raised, and the copy
//! is raised again where the panic leaves Rust.
//!
//! 1. [`guard`] puts a callback on the stack of those that add to the CONTEXT of an error.
//! 2. The callback links [`LAST`] behind all others, for this error: only then is the CONTEXT complete.
//! 3. `LAST` copies the error, and takes itself off.
//! 4. pgrx catches the error and panics.
//! 5. [`guard`] catches the panic, and raises the copy.
//!
//! A panic of another error, and the server's own of having no memory, which is not copied, leave as pgrx has them.

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
    /// The last error that passed through Rust, in memory of its own.
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

/// Keeps backtraces out of errors for as long as the process lives, and those that it forks. With RUST_BACKTRACE in the
/// server's environment pgrx would add one, some kilobytes about this library's inside, to the DETAIL that clients
/// get. To be called before anything can fail, while the process has one thread.
pub fn leave_out_backtraces() {
    const VARIABLE: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(VARIABLE);
    // The first backtrace decides for all. The variable is put back, since other libraries in the process read it.
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

/// Runs `work` for the server. An error of the server's that leaves it is raised as it was, and any other panic becomes
/// an error.
///
/// # Safety
/// The caller is called by the server, and has nothing to drop: errors leave its frame by a long jump.
pub unsafe fn guard<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the callback is taken off the stack at the end; what catches an error puts the stack back itself.
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
                // Where pgrx has found no memory to copy the error, both lead to frames that are left.
                pg_sys::PG_exception_stack = handler;
                pg_sys::error_context_stack = &mut callback;
                leave(panic)
            }
        }
    }
}

/// # Safety
/// As for `guard`.
#[cold]
unsafe fn leave(panic: Box<dyn Any + Send>) -> ! {
    let kept = match panic.downcast_ref::<CaughtError>() {
        Some(CaughtError::PostgresError(report)) => kept(report),
        _ => None,
    };
    // SAFETY: the server copies the error before it jumps, and nothing is left here to drop.
    unsafe {
        if let Some(error) = kept {
            drop(panic);
            foreign::ReThrowError(error);
        }
        pgrx_extern_c_guard(|| resume_unwind(panic))
    }
}

/// Forgets the last error, which has been told.
pub fn forget() {
    if let Some(kept) = KEPT.take() {
        // SAFETY: nothing else points into this memory.
        unsafe { raw::MemoryContextDelete(kept.memory) }
    }
}

/// Returns the SQLSTATE of an error that was caught, as the server encodes it: users make up their own.
pub(super) fn code(caught: &CaughtError) -> i32 {
    let (CaughtError::PostgresError(report)
    | CaughtError::ErrorReport(report)
    | CaughtError::RustPanic { ereport: report, .. }) = caught;
    // SAFETY: a copy of the server's.
    kept(report).map_or(report.sql_error_code() as i32, |error| unsafe { (*error).sqlerrcode })
}

/// Returns the copy of the error that pgrx has caught.
fn kept(report: &ErrorReportWithLevel) -> Option<*mut ErrorData> {
    let error = KEPT.get()?.error;
    // SAFETY: a copy of the server's; its message is null or a C string.
    let is_same = unsafe {
        let (code, line) = ((*error).sqlerrcode, (*error).lineno as u32);
        PgSqlErrorCode::from(code) == report.sql_error_code()
            && line == report.line_number()
            && !(*error).message.is_null()
            && CStr::from_ptr((*error).message).to_string_lossy() == report.message()
    };
    is_same.then_some(error)
}

/// Has `LAST` called for the error that is being raised.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn link_last(_argument: *mut c_void) {
    // SAFETY: an error is being raised, so that the stack has entries, whose frames live; and `LAST` does for ever.
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

/// Copies the error, as all others have added to it.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn keep(_argument: *mut c_void) {
    // SAFETY: as above. `LAST` is the end of the stack, as it was just called.
    unsafe {
        let mut link = &raw mut pg_sys::error_context_stack;
        while !(*link).is_null() && !addr_eq(*link, &raw const LAST) {
            link = &raw mut (**link).previous;
        }
        *link = null_mut();
        if is_out_of_memory() {
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
    /// Its SQLSTATE, as the server encodes it.
    pub code: i32,
    pub has_hint: bool,
    pub detail: Option<String>,
    /// The statement that cannot be parsed, if a function runs it.
    pub query: Option<String>,
}

/// Returns the error that is being raised, but None for the server's own of having no memory.
///
/// # Safety
/// Called by an error context callback.
pub(super) unsafe fn raised() -> Option<Raised> {
    if is_out_of_memory() {
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
        let has_hint = !error.hint.is_null();
        let raised = Raised { code: error.sqlerrcode, has_hint, detail, query };
        raw::MemoryContextDelete(copy.memory);
        Some(raised)
    }
}

/// # Safety
/// An error is being raised, and not that there is no memory.
unsafe fn copy(parent: MemoryContext) -> Kept {
    // SAFETY: by the contract of this function. The copy has memory of its own, as FreeErrorData leaves some of it.
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

/// Returns whether the error that is being raised is that there is no memory. It is copied once it is out here.
fn is_out_of_memory() -> bool {
    // SAFETY: called while an error is being raised.
    unsafe { pg_sys::geterrcode() == PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as i32 }
}
