//! This process: its user, database and number.

use pgrx::pg_sys::{self, Oid};
use std::ffi::CStr;
use std::sync::OnceLock;

/// Index of this process in the server's process table: unique among the living.
pub fn index() -> u32 {
    // SAFETY: every process that runs our code has an entry.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        let number = (*pg_sys::MyProc).pgprocno;
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        let number = pg_sys::MyProcNumber;
        number as u32
    }
}

/// Ends what is in progress if this process has been asked to: raises that as an error.
pub fn serve_interrupts() {
    pgrx::check_for_interrupts!();
}

pub fn pid() -> i32 {
    // SAFETY: set at the start of the process.
    unsafe { pg_sys::MyProcPid }
}

/// Returns whether this process is the parent of all others, or the only one.
pub fn is_postmaster() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { !pg_sys::IsUnderPostmaster }
}

/// Returns whether this process serves the connection of a client: no background worker, and none of a parallel
/// query.
pub fn serves_client() -> bool {
    // SAFETY: set at the start of the process.
    unsafe { pg_sys::MyBackendType == pg_sys::BackendType::B_BACKEND }
}

pub fn database() -> Oid {
    // SAFETY: set before any of our code runs in a session.
    unsafe { pg_sys::MyDatabaseId }
}

/// Returns whether the server loads its libraries at start right now.
pub fn is_preloading() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Returns whether the server runs only for pg_upgrade.
pub fn is_binary_upgrade() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Returns whether this session repeats the changes of another server, whose word counts.
pub fn replays() -> bool {
    // SAFETY: reads a setting.
    let role = unsafe { pg_sys::SessionReplicationRole };
    role == pg_sys::SESSION_REPLICATION_ROLE_REPLICA as i32
}

/// How many processes may have an entry with a session in the process table.
pub fn limit() -> usize {
    // SAFETY: set before shared memory is requested.
    unsafe { pg_sys::MaxBackends as usize }
}

/// How many background workers there may be.
pub fn worker_limit() -> usize {
    // SAFETY: a setting, final before shared memory is requested.
    unsafe { pg_sys::max_worker_processes.max(0) as usize }
}

/// Asks a process of this server to end, as pg_terminate_backend does. The caller knows that it has not
/// ended yet.
pub fn terminate(pid: i32) {
    // SAFETY: sends a signal.
    unsafe { libc::kill(pid, libc::SIGTERM) };
}

/// How many prepared transactions there may be.
pub fn prepared_limit() -> usize {
    // SAFETY: a setting, final before shared memory is requested.
    unsafe { crate::server::foreign::max_prepared_xacts as usize }
}

/// Returns unguessable bytes.
pub fn random() -> [u8; 16] {
    let mut bytes = [0u8; 16];
    // SAFETY: fills the buffer whose length is given.
    let filled = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    if !filled {
        crate::error::Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            "could not generate random bytes",
        )
        .raise()
    }
    bytes
}

/// Refuses settings of this prefix that are not defined.
pub fn reserve_settings(prefix: &std::ffi::CStr) {
    // SAFETY: the server copies the C string.
    unsafe { pg_sys::MarkGUCPrefixReserved(prefix.as_ptr()) }
}

/// Returns whether the server was built with assertions.
pub fn has_assertions() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        // SAFETY: a setting that every server has; its text lives as long as the server.
        let set = unsafe { pg_sys::GetConfigOption(c"debug_assertions".as_ptr(), true, false) };
        // SAFETY: null, or a text that ends with a zero.
        !set.is_null() && unsafe { CStr::from_ptr(set) } == c"on"
    })
}
