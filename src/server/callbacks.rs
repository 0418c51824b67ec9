//! Passes the server's hooks and callbacks on to safe functions. They are registered once, at load.

use crate::server::command::{Command, command, concerns};
use crate::server::context::{self, Remedy};
use crate::server::{allocator, diagnostics};
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Datum, Oid};
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

/// The events of a transaction's end that are handled here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEvent {
    /// About to commit: errors still roll it back.
    PreCommit,
    PrePrepare,
    Prepare,
    /// The changes are visible to others, and the locks are still held. Nothing is allowed to fail from here on.
    Commit,
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubtransactionEvent {
    Commit,
    Abort,
}

/// Changes of the catalogs by this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectEvent {
    TableChanged,
    TableDropped,
    SchemaChanged,
    /// A trigger was created, enabled or disabled.
    TriggerChanged,
    /// A trigger is about to be dropped.
    TriggerDropped,
    /// An extension was created, which the catalogs do not show yet, or is about to be dropped.
    ExtensionChanged,
    DatabaseCreated,
    DatabaseDropped,
    /// Tables can have become copies of another server's, or have ceased to be copies.
    SubscriptionChanged,
}

pub struct Handlers {
    pub transaction: fn(TransactionEvent),
    pub subtransaction: fn(SubtransactionEvent),
    /// A table's definition is stale: its oid, or None for all tables.
    pub stale: fn(Option<Oid>),
    /// A type has changed. Gets its hash, see [`catalog_hash`](crate::server::types::catalog_hash); 0 for all types.
    pub stale_type: fn(u32),
    pub object: fn(ObjectEvent, Oid),
    pub before_command: fn(&Command),
    pub remedy: fn(&Command) -> Option<Remedy>,
    /// Also called after a failed command, with false.
    pub after_command: fn(&Command, bool),
}

static HANDLERS: OnceLock<Handlers> = OnceLock::new();
static mut PREVIOUS_OBJECT_ACCESS: pg_sys::object_access_hook_type = None;
static mut PREVIOUS_UTILITY: pg_sys::ProcessUtility_hook_type = None;

/// Registers all hooks and callbacks.
pub fn init(handlers: Handlers) {
    if HANDLERS.set(handlers).is_err() {
        return;
    }
    // Initializes the thread-local value, on which `has_left` relies.
    AT_EXIT.with_borrow(Vec::len);
    // SAFETY: called once, while the library is loaded; the previous hooks are kept and called.
    unsafe {
        pg_sys::RegisterXactCallback(Some(transaction), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(subtransaction), std::ptr::null_mut());
        PREVIOUS_OBJECT_ACCESS = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(object_access);
        PREVIOUS_UTILITY = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(utility);
    }
}

fn handlers() -> Option<&'static Handlers> {
    if has_left() { None } else { HANDLERS.get() }
}

/// Returns whether the process called exit() instead of proc_exit(), which a vacuum does if the postmaster is gone. The
/// thread-local values are then dropped before the transaction is aborted, and shared memory must not be used any more.
fn has_left() -> bool {
    AT_EXIT.try_with(|_| ()).is_err()
}

/// Registers the callbacks for stale definitions, once in each process that has definitions. A definition includes the
/// names of schemas, operators and types.
pub fn watch_definitions() {
    // SAFETY: the callbacks are static functions.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(stale), Datum::from(0));
        let schemas = pg_sys::SysCacheIdentifier::NAMESPACEOID as i32;
        pg_sys::CacheRegisterSyscacheCallback(schemas, Some(all_stale), Datum::from(0));
        let operators = pg_sys::SysCacheIdentifier::OPEROID as i32;
        pg_sys::CacheRegisterSyscacheCallback(operators, Some(all_stale), Datum::from(0));
        // Each new table is also a new type, so a new type does not make all definitions stale.
        let types = pg_sys::SysCacheIdentifier::TYPEOID as i32;
        pg_sys::CacheRegisterSyscacheCallback(types, Some(type_changed), Datum::from(0));
        let functions = pg_sys::SysCacheIdentifier::PROCOID as i32;
        pg_sys::CacheRegisterSyscacheCallback(functions, Some(function_changed), Datum::from(0));
        let casts = pg_sys::SysCacheIdentifier::CASTSOURCETARGET as i32;
        pg_sys::CacheRegisterSyscacheCallback(casts, Some(cast_changed), Datum::from(0));
    }
}

thread_local! {
    static CHANGED_FUNCTIONS: Cell<u64> = const { Cell::new(0) };
    static CHANGED_CASTS: Cell<u64> = const { Cell::new(0) };
}

/// Returns how often a cast was created or dropped since definitions are watched.
pub fn changed_casts() -> u64 {
    CHANGED_CASTS.get()
}

/// Returns how often a function was replaced, or the privilege to call one changed, since definitions are watched.
pub fn changed_functions() -> u64 {
    CHANGED_FUNCTIONS.get()
}

/// Runs `function` with `argument` when this process ends, after its transaction has been rolled back. The server has
/// few entries for this, so each purpose registers only once.
pub fn at_exit(function: fn(u32), argument: u32) {
    let index = allocator::staying(|| {
        AT_EXIT.with_borrow_mut(|functions| {
            functions.push((function, argument));
            functions.len() - 1
        })
    });
    // SAFETY: the callback is a static function.
    unsafe { pg_sys::on_shmem_exit(Some(run_at_exit), Datum::from(index)) }
}

/// A function and its argument.
type AtExit = (fn(u32), u32);

thread_local! {
    static AT_EXIT: RefCell<Vec<AtExit>> = const { RefCell::new(Vec::new()) };
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn run_at_exit(_code: i32, index: Datum) {
    let find = |functions: &RefCell<Vec<AtExit>>| functions.borrow().get(index.value()).copied();
    if let Ok(Some((function, argument))) = AT_EXIT.try_with(find) {
        function(argument);
    }
}

unsafe extern "C-unwind" fn transaction(
    event: pg_sys::XactEvent::Type,
    _argument: *mut std::ffi::c_void,
) {
    let event = match event {
        pg_sys::XactEvent::XACT_EVENT_PRE_COMMIT => TransactionEvent::PreCommit,
        pg_sys::XactEvent::XACT_EVENT_PRE_PREPARE => TransactionEvent::PrePrepare,
        pg_sys::XactEvent::XACT_EVENT_PREPARE => TransactionEvent::Prepare,
        pg_sys::XactEvent::XACT_EVENT_COMMIT => TransactionEvent::Commit,
        pg_sys::XactEvent::XACT_EVENT_ABORT => TransactionEvent::Abort,
        _ => return,
    };
    let handle = || {
        allocator::reserve();
        if event == TransactionEvent::Commit {
            diagnostics::forget();
        }
        if let Some(handlers) = handlers() {
            (handlers.transaction)(event);
        }
    };
    // SAFETY: called by the server; there is nothing to drop here.
    unsafe { diagnostics::guard(handle) }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn subtransaction(
    event: pg_sys::SubXactEvent::Type,
    _id: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _argument: *mut std::ffi::c_void,
) {
    allocator::reserve();
    let event = match event {
        pg_sys::SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => SubtransactionEvent::Commit,
        pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB => SubtransactionEvent::Abort,
        _ => return,
    };
    if let Some(handlers) = handlers() {
        (handlers.subtransaction)(event);
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn stale(_argument: Datum, table: Oid) {
    if let Some(handlers) = handlers() {
        (handlers.stale)((table != Oid::INVALID).then_some(table));
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn all_stale(_argument: Datum, _cache: i32, _hash: u32) {
    if let Some(handlers) = handlers() {
        (handlers.stale)(None);
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn type_changed(_argument: Datum, _cache: i32, hash: u32) {
    if let Some(handlers) = handlers() {
        (handlers.stale_type)(hash);
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn function_changed(_argument: Datum, _cache: i32, _hash: u32) {
    CHANGED_FUNCTIONS.set(CHANGED_FUNCTIONS.get() + 1);
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn cast_changed(_argument: Datum, _cache: i32, _hash: u32) {
    CHANGED_CASTS.set(CHANGED_CASTS.get() + 1);
}

unsafe extern "C-unwind" fn object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: Oid,
    object: Oid,
    part: i32,
    argument: *mut std::ffi::c_void,
) {
    // SAFETY: calls the previous hook with its arguments; there is nothing to drop here.
    unsafe {
        if let Some(previous) = PREVIOUS_OBJECT_ACCESS {
            previous(access, class, object, part, argument);
        }
        diagnostics::guard(|| object_accessed(access, class, object, part));
    }
}

fn object_accessed(access: pg_sys::ObjectAccessType::Type, class: Oid, object: Oid, part: i32) {
    use pg_sys::ObjectAccessType::{OAT_DROP, OAT_POST_ALTER, OAT_POST_CREATE};
    let event = match (class, access, part) {
        (pg_sys::RelationRelationId, OAT_DROP, 0) => ObjectEvent::TableDropped,
        (pg_sys::RelationRelationId, OAT_POST_ALTER | OAT_DROP, _) => ObjectEvent::TableChanged,
        (pg_sys::RelationRelationId, OAT_POST_CREATE, 1..) => ObjectEvent::TableChanged,
        (pg_sys::TriggerRelationId, OAT_POST_CREATE | OAT_POST_ALTER, _) => {
            ObjectEvent::TriggerChanged
        }
        (pg_sys::TriggerRelationId, OAT_DROP, _) => ObjectEvent::TriggerDropped,
        (pg_sys::NamespaceRelationId, OAT_POST_ALTER, _) => ObjectEvent::SchemaChanged,
        (pg_sys::ExtensionRelationId, OAT_POST_CREATE | OAT_DROP, _) => {
            ObjectEvent::ExtensionChanged
        }
        (pg_sys::DatabaseRelationId, OAT_POST_CREATE, _) => ObjectEvent::DatabaseCreated,
        (pg_sys::DatabaseRelationId, OAT_DROP, _) => ObjectEvent::DatabaseDropped,
        (crate::server::subscription::CATALOGUE, _, _) => ObjectEvent::SubscriptionChanged,
        _ => return,
    };
    if let Some(handlers) = handlers() {
        (handlers.object)(event, object);
    }
}

/// Almost all commands pass through unchanged.
#[allow(clippy::too_many_arguments, reason = "the server's signature")]
unsafe extern "C-unwind" fn utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const std::ffi::c_char,
    read_only: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: this hook gets only utility statements. The next hook, or the server's own function, gets the same
    // arguments. There is nothing to drop here.
    unsafe {
        let handle = match concerns((*statement).utilityStmt) {
            true => watched_utility,
            false => PREVIOUS_UTILITY.unwrap_or(crate::server::foreign::standard_ProcessUtility),
        };
        handle(statement, text, read_only, context, parameters, environment, receiver, completion);
    }
}

#[allow(clippy::too_many_arguments, reason = "the server's signature")]
unsafe extern "C-unwind" fn watched_utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const std::ffi::c_char,
    read_only: bool,
    kind: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: as above.
    let handle = || unsafe {
        let command = command((*statement).utilityStmt);
        let mut after = AfterCommand { command, succeeded: false };
        let mut remedy = None;
        if let (Some(command), Some(handlers)) = (&after.command, HANDLERS.get()) {
            (handlers.before_command)(command);
            remedy = (handlers.remedy)(command);
        }
        let next = PREVIOUS_UTILITY.unwrap_or(crate::server::foreign::standard_ProcessUtility);
        context::remedied(remedy, || {
            pg_guard_ffi_boundary(|| {
                next(
                    statement,
                    text,
                    read_only,
                    kind,
                    parameters,
                    environment,
                    receiver,
                    completion,
                )
            })
        });
        after.succeeded = true;
    };
    // SAFETY: called by the server; there is nothing here to drop.
    unsafe { diagnostics::guard(handle) }
}

/// Reports a command's end, also after an error.
struct AfterCommand {
    command: Option<Command>,
    succeeded: bool,
}

impl Drop for AfterCommand {
    fn drop(&mut self) {
        if let (Some(command), Some(handlers)) = (&self.command, HANDLERS.get()) {
            (handlers.after_command)(command, self.succeeded);
        }
    }
}
