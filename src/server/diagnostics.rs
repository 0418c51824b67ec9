//! What an error of the server's own would lose on its way through Rust: the names of the
//! constraint, table, column and type that it is about, which drivers and ORMs show and ask for. And what it would
//! gain: a backtrace.

use crate::server::allocator;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, ErrorContextCallback};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Fields of an error by their code.
type Names = Vec<(u8, CString)>;

thread_local! {
    /// SQLSTATE, message and names of the last error that had names.
    static KEPT: RefCell<Option<(i32, CString, Names)>> = const { RefCell::new(None) };
}

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

/// Calls `function`, whose errors keep their names.
///
/// # Safety
/// `function` turns panics into errors of the server, which leave this frame by a long jump: it
/// has nothing to drop.
pub unsafe fn keeping_names(
    function: unsafe extern "C-unwind" fn(pg_sys::FunctionCallInfo) -> pg_sys::Datum,
    info: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: the callback is taken off the stack at the end; what catches an error puts the stack
    // back itself.
    unsafe {
        let mut callback = ErrorContextCallback {
            previous: pg_sys::error_context_stack,
            callback: Some(keep_or_give_back),
            arg: std::ptr::null_mut(),
        };
        callback.arg = (&raw mut callback).cast();
        pg_sys::error_context_stack = &mut callback;
        let result = function(info);
        pg_sys::error_context_stack = callback.previous;
        result
    }
}

/// The same for what the server calls otherwise: for `work` that turns errors into panics and may leave by one.
pub fn keeping_names_in<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the callback is taken off the stack in every case, as no error leaves `work` by a long jump.
    unsafe {
        let mut callback = ErrorContextCallback {
            previous: pg_sys::error_context_stack,
            callback: Some(keep_or_give_back),
            arg: std::ptr::null_mut(),
        };
        callback.arg = (&raw mut callback).cast();
        pg_sys::error_context_stack = &mut callback;
        let result = catch_unwind(AssertUnwindSafe(work));
        pg_sys::error_context_stack = callback.previous;
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Called twice: when the server raises the error, with the names, and when it is raised again on
/// the way out of Rust, without them.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn keep_or_give_back(callback: *mut c_void) {
    // SAFETY: an error is being reported; `callback` is only compared. The error's data is copied into memory of its
    // own, and freed with that: FreeErrorData leaves some of it.
    unsafe {
        if !is_innermost(callback) {
            return;
        }
        // The server's own want of memory. It is about nothing that has a name, and is copied once it is out here.
        if pg_sys::geterrcode() == PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as i32 {
            return allocator::make_room_for_error();
        }
        let memory = pg_sys::AllocSetContextCreateExtended(
            pg_sys::ErrorContext,
            c"xqueue: an error".as_ptr(),
            pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
            pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
            pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
        );
        let reporting = pg_sys::MemoryContextSwitchTo(memory);
        let data = pg_sys::CopyErrorData();
        pg_sys::MemoryContextSwitchTo(reporting);
        if (*data).elevel >= pgrx::PgLogLevel::ERROR as i32 {
            let names = names(&*data);
            let (code, message) = ((*data).sqlerrcode, text((*data).message).unwrap_or_default());
            if !names.is_empty() {
                KEPT.set(Some((code, message, names)));
            } else if let Some(kept) = KEPT.take()
                && kept.0 == code
                && kept.1 == message
            {
                for (field, name) in &kept.2 {
                    pg_sys::err_generic_string(i32::from(*field), name.as_ptr());
                }
                // It may have to come through another call.
                KEPT.set(Some(kept));
            }
        }
        pg_sys::MemoryContextDelete(memory);
    }
}

/// Returns whether of all callbacks of this kind, one for each call in progress, this is the first to be called. The others
/// would find what it has done, after they had copied the CONTEXT of all levels between.
///
/// # Safety
/// An error is being reported.
unsafe fn is_innermost(callback: *const c_void) -> bool {
    let kind = keep_or_give_back as unsafe extern "C-unwind" fn(*mut c_void);
    // SAFETY: the entries of the stack live in frames further out.
    unsafe {
        let mut entry = pg_sys::error_context_stack;
        while let Some(ErrorContextCallback { previous, callback: function, .. }) = entry.as_ref() {
            if function.is_some_and(|function| std::ptr::fn_addr_eq(function, kind)) {
                return entry.cast_const().cast() == callback;
            }
            entry = *previous;
        }
    }
    true
}

/// # Safety
/// The strings of `data` are null or C strings.
unsafe fn names(data: &pg_sys::ErrorData) -> Names {
    [
        (pg_sys::PG_DIAG_SCHEMA_NAME, data.schema_name),
        (pg_sys::PG_DIAG_TABLE_NAME, data.table_name),
        (pg_sys::PG_DIAG_COLUMN_NAME, data.column_name),
        (pg_sys::PG_DIAG_DATATYPE_NAME, data.datatype_name),
        (pg_sys::PG_DIAG_CONSTRAINT_NAME, data.constraint_name),
    ]
    .into_iter()
    // SAFETY: by the contract of this function.
    .filter_map(|(field, name)| Some((field, unsafe { text(name) }?)))
    .collect()
}

/// # Safety
/// `string` is null or a C string.
unsafe fn text(string: *const c_char) -> Option<CString> {
    // SAFETY: by the contract of this function.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_owned())
}
