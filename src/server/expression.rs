//! Expressions of a table: which of them can be kept from one statement to the next.

use crate::server::relation::Relation;
use crate::server::{index, types};
use pgrx::pg_sys::{self, Oid};

/// Returns whether an expression calls only functions of the server's own and makes no values of domains, composite
/// types and other types of users. What users define may be replaced, and is not always made to be kept. It is looked at
/// as it is: to plan it may fail, or need rights.
///
/// # Safety
/// `expression` is a valid expression of the caller's own.
pub unsafe fn is_of_the_server(expression: *mut pg_sys::Node) -> bool {
    let (mut tables, mut dependencies) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut has_row_security = false;
    // SAFETY: by the contract of this function.
    unsafe {
        pg_sys::extract_query_dependencies(
            expression,
            &mut tables,
            &mut dependencies,
            &mut has_row_security,
        );
        dependencies.is_null() && !makes_users_values(expression, std::ptr::null_mut())
    }
}

impl Relation {
    /// Returns whether all that the table's checks, and its indexes, call are immutable functions of the server's
    /// own, those of operator classes among them. They are read as they are stored: the server would compute what it
    /// takes for constant.
    pub fn has_only_harmless_expressions(&self) -> bool {
        // SAFETY: an open table; an expression that was just read is the caller's own.
        unsafe {
            let is_harmless = |node: *mut pg_sys::Node| {
                is_of_the_server(node) && !pg_sys::contain_mutable_functions(node)
            };
            let mut indexes = self.indexes().into_iter().filter_map(index::stored);
            checks(self.description()).all(is_harmless)
                && indexes.all(|index| {
                    index.is_of_the_server && index.expressions.into_iter().all(is_harmless)
                })
        }
    }
}

/// Returns whether an expression makes values of types that users define of others.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn makes_users_values(
    node: *mut pg_sys::Node,
    context: *mut std::ffi::c_void,
) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: a node of an expression, whose tag says what it is.
    unsafe {
        let result = match (*node).type_ {
            pg_sys::NodeTag::T_FuncExpr => (*node.cast::<pg_sys::FuncExpr>()).funcresulttype,
            pg_sys::NodeTag::T_OpExpr => (*node.cast::<pg_sys::OpExpr>()).opresulttype,
            pg_sys::NodeTag::T_Const => (*node.cast::<pg_sys::Const>()).consttype,
            pg_sys::NodeTag::T_CoerceViaIO => (*node.cast::<pg_sys::CoerceViaIO>()).resulttype,
            pg_sys::NodeTag::T_ArrayCoerceExpr => {
                (*node.cast::<pg_sys::ArrayCoerceExpr>()).resulttype
            }
            pg_sys::NodeTag::T_CoerceToDomain | pg_sys::NodeTag::T_RowExpr => return true,
            // These find their coercions, and users' casts, while they run.
            #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
            pg_sys::NodeTag::T_JsonConstructorExpr => return true,
            #[cfg(any(feature = "pg17", feature = "pg18"))]
            pg_sys::NodeTag::T_JsonExpr => return true,
            _ => Oid::INVALID,
        };
        let element = pg_sys::get_element_type(result);
        let base = if element == Oid::INVALID { result } else { element };
        types::has_parts_or_checks(base)
            || types::is_made_by_users(base)
            || pg_sys::expression_tree_walker(node, Some(makes_users_values), context)
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
