//! Background workers: starts them, and supports their main functions.

use crate::server::foreign;
use crate::server::memory::Scratch;
use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime};
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
#[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
use pgrx::pg_sys::pqsignal;
#[cfg(feature = "pg18")]
use pgrx::pg_sys::pqsignal_be as pqsignal;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::CStr;
use std::time::Duration;

const LIBRARY: &str = "xqueue";
/// Settings that a database or a role can set for its sessions, and that must not apply to a worker.
const SETTINGS: [(&CStr, &CStr); 9] = [
    (c"role", c"none"),
    (c"search_path", c"pg_catalog, pg_temp"),
    (c"default_transaction_read_only", c"off"),
    (c"default_transaction_isolation", c"read committed"),
    (c"statement_timeout", c"0"),
    (c"lock_timeout", c"0"),
    // Since PostgreSQL 17.
    (c"transaction_timeout", c"0"),
    (c"row_security", c"on"),
    // A crash loses work that the worker then repeats; a take of such a task waits for the disk at its own commit.
    (c"synchronous_commit", c"off"),
];
/// Maximum wait of a connection for a database that another session has locked, for example with ALTER DATABASE RENAME
/// in an open transaction. During the wait the worker occupies a worker slot that other databases need.
const CONNECT_TIMEOUT: &CStr = c"100ms";
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Makes a Rust function `fn(u32)` the main function of a background worker, under a C symbol. Its argument is the
/// number that the worker was started with, usually the oid of a database.
#[macro_export]
macro_rules! background_worker {
    ($symbol:ident => $function:path) => {
        /// The entry point that the server calls.
        #[allow(unsafe_code, reason = "a symbol that the server looks up")]
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $symbol(argument: pgrx::pg_sys::Datum) {
            // SAFETY: called by the server; there is nothing to drop here.
            unsafe { $crate::server::diagnostics::guard(|| $function(argument.value() as u32)) }
        }
    };
}

/// Makes the server start a worker at its own start, and restart it whenever it ends.
pub fn start_with_server(name: &str, function: &str) {
    BackgroundWorkerBuilder::new(name)
        .set_library(LIBRARY)
        .set_function(function)
        .enable_shmem_access(None)
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(Some(RESTART_AFTER))
        .load();
}

/// Starts a worker now. Returns false if the server has no free worker slot. After the worker has ended and its slot is
/// free, the latch of background worker `notify` is set.
pub fn start(name: &str, function: &str, argument: u32, notify: i32) -> bool {
    let worker = BackgroundWorkerBuilder::new(name)
        .set_library(LIBRARY)
        .set_function(function)
        .set_argument(Some(Datum::from(argument)))
        .enable_shmem_access(None)
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_notify_pid(notify)
        .set_restart_time(None);
    // The server allocates a handle, which is not used here.
    Scratch::new().run(move || worker.load_dynamic().is_ok())
}

/// Returns whether this process is one of the extension's background workers.
pub fn is_own() -> bool {
    // SAFETY: null in other processes; set before any of the extension's code runs in a background worker, with a name
    // that ends with NUL.
    unsafe {
        let entry = pg_sys::MyBgworkerEntry.as_ref();
        entry.is_some_and(|entry| {
            CStr::from_ptr(entry.bgw_library_name.as_ptr()).to_bytes() == LIBRARY.as_bytes()
        })
    }
}

/// Makes SIGTERM end this worker at any interruptible point, as in a session, and SIGHUP reload the settings.
pub fn handle_signals() {
    // SAFETY: the server's handlers, for signals that are still blocked.
    unsafe {
        pqsignal(pg_sys::SIGTERM as i32, Some(foreign::die));
        pqsignal(pg_sys::SIGHUP as i32, Some(foreign::SignalHandlerForConfigReload));
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}

/// Connects to a database as the bootstrap superuser. Without a database, connects only to the shared catalogs.
pub fn connect(database: Option<u32>) {
    // SAFETY: called once, by a worker that has asked for a connection.
    unsafe {
        let database = database.map_or(Oid::INVALID, Oid::from);
        pg_sys::SetConfigOption(
            c"lock_timeout".as_ptr(),
            CONNECT_TIMEOUT.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        );
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, Oid::INVALID, 0);
        // A database can have its own session_authorization, too.
        pg_sys::SetSessionAuthorization(Oid::from(pg_sys::BOOTSTRAP_SUPERUSERID), true);
        let is_known = |name: &CStr| !pg_sys::GetConfigOption(name.as_ptr(), true, false).is_null();
        for (name, value) in SETTINGS.into_iter().filter(|(name, _)| is_known(name)) {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
        // Equals its backend_type in pg_stat_activity.
        pg_sys::SetConfigOption(
            c"application_name".as_ptr(),
            (*pg_sys::MyBgworkerEntry).bgw_name.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        );
    }
}

/// Sleeps until this process's latch is set or the timeout passes. A cancel request is ignored, because it is meant for
/// running work.
pub fn wait_idle(timeout: Option<Duration>) {
    // SAFETY: uses the counter in the server's own way. A shutdown ends the process, which makes the counter
    // irrelevant. A signal handler sets the flag.
    unsafe {
        pg_sys::QueryCancelHoldoffCount += 1;
        crate::server::latch::wait(crate::server::latch::Reason::Work, timeout, false);
        pg_sys::QueryCancelHoldoffCount -= 1;
        pg_sys::QueryCancelPending = 0;
    }
}

/// Reloads the settings if the server has requested it.
pub fn reload_settings() {
    // SAFETY: the signal handler sets the flag; reading the file is allowed here.
    unsafe {
        if pg_sys::ConfigReloadPending != 0 {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
}

/// Reports this worker as idle in pg_stat_activity.
pub fn report_idle() {
    // SAFETY: writes to this process's own entry.
    unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null()) }
}

/// A time limit for this worker's current work, which is cancelled when the limit passes; ends on drop.
pub struct Timeout(());

impl Timeout {
    pub fn after(duration: Duration) -> Timeout {
        Timeout::restart(duration);
        Timeout(())
    }

    /// Restarts the current time limit.
    pub fn restart(duration: Duration) {
        Timeout::stop();
        let milliseconds = duration.as_millis().clamp(1, i32::MAX as u128) as i32;
        // SAFETY: the timer is registered for every process that is connected to a database.
        unsafe {
            pg_guard_ffi_boundary(|| {
                foreign::enable_timeout_after(foreign::STATEMENT_TIMEOUT, milliseconds)
            })
        }
    }
}

impl Timeout {
    fn stop() {
        // SAFETY: as above; disabling a timer that has fired is allowed.
        unsafe {
            pg_guard_ffi_boundary(|| foreign::disable_timeout(foreign::STATEMENT_TIMEOUT, false));
            // The timer can have fired when no work was left to cancel.
            pg_sys::QueryCancelPending = 0;
        }
    }
}

impl Drop for Timeout {
    fn drop(&mut self) {
        Timeout::stop();
    }
}
