//! Expressions of a table: decides which can be kept from one statement to the next, and which are cheap.

use crate::server::catalog;
use crate::server::foreign::{list, list_nth};
use crate::server::index::{self, Stored};
use crate::server::relation::Relation;
use crate::server::types;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::{CStr, c_char};

/// Returns whether an expression calls only functions of the server, or the hash of a sub-queue, and produces no values
/// of domains, composite types or user-defined types. User-defined objects can be replaced, and not all of them survive
/// being kept. The expression is not planned, because planning can fail or need privileges.
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
        list(dependencies).all(|on| is_subqueue(on))
            && !makes_users_values(expression, std::ptr::null_mut())
    }
}

/// Returns whether an expression only looks at the row: it runs no code of a user, whose effects only the end of a
/// subtransaction would undo. The server's functions that run such code, such as `query_to_xml` and the conversions to
/// jsonb, are not immutable.
///
/// # Safety
/// `expression` is a valid expression of the caller's own.
pub unsafe fn only_looks_at_row(expression: *mut pg_sys::Node) -> bool {
    // SAFETY: by the contract of this function.
    unsafe { is_of_the_server(expression) && !pg_sys::contain_mutable_functions(expression) }
}

/// Returns the extension's function that indexes of sub-queues call.
fn subqueue() -> Option<Oid> {
    catalog::internal_function(c"subqueue", &[pg_sys::ANYELEMENTOID])
}

/// # Safety
/// `dependency` is a valid dependency of an expression.
unsafe fn is_subqueue(dependency: *mut pg_sys::PlanInvalItem) -> bool {
    let (cache, none) = (pg_sys::SysCacheIdentifier::PROCOID as i32, Datum::from(0));
    // SAFETY: by the contract of this function. Different functions have different hashes.
    subqueue().is_some_and(|function| unsafe {
        let key = Datum::from(function);
        (*dependency).cacheId == cache
            && (*dependency).hashValue == pg_sys::GetSysCacheHashValue(cache, key, none, none, none)
    })
}

/// Maximum number of nodes of a cheap expression.
const NODES: usize = 200;
/// Maximum number of indexes, and of checks, whose expressions are read.
const READ: usize = 64;

/// Functions that a cheap expression can call in addition to comparisons and the hash of a sub-queue: lengths, and
/// lossless conversions.
const CHEAP: [u32; 18] = [
    pg_sys::F_LENGTH_TEXT,
    pg_sys::F_LENGTH_BPCHAR,
    pg_sys::F_LENGTH_BYTEA,
    pg_sys::F_CHAR_LENGTH_TEXT,
    pg_sys::F_CHAR_LENGTH_BPCHAR,
    pg_sys::F_CHARACTER_LENGTH_TEXT,
    pg_sys::F_CHARACTER_LENGTH_BPCHAR,
    pg_sys::F_OCTET_LENGTH_TEXT,
    pg_sys::F_OCTET_LENGTH_BPCHAR,
    pg_sys::F_OCTET_LENGTH_BYTEA,
    pg_sys::F_TEXT_BPCHAR,
    pg_sys::F_TEXT_CHAR,
    pg_sys::F_INT2_INT4,
    pg_sys::F_INT4_INT2,
    pg_sys::F_INT8_INT2,
    pg_sys::F_INT8_INT4,
    pg_sys::F_FLOAT8_INT4,
    pg_sys::F_NUMERIC_INT4,
];

impl Relation {
    /// Returns whether the table has more indexes or checks than real tables have; reading them all takes long.
    pub fn has_many_expressions(&self) -> bool {
        self.check_count() > READ || self.indexes().len() > READ
    }

    /// Returns whether everything that the table's checks and indexes evaluate is cheap, and all operator classes are
    /// the server's. False for a table with many of them. The expressions are read in their stored form, because the
    /// server would otherwise evaluate constant parts.
    pub fn has_only_cheap_expressions(&self) -> bool {
        // SAFETY: an open table; a newly read expression belongs to the caller.
        unsafe {
            let is_cheap =
                |node: Option<*mut pg_sys::Node>| node.is_some_and(|node| is_cheap(node));
            let mut indexes = self.indexes().into_iter().filter_map(index::stored);
            !self.has_many_expressions()
                && cheap_checks(self.description()).all(is_cheap)
                && indexes
                    .all(|index| index.is_simple && index.expressions.into_iter().all(is_cheap))
        }
    }
}

impl Relation {
    /// Returns the indexes that can refuse a row because of its values when the columns with `is_changed` change. A
    /// changed column with `keeps_length` keeps its length.
    ///
    /// An index that does not contain these columns has already accepted the row, unless a user-defined function that
    /// it calls was replaced since.
    pub fn indexes_that_may_refuse(
        &self,
        is_changed: impl Fn(i16) -> bool,
        keeps_length: impl Fn(i16) -> bool,
    ) -> Vec<Oid> {
        let may_refuse = |oid: &Oid| {
            let index = index::stored(*oid);
            index.is_none_or(|index| self.may_refuse_in(&index, &is_changed, &keeps_length))
        };
        self.indexes().into_iter().filter(may_refuse).collect()
    }

    /// Returns whether a generated column is computed when it is read.
    pub fn has_virtual_columns(&self) -> bool {
        const IS_VIRTUAL: c_char = b'v' as c_char;
        self.described().attributes().any(|column| column.attgenerated == IS_VIRTUAL)
    }

    /// Returns whether a change of the columns with `is_changed` makes the server recompute a stored generated column.
    pub fn computes_columns_of(&self, is_changed: impl Fn(i16) -> bool) -> bool {
        const IS_STORED: c_char = b's' as c_char;
        // SAFETY: an open table, whose descriptor has `num_defval` defaults, each as text; a newly read expression
        // belongs to the caller.
        unsafe {
            let Some(constraints) = (*self.description()).constr.as_ref() else { return false };
            (0..constraints.num_defval as usize).any(|at| {
                let default = &*constraints.defval.add(at);
                let number = default.adnum;
                let mut columns = self.described().attributes();
                let is_stored = |column: &pg_sys::FormData_pg_attribute| {
                    column.attnum == number && column.attgenerated == IS_STORED
                };
                if !columns.any(is_stored) {
                    return false;
                }
                if CStr::from_ptr(default.adbin).count_bytes() > index::STORED {
                    return true;
                }
                let used = columns_of(pg_sys::stringToNode(default.adbin).cast());
                used.into_iter().any(|number| number == 0 || is_changed(number))
            })
        }
    }

    fn may_refuse_in(
        &self,
        index: &Stored,
        is_changed: &impl Fn(i16) -> bool,
        keeps_length: &impl Fn(i16) -> bool,
    ) -> bool {
        let nodes: Option<Vec<_>> = index.expressions.iter().copied().collect();
        let Some(nodes) = nodes else { return true };
        // SAFETY: newly read expressions belong to the caller; 0 stands for the whole row.
        let (is_of_the_server, is_cheap, depends) = unsafe {
            let depends = |node: &*mut pg_sys::Node| {
                columns_of(*node).into_iter().any(|n| n == 0 || is_changed(n))
            };
            (
                nodes.iter().all(|node| is_of_the_server(*node)),
                nodes.iter().all(|node| is_cheap(*node)),
                nodes.iter().any(depends),
            )
        };
        // A row that enters the index can be too long, and a row in it can become too long.
        let has_any_length = |number: i16| {
            let mut columns = self.described().attributes();
            columns.any(|column| column.attnum == number && column.attlen < 0)
        };
        let is_long =
            |number: &i16| *number == 0 || !is_changed(*number) && has_any_length(*number);
        let may_grow = |number: &i16| {
            let mut columns = self.described().attributes();
            let is_fixed = columns
                .any(|column| column.attnum == *number && column.attnotnull && column.attlen > 0);
            is_changed(*number) && !is_fixed && !keeps_length(*number)
        };
        let is_concerned = depends || index.key.iter().any(|number| is_changed(*number));
        !is_of_the_server
            || index.calls_users
            || is_concerned && (index.compares_rows || !is_cheap)
            || (depends || index.columns.iter().any(may_grow)) && index.columns.iter().any(is_long)
    }
}

/// Returns whether an expression is certain to finish quickly, no matter how its owner wrote it. It can contain
/// comparisons of columns and constants, tests for NULL, AND, OR, NOT, IN, and the functions above. Immutable functions
/// of the server in general are not cheap: `xpath` and regular expressions can run for hours without checking for
/// cancellation.
///
/// # Safety
/// `expression` is a valid expression of the caller's own.
unsafe fn is_cheap(expression: *mut pg_sys::Node) -> bool {
    let mut nodes = 0usize;
    // SAFETY: by the contract of this function; `nodes` outlives the walk.
    unsafe { !may_be_costly(expression, (&raw mut nodes).cast()) }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn may_be_costly(
    node: *mut pg_sys::Node,
    context: *mut std::ffi::c_void,
) -> bool {
    use pg_sys::NodeTag;
    if node.is_null() {
        return false;
    }
    // SAFETY: a node of an expression, whose tag determines its type; the context is the number of nodes so far.
    unsafe {
        let nodes = context.cast::<usize>();
        *nodes += 1;
        let is_cheap = match (*node).type_ {
            // Whole rows and system columns are compared in other ways.
            NodeTag::T_Var => (*node.cast::<pg_sys::Var>()).varattno > 0,
            NodeTag::T_OpExpr => compares((*node.cast::<pg_sys::OpExpr>()).opno),
            NodeTag::T_ScalarArrayOpExpr => {
                compares((*node.cast::<pg_sys::ScalarArrayOpExpr>()).opno)
            }
            NodeTag::T_FuncExpr => {
                let call = &*node.cast::<pg_sys::FuncExpr>();
                let is_constant =
                    || (*list_nth::<pg_sys::Node>(call.args, 0)).type_ == NodeTag::T_Const;
                // This conversion to a smaller type fails for a large value, so its argument must be a constant.
                let is_lossy = u32::from(call.funcid) == pg_sys::F_INT2_INT4;
                let is_known = CHEAP.contains(&call.funcid.into());
                (is_known || subqueue() == Some(call.funcid)) && (!is_lossy || is_constant())
            }
            NodeTag::T_NullTest => !(*node.cast::<pg_sys::NullTest>()).argisrow,
            NodeTag::T_Const
            | NodeTag::T_BoolExpr
            | NodeTag::T_BooleanTest
            | NodeTag::T_RelabelType
            | NodeTag::T_ArrayExpr
            // The elements of an array, each relabelled.
            | NodeTag::T_ArrayCoerceExpr
            | NodeTag::T_CaseTestExpr
            | NodeTag::T_List => true,
            _ => false,
        };
        !is_cheap
            || *nodes > NODES
            || pg_sys::expression_tree_walker(node, Some(may_be_costly), context)
    }
}

/// Returns the columns that an expression over a table's row uses; 0 stands for the whole row.
///
/// # Safety
/// `expression` is null, or a valid expression.
pub(super) unsafe fn columns_of(expression: *mut pg_sys::Node) -> Vec<i16> {
    // SAFETY: by the contract of this function; an index expression refers only to its table, number 1.
    unsafe {
        let (mut columns, mut used, mut member) = (Vec::new(), std::ptr::null_mut(), -1);
        pg_sys::pull_varattnos(expression, 1, &mut used);
        loop {
            member = pg_sys::bms_next_member(used, member);
            if member < 0 {
                return columns;
            }
            columns.push((member + pg_sys::FirstLowInvalidHeapAttributeNumber) as i16);
        }
    }
}

/// Returns whether an operator is the server's own and compares two values in the manner of a btree.
fn compares(operator: Oid) -> bool {
    // SAFETY: lookups; null, or a list.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
        let families = pg_sys::get_op_btree_interpretation(operator);
        #[cfg(feature = "pg18")]
        let families = pg_sys::get_op_index_interpretation(operator);
        u32::from(operator) < pg_sys::FirstNormalObjectId && !families.is_null()
    }
}

/// Expressions that look up their coercions, and users' casts, during execution.
#[cfg(feature = "pg15")]
const COERCING: [pg_sys::NodeTag; 0] = [];
#[cfg(feature = "pg16")]
const COERCING: [pg_sys::NodeTag; 1] = [pg_sys::NodeTag::T_JsonConstructorExpr];
#[cfg(any(feature = "pg17", feature = "pg18"))]
const COERCING: [pg_sys::NodeTag; 2] =
    [pg_sys::NodeTag::T_JsonConstructorExpr, pg_sys::NodeTag::T_JsonExpr];

/// Returns whether an expression produces values of types that users define.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn makes_users_values(
    node: *mut pg_sys::Node,
    context: *mut std::ffi::c_void,
) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: a node of an expression, whose tag determines its type.
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
            tag if COERCING.contains(&tag) => return true,
            _ => Oid::INVALID,
        };
        let element = pg_sys::get_element_type(result);
        let base = if element == Oid::INVALID { result } else { element };
        types::has_parts_or_checks(base)
            || types::is_made_by_users(base)
            || pg_sys::expression_tree_walker(node, Some(makes_users_values), context)
    }
}

/// Returns the check constraints of a table as expressions.
///
/// # Safety
/// `description` belongs to an open table.
pub unsafe fn checks(description: pg_sys::TupleDesc) -> impl Iterator<Item = *mut pg_sys::Node> {
    // SAFETY: by the contract of this function; each check is an expression as text.
    unsafe { stored_checks(description).map(|check| pg_sys::stringToNode(check).cast()) }
}

/// Returns the check constraints of a table; None for a check that is too long to be cheap.
///
/// # Safety
/// `description` belongs to an open table.
unsafe fn cheap_checks(
    description: pg_sys::TupleDesc,
) -> impl Iterator<Item = Option<*mut pg_sys::Node>> {
    // SAFETY: by the contract of this function; a text that ends with NUL.
    unsafe {
        stored_checks(description).map(|check| {
            let is_short = CStr::from_ptr(check).count_bytes() <= index::STORED;
            is_short.then(|| pg_sys::stringToNode(check).cast())
        })
    }
}

/// # Safety
/// `description` belongs to an open table.
unsafe fn stored_checks(description: pg_sys::TupleDesc) -> impl Iterator<Item = *mut c_char> {
    // SAFETY: null, or a descriptor with `num_check` checks, each as text.
    unsafe {
        let constraints = (*description).constr.as_ref();
        let count = constraints.map_or(0, |constraints| constraints.num_check as usize);
        (0..count).filter_map(move |index| Some((*constraints?.check.add(index)).ccbin))
    }
}
