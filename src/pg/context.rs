//! What an error of the server's own lacks: the next step.

use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use std::ffi::{CString, c_void};

/// Runs `work`; an error about data (SQLSTATE class 22, a missing value, a name that cannot be)
/// raised in it gets `hint` as its HINT. All else of the error stays as it is, the name of a
/// constraint for example.
pub fn hinted<T>(hint: impl Fn() -> String, work: impl FnOnce() -> T) -> T {
    let hint = Hint { text: &hint };
    // SAFETY: the callback is taken off the stack before it ends, by the guard in case of an error
    // in Rust, by the server in case of one of its own.
    unsafe {
        let mut callback = pg_sys::ErrorContextCallback {
            previous: pg_sys::error_context_stack,
            callback: Some(add_hint),
            arg: (&raw const hint).cast_mut().cast(),
        };
        let _restore = Restore(callback.previous);
        pg_sys::error_context_stack = &mut callback;
        work()
    }
}

/// A hint that is written only if there is an error.
struct Hint<'a> {
    text: &'a dyn Fn() -> String,
}

struct Restore(*mut pg_sys::ErrorContextCallback);

impl Drop for Restore {
    fn drop(&mut self) {
        // SAFETY: what was on top of the stack when the guard was made.
        unsafe { pg_sys::error_context_stack = self.0 }
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn add_hint(hint: *mut c_void) {
    const CLASS: i32 = 0xfff;
    const DATA_EXCEPTION: i32 = pg_sys::errcodes::PgSqlErrorCode::ERRCODE_DATA_EXCEPTION as i32;
    const INVALID_NAME: i32 = pg_sys::errcodes::PgSqlErrorCode::ERRCODE_INVALID_NAME as i32;
    const DUPLICATE_COLUMN: i32 = pg_sys::errcodes::PgSqlErrorCode::ERRCODE_DUPLICATE_COLUMN as i32;
    const DUPLICATE_TABLE: i32 = pg_sys::errcodes::PgSqlErrorCode::ERRCODE_DUPLICATE_TABLE as i32;
    const NOT_NULL: i32 = pg_sys::errcodes::PgSqlErrorCode::ERRCODE_NOT_NULL_VIOLATION as i32;
    // SAFETY: called while an error is being reported; the text outlives that.
    unsafe {
        let code = pg_sys::geterrcode();
        let others = [INVALID_NAME, DUPLICATE_COLUMN, DUPLICATE_TABLE, NOT_NULL];
        if code & CLASS == DATA_EXCEPTION & CLASS || others.contains(&code) {
            let hint = ((*hint.cast::<Hint>()).text)();
            let hint = CString::new(hint).unwrap_or_default();
            pg_guard_ffi_boundary(|| super::foreign::errhint(c"%s".as_ptr(), hint.as_ptr()));
        }
    }
}
