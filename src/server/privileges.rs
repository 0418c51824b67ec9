//! Privileges of the current role.

use crate::server::{catalog, raw, user};
use pgrx::pg_sys::{self, Oid};

/// Returns whether the current role owns a table; false for a dropped table.
pub fn owns(table: Oid) -> bool {
    catalog::owner_of(table).is_some_and(has_role)
}

/// Returns whether the current role owns a database; false for a dropped database.
pub fn owns_database(database: Oid) -> bool {
    catalog::owner_of_database(database).is_some_and(has_role)
}

/// The server's own functions for ownership raise internal errors for objects that another session drops meanwhile.
fn has_role(owner: Oid) -> bool {
    // SAFETY: lookups.
    unsafe { pg_sys::has_privs_of_role(raw::GetUserId(), owner) }
}

pub fn may_create_database() -> bool {
    // SAFETY: a lookup.
    unsafe { pg_sys::have_createdb_privilege() }
}

/// Returns whether the current role can read the table.
pub fn may_select(table: Oid) -> bool {
    has_privilege(table, pg_sys::ACL_SELECT)
}

/// Returns whether the current role is allowed to learn numbers of rows by their values: it can read the whole table,
/// and row security hides no row from it.
pub fn may_monitor(table: Oid) -> bool {
    may_select(table) && !catalog::hides_rows(table, user::current())
}

/// Returns whether the current role can truncate a table.
pub fn may_truncate(table: Oid) -> bool {
    has_privilege(table, pg_sys::ACL_TRUNCATE)
}

/// Returns whether the current role can read all columns of a table, and insert.
pub fn may_insert_all(table: Oid) -> bool {
    has_all(table, pg_sys::ACL_SELECT | pg_sys::ACL_INSERT)
}

/// Returns whether the current role can read all columns of a table, and update.
pub fn may_update_all(table: Oid) -> bool {
    has_all(table, pg_sys::ACL_SELECT | pg_sys::ACL_UPDATE)
}

/// Returns whether the current role can read all columns of a table, and delete.
pub fn may_delete_all(table: Oid) -> bool {
    has_all(table, pg_sys::ACL_SELECT | pg_sys::ACL_DELETE)
}

/// Returns whether the current role has a privilege to change a table, or some of its columns.
pub fn may_change(table: Oid) -> bool {
    may_some(table, pg_sys::ACL_INSERT | pg_sys::ACL_UPDATE | pg_sys::ACL_DELETE)
}

/// Returns whether the current role has any privilege on the data of a table, or on some of its columns.
pub fn may_touch(table: Oid) -> bool {
    let reads = pg_sys::ACL_SELECT | pg_sys::ACL_TRUNCATE;
    may_some(table, reads | pg_sys::ACL_INSERT | pg_sys::ACL_UPDATE | pg_sys::ACL_DELETE)
}

/// Returns whether the current role can read and update a table, or some of its columns.
pub fn may_update(table: Oid) -> bool {
    may_some(table, pg_sys::ACL_SELECT) && may_some(table, pg_sys::ACL_UPDATE)
}

/// Returns whether the current role can insert into a table, or into some of its columns.
pub fn may_insert(table: Oid) -> bool {
    may_some(table, pg_sys::ACL_INSERT)
}

fn has_all(table: Oid, privileges: u32) -> bool {
    let (mask, how) = (privileges as pg_sys::AclMode, pg_sys::AclMaskHow::ACLMASK_ALL);
    // SAFETY: lookups; the caller's lock keeps the table.
    unsafe { pg_sys::pg_class_aclmask(table, raw::GetUserId(), mask, how) == mask }
}

fn has_privilege(table: Oid, privilege: u32) -> bool {
    // SAFETY: lookups.
    unsafe {
        let (role, mode) = (raw::GetUserId(), privilege as pg_sys::AclMode);
        let mut is_missing = false;
        pg_sys::pg_class_aclcheck_ext(table, role, mode, &mut is_missing)
            == pg_sys::AclResult::ACLCHECK_OK
    }
}

fn may_some(table: Oid, any: u32) -> bool {
    let (ok, mode) = (pg_sys::AclResult::ACLCHECK_OK, any as pg_sys::AclMode);
    let mut is_missing = false;
    // SAFETY: lookups.
    unsafe {
        let role = raw::GetUserId();
        if pg_sys::pg_class_aclcheck_ext(table, role, mode, &mut is_missing) == ok || is_missing {
            return true;
        }
        let any = pg_sys::AclMaskHow::ACLMASK_ANY;
        // That of 15 raises no error for a missing table.
        #[cfg(feature = "pg15")]
        let columns = pg_sys::pg_attribute_aclcheck_all(table, role, mode, any);
        #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
        let columns =
            pg_sys::pg_attribute_aclcheck_all_ext(table, role, mode, any, &mut is_missing);
        columns == ok || is_missing
    }
}
