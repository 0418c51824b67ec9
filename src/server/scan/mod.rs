//! A plan's node that calls one of this extension's functions, in the place of the server's FunctionScan,
//! which prepares an expression for each argument and carries a row through a tuplestore: a put takes an
//! eighth more instructions that way. Arguments that are constants or parameters are read as they are; for all
//! other calls FunctionScan stays.

mod kept;
mod node;

pub use kept::{Kept, kept, tuple_of};

use crate::server::foreign::{self, list_nth};
use crate::server::raw;
use pgrx::pg_sys::{self, Oid};
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// A function in C as the server calls it.
pub type Function = unsafe extern "C-unwind" fn(pg_sys::FunctionCallInfo) -> pg_sys::Datum;

static FUNCTIONS: OnceLock<&'static [Function]> = OnceLock::new();
static mut PREVIOUS: pg_sys::set_rel_pathlist_hook_type = None;

/// A table of functions for the server, which changes nothing in it.
struct Methods<T>(T);

// SAFETY: it is never written to, and its pointers are to static data.
unsafe impl<T> Sync for Methods<T> {}

static PATH: Methods<pg_sys::CustomPathMethods> = Methods(pg_sys::CustomPathMethods {
    CustomName: node::NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// Has calls of these functions planned with this node. They give back sets of composite values or of
/// others that are passed by reference, through [`crate::server::function::Output`]. To be called once, while the
/// library is loaded.
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

/// Not guarded for what is none of ours.
unsafe extern "C-unwind" fn offer(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    index: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: the arguments are the planner's, and go to the next hook as they are.
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

/// The call that a range table's entry is, if it is nothing but that, of a function that gives a set.
///
/// # Safety
/// `entry` is a valid entry of a range table.
unsafe fn only_call(entry: *mut pg_sys::RangeTblEntry) -> Option<*mut pg_sys::FuncExpr> {
    // SAFETY: by the contract of this function; the entry's kind and the tags say what there is.
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

/// Returns whether all arguments are constants or parameters of the query, and the function is no built-in.
///
/// # Safety
/// `call` is a valid expression.
unsafe fn is_simple(call: *const pg_sys::FuncExpr) -> bool {
    // SAFETY: by the contract of this function; the tags say what the arguments are.
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

/// Puts this node in the place of all other ways to read the relation, if it can do what is asked.
///
/// # Safety
/// `relation` is the planner's for the call, with its paths.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn replace_paths(
    relation: *mut pg_sys::RelOptInfo,
    call: *mut pg_sys::FuncExpr,
) {
    // SAFETY: by the contract of this function. The new path costs what the first one would, and lies
    // in the planner's memory, empty where nothing is said.
    unsafe {
        // Of a part of a UNION ALL the planner does not say which columns are wanted, and what it has
        // proved to be empty has another path.
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

/// Returns whether a function is one of those that were named at the start, whatever it is called in SQL. One
/// that was made strict by hand is left alone.
fn is_ours(function: Oid) -> bool {
    if !crate::server::catalog::is_in_c(function) {
        return false;
    }
    let mut found = pg_sys::FmgrInfo::default();
    // SAFETY: the server fills in what it knows of the function.
    unsafe { pg_sys::fmgr_info(function, &mut found) };
    let is_found =
        |ours: &Function| found.fn_addr.is_some_and(|address| address as usize == *ours as usize);
    !found.fn_strict && FUNCTIONS.get().is_some_and(|functions| functions.iter().any(is_found))
}

/// Returns whether somewhere the row is wanted as one value: FOR UPDATE of another table wants it too.
///
/// # Safety
/// `relation` is the planner's for a function.
unsafe fn wants_whole_row(relation: *const pg_sys::RelOptInfo) -> bool {
    // SAFETY: by the contract of this function; `attr_needed` begins with the column `min_attr`.
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

/// The plan of a path: a node with just those columns that are used.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn plan(
    _root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    targets: *mut pg_sys::List,
    clauses: *mut pg_sys::List,
    _children: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: the arguments are the planner's, the path is one of ours.
    unsafe {
        let conditions = pg_sys::extract_actual_clauses(clauses, false);
        let scan = new_node::<pg_sys::CustomScan>(pg_sys::NodeTag::T_CustomScan);
        (*scan).scan.plan.targetlist = targets;
        (*scan).scan.plan.qual = conditions;
        (*scan).flags = (*path).flags;
        (*scan).custom_exprs = (*path).custom_private;
        // The list of targets may be empty as yet.
        let wanted = [targets, (*(*relation).reltarget).exprs, conditions];
        (*scan).custom_scan_tlist = columns(wanted);
        (*scan).methods = &raw const node::SCAN.0;
        scan.cast()
    }
}

/// The columns that are used, each once.
///
/// # Safety
/// They are lists of expressions.
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

/// An empty node.
///
/// # Safety
/// `tag` is that of the node `T`, or of what `T` begins with.
unsafe fn new_node<T>(tag: pg_sys::NodeTag) -> *mut T {
    // SAFETY: by the contract of this function; every node begins with its tag.
    unsafe {
        let node = raw::palloc0(size_of::<T>()).cast::<pg_sys::Node>();
        (*node).type_ = tag;
        node.cast()
    }
}
