//! Background workers: starting them, and what the main function of one needs.

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
/// What a database or a role may set for its sessions, and must not for a worker.
const SETTINGS: [(&CStr, &CStr); 7] = [
    (c"search_path", c"pg_catalog, pg_temp"),
    (c"default_transaction_read_only", c"off"),
    (c"default_transaction_isolation", c"read committed"),
    (c"statement_timeout", c"0"),
    (c"lock_timeout", c"0"),
    (c"row_security", c"on"),
    // The worker repeats what a crash undoes; a take of such a task waits for the disk at its own commit.
    (c"synchronous_commit", c"off"),
];
/// For how long a connection may wait for a database that another session has locked, as by ALTER DATABASE RENAME in an open
/// transaction. Meanwhile the worker takes a place from those of other databases.
const CONNECT_TIMEOUT: &CStr = c"100ms";
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Makes a Rust function `fn(u32)` the main function of a background worker, under a C symbol: it gets the number
/// that the worker was started with, as a rule the oid of a database.
#[macro_export]
macro_rules! background_worker {
    ($symbol:ident => $function:path) => {
        /// As the server calls it.
        #[allow(unsafe_code, reason = "a symbol that the server looks up")]
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $symbol(argument: pgrx::pg_sys::Datum) {
            // SAFETY: called by the server; there is nothing to drop here.
            unsafe { $crate::server::diagnostics::guard(|| $function(argument.value() as u32)) }
        }
    };
}

/// Has the server start a worker with itself, and again whenever it ends.
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

/// Starts a worker now. False if the server has no place for it. Once it has ended and its place is free, the latch of
/// background worker `notify` is set.
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
    // The server allocates a handle, which nothing here uses.
    Scratch::new().run(move || worker.load_dynamic().is_ok())
}

/// Returns whether this process is a background worker of ours.
pub fn is_own() -> bool {
    // SAFETY: null in other processes; set before any of our code runs in a background worker, with a name
    // that ends with NUL.
    unsafe {
        let entry = pg_sys::MyBgworkerEntry.as_ref();
        entry.is_some_and(|entry| {
            CStr::from_ptr(entry.bgw_library_name.as_ptr()).to_bytes() == LIBRARY.as_bytes()
        })
    }
}

/// Makes this worker end on SIGTERM wherever it is, as sessions do, and read the settings again
/// on SIGHUP.
pub fn handle_signals() {
    // SAFETY: handlers of the server for signals that are still blocked.
    unsafe {
        pqsignal(pg_sys::SIGTERM as i32, Some(foreign::die));
        pqsignal(pg_sys::SIGHUP as i32, Some(foreign::SignalHandlerForConfigReload));
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}

/// Connects to a database, as the superuser of the cluster; to none but the shared catalogues
/// without one.
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
        for (name, value) in SETTINGS {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
        // As its backend_type in pg_stat_activity.
        pg_sys::SetConfigOption(
            c"application_name".as_ptr(),
            (*pg_sys::MyBgworkerEntry).bgw_name.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        );
    }
}

/// Sleeps until this process's latch is set or the time is over. A cancel, which is meant for something that
/// runs, is of no account.
pub fn wait_idle(timeout: Option<Duration>) {
    // SAFETY: counts as the server's own code does. A shutdown ends the process and needs no count. The flag is set by
    // a signal handler.
    unsafe {
        pg_sys::QueryCancelHoldoffCount += 1;
        crate::server::latch::wait(crate::server::latch::Reason::Work, timeout, false);
        pg_sys::QueryCancelHoldoffCount -= 1;
        pg_sys::QueryCancelPending = 0;
    }
}

/// Reads the settings again if the server has been told to.
pub fn reload_settings() {
    // SAFETY: the flag is set by the signal handler; reading the file is allowed here.
    unsafe {
        if pg_sys::ConfigReloadPending != 0 {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
}

/// Shows in pg_stat_activity what the worker is doing.
pub fn report_idle() {
    // SAFETY: writes to this process's own entry.
    unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null()) }
}

/// Cancels what this worker does when the time is over, until it is dropped.
pub struct Timeout(());

impl Timeout {
    pub fn after(duration: Duration) -> Timeout {
        Timeout::restart(duration);
        Timeout(())
    }

    /// Lets the time of the limit in force begin anew.
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
        // SAFETY: as above; a timer that has fired may be disabled.
        unsafe {
            pg_guard_ffi_boundary(|| foreign::disable_timeout(foreign::STATEMENT_TIMEOUT, false));
            // It may have fired when there was nothing left to cancel.
            pg_sys::QueryCancelPending = 0;
        }
    }
}

impl Drop for Timeout {
    fn drop(&mut self) {
        Timeout::stop();
    }
}
