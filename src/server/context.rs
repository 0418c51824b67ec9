//! Adds a hint, the next step, to the server's own errors.

use crate::server::diagnostics::{self, Raised};
use crate::server::foreign;
use pgrx::pg_sys;
use pgrx::pg_sys::errcodes::PgSqlErrorCode as Code;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use std::ffi::{CString, c_void};

/// Runs `work`. An error about data raised in it (SQLSTATE class 22, a missing value, an invalid name) gets `hint` as
/// its HINT, unless it already has a HINT.
pub fn hinted<T>(hint: impl Fn() -> String, work: impl FnOnce() -> T) -> T {
    watched(&|error: Raised| (is_about_data(&error) && !error.has_hint).then(&hint), work)
}

/// Runs `work` like [`hinted`]. Errors of a function that a statement in `work` calls, for example of a trigger or a
/// default, get no hint. The author of such a function raises them about something else.
pub fn hinted_of_arguments<T>(hint: impl Fn() -> String, work: impl FnOnce() -> T) -> T {
    let choose = |error: Raised| {
        (is_about_data(&error) && !error.has_hint && !is_of_function(&error)).then(&hint)
    };
    watched(&choose, work)
}

fn is_about_data(error: &Raised) -> bool {
    const CLASS: i32 = 0xfff;
    const OTHER_DATA: [i32; 4] = [
        Code::ERRCODE_INVALID_NAME as i32,
        Code::ERRCODE_DUPLICATE_COLUMN as i32,
        Code::ERRCODE_DUPLICATE_TABLE as i32,
        Code::ERRCODE_NOT_NULL_VIOLATION as i32,
    ];
    let is_data = error.code & CLASS == Code::ERRCODE_DATA_EXCEPTION as i32 & CLASS;
    is_data || OTHER_DATA.contains(&error.code)
}

/// Returns whether an error was raised in a function. Otherwise its context is one line at most, which quotes the
/// statement. Its words are in the language of the server's messages.
fn is_of_function(error: &Raised) -> bool {
    const STATEMENTS: [&str; 4] = ["\"INSERT ", "\"UPDATE ", "\"WITH ", "\"SELECT "];
    error.context.as_ref().is_some_and(|context| {
        let quotes = STATEMENTS.iter().any(|statement| context.contains(statement));
        context.lines().count() > 1 || !quotes
    })
}

/// Runs `work`, which runs the statement `sql`. If `sql` names a function that does not exist, the error gets `hint` as
/// its HINT, because the server's own hint is about arguments that the user did not write. Errors of statements that
/// `sql` runs itself are left unchanged.
pub fn hinted_if_undefined<T>(sql: &str, hint: impl Fn() -> String, work: impl FnOnce() -> T) -> T {
    let choose = |error: Raised| {
        let is_undefined = error.code == Code::ERRCODE_UNDEFINED_FUNCTION as i32;
        (is_undefined && error.query.as_deref() == Some(sql)).then(&hint)
    };
    watched(&choose, work)
}

/// The hint for a command that the server refuses because a trigger depends on the altered object.
pub struct Remedy {
    pub trigger: &'static str,
    pub hint: String,
}

/// Runs `work`. The error that the trigger of `remedy` depends on the altered object (0A000) gets a HINT. Only the
/// DETAIL, which names the trigger, distinguishes it from other errors of this SQLSTATE.
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
    // SAFETY: the callback is removed from the stack before its memory is released: by the guard after a panic, by the
    // server after one of its own errors.
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
        // SAFETY: restores the top of the stack from when the guard was made.
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
