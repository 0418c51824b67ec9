//! Current, outer and authenticated roles, and temporary changes of role and settings.

use crate::server::raw;
use pgrx::pg_sys::{self, Oid};
use std::ffi::CStr;

/// Returns the current role, whose privileges apply.
pub fn current() -> Oid {
    // SAFETY: reads a backend variable.
    unsafe { raw::GetUserId() }
}

/// Returns the role of the connection, also inside a SECURITY DEFINER function.
pub fn outer() -> Oid {
    // SAFETY: reads a backend variable.
    unsafe { raw::GetOuterUserId() }
}

/// Returns the role that the connection was opened as, even if it has changed roles since.
pub fn authenticated() -> Oid {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::GetAuthenticatedUserId() }
}

/// Makes a role the session user of this process, also for RESET SESSION AUTHORIZATION, so that code that acts for the
/// role cannot see another role. The role need not be able to log in. The server's own record of the authenticated role
/// does not change.
pub fn become_session_of(role: Oid) {
    let name = std::ffi::CString::new(crate::server::catalog::role_name(role)).unwrap_or_default();
    // SAFETY: sets a variable in the same way as the server at connection start, in a transaction; the C strings
    // outlive the call.
    unsafe {
        pg_sys::SetConfigOption(
            c"session_authorization".as_ptr(),
            name.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        )
    }
}

/// Returns whether a role can act as another: it has the other's privileges, or can SET ROLE to it. Since 16 there are
/// members that can do neither.
pub fn may_act_as(member: Oid, role: Oid) -> bool {
    // SAFETY: lookups.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::is_member_of_role(member, role);
        #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
        return pg_sys::has_privs_of_role(member, role)
            || pg_sys::member_can_set_role(member, role);
    }
}

/// Returns whether a role is a superuser.
pub fn is_superuser(role: Oid) -> bool {
    // SAFETY: a lookup.
    unsafe { pg_sys::superuser_arg(role) }
}

/// The origin of the privileges of the running code.
pub enum Rights {
    Own,
    /// Privileges other than the connection's, for example in a SECURITY DEFINER function.
    Borrowed,
    /// Privileges of an owner of objects; the code must not affect the surrounding connection.
    Restricted,
}

pub fn rights() -> Rights {
    // SAFETY: reads a backend variable.
    unsafe {
        match (raw::InSecurityRestrictedOperation(), raw::InLocalUserIdChange()) {
            (true, _) => Rights::Restricted,
            (false, true) => Rights::Borrowed,
            (false, false) => Rights::Own,
        }
    }
}

/// Temporary settings, restored on drop.
pub struct Pinned(i32);

impl Pinned {
    /// Restricts the search path to the catalogs.
    pub fn search_path() -> Pinned {
        Pinned::set(&[(c"search_path", c"pg_catalog, pg_temp")])
    }

    /// Makes the server quote only names that need it.
    pub fn quotes() -> Pinned {
        Pinned::set(&[(c"quote_all_identifiers", c"off")])
    }

    /// Makes a text stand for the same value in every session.
    pub fn formats() -> Pinned {
        Pinned::set(&[
            (c"DateStyle", c"ISO, MDY"),
            (c"IntervalStyle", c"postgres"),
            (c"TimeZone", c"UTC"),
        ])
    }

    fn set(settings: &[(&'static CStr, &'static CStr)]) -> Pinned {
        // SAFETY: a counter of the backend; the C strings are static.
        unsafe {
            let pinned = Pinned(pg_sys::NewGUCNestLevel());
            for (name, value) in settings {
                pg_sys::set_config_option(
                    name.as_ptr(),
                    value.as_ptr(),
                    pg_sys::GucContext::PGC_USERSET,
                    pg_sys::GucSource::PGC_S_SESSION,
                    pg_sys::GucAction::GUC_ACTION_SAVE,
                    true,
                    0,
                    false,
                );
            }
            pinned
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // After an error the end of the transaction restores them; settings must be restored in order.
        if !std::thread::panicking() {
            // SAFETY: ends the GUC level started by this value; all later levels have ended.
            unsafe { pg_sys::AtEOXact_GUC(false, self.0) };
        }
    }
}

/// The previous role, restored on drop.
pub struct RoleGuard {
    role: Oid,
    context: i32,
    _path: Pinned,
}

/// Makes `role` the current one for code that must not affect the surrounding session, such as trigger and index
/// functions. Restricts the search path to the catalogs.
pub fn act_restricted_as(role: Oid) -> RoleGuard {
    let flags = pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION;
    let mut before = RoleGuard { role: Oid::INVALID, context: 0, _path: Pinned::search_path() };
    // SAFETY: plain accessors of the backend's state.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&mut before.role, &mut before.context);
        pg_sys::SetUserIdAndSecContext(role, before.context | flags as i32);
    }
    before
}

/// Acts as a table's owner in the same way, unless that is the current role. Code made by a table's owner thus runs
/// with no privileges other than the owner's.
pub fn act_as_owner(owner: Oid) -> Option<RoleGuard> {
    (current() != owner).then(|| act_restricted_as(owner))
}

impl Drop for RoleGuard {
    fn drop(&mut self) {
        // After an error the end of the transaction restores the role.
        if !std::thread::panicking() {
            // SAFETY: restores the values read in `act_restricted_as`.
            unsafe { pg_sys::SetUserIdAndSecContext(self.role, self.context) };
        }
    }
}
