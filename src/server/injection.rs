//! Points at which tests stop a process, which makes races repeatable: the server's own injection points, in builds
//! with the feature `injection_points` for PostgreSQL 18. Other builds have no such points.

use std::ffi::CStr;

#[cfg(all(feature = "injection_points", feature = "pg18"))]
pub fn point(name: &CStr) {
    use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
    use std::ffi::{c_char, c_void};
    use std::ptr::null_mut;

    // SAFETY: the declaration matches utils/injection_point.h; "C-unwind", because it can raise an error, which becomes
    // a panic.
    unsafe extern "C-unwind" {
        fn InjectionPointRun(name: *const c_char, argument: *mut c_void);
    }
    // SAFETY: the name outlives the call; callbacks attached there take no argument.
    unsafe { pg_guard_ffi_boundary(|| InjectionPointRun(name.as_ptr(), null_mut())) }
}

#[cfg(any(
    not(feature = "injection_points"),
    any(feature = "pg15", feature = "pg16", feature = "pg17")
))]
pub fn point(_name: &CStr) {}
