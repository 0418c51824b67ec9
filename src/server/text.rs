//! Strings returned by the server.

use pgrx::pg_sys;
use std::ffi::CStr;

/// # Safety
/// `text` is null or a palloc'ed C string.
pub(super) unsafe fn owned(text: *mut std::ffi::c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the contract of this function.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        pg_sys::pfree(text.cast());
        Some(copy)
    }
}
