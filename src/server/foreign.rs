//! Declarations of server functions for which pgrx has no bindings, or only guarded ones although the server needs the
//! function itself.

use super::raw::functions;
use pgrx::pg_sys;
use std::ffi::{c_char, c_int};

/// `STATEMENT_TIMEOUT` of utils/timeout.h, equal in all supported versions.
pub const STATEMENT_TIMEOUT: c_int = 3;

functions! {
    pub fn die(signal: c_int);
    pub fn SignalHandlerForConfigReload(signal: c_int);
    pub fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        text: *const c_char,
        read_only: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        receiver: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

// SAFETY: the declarations match the server's headers; pgrx has no declarations to compare them with. "C-unwind",
// because these functions can raise an error, which callers turn into a panic with `pg_guard_ffi_boundary`.
unsafe extern "C-unwind" {
    pub fn enable_timeout_after(id: c_int, delay_ms: c_int);
    pub fn disable_timeout(id: c_int, keep_indicator: bool);
    pub fn datumCopy(value: pg_sys::Datum, by_value: bool, length: c_int) -> pg_sys::Datum;
    pub fn errhint(format: *const c_char, ...) -> c_int;
    pub fn ExecComputeStoredGenerated(
        target: *mut pg_sys::ResultRelInfo,
        state: *mut pg_sys::EState,
        slot: *mut pg_sys::TupleTableSlot,
        command: pg_sys::CmdType::Type,
    );
    // The binding of pgrx returns, with PostgreSQL 18.
    pub fn ReThrowError(error: *mut pg_sys::ErrorData) -> !;
}

/// Returns an element of a list of pointers.
///
/// # Safety
/// `list` is a list of pointers with more than `index` elements.
pub unsafe fn list_nth<T>(list: *mut pg_sys::List, index: i32) -> *mut T {
    // SAFETY: by the contract of this function.
    unsafe { (*(*list).elements.add(index as usize)).ptr_value.cast() }
}

/// Returns the elements of a list of pointers.
///
/// # Safety
/// `list` is null, or a list of pointers that outlives the iterator.
pub unsafe fn list<T>(list: *mut pg_sys::List) -> impl Iterator<Item = *mut T> {
    // SAFETY: by the contract of this function.
    unsafe {
        let count = list.as_ref().map_or(0, |list| list.length);
        (0..count).map(move |index| list_nth(list, index))
    }
}

/// Returns the type of a column by number; an invalid oid if the column does not exist.
///
/// # Safety
/// `description` is a valid tuple descriptor.
pub unsafe fn column_type(description: pg_sys::TupleDesc, number: i16) -> pg_sys::Oid {
    // SAFETY: by the contract of this function; the number belongs to a column.
    unsafe {
        match 1..=(*description).natts {
            numbers if numbers.contains(&number.into()) => {
                attribute(description, number as usize - 1).atttypid
            }
            _ => pg_sys::Oid::INVALID,
        }
    }
}

/// Returns an attribute of a tuple descriptor; the layout changed with PostgreSQL 18.
///
/// # Safety
/// `description` is a valid tuple descriptor with more than `index` attributes.
pub unsafe fn attribute<'a>(
    description: pg_sys::TupleDesc,
    index: usize,
) -> &'a pg_sys::FormData_pg_attribute {
    // SAFETY: by the contract of this function.
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
    unsafe {
        &*(*description).attrs.as_ptr().add(index)
    }
    // SAFETY: the attributes follow the array of compact attributes.
    #[cfg(feature = "pg18")]
    unsafe {
        let natts = (*description).natts as usize;
        let compact = (*description).compact_attrs.as_ptr().add(natts);
        &*compact.cast::<pg_sys::FormData_pg_attribute>().add(index)
    }
}
