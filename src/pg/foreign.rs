//! Functions and variables of the server that pgrx has no bindings for.

use pgrx::pg_sys;
use std::ffi::{c_char, c_int, c_void};

/// `STATEMENT_TIMEOUT` of utils/timeout.h, the same in all versions supported.
pub const STATEMENT_TIMEOUT: c_int = 3;

// SAFETY: the declarations are those of the server's headers; "C-unwind" since functions may raise
// an error, which callers turn into a panic with `pg_guard_ffi_boundary`.
unsafe extern "C-unwind" {
    pub static max_prepared_xacts: c_int;
    pub fn enable_timeout_after(id: c_int, delay_ms: c_int);
    pub fn disable_timeout(id: c_int, keep_indicator: bool);
    #[cfg_attr(feature = "pg18", link_name = "pqsignal_be")]
    pub fn pqsignal(signal: c_int, handler: Option<unsafe extern "C-unwind" fn(c_int)>);
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
    pub fn standard_ExecutorStart(query: *mut pg_sys::QueryDesc, flags: c_int);
    pub fn datumCopy(value: pg_sys::Datum, by_value: bool, length: c_int) -> pg_sys::Datum;
    pub fn errhint(format: *const c_char, ...) -> c_int;
}

// SAFETY: the declarations are those of the server's headers. pgrx has them too, but turns an ERROR into
// a panic; these are for callers who let it pass.
unsafe extern "C-unwind" {
    pub fn palloc0(size: usize) -> *mut c_void;
    pub fn fmgr_info_cxt(
        function: pg_sys::Oid,
        info: *mut pg_sys::FmgrInfo,
        memory: pg_sys::MemoryContext,
    );
    pub fn lookup_rowtype_tupdesc_noerror(
        row_type: pg_sys::Oid,
        modifier: i32,
        no_error: bool,
    ) -> pg_sys::TupleDesc;
    pub fn DecrTupleDescRefCount(description: pg_sys::TupleDesc);
    pub fn heap_deform_tuple(
        tuple: pg_sys::HeapTuple,
        description: pg_sys::TupleDesc,
        values: *mut pg_sys::Datum,
        nulls: *mut bool,
    );
    pub fn ExecInitExpr(
        expression: *mut pg_sys::Expr,
        parent: *mut pg_sys::PlanState,
    ) -> *mut pg_sys::ExprState;
    pub fn ExecScan(
        node: *mut pg_sys::ScanState,
        next: pg_sys::ExecScanAccessMtd,
        recheck: pg_sys::ExecScanRecheckMtd,
    ) -> *mut pg_sys::TupleTableSlot;
    pub fn ExecScanReScan(node: *mut pg_sys::ScanState);
    pub fn ExecStoreVirtualTuple(slot: *mut pg_sys::TupleTableSlot) -> *mut pg_sys::TupleTableSlot;
    pub fn pgstat_init_function_usage(
        call: pg_sys::FunctionCallInfo,
        usage: *mut pg_sys::PgStat_FunctionCallUsage,
    );
    pub fn pgstat_end_function_usage(usage: *mut pg_sys::PgStat_FunctionCallUsage, is_over: bool);
    fn RunFunctionExecuteHook(function: pg_sys::Oid);
    fn aclcheck_error(
        result: pg_sys::AclResult::Type,
        kind: pg_sys::ObjectType::Type,
        name: *const c_char,
    );
    fn get_func_name(function: pg_sys::Oid) -> *const c_char;
    #[cfg(feature = "pg15")]
    fn pg_proc_aclcheck(
        function: pg_sys::Oid,
        role: pg_sys::Oid,
        mode: pg_sys::AclMode,
    ) -> pg_sys::AclResult::Type;
    #[cfg(not(feature = "pg15"))]
    fn object_aclcheck(
        class: pg_sys::Oid,
        object: pg_sys::Oid,
        role: pg_sys::Oid,
        mode: pg_sys::AclMode,
    ) -> pg_sys::AclResult::Type;
}

/// Raises an error unless the current role may call a function, and tells whoever wants to know that it
/// will be called.
///
/// # Safety
/// The function exists, and the caller lets errors pass: it has nothing to drop.
pub unsafe fn require_execute(function: pg_sys::Oid) {
    // SAFETY: by the contract of this function.
    unsafe {
        let (role, mode) = (pg_sys::GetUserId(), pg_sys::ACL_EXECUTE as pg_sys::AclMode);
        #[cfg(feature = "pg15")]
        let result = pg_proc_aclcheck(function, role, mode);
        #[cfg(not(feature = "pg15"))]
        let result = object_aclcheck(pg_sys::ProcedureRelationId, function, role, mode);
        if result != pg_sys::AclResult::ACLCHECK_OK {
            aclcheck_error(result, pg_sys::ObjectType::OBJECT_FUNCTION, get_func_name(function));
        }
        let hook = pg_sys::object_access_hook;
        if hook.is_some() {
            RunFunctionExecuteHook(function);
        }
    }
}

/// Empties a slot.
///
/// # Safety
/// `slot` is a valid slot.
pub unsafe fn clear(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: by the contract of this function; every kind of slot can be emptied.
    unsafe {
        if let Some(clear) = (*(*slot).tts_ops).clear {
            clear(slot);
        }
    }
}

/// The element of a list of pointers.
///
/// # Safety
/// `list` is a list of pointers with more than `index` elements.
pub unsafe fn list_nth<T>(list: *mut pg_sys::List, index: i32) -> *mut T {
    // SAFETY: by the contract of this function.
    unsafe { (*(*list).elements.add(index as usize)).ptr_value.cast() }
}

/// The elements of a list of pointers.
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

/// An attribute of a tuple descriptor, whose layout changed with PostgreSQL 18.
///
/// # Safety
/// `description` is a valid tuple descriptor with more than `index` attributes.
pub unsafe fn attribute<'a>(
    description: pg_sys::TupleDesc,
    index: usize,
) -> &'a pg_sys::FormData_pg_attribute {
    // SAFETY: by the contract of this function.
    #[cfg(not(feature = "pg18"))]
    unsafe {
        &*(*description).attrs.as_ptr().add(index)
    }
    // SAFETY: the attributes lie behind the array of compact ones.
    #[cfg(feature = "pg18")]
    unsafe {
        let natts = (*description).natts as usize;
        let compact = (*description).compact_attrs.as_ptr().add(natts);
        &*compact.cast::<pg_sys::FormData_pg_attribute>().add(index)
    }
}
