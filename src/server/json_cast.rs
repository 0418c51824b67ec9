//! Casts to json of types that users define. The server's conversion to jsonb calls them, with the rights of whoever
//! converts.

use crate::server::row_type::RowType;
use crate::server::{catalog, types, user};
use pgrx::pg_sys::{self, Oid};
use std::collections::HashSet;

/// What a conversion to jsonb calls: the worst of it, if it is several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Calls {
    Nothing,
    /// Functions of superusers or of the current role.
    Trusted,
    /// A function of another role.
    Foreign,
}

/// Returns what converting a value of a type calls, as things are now: casts are made at any time.
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

/// Returns the type that remains of a type without its domains and arrays, which never changes.
pub fn element(oid: Oid) -> Oid {
    let base = types::base_type(oid);
    types::element_type(base).map_or(base, element)
}

/// Returns whether users have defined a type.
pub fn is_of_users(oid: Oid) -> bool {
    u32::from(oid) >= pg_sys::FirstNormalObjectId
}

/// Columns are added to composite types at any time.
fn is_row(oid: Oid) -> bool {
    is_of_users(oid) && types::is_composite(oid)
}

fn calls_of_simple(oid: Oid) -> Calls {
    if !is_of_users(oid) {
        return Calls::Nothing;
    }
    let mut function = Oid::INVALID;
    let explicit = pg_sys::CoercionContext::COERCION_EXPLICIT;
    // SAFETY: a look-up, as the conversion makes it; the function is written.
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
