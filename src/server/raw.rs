//! Functions of the server without pgrx's guards, which turn an ERROR into a panic: a guard costs as much as many of
//! these functions. They are to be called only in one of these cases:
//!
//! 1. Errors can pass through the caller, because it has nothing to drop.
//! 2. Several calls share one guard, and nothing else in it can panic.
//! 3. The function raises no errors.

use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::{c_char, c_int, c_void};

/// Declares functions of the server; the compiler compares each declaration with pgrx's.
macro_rules! functions {
    ($(
        $(#[$condition:meta])*
        $visible:vis fn $name:ident($($(#[$if:meta])* $argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        // SAFETY: the declarations are the ones that pgrx has generated from the server's headers; "C-unwind", because
        // errors can pass.
        unsafe extern "C-unwind" {
            $(
            $(#[$condition])*
            $visible fn $name($($(#[$if])* $argument: $type),*) $(-> $result)?;
            )*
        }
        $(
        $(#[$condition])*
        const _: unsafe fn($($(#[$if])* $type),*) $(-> $result)? = pg_sys::$name;
        )*
    };
}
pub(super) use functions;

// These raise no errors.
functions! {
    pub fn GetCurrentTransactionNestLevel() -> c_int;
    pub fn GetTopTransactionIdIfAny() -> pg_sys::TransactionId;
    pub fn GetUserId() -> Oid;
    pub fn GetOuterUserId() -> Oid;
    pub fn InSecurityRestrictedOperation() -> bool;
    pub fn InLocalUserIdChange() -> bool;
    pub fn GetCurrentTimestamp() -> i64;
}

functions! {
    pub fn RelationGetNumberOfBlocksInFork(
        relation: pg_sys::Relation,
        fork: pg_sys::ForkNumber::Type,
    ) -> pg_sys::BlockNumber;
    pub fn palloc0(size: usize) -> *mut c_void;
    pub fn MemoryContextReset(context: pg_sys::MemoryContext);
    pub fn MemoryContextDelete(context: pg_sys::MemoryContext);
    pub fn fmgr_info_cxt(function: Oid, info: *mut pg_sys::FmgrInfo, memory: pg_sys::MemoryContext);
    pub fn lookup_rowtype_tupdesc_noerror(
        row_type: Oid,
        modifier: i32,
        no_error: bool,
    ) -> pg_sys::TupleDesc;
    pub fn DecrTupleDescRefCount(description: pg_sys::TupleDesc);
    pub fn heap_deform_tuple(
        tuple: pg_sys::HeapTuple,
        description: pg_sys::TupleDesc,
        values: *mut Datum,
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
    pub fn ExecFetchSlotHeapTupleDatum(slot: *mut pg_sys::TupleTableSlot) -> Datum;
    pub fn ExecConstraints(
        target: *mut pg_sys::ResultRelInfo,
        slot: *mut pg_sys::TupleTableSlot,
        state: *mut pg_sys::EState,
    );
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    pub fn index_insert_cleanup(index: pg_sys::Relation, info: *mut pg_sys::IndexInfo);
    pub fn ExecInsertIndexTuples(
        target: *mut pg_sys::ResultRelInfo,
        slot: *mut pg_sys::TupleTableSlot,
        state: *mut pg_sys::EState,
        update: bool,
        no_duplicate_error: bool,
        conflict: *mut bool,
        arbiters: *mut pg_sys::List,
        #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))] only_summarizing: bool,
    ) -> *mut pg_sys::List;
    pub fn CreateExecutorState() -> *mut pg_sys::EState;
    pub fn FreeExecutorState(state: *mut pg_sys::EState);
    pub fn InitResultRelInfo(
        target: *mut pg_sys::ResultRelInfo,
        table: pg_sys::Relation,
        range_table_index: pg_sys::Index,
        root: *mut pg_sys::ResultRelInfo,
        instrument: c_int,
    );
    pub fn ExecResetTupleTable(table: *mut pg_sys::List, frees: bool);
    pub fn ExecCloseResultRelations(state: *mut pg_sys::EState);
    pub fn AfterTriggerBeginQuery();
    pub fn AfterTriggerEndQuery(state: *mut pg_sys::EState);
    pub fn ExecBRInsertTriggers(
        state: *mut pg_sys::EState,
        target: *mut pg_sys::ResultRelInfo,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> bool;
    pub fn ExecARInsertTriggers(
        state: *mut pg_sys::EState,
        target: *mut pg_sys::ResultRelInfo,
        slot: *mut pg_sys::TupleTableSlot,
        rechecked: *mut pg_sys::List,
        transition: *mut pg_sys::TransitionCaptureState,
    );
    pub fn lappend(list: *mut pg_sys::List, datum: *mut c_void) -> *mut pg_sys::List;
    pub fn bms_add_member(set: *mut pg_sys::Bitmapset, member: c_int) -> *mut pg_sys::Bitmapset;
    pub fn MakePerTupleExprContext(state: *mut pg_sys::EState) -> *mut pg_sys::ExprContext;
    pub fn MakeExpandedObjectReadOnlyInternal(value: Datum) -> Datum;
    pub fn GetCurrentCommandId(used: bool) -> pg_sys::CommandId;
    pub fn CommandCounterIncrement();
    pub fn GetTransactionSnapshot() -> pg_sys::Snapshot;
    pub fn GetActiveSnapshot() -> pg_sys::Snapshot;
    pub fn PushActiveSnapshot(snapshot: pg_sys::Snapshot);
    pub fn PopActiveSnapshot();
    pub fn index_open(index: Oid, mode: pg_sys::LOCKMODE) -> pg_sys::Relation;
    pub fn index_close(index: pg_sys::Relation, mode: pg_sys::LOCKMODE);
    pub fn index_beginscan(
        table: pg_sys::Relation,
        index: pg_sys::Relation,
        snapshot: pg_sys::Snapshot,
        #[cfg(feature = "pg18")] instrumentation: *mut pg_sys::IndexScanInstrumentation,
        key_count: c_int,
        order_count: c_int,
    ) -> pg_sys::IndexScanDesc;
    pub fn index_rescan(
        scan: pg_sys::IndexScanDesc,
        keys: pg_sys::ScanKey,
        key_count: c_int,
        orders: pg_sys::ScanKey,
        order_count: c_int,
    );
    pub fn index_endscan(scan: pg_sys::IndexScanDesc);
    pub fn table_slot_create(
        table: pg_sys::Relation,
        list: *mut *mut pg_sys::List,
    ) -> *mut pg_sys::TupleTableSlot;
    pub fn ExecDropSingleTupleTableSlot(slot: *mut pg_sys::TupleTableSlot);
    pub fn CheckCmdReplicaIdentity(table: pg_sys::Relation, command: pg_sys::CmdType::Type);
    pub fn slot_getsomeattrs_int(slot: *mut pg_sys::TupleTableSlot, columns: c_int);
    pub fn tuplestore_gettupleslot(
        store: *mut pg_sys::Tuplestorestate,
        forward: bool,
        copy: bool,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> bool;
    pub fn tuplestore_rescan(store: *mut pg_sys::Tuplestorestate);
    pub fn tuplestore_end(store: *mut pg_sys::Tuplestorestate);
    pub fn JsonbIteratorInit(container: *mut pg_sys::JsonbContainer) -> *mut pg_sys::JsonbIterator;
    pub fn JsonbIteratorNext(
        iterator: *mut *mut pg_sys::JsonbIterator,
        value: *mut pg_sys::JsonbValue,
        skip_nested: bool,
    ) -> pg_sys::JsonbIteratorToken::Type;
    pub fn pgstat_init_function_usage(
        call: pg_sys::FunctionCallInfo,
        usage: *mut pg_sys::PgStat_FunctionCallUsage,
    );
    pub fn pgstat_end_function_usage(usage: *mut pg_sys::PgStat_FunctionCallUsage, is_over: bool);
    fn RunFunctionExecuteHook(function: Oid);
    fn aclcheck_error(
        result: pg_sys::AclResult::Type,
        kind: pg_sys::ObjectType::Type,
        name: *const c_char,
    );
    fn get_func_name(function: Oid) -> *mut c_char;
    #[cfg(feature = "pg15")]
    fn pg_proc_aclcheck(function: Oid, role: Oid, mode: pg_sys::AclMode)
    -> pg_sys::AclResult::Type;
    #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
    fn object_aclcheck(
        class: Oid,
        object: Oid,
        role: Oid,
        mode: pg_sys::AclMode,
    ) -> pg_sys::AclResult::Type;
}

/// Raises an error unless the current role has the privilege to call a function, and reports the call to the object
/// access hooks.
///
/// # Safety
/// The function exists, and the caller lets errors pass: it has nothing to drop.
pub unsafe fn require_execute(function: Oid) {
    // SAFETY: by the contract of this function.
    unsafe {
        let (role, mode) = (GetUserId(), pg_sys::ACL_EXECUTE as pg_sys::AclMode);
        #[cfg(feature = "pg15")]
        let result = pg_proc_aclcheck(function, role, mode);
        #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
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
