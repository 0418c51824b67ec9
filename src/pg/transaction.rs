//! Transactions and subtransactions.

use pgrx::PgSqlErrorCode;
use pgrx::pg_sys;

/// How deep the current subtransaction is nested; 1 is the transaction itself.
pub fn depth() -> i32 {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::GetCurrentTransactionNestLevel() }
}

/// The transaction's identifier, 0 when it has none.
pub fn id_if_any() -> u32 {
    // SAFETY: reads a backend variable.
    u32::from(unsafe { pg_sys::GetTopTransactionIdIfAny() })
}

/// Whether every statement of this transaction sees the same snapshot.
pub fn has_fixed_snapshot() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Whether this process is inside a transaction.
pub fn is_open() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::IsTransactionState() }
}

/// Whether the server only reads: a standby, or one that is being recovered.
pub fn in_recovery() -> bool {
    // SAFETY: reads shared memory of the server.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// An error that was caught.
#[derive(Debug)]
pub struct Failure {
    pub message: String,
    /// It was cancelled: it took too long.
    pub canceled: bool,
}

pub enum Verdict<T> {
    Keep(T),
    Undo,
}

/// Runs `work` in a subtransaction. Undone, it leaves no lock behind, neither of rows nor of
/// tables. An error passes through: the caller's transaction rolls everything back.
pub fn in_subtransaction<T>(work: impl FnOnce() -> Verdict<T>) -> Option<T> {
    // SAFETY: the sequence that PL/pgSQL uses for its exception blocks: memory context and
    // resource owner are put back after either end.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::CurrentMemoryContext = context;
        let verdict = work();
        let kept = match verdict {
            Verdict::Keep(value) => {
                pg_sys::ReleaseCurrentSubTransaction();
                Some(value)
            }
            Verdict::Undo => {
                pg_sys::RollbackAndReleaseCurrentSubTransaction();
                None
            }
        };
        pg_sys::CurrentMemoryContext = context;
        pg_sys::CurrentResourceOwner = owner;
        kept
    }
}

/// Runs `work` in a subtransaction; an error undoes it and is given back.
pub fn try_in_subtransaction<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    // SAFETY: as above; after an error the subtransaction is rolled back before anything else.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::CurrentMemoryContext = context;
        let outcome = catching(|| {
            let value = work();
            pg_sys::ReleaseCurrentSubTransaction();
            value
        });
        if outcome.is_err() {
            pg_sys::CurrentMemoryContext = context;
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
        }
        pg_sys::CurrentMemoryContext = context;
        pg_sys::CurrentResourceOwner = owner;
        outcome
    }
}

/// Runs `work` in a transaction of its own, for a background worker; an error rolls it back and is
/// given back.
pub fn try_in_transaction<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    let outcome = catching(|| {
        // SAFETY: a background worker outside of any transaction, as the callers are.
        unsafe {
            pg_sys::SetCurrentStatementStartTimestamp();
            pg_sys::StartTransactionCommand();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        }
        let value = work();
        // SAFETY: pops what was pushed above and ends the transaction that was begun above.
        unsafe {
            pg_sys::PopActiveSnapshot();
            pg_sys::CommitTransactionCommand();
        }
        value
    });
    if outcome.is_err() {
        // SAFETY: what the main loop of every backend does after an error.
        unsafe { pg_sys::AbortCurrentTransaction() };
    }
    // SAFETY: hands over what was counted; outside of transactions, as it must be.
    unsafe { pg_sys::pgstat_report_stat(true) };
    outcome
}

/// Runs `work`; an error raised in it is given back.
fn catching<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    use pgrx::pg_sys::panic::CaughtError;
    use std::panic::AssertUnwindSafe;
    let work = AssertUnwindSafe(work);
    pgrx::PgTryBuilder::new(AssertUnwindSafe(move || Ok({ work }.0())))
        .catch_others(|caught| {
            let (CaughtError::PostgresError(report)
            | CaughtError::ErrorReport(report)
            | CaughtError::RustPanic { ereport: report, .. }) = &caught;
            Err(Failure {
                message: report.message().to_string(),
                canceled: report.sql_error_code() == PgSqlErrorCode::ERRCODE_QUERY_CANCELED,
            })
        })
        .execute()
}
