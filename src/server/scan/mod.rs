//! A plan node that calls one of the extension's functions instead of the server's FunctionScan. FunctionScan prepares
//! an expression for each argument and passes a row through a tuplestore: with it a put executes an eighth more
//! instructions. The node reads arguments that are constants or parameters directly; all other calls keep FunctionScan.

mod kept;
mod node;

pub use kept::{Kept, kept, tuple_of};

use crate::server::foreign::{self, list_nth};
use crate::server::raw;
use pgrx::pg_sys::{self, Oid};
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// A C function with the server's calling convention.
pub type Function = unsafe extern "C-unwind" fn(pg_sys::FunctionCallInfo) -> pg_sys::Datum;

static FUNCTIONS: OnceLock<&'static [Function]> = OnceLock::new();
static mut PREVIOUS: pg_sys::set_rel_pathlist_hook_type = None;

/// A table of callbacks for the server, which does not change it.
struct Methods<T>(T);

// SAFETY: it is never written to, and its pointers refer to static data.
unsafe impl<T> Sync for Methods<T> {}

static PATH: Methods<pg_sys::CustomPathMethods> = Methods(pg_sys::CustomPathMethods {
    CustomName: node::NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// Makes the planner use this node for calls of these functions. They return sets of composite values, or of other
/// types passed by reference, through [`crate::server::function::Output`]. Must be called once, while the library is
/// loaded.
pub fn init(functions: &'static [Function]) {
    if FUNCTIONS.set(functions).is_err() {
        return;
    }
    // SAFETY: the methods are static; the previous hook is kept and called.
    unsafe {
        pg_sys::RegisterCustomScanMethods(&raw const node::SCAN.0);
        PREVIOUS = pg_sys::set_rel_pathlist_hook;
        pg_sys::set_rel_pathlist_hook = Some(offer);
    }
}

/// Has no guard for relations that are not calls of the extension's functions.
unsafe extern "C-unwind" fn offer(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    index: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: the arguments come from the planner, and go to the next hook unchanged.
    unsafe {
        if let Some(previous) = PREVIOUS {
            previous(root, relation, index, entry);
        }
        if let Some(call) = only_call(entry)
            && is_simple(call)
        {
            replace_paths(relation, call);
        }
    }
}

/// Returns the call of a range table entry that consists of a single call of a set-returning function.
///
/// # Safety
/// `entry` is a valid range table entry.
unsafe fn only_call(entry: *mut pg_sys::RangeTblEntry) -> Option<*mut pg_sys::FuncExpr> {
    // SAFETY: by the contract of this function; the entry's kind and the tags determine the fields.
    unsafe {
        let entry = &*entry;
        let is_function = entry.rtekind == pg_sys::RTEKind::RTE_FUNCTION && !entry.funcordinality;
        if !is_function || (*entry.functions).length != 1 {
            return None;
        }
        let call = (*list_nth::<pg_sys::RangeTblFunction>(entry.functions, 0)).funcexpr;
        if (*call).type_ != pg_sys::NodeTag::T_FuncExpr {
            return None;
        }
        let call = call.cast::<pg_sys::FuncExpr>();
        (*call).funcretset.then_some(call)
    }
}

/// Returns whether all arguments are constants or parameters of the query, and the function is not built in.
///
/// # Safety
/// `call` is a valid expression.
unsafe fn is_simple(call: *const pg_sys::FuncExpr) -> bool {
    // SAFETY: by the contract of this function; the tags determine the types of the arguments.
    unsafe {
        let mut arguments = foreign::list::<pg_sys::Node>((*call).args);
        u32::from((*call).funcid) >= pg_sys::FirstUnpinnedObjectId
            && arguments.all(|argument| match (*argument).type_ {
                pg_sys::NodeTag::T_Const => true,
                pg_sys::NodeTag::T_Param => {
                    let kind = (*argument.cast::<pg_sys::Param>()).paramkind;
                    kind == pg_sys::ParamKind::PARAM_EXTERN
                }
                _ => false,
            })
    }
}

/// Replaces all other paths of the relation by this node, if the node supports the query.
///
/// # Safety
/// `relation` is the planner's relation for the call, with its paths.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn replace_paths(
    relation: *mut pg_sys::RelOptInfo,
    call: *mut pg_sys::FuncExpr,
) {
    // SAFETY: by the contract of this function. The new path has the cost of the first one, and is allocated in the
    // planner's memory with zeroes for the fields not set.
    unsafe {
        // For a member of a UNION ALL the planner does not report the needed columns, and a relation proved to be empty
        // has another path.
        let is_base = (*relation).reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL;
        let is_lateral = !(*relation).lateral_relids.is_null();
        let Some(before) = (*relation).pathlist.as_ref() else { return };
        let before = &*(*before.elements).ptr_value.cast::<pg_sys::Path>();
        let is_scan = before.pathtype == pg_sys::NodeTag::T_FunctionScan;
        if !is_base || !is_scan || is_lateral || wants_whole_row(relation) {
            return;
        }
        if !is_ours((*call).funcid) {
            return;
        }
        let path = new_node::<pg_sys::CustomPath>(pg_sys::NodeTag::T_CustomPath);
        (*path).path.pathtype = pg_sys::NodeTag::T_CustomScan;
        (*path).path.parent = relation;
        (*path).path.pathtarget = (*relation).reltarget;
        (*path).path.rows = before.rows;
        (*path).path.startup_cost = before.startup_cost;
        (*path).path.total_cost = before.total_cost;
        (*path).flags =
            pg_sys::CUSTOMPATH_SUPPORT_PROJECTION | pg_sys::CUSTOMPATH_SUPPORT_BACKWARD_SCAN;
        (*path).custom_private = list_of(call);
        (*path).methods = &raw const PATH.0;
        (*relation).pathlist = list_of(path);
        (*relation).partial_pathlist = null_mut();
    }
}

/// Returns whether a function is one of the registered ones, under any SQL name. A function that was altered to be
/// strict is left alone.
fn is_ours(function: Oid) -> bool {
    if !crate::server::catalog::is_in_c(function) {
        return false;
    }
    let mut found = pg_sys::FmgrInfo::default();
    // SAFETY: the server fills in the description of the function.
    unsafe { pg_sys::fmgr_info(function, &mut found) };
    let is_found =
        |ours: &Function| found.fn_addr.is_some_and(|address| address as usize == *ours as usize);
    !found.fn_strict && FUNCTIONS.get().is_some_and(|functions| functions.iter().any(is_found))
}

/// Returns whether any expression needs the row as one value; FOR UPDATE of another table needs it too.
///
/// # Safety
/// `relation` is the planner's relation for a function.
unsafe fn wants_whole_row(relation: *const pg_sys::RelOptInfo) -> bool {
    // SAFETY: by the contract of this function; `attr_needed` starts with the column `min_attr`.
    unsafe {
        let relation = &*relation;
        let whole_row = -i32::from(relation.min_attr);
        let mut columns = null_mut();
        for clause in foreign::list::<pg_sys::RestrictInfo>(relation.baserestrictinfo) {
            pg_sys::pull_varattnos((*clause).clause.cast(), relation.relid, &mut columns);
        }
        let first = pg_sys::FirstLowInvalidHeapAttributeNumber;
        !(*relation.attr_needed.add(whole_row as usize)).is_null()
            || pg_sys::bms_is_member(-first, columns)
    }
}

/// Returns the plan of a path: a node with only the used columns.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn plan(
    _root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    targets: *mut pg_sys::List,
    clauses: *mut pg_sys::List,
    _children: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: the arguments come from the planner, and the path was made here.
    unsafe {
        let conditions = pg_sys::extract_actual_clauses(clauses, false);
        let scan = new_node::<pg_sys::CustomScan>(pg_sys::NodeTag::T_CustomScan);
        (*scan).scan.plan.targetlist = targets;
        (*scan).scan.plan.qual = conditions;
        (*scan).flags = (*path).flags;
        (*scan).custom_exprs = (*path).custom_private;
        // The target list can still be empty at this point.
        let wanted = [targets, (*(*relation).reltarget).exprs, conditions];
        (*scan).custom_scan_tlist = columns(wanted);
        (*scan).methods = &raw const node::SCAN.0;
        scan.cast()
    }
}

/// Returns the used columns, each once.
///
/// # Safety
/// `expressions` are lists of expressions.
unsafe fn columns(expressions: [*mut pg_sys::List; 3]) -> *mut pg_sys::List {
    let everywhere = pg_sys::PVC_RECURSE_AGGREGATES
        | pg_sys::PVC_RECURSE_WINDOWFUNCS
        | pg_sys::PVC_RECURSE_PLACEHOLDERS;
    // SAFETY: by the contract of this function.
    unsafe {
        let mut columns = null_mut();
        for expressions in expressions {
            let used = pg_sys::pull_var_clause(expressions.cast(), everywhere as i32);
            columns = pg_sys::add_to_flat_tlist(columns, used);
        }
        columns
    }
}

/// # Safety
/// `element` is a node.
unsafe fn list_of<T>(element: *mut T) -> *mut pg_sys::List {
    // SAFETY: by the contract of this function.
    unsafe { pg_sys::lappend(null_mut(), element.cast()) }
}

/// Returns an empty node.
///
/// # Safety
/// `tag` is the tag of the node `T`, or of the node at the start of `T`.
unsafe fn new_node<T>(tag: pg_sys::NodeTag) -> *mut T {
    // SAFETY: by the contract of this function; every node starts with its tag.
    unsafe {
        let node = raw::palloc0(size_of::<T>()).cast::<pg_sys::Node>();
        (*node).type_ = tag;
        node.cast()
    }
}
