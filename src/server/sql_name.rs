//! Names of tables and functions given by users, parsed by the server's rules.

use crate::error::{Error, Result};
use crate::server::foreign::list_nth;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Oid};
use std::ffi::{CStr, CString};
use xqueue_core::names::{self, LONGEST_NAME};

const NAMES: &str = "Name a table as in SQL: 'jobs', 'app.jobs', '\"My Jobs\"'.";

/// Finds a table by a name given by a user, parsed like `regclass` input.
pub fn find_table(name: &str) -> Result<Oid> {
    let not_found = || {
        Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            // A name given with quotes is not quoted again.
            match name.contains('"') {
                true => format!("table {name} does not exist"),
                false => format!("table \"{name}\" does not exist"),
            },
        )
        .hint(NAMES)
    };
    refuse_too_long(name)?;
    let names = qualified(name).ok_or_else(not_found)?;
    // SAFETY: the list and the range variable are palloc'ed.
    let oid = unsafe {
        let range = pg_sys::makeRangeVarFromNameList(names);
        pg_sys::RangeVarGetRelidExtended(
            range,
            pg_sys::NoLock as pg_sys::LOCKMODE,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        )
    };
    if oid == Oid::INVALID { Err(not_found()) } else { Ok(oid) }
}

/// Returns the parts of a table's name: schema and table, or only the table.
pub fn parts(name: &str) -> Result<Vec<String>> {
    refuse_too_long(name)?;
    let names = qualified(name).ok_or_else(|| Error::invalid("a name holds a NUL character"))?;
    // SAFETY: a list of String nodes.
    unsafe {
        let part = |index| {
            let node = list_nth::<pg_sys::String>(names, index);
            CStr::from_ptr((*node).sval).to_string_lossy().into_owned()
        };
        Ok((0..(*names).length).map(part).collect())
    }
}

/// Refuses a name in SQL notation that the server would truncate: two different names could then mean the same table.
fn refuse_too_long(name: &str) -> Result<()> {
    match names::longest_part(name) {
        ..=LONGEST_NAME => Ok(()),
        _ => Err(too_long(name)),
    }
}

/// Returns the error for a name that is longer than the server's limit.
pub fn too_long(name: &str) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_NAME_TOO_LONG, format!("the name \"{name}\" is too long"))
        .hint(format!("Names have at most {LONGEST_NAME} bytes; PostgreSQL cuts longer ones off."))
}

fn qualified(name: &str) -> Option<*mut pg_sys::List> {
    let text = CString::new(name).ok()?;
    // SAFETY: the C string outlives the call; a palloc'ed list, or an error of the server's.
    Some(crate::server::context::hinted(
        || NAMES.into(),
        || unsafe {
            #[cfg(feature = "pg15")]
            let names = pg_sys::stringToQualifiedNameList(text.as_ptr());
            #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
            let names = pg_sys::stringToQualifiedNameList(text.as_ptr(), std::ptr::null_mut());
            names
        },
    ))
}
