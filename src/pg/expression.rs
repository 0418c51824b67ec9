//! Expressions of a table: which of them can be kept from one statement to the next.

use pgrx::pg_sys;

/// Whether an expression calls only functions of the server's own and knows no domains. What users
/// define may be replaced, and is not always made to be kept.
///
/// # Safety
/// `expression` is a valid expression of the caller's own.
pub unsafe fn is_of_the_server(expression: *mut pg_sys::Node) -> bool {
    let (mut tables, mut dependencies) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut has_row_security = false;
    // SAFETY: by the contract of this function. Domains are found only when it is planned.
    unsafe {
        pg_sys::extract_query_dependencies(
            expression,
            &mut tables,
            &mut dependencies,
            &mut has_row_security,
        );
        if !dependencies.is_null() {
            return false;
        }
        let planned = pg_sys::GetCachedExpression(expression);
        let has_none = (*planned).invalItems.is_null();
        pg_sys::FreeCachedExpression(planned);
        has_none
    }
}

/// The conditions that the rows of a table have to meet.
///
/// # Safety
/// `description` is that of an open table.
pub unsafe fn checks(description: pg_sys::TupleDesc) -> impl Iterator<Item = *mut pg_sys::Node> {
    // SAFETY: null, or a description of as many checks as it says, each as text.
    unsafe {
        let constraints = (*description).constr.as_ref();
        let count = constraints.map_or(0, |constraints| constraints.num_check as usize);
        (0..count).filter_map(move |index| {
            let check = constraints?.check.add(index);
            Some(pg_sys::stringToNode((*check).ccbin).cast())
        })
    }
}
