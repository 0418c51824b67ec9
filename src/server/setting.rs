//! Settings of the server in this session.

use pgrx::pg_sys;
use std::ffi::{CStr, CString};

/// Sets a setting of this session, unless the configuration, the database, the role, the client or the user has set it.
/// A refused value is only logged.
pub fn set_default(name: &CStr, value: u32) {
    let Ok(value) = CString::new(value.to_string()) else { return };
    // SAFETY: both are strings. This level reports a refused value without an error. The source ranks below all others
    // but the built-in default, so RESET returns to this value, and a rollback leaves it.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_DYNAMIC_DEFAULT,
            pg_sys::GucAction::GUC_ACTION_SET,
            true,
            pg_sys::DEBUG1 as i32,
            false,
        );
    }
}
