//! Transactions and subtransactions.

use crate::error::Error;
use crate::server::{diagnostics, raw};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Returns the nesting level of the current subtransaction; 1 is the transaction itself.
pub fn depth() -> i32 {
    // SAFETY: reads a backend variable.
    unsafe { raw::GetCurrentTransactionNestLevel() }
}

/// Returns the transaction's identifier; 0 if it has no identifier.
pub fn id_if_any() -> u32 {
    // SAFETY: reads a backend variable.
    u32::from(unsafe { raw::GetTopTransactionIdIfAny() })
}

/// Returns whether a transaction, or subtransaction, is in progress or prepared.
pub fn is_in_progress(id: u32) -> bool {
    // SAFETY: reads the list of running transactions; every number is a valid argument.
    unsafe { pg_sys::TransactionIdIsInProgress(id.into()) }
}

/// Returns whether a transaction is the open one, or a subtransaction of it that was not rolled back.
pub fn is_own(id: u32) -> bool {
    // SAFETY: reads a backend variable; every number is a valid argument.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(id.into()) }
}

/// Returns the identifier that the next transaction gets, with its epoch. Must neither allocate nor fail.
pub fn next_id() -> u64 {
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    use pg_sys::ShmemVariableCache as Variables;
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    use pg_sys::TransamVariables as Variables;
    // SAFETY: shared memory that lives as long as the server; read as one word. The lock is needed only on machines
    // with shorter words.
    unsafe { AtomicU64::from_ptr(&raw mut (*Variables).nextXid.value).load(Relaxed) }
}

/// Returns whether every statement of this transaction uses the same snapshot.
pub fn has_fixed_snapshot() -> bool {
    isolation() >= pg_sys::XACT_REPEATABLE_READ
}

/// Returns whether the server looks for conflicts between this transaction and other serializable ones.
pub fn is_serializable() -> bool {
    isolation() >= pg_sys::XACT_SERIALIZABLE
}

fn isolation() -> u32 {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::XactIsoLevel as u32 }
}

/// Returns whether this process is inside a transaction.
pub fn is_open() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::IsTransactionState() }
}

/// Returns whether the server is in recovery: it is a standby, or is being restored.
pub fn in_recovery() -> bool {
    // SAFETY: reads shared memory of the server.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Returns whether this transaction is read-only, like every transaction on a standby.
pub fn is_read_only() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::XactReadOnly }
}

/// A caught error.
#[derive(Clone, Debug)]
pub struct Failure {
    pub message: String,
    pub code: PgSqlErrorCode,
}

impl Failure {
    fn of(caught: &CaughtError) -> Failure {
        let (CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. }) = caught;
        Failure { message: report.message().to_string(), code: report.sql_error_code() }
    }

    /// Returns whether the work was cancelled by a timeout or by a user.
    pub fn is_canceled(&self) -> bool {
        self.code == PgSqlErrorCode::ERRCODE_QUERY_CANCELED
    }

    /// Logs which action failed, under the SQLSTATE of the error.
    pub fn warn(&self, undone: &str) {
        Error::new(self.code, format!("xqueue: cannot {undone}: {}", self.message)).warn();
    }
}

pub enum Verdict<T> {
    Keep(T),
    Undo,
}

/// Runs `work` in a subtransaction. If it is undone, it keeps no lock on rows or tables. An error also undoes it, and
/// propagates.
pub fn in_subtransaction<T>(work: impl FnOnce() -> Verdict<T>) -> Option<T> {
    let subtransaction = Subtransaction::begin();
    match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(Verdict::Keep(value)) => {
            subtransaction.commit();
            Some(value)
        }
        Ok(Verdict::Undo) => {
            subtransaction.roll_back();
            None
        }
        Err(panic) => {
            subtransaction.roll_back();
            std::panic::resume_unwind(panic)
        }
    }
}

/// Runs `work`; returns an error about the values of a task, and lets any other error propagate. When `work` raises the
/// former, it must hold no resource that only the end of a subtransaction would release.
pub fn unless_of_task<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    let work = AssertUnwindSafe(work);
    pgrx::PgTryBuilder::new(AssertUnwindSafe(move || Ok({ work }.0())))
        .catch_others(|caught| match is_of_task(diagnostics::code(&caught)) {
            true => Err(Failure::of(&caught)),
            false => caught.rethrow(),
        })
        .execute()
}

/// Runs `work` in the same way, but releases the resources that it holds after an error. `work` must change nothing.
/// This costs a fraction of a subtransaction.
pub fn unless_of_task_holding<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    // SAFETY: all callers are inside a transaction. The owner is a child of the surrounding one, which releases it
    // after an error that propagates.
    let (outer, own) = unsafe {
        let outer = pg_sys::CurrentResourceOwner;
        (outer, pg_sys::ResourceOwnerCreate(outer, c"xqueue".as_ptr()))
    };
    let outcome = unless_of_task(|| {
        // SAFETY: the owner was just created. After an error that propagates, the server restores the surrounding one.
        unsafe { pg_sys::CurrentResourceOwner = own };
        work()
    });
    use pg_sys::ResourceReleasePhase as Phase;
    let phases = [
        Phase::RESOURCE_RELEASE_BEFORE_LOCKS,
        Phase::RESOURCE_RELEASE_LOCKS,
        Phase::RESOURCE_RELEASE_AFTER_LOCKS,
    ];
    // SAFETY: the owner has no children. After success, locks move to the surrounding owner, because the result of
    // `work` can need them.
    unsafe {
        pg_sys::CurrentResourceOwner = outer;
        for phase in phases {
            pg_sys::ResourceOwnerRelease(own, phase, outcome.is_ok(), false);
        }
        pg_sys::ResourceOwnerDelete(own);
    }
    outcome
}

/// Returns whether an error with this SQLSTATE is about the values of a task, or was raised deliberately by user code,
/// so that other tasks can succeed. All other errors (privileges, cancellation, locks, serialization, lack of space)
/// concern the caller.
fn is_of_task(code: i32) -> bool {
    // A class is the first two characters of a SQLSTATE. Users can define classes.
    const OF_THE_SERVER: &str = "00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 10 20 21 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F \
                                 40 42 44 53 55 57 58 72 F0 HV XX";
    let character = |place: u32| char::from((code >> (6 * place) & 0x3f) as u8 + b'0');
    let class = [character(0), character(1)].iter().collect::<String>();
    !OF_THE_SERVER.split(' ').any(|known| known == class)
}

/// Runs any `work` in the same way, in a subtransaction, which every error undoes.
pub fn in_subtransaction_unless_of_task<T, E: From<Failure>>(
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let subtransaction = Subtransaction::begin();
    let work = AssertUnwindSafe(|| unless_of_task(work).map_err(E::from).flatten());
    let outcome = std::panic::catch_unwind(work);
    match &outcome {
        Ok(Ok(_)) => subtransaction.commit(),
        _ => subtransaction.roll_back(),
    }
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs `work` in a subtransaction; an error undoes it and is returned.
pub fn try_in_subtransaction<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    let subtransaction = Subtransaction::begin();
    let outcome = catching(work);
    match outcome {
        Ok(_) => subtransaction.commit(),
        Err(_) => subtransaction.roll_back(),
    }
    outcome
}

/// Runs `work` in a subtransaction that is always undone, so that it keeps no lock.
pub fn look_in_subtransaction<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    let subtransaction = Subtransaction::begin();
    let outcome = catching(work);
    subtransaction.roll_back();
    outcome
}

/// A subtransaction in the manner of a PL/pgSQL exception block: memory context and resource owner are restored after
/// either end.
struct Subtransaction {
    context: pg_sys::MemoryContext,
    owner: pg_sys::ResourceOwner,
}

impl Subtransaction {
    fn begin() -> Subtransaction {
        // SAFETY: all callers are inside a transaction.
        unsafe {
            let before = Subtransaction {
                context: pg_sys::CurrentMemoryContext,
                owner: pg_sys::CurrentResourceOwner,
            };
            pg_sys::BeginInternalSubTransaction(std::ptr::null());
            pg_sys::CurrentMemoryContext = before.context;
            before
        }
    }

    fn commit(self) {
        // SAFETY: the subtransaction started by `begin` is the current one.
        unsafe { pg_sys::ReleaseCurrentSubTransaction() }
        self.restore();
    }

    fn roll_back(self) {
        // SAFETY: as above; after an error the memory context is arbitrary.
        unsafe {
            pg_sys::CurrentMemoryContext = self.context;
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
        }
        self.restore();
    }

    fn restore(self) {
        // SAFETY: both belong to the surrounding transaction.
        unsafe {
            pg_sys::CurrentMemoryContext = self.context;
            pg_sys::CurrentResourceOwner = self.owner;
        }
    }
}

/// Runs `work` in a separate transaction, for a background worker; an error rolls it back and is returned.
pub fn try_in_transaction<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    let outcome = catching(|| {
        // SAFETY: the callers are background workers outside of any transaction.
        unsafe {
            pg_sys::SetCurrentStatementStartTimestamp();
            pg_sys::StartTransactionCommand();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        }
        let value = work();
        // SAFETY: pops the snapshot pushed above, and ends the transaction started above.
        unsafe {
            pg_sys::PopActiveSnapshot();
            pg_sys::CommitTransactionCommand();
        }
        value
    });
    // SAFETY: does the same as the main loop of a backend after an error. Statistics must be reported outside of
    // transactions, so this follows.
    unsafe {
        if outcome.is_err() {
            pg_sys::AbortCurrentTransaction();
        }
        pg_sys::pgstat_report_stat(true);
    }
    outcome
}

/// Makes the changes of this transaction's last command visible to later reads.
pub fn see_own_changes() {
    // SAFETY: a transaction is open, and the caller has no open scan.
    unsafe { pg_sys::CommandCounterIncrement() }
}

/// Runs `work`; returns an error raised in it.
fn catching<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    let work = AssertUnwindSafe(work);
    pgrx::PgTryBuilder::new(AssertUnwindSafe(move || Ok({ work }.0())))
        .catch_others(|caught| Err(Failure::of(&caught)))
        .execute()
}
