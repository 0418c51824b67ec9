//! Execution of the plan node. The code that runs for each call and row has no guards: they would cost time, and errors
//! would lose their CONTEXT. It calls the server's functions directly, and has nothing to drop.

use crate::server::foreign::{attribute, list, list_nth};
use crate::server::row_type::outdated;
use crate::server::scan::kept::{Kept, KeptRow, tuple_of};
use crate::server::scan::{Methods, new_node};
use crate::server::{raw, types};
use pgrx::pg_sys::{self, Datum};
use std::ffi::CStr;
use std::mem::size_of;

pub const NAME: &CStr = c"xqueue";

pub static SCAN: Methods<pg_sys::CustomScanMethods> = Methods(pg_sys::CustomScanMethods {
    CustomName: NAME.as_ptr(),
    CreateCustomScanState: Some(create),
});

static EXECUTION: Methods<pg_sys::CustomExecMethods> = Methods(pg_sys::CustomExecMethods {
    CustomName: NAME.as_ptr(),
    BeginCustomScan: Some(begin),
    ExecCustomScan: Some(execute),
    EndCustomScan: Some(end),
    ReScanCustomScan: Some(rescan),
    MarkPosCustomScan: None,
    RestrPosCustomScan: None,
    EstimateDSMCustomScan: None,
    InitializeDSMCustomScan: None,
    ReInitializeDSMCustomScan: None,
    InitializeWorkerCustomScan: None,
    ShutdownCustomScan: None,
    ExplainCustomScan: Some(explain),
});

/// The node's state: the server's structure, followed by the extension's fields.
#[repr(C)]
struct Scan {
    node: pg_sys::CustomScanState,
    function: pg_sys::FmgrInfo,
    result: Kept,
    was_called: bool,
    /// Space for a row's values.
    values: *mut Datum,
    nulls: *mut bool,
}

impl Scan {
    /// # Safety
    /// `scan` is the state of this extension's node.
    unsafe fn plan(scan: *const Scan) -> *const pg_sys::CustomScan {
        // SAFETY: by the contract of this function.
        unsafe { (*scan).node.ss.ps.plan.cast() }
    }

    /// # Safety
    /// `scan` is the state of this extension's node.
    unsafe fn call(scan: *const Scan) -> *mut pg_sys::FuncExpr {
        // SAFETY: the planner has stored the call there.
        unsafe { list_nth((*Scan::plan(scan)).custom_exprs, 0) }
    }
}

unsafe extern "C-unwind" fn create(_plan: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    // SAFETY: the state starts with the server's structure; all fields except the methods are zero.
    unsafe {
        let scan = new_node::<Scan>(pg_sys::NodeTag::T_CustomScanState);
        (*scan).node.methods = &raw const EXECUTION.0;
        scan.cast()
    }
}

/// Checks that the role has the privilege to call the function, at the same point as the server.
unsafe extern "C-unwind" fn begin(
    node: *mut pg_sys::CustomScanState,
    _state: *mut pg_sys::EState,
    _flags: i32,
) {
    let scan = node.cast::<Scan>();
    // SAFETY: the node was created here.
    unsafe {
        let function = (*Scan::call(scan)).funcid;
        raw::require_execute(function);
        let memory = (*(*node).ss.ps.state).es_query_cxt;
        raw::fmgr_info_cxt(function, &mut (*scan).function, memory);
        (*scan).function.fn_expr = Scan::call(scan).cast();
    }
}

unsafe extern "C-unwind" fn execute(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the node was created here; the server evaluates conditions and projection.
    unsafe { raw::ExecScan(&mut (*node).ss, Some(next), Some(recheck)) }
}

unsafe extern "C-unwind" fn recheck(
    _node: *mut pg_sys::ScanState,
    _slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    true
}

/// Returns the next row, or an empty slot.
unsafe extern "C-unwind" fn next(node: *mut pg_sys::ScanState) -> *mut pg_sys::TupleTableSlot {
    let scan = node.cast::<Scan>();
    // SAFETY: the node was created here, and its slot has as many columns as the plan's target list.
    unsafe {
        if !(*scan).was_called {
            (*scan).was_called = true;
            call(scan);
        }
        let slot = (*node).ss_ScanTupleSlot;
        raw::clear(slot);
        let direction = (*(*node).ps.state).es_direction;
        let back = direction == pg_sys::ScanDirection::BackwardScanDirection;
        let description = (*scan).result.description();
        let mut value;
        let mut not_null = false;
        let (values, nulls) = match (*scan).result.next(back) {
            None => return slot,
            Some(KeptRow::Slot(stored)) => ((*stored).tts_values, (*stored).tts_isnull),
            Some(KeptRow::Value(row)) if description.is_null() => {
                value = Datum::from(row);
                (&raw mut value, &raw mut not_null)
            }
            Some(KeptRow::Value(row)) => {
                let mut tuple = tuple_of(row);
                raw::heap_deform_tuple(&mut tuple, description, (*scan).values, (*scan).nulls);
                ((*scan).values, (*scan).nulls)
            }
        };
        let columns = (*Scan::plan(scan)).custom_scan_tlist;
        for (place, target) in list::<pg_sys::TargetEntry>(columns).enumerate() {
            let number = (*(*target).expr.cast::<pg_sys::Var>()).varattno as usize;
            *(*slot).tts_values.add(place) = *values.add(number.wrapping_sub(1));
            *(*slot).tts_isnull.add(place) = *nulls.add(number.wrapping_sub(1));
        }
        raw::ExecStoreVirtualTuple(slot)
    }
}

/// Calls the function and keeps its rows.
///
/// # Safety
/// `scan` is the state of this extension's node, after `begin`.
unsafe fn call(scan: *mut Scan) {
    // SAFETY: by the contract of this function. Allocations made here live as long as the query, those of the function
    // until the next row.
    unsafe {
        let state = (*scan).node.ss.ps.state;
        let context = (*scan).node.ss.ps.ps_ExprContext;
        let memory = (*state).es_query_cxt;
        let before = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = memory;
        let expression = &*Scan::call(scan);
        let arguments = expression.args;
        let count = arguments.as_ref().map_or(0, |list| list.length) as usize;
        let size = size_of::<pg_sys::FunctionCallInfoBaseData>()
            + count * size_of::<pg_sys::NullableDatum>();
        let info = raw::palloc0(size).cast::<pg_sys::FunctionCallInfoBaseData>();
        (*info).flinfo = &mut (*scan).function;
        (*info).fncollation = expression.inputcollid;
        (*info).nargs = count as i16;
        (*info).resultinfo = (&raw mut (*scan).result).cast();
        for (index, argument) in list::<pg_sys::Node>(arguments).enumerate() {
            *(*info).args.as_mut_ptr().add(index) = value(scan, argument);
        }
        let description = columns(scan, expression.funcresulttype);
        (*scan).result.begin(description, context, memory);
        pg_sys::CurrentMemoryContext = (*context).ecxt_per_tuple_memory;
        let mut usage = pg_sys::PgStat_FunctionCallUsage::default();
        raw::pgstat_init_function_usage(info, &mut usage);
        if let Some(function) = (*scan).function.fn_addr {
            function(info);
        }
        raw::pgstat_end_function_usage(&mut usage, true);
        pg_sys::CurrentMemoryContext = before;
    }
}

/// Returns the value of an argument. The server evaluates everything except a plain parameter of the argument's type.
///
/// # Safety
/// `scan` is the state of this extension's node, `argument` a constant or a parameter.
unsafe fn value(scan: *mut Scan, argument: *mut pg_sys::Node) -> pg_sys::NullableDatum {
    // SAFETY: by the contract of this function; the parameter list has `numParams` entries.
    unsafe {
        if (*argument).type_ == pg_sys::NodeTag::T_Const {
            let constant = &*argument.cast::<pg_sys::Const>();
            let (value, isnull) = (constant.constvalue, constant.constisnull);
            return pg_sys::NullableDatum { value, isnull };
        }
        let wanted = &*argument.cast::<pg_sys::Param>();
        let state = &mut (*scan).node.ss.ps;
        if let Some(given) = (*state.state).es_param_list_info.as_ref()
            && given.paramFetch.is_none()
            && (1..=given.numParams).contains(&wanted.paramid)
        {
            let given = &*given.params.as_ptr().add(wanted.paramid as usize - 1);
            if given.ptype == wanted.paramtype {
                return pg_sys::NullableDatum { value: given.value, isnull: given.isnull };
            }
        }
        let mut result = pg_sys::NullableDatum { value: Datum::from(0), isnull: true };
        let expression = raw::ExecInitExpr(argument.cast(), state);
        if let Some(evaluate) = (*expression).evalfunc {
            result.value = evaluate(expression, state.ps_ExprContext, &mut result.isnull);
        }
        result
    }
}

/// Looks up the present columns of rows of this type, and allocates space for their values; null for a type that is not
/// composite. The caller releases the descriptor at the end.
///
/// # Safety
/// `scan` is the state of this extension's node.
unsafe fn columns(scan: *mut Scan, row_type: pg_sys::Oid) -> pg_sys::TupleDesc {
    // SAFETY: by the contract of this function.
    unsafe {
        let description = raw::lookup_rowtype_tupdesc_noerror(row_type, -1, true);
        if description.is_null() {
            return description;
        }
        let count = (*description).natts;
        for target in list::<pg_sys::TargetEntry>((*Scan::plan(scan)).custom_scan_tlist) {
            let column = &*(*target).expr.cast::<pg_sys::Var>();
            let number = i32::from(column.varattno);
            let is_there = (1..=count).contains(&number);
            if !is_there || attribute(description, number as usize - 1).atttypid != column.vartype {
                refuse_columns(row_type);
            }
        }
        (*scan).values = raw::palloc0(count as usize * size_of::<Datum>()).cast();
        (*scan).nulls = raw::palloc0(count as usize).cast();
        description
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn refuse_columns(row_type: pg_sys::Oid) {
    outdated(&types::type_name(row_type)).raise()
}

unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node was created here. Its arguments are unchanged, and so are its rows.
    unsafe {
        (*node.cast::<Scan>()).result.rewind();
        raw::ExecScanReScan(&mut (*node).ss);
    }
}

unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node was created here.
    unsafe { (*node.cast::<Scan>()).result.end() }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn explain(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    explained: *mut pg_sys::ExplainState,
) {
    // SAFETY: the node was created here.
    unsafe {
        let call = Scan::call(node.cast::<Scan>());
        let (label, text) = if (*explained).verbose {
            let (plans, plan) = ((*explained).deparse_cxt, (*node).ss.ps.plan);
            let context = pg_sys::set_deparse_context_plan(plans, plan, ancestors);
            let text = pg_sys::deparse_expression(call.cast(), context, false, false);
            (c"Function Call", text)
        } else {
            (c"Function", pg_sys::get_func_name((*call).funcid))
        };
        if !text.is_null() {
            pg_sys::ExplainPropertyText(label.as_ptr(), text, explained);
        }
    }
}
