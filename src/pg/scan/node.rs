//! The node while it is executed. Nothing here is guarded, since errors would lose their CONTEXT, and
//! time would be lost: the server's functions are called as they are, and nothing is to be dropped.

use super::{Methods, new_node};
use crate::error::Error;
use crate::pg::foreign::{attribute, list, list_nth};
use crate::pg::{catalog, raw};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Datum};
use std::ffi::CStr;
use std::mem::size_of;
use std::ptr::null_mut;

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

/// What a function is to give its rows back by: instead of a tuplestore a list of values, which live as
/// long as the query.
#[repr(C)]
pub struct Kept {
    info: pg_sys::ReturnSetInfo,
    memory: pg_sys::MemoryContext,
    rows: *mut pg_sys::List,
}

/// Says in `allowedModes` that it is the beginning of a [`Kept`]; no mode of the server's.
const KEPT: i32 = 1 << 16;

/// Where the rows go, if it is this node that calls a function.
///
/// # Safety
/// `info` is what a function in C was called with.
pub unsafe fn kept(info: pg_sys::FunctionCallInfo) -> Option<*mut Kept> {
    // SAFETY: by the contract of this function; the tag says what kind of node it is.
    unsafe {
        let asked = (*info).resultinfo.cast::<pg_sys::ReturnSetInfo>();
        let is_set = !asked.is_null() && (*asked).type_ == pg_sys::NodeTag::T_ReturnSetInfo;
        (is_set && (*asked).allowedModes & KEPT != 0).then(|| asked.cast())
    }
}

impl Kept {
    /// The columns of the rows wanted; null for what is not composite.
    pub fn description(&self) -> pg_sys::TupleDesc {
        self.info.expectedDesc
    }

    /// Adds a row, or a value, that is passed by reference.
    ///
    /// # Safety
    /// The value is a varlena, as composite values are.
    pub unsafe fn push(&mut self, value: Datum) {
        // SAFETY: by the contract of this function; the query's memory outlives the rows.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(self.memory);
            self.rows = pg_guard_ffi_boundary(|| {
                let row = raw::pg_detoast_datum_copy(value.cast_mut_ptr());
                raw::lappend(self.rows, row.cast())
            });
            pg_sys::MemoryContextSwitchTo(before);
        }
    }
}

/// The node's state: the server's, then ours.
#[repr(C)]
struct Scan {
    node: pg_sys::CustomScanState,
    function: pg_sys::FmgrInfo,
    result: Kept,
    was_called: bool,
    /// How many of the rows have been handed on.
    given: i32,
    /// Room for a row's values.
    values: *mut Datum,
    nulls: *mut bool,
}

impl Scan {
    /// # Safety
    /// `scan` is the state of a node of ours.
    unsafe fn plan(scan: *const Scan) -> *const pg_sys::CustomScan {
        // SAFETY: by the contract of this function.
        unsafe { (*scan).node.ss.ps.plan.cast() }
    }

    /// # Safety
    /// As above.
    unsafe fn call(scan: *const Scan) -> *mut pg_sys::FuncExpr {
        // SAFETY: the planner has put the call there.
        unsafe { list_nth((*Scan::plan(scan)).custom_exprs, 0) }
    }
}

unsafe extern "C-unwind" fn create(_plan: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    // SAFETY: the state begins with the server's, and is empty but for its methods.
    unsafe {
        let scan = new_node::<Scan>(pg_sys::NodeTag::T_CustomScanState);
        (*scan).node.methods = &raw const EXECUTION.0;
        scan.cast()
    }
}

/// Sees to it that the role may call the function, as the server does at this point.
unsafe extern "C-unwind" fn begin(
    node: *mut pg_sys::CustomScanState,
    _state: *mut pg_sys::EState,
    _flags: i32,
) {
    let scan = node.cast::<Scan>();
    // SAFETY: the node is one of ours.
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
    // SAFETY: the node is one of ours; conditions and projection are the server's work.
    unsafe { raw::ExecScan(&mut (*node).ss, Some(next), Some(recheck)) }
}

unsafe extern "C-unwind" fn recheck(
    _node: *mut pg_sys::ScanState,
    _slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    true
}

/// The next row, or an empty slot.
unsafe extern "C-unwind" fn next(node: *mut pg_sys::ScanState) -> *mut pg_sys::TupleTableSlot {
    let scan = node.cast::<Scan>();
    // SAFETY: the node is one of ours, and its slot has as many columns as the plan's list.
    unsafe {
        if !(*scan).was_called {
            (*scan).was_called = true;
            call(scan);
        }
        let slot = (*node).ss_ScanTupleSlot;
        raw::clear(slot);
        let rows = (*scan).result.rows;
        if rows.is_null() || (*scan).given >= (*rows).length {
            return slot;
        }
        let row = list_nth::<pg_sys::varlena>(rows, (*scan).given);
        (*scan).given += 1;
        let columns = (*Scan::plan(scan)).custom_scan_tlist;
        let description = (*scan).result.info.expectedDesc;
        if description.is_null() {
            *(*slot).tts_values = Datum::from(row);
            *(*slot).tts_isnull = false;
        } else {
            let header = row.cast::<pg_sys::HeapTupleHeaderData>();
            let mut tuple = pg_sys::HeapTupleData {
                t_len: pgrx::heap_tuple_header_get_datum_length(header) as u32,
                t_data: header,
                ..Default::default()
            };
            let (values, nulls) = ((*scan).values, (*scan).nulls);
            raw::heap_deform_tuple(&mut tuple, description, values, nulls);
            for (place, target) in list::<pg_sys::TargetEntry>(columns).enumerate() {
                let number = (*(*target).expr.cast::<pg_sys::Var>()).varattno as usize - 1;
                *(*slot).tts_values.add(place) = *values.add(number);
                *(*slot).tts_isnull.add(place) = *nulls.add(number);
            }
        }
        raw::ExecStoreVirtualTuple(slot)
    }
}

/// Calls the function and keeps its rows.
///
/// # Safety
/// `scan` is the state of a node of ours that has begun.
unsafe fn call(scan: *mut Scan) {
    // SAFETY: by the contract of this function. What is made lives as long as the query.
    unsafe {
        let state = (*scan).node.ss.ps.state;
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
        expect_columns(scan, expression.funcresulttype);
        let result = &mut (*scan).result;
        result.info.type_ = pg_sys::NodeTag::T_ReturnSetInfo;
        result.info.econtext = (*scan).node.ss.ps.ps_ExprContext;
        result.info.allowedModes = KEPT;
        result.memory = memory;
        let mut usage = pg_sys::PgStat_FunctionCallUsage::default();
        raw::pgstat_init_function_usage(info, &mut usage);
        if let Some(function) = (*scan).function.fn_addr {
            function(info);
        }
        raw::pgstat_end_function_usage(&mut usage, true);
        pg_sys::CurrentMemoryContext = before;
    }
}

/// The value of an argument. What is no plain parameter of this type is for the server to judge.
///
/// # Safety
/// `scan` is the state of a node of ours, `argument` a constant or a parameter.
unsafe fn value(scan: *mut Scan, argument: *mut pg_sys::Node) -> pg_sys::NullableDatum {
    // SAFETY: by the contract of this function; the parameters are as many as they say.
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

/// Looks up the columns that rows of this type have now, and makes room for their values.
///
/// # Safety
/// `scan` is the state of a node of ours.
unsafe fn expect_columns(scan: *mut Scan, row_type: pg_sys::Oid) {
    // SAFETY: by the contract of this function. The description is given back at the end.
    unsafe {
        let description = raw::lookup_rowtype_tupdesc_noerror(row_type, -1, true);
        (*scan).result.info.expectedDesc = description;
        if description.is_null() {
            return;
        }
        let count = (*description).natts;
        for target in list::<pg_sys::TargetEntry>((*Scan::plan(scan)).custom_scan_tlist) {
            let column = &*(*target).expr.cast::<pg_sys::Var>();
            let number = i32::from(column.varattno);
            if number > count
                || attribute(description, number as usize - 1).atttypid != column.vartype
            {
                refuse_columns(row_type);
            }
        }
        (*scan).values = raw::palloc0(count as usize * size_of::<Datum>()).cast();
        (*scan).nulls = raw::palloc0(count as usize).cast();
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn refuse_columns(row_type: pg_sys::Oid) {
    let name = catalog::type_name(row_type);
    Error::new(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        format!("the columns of {name} have changed since this query was planned"),
    )
    .hint("Prepare the query anew.")
    .raise()
}

unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node is one of ours. Its arguments are the same as before, and so are its rows.
    unsafe {
        (*node.cast::<Scan>()).given = 0;
        raw::ExecScanReScan(&mut (*node).ss);
    }
}

unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    let scan = node.cast::<Scan>();
    // SAFETY: the node is one of ours; the description was looked up by it.
    unsafe {
        let description = (*scan).result.info.expectedDesc;
        if !description.is_null() && (*description).tdrefcount >= 0 {
            raw::DecrTupleDescRefCount(description);
        }
        (*scan).result.info.expectedDesc = null_mut();
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn explain(
    node: *mut pg_sys::CustomScanState,
    _ancestors: *mut pg_sys::List,
    explained: *mut pg_sys::ExplainState,
) {
    // SAFETY: the node is one of ours.
    unsafe {
        let function = (*Scan::call(node.cast::<Scan>())).funcid;
        let name = pg_sys::get_func_name(function);
        if !name.is_null() {
            pg_sys::ExplainPropertyText(c"Function".as_ptr(), name, explained);
        }
    }
}
