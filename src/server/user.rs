//! Acting as another role for a while.

use crate::server::raw;
use pgrx::pg_sys::{self, Oid};
use std::ffi::CStr;

/// The role whose rights count just now.
pub fn current() -> Oid {
    // SAFETY: reads a backend variable.
    unsafe { raw::GetUserId() }
}

/// The role that the connection acts as, also inside a function that acts as its owner.
pub fn outer() -> Oid {
    // SAFETY: reads a backend variable.
    unsafe { raw::GetOuterUserId() }
}

/// The role that the connection was opened as, whatever it acts as now.
pub fn authenticated() -> Oid {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::GetAuthenticatedUserId() }
}

/// Makes a role the one that this process has connected as, also for RESET SESSION AUTHORIZATION: code that acts for
/// the role learns of no other. It may be one that cannot log in. The server's own record of who was authenticated
/// stays.
pub fn become_session_of(role: Oid) {
    let name = std::ffi::CString::new(crate::server::catalog::role_name(role)).unwrap_or_default();
    // SAFETY: sets a variable as the server does when a connection begins, in a transaction; the C strings outlive the
    // call.
    unsafe {
        pg_sys::SetConfigOption(
            c"session_authorization".as_ptr(),
            name.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        )
    }
}

/// Returns whether a role is a member of another, or that role itself.
pub fn is_member(member: Oid, role: Oid) -> bool {
    // SAFETY: a look-up.
    unsafe { pg_sys::is_member_of_role(member, role) }
}

/// Superusers are members of any role, also of one that there is not.
pub fn is_superuser(role: Oid) -> bool {
    is_member(role, Oid::INVALID)
}

/// Whose rights what runs has.
pub enum Rights {
    Own,
    /// Others than the connection's, as in a SECURITY DEFINER function.
    Borrowed,
    /// It acts for an owner of objects, and must not reach the connection around it.
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

/// Settings that hold until it is dropped.
pub struct Pinned(i32);

impl Pinned {
    /// Nothing but the catalogue is in the search path.
    pub fn search_path() -> Pinned {
        Pinned::set(&[(c"search_path", c"pg_catalog, pg_temp")])
    }

    /// A text means the same value in every session.
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
        // On an error the end of the transaction restores them, and settings may only be touched in order.
        if !std::thread::panicking() {
            // SAFETY: ends the level that was begun, of which the later ones are over.
            unsafe { pg_sys::AtEOXact_GUC(false, self.0) };
        }
    }
}

/// The role in force before, restored on drop.
pub struct RoleGuard {
    role: Oid,
    context: i32,
    _path: Pinned,
}

/// Makes `role` the current one, as for a trigger or index function that must not reach the
/// session around it, with nothing but the catalogue in the search path.
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

/// The same for a table's owner, unless the current role is that one: what a table's owner has made runs with the
/// rights of no other role than those that it has already.
pub fn act_as_owner(owner: Oid) -> Option<RoleGuard> {
    (current() != owner).then(|| act_restricted_as(owner))
}

impl Drop for RoleGuard {
    fn drop(&mut self) {
        // On an error the end of the transaction restores it.
        if !std::thread::panicking() {
            // SAFETY: restores what was read in `act_restricted_as`.
            unsafe { pg_sys::SetUserIdAndSecContext(self.role, self.context) };
        }
    }
}
