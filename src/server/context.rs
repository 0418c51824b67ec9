//! What an error of the server's own lacks: the next step.

use crate::server::diagnostics::{self, Raised};
use crate::server::foreign;
use pgrx::pg_sys;
use pgrx::pg_sys::errcodes::PgSqlErrorCode as Code;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use std::ffi::{CString, c_void};

/// Runs `work`; an error about data (SQLSTATE class 22, a missing value, a name that cannot be)
/// raised in it gets `hint` as its HINT if it has none.
pub fn hinted<T>(hint: impl Fn() -> String, work: impl FnOnce() -> T) -> T {
    const CLASS: i32 = 0xfff;
    const OTHER_DATA: [i32; 4] = [
        Code::ERRCODE_INVALID_NAME as i32,
        Code::ERRCODE_DUPLICATE_COLUMN as i32,
        Code::ERRCODE_DUPLICATE_TABLE as i32,
        Code::ERRCODE_NOT_NULL_VIOLATION as i32,
    ];
    let choose = |error: Raised| {
        let is_data = error.code & CLASS == Code::ERRCODE_DATA_EXCEPTION as i32 & CLASS;
        let applies = is_data || OTHER_DATA.contains(&error.code);
        (applies && !error.has_hint).then(&hint)
    };
    watched(&choose, work)
}

/// Runs `work`, which runs the statement `sql`. The error that this names a function which does not exist gets `hint`
/// as its HINT: the server's is about the arguments, which are not the user's. An error of a statement that `sql` runs
/// in its turn stays as it is.
pub fn hinted_if_undefined<T>(sql: &str, hint: impl Fn() -> String, work: impl FnOnce() -> T) -> T {
    let choose = |error: Raised| {
        let is_undefined = error.code == Code::ERRCODE_UNDEFINED_FUNCTION as i32;
        (is_undefined && error.query.as_deref() == Some(sql)).then(&hint)
    };
    watched(&choose, work)
}

/// What to do where the server refuses a command because a trigger depends on what it alters.
pub struct Remedy {
    pub trigger: &'static str,
    pub hint: String,
}

/// Runs `work`; the error that the trigger of `remedy` depends on what is altered (0A000) gets a HINT. The server tells
/// this error from others of its SQLSTATE only by its DETAIL, which names the trigger.
pub fn remedied<T>(remedy: Option<Remedy>, work: impl FnOnce() -> T) -> T {
    let Some(Remedy { trigger, hint }) = remedy else { return work() };
    let choose = |error: Raised| {
        let is_refused = error.code == Code::ERRCODE_FEATURE_NOT_SUPPORTED as i32;
        let is_named = error.detail.is_some_and(|detail| detail.contains(trigger));
        (is_refused && is_named && !error.has_hint).then(|| hint.clone())
    };
    watched(&choose, work)
}

/// Chooses the hint of an error; None leaves it as it is.
type Choose<'a> = &'a dyn Fn(Raised) -> Option<String>;

fn watched<T>(choose: Choose, work: impl FnOnce() -> T) -> T {
    // SAFETY: the callback is taken off the stack before it ends, by the guard in case of an error
    // in Rust, by the server in case of one of its own.
    unsafe {
        let mut callback = pg_sys::ErrorContextCallback {
            previous: pg_sys::error_context_stack,
            callback: Some(add_hint),
            arg: (&raw const choose).cast_mut().cast(),
        };
        let _restore = Restore(callback.previous);
        pg_sys::error_context_stack = &mut callback;
        work()
    }
}

struct Restore(*mut pg_sys::ErrorContextCallback);

impl Drop for Restore {
    fn drop(&mut self) {
        // SAFETY: what was on top of the stack when the guard was made.
        unsafe { pg_sys::error_context_stack = self.0 }
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn add_hint(choose: *mut c_void) {
    // SAFETY: called while an error is being reported; `choose` outlives that.
    unsafe {
        let choose = *choose.cast::<Choose>();
        if let Some(hint) = diagnostics::raised().and_then(choose) {
            let hint = CString::new(hint).unwrap_or_default();
            pg_guard_ffi_boundary(|| foreign::errhint(c"%s".as_ptr(), hint.as_ptr()));
        }
    }
}
