//! Casts of user-defined types to json. The server's conversion to jsonb calls them with the rights of the role that
//! converts.

use crate::server::row_type::RowType;
use crate::server::{catalog, types, user};
use pgrx::pg_sys::{self, Oid};
use std::collections::HashSet;

/// The code that a conversion to jsonb calls; the least trusted if it calls several functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Calls {
    Nothing,
    /// Functions of superusers or of the current role.
    Trusted,
    /// A function of another role.
    Foreign,
}

/// Returns the code that converting a value of a type calls. Casts can be created at any time, so the result is valid
/// only now.
pub fn calls(oid: Oid) -> Calls {
    let oid = element(oid);
    if !is_row(oid) {
        return calls_of_simple(oid);
    }
    let (mut seen, mut left, mut worst) = (HashSet::from([oid]), vec![oid], Calls::Nothing);
    while let Some(oid) = left.pop() {
        if is_row(oid) {
            let parts: Vec<Oid> = RowType::of(oid).map_or(vec![], |row| row.types().collect());
            left.extend(parts.into_iter().map(element).filter(|part| seen.insert(*part)));
        } else {
            worst = worst.max(calls_of_simple(oid));
        }
    }
    worst
}

/// Returns a type stripped of domains and arrays, which never changes.
pub fn element(oid: Oid) -> Oid {
    let base = types::base_type(oid);
    types::element_type(base).map_or(base, element)
}

/// Returns whether a type is defined by users.
pub fn is_of_users(oid: Oid) -> bool {
    u32::from(oid) >= pg_sys::FirstNormalObjectId
}

/// Returns whether a type is composite and user-defined; such a type can get new columns at any time.
fn is_row(oid: Oid) -> bool {
    is_of_users(oid) && types::is_composite(oid)
}

fn calls_of_simple(oid: Oid) -> Calls {
    if !is_of_users(oid) {
        return Calls::Nothing;
    }
    let mut function = Oid::INVALID;
    let explicit = pg_sys::CoercionContext::COERCION_EXPLICIT;
    // SAFETY: the same lookup as in the conversion; it fills in `function`.
    let path = unsafe { pg_sys::find_coercion_pathway(types::JSON, oid, explicit, &mut function) };
    if path != pg_sys::CoercionPathType::COERCION_PATH_FUNC || function == Oid::INVALID {
        return Calls::Nothing;
    }
    let is_trusted = |owner| owner == user::current() || user::is_superuser(owner);
    match catalog::owner_of_function(function).is_some_and(is_trusted) {
        true => Calls::Trusted,
        false => Calls::Foreign,
    }
}
