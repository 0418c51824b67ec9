//! What an error of the server's own lacks: the next step.

use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use std::ffi::{CString, c_void};

/// Runs `work`; an error about data (SQLSTATE class 22, a missing value, a name that cannot be)
/// raised in it gets `hint` as its HINT. All else of the error stays as it is, the name of a
/// constraint for example.
pub fn hinted<T>(hint: impl Fn() -> String, work: impl FnOnce() -> T) -> T {
    watched(Hint { text: &hint, of: Kind::Data }, work)
}

/// The same for the error that a function does not exist.
pub fn hinted_if_undefined<T>(hint: impl Fn() -> String, work: impl FnOnce() -> T) -> T {
    watched(Hint { text: &hint, of: Kind::Undefined }, work)
}

fn watched<T>(hint: Hint, work: impl FnOnce() -> T) -> T {
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
    of: Kind,
}

/// The errors that a hint is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Undefined,
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
    use pg_sys::errcodes::PgSqlErrorCode as Code;
    const CLASS: i32 = 0xfff;
    const OTHER_DATA: [i32; 4] = [
        Code::ERRCODE_INVALID_NAME as i32,
        Code::ERRCODE_DUPLICATE_COLUMN as i32,
        Code::ERRCODE_DUPLICATE_TABLE as i32,
        Code::ERRCODE_NOT_NULL_VIOLATION as i32,
    ];
    // SAFETY: called while an error is being reported; the hint outlives that.
    unsafe {
        let (code, hint) = (pg_sys::geterrcode(), &*hint.cast::<Hint>());
        let is_data = code & CLASS == Code::ERRCODE_DATA_EXCEPTION as i32 & CLASS;
        let applies = match hint.of {
            Kind::Data => is_data || OTHER_DATA.contains(&code),
            Kind::Undefined => code == Code::ERRCODE_UNDEFINED_FUNCTION as i32,
        };
        if applies {
            let hint = (hint.text)();
            let hint = CString::new(hint).unwrap_or_default();
            pg_guard_ffi_boundary(|| {
                crate::server::foreign::errhint(c"%s".as_ptr(), hint.as_ptr())
            });
        }
    }
}
