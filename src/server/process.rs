//! This process and its server: user, database, number, limits, build.

use pgrx::pg_sys::{self, Oid};
use std::ffi::CStr;
use std::sync::OnceLock;

/// Returns the index of this process in the server's process table, unique among live processes.
pub fn index() -> u32 {
    // SAFETY: every process that runs the extension's code has an entry.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        let number = (*pg_sys::MyProc).pgprocno;
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        let number = pg_sys::MyProcNumber;
        number as u32
    }
}

/// Serves pending interrupts: a cancel or a shutdown is raised as an error.
pub fn serve_interrupts() {
    pgrx::check_for_interrupts!();
}

pub fn pid() -> i32 {
    // SAFETY: set at the start of the process.
    unsafe { pg_sys::MyProcPid }
}

/// Returns whether this process is the postmaster, or a standalone backend.
pub fn is_postmaster() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { !pg_sys::IsUnderPostmaster }
}

/// Returns whether this process serves a client connection; false for background workers, including parallel workers.
pub fn serves_client() -> bool {
    // SAFETY: set at the start of the process.
    unsafe { pg_sys::MyBackendType == pg_sys::BackendType::B_BACKEND }
}

pub fn database() -> Oid {
    // SAFETY: set before any code of the extension runs in a session.
    unsafe { pg_sys::MyDatabaseId }
}

/// Returns whether the server is loading its shared_preload_libraries.
pub fn is_preloading() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Returns whether the server runs only for pg_upgrade.
pub fn is_binary_upgrade() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Returns whether this session applies the changes of another server, which are not checked again.
pub fn replays() -> bool {
    // SAFETY: reads a setting.
    let role = unsafe { pg_sys::SessionReplicationRole };
    role == pg_sys::SESSION_REPLICATION_ROLE_REPLICA as i32
}

/// Returns the maximum number of processes with a session in the process table.
pub fn limit() -> usize {
    // SAFETY: set before shared memory is requested.
    unsafe { pg_sys::MaxBackends as usize }
}

/// Returns the maximum number of background workers.
pub fn worker_limit() -> usize {
    // SAFETY: a setting, final before shared memory is requested.
    unsafe { pg_sys::max_worker_processes.max(0) as usize }
}

/// Asks a process of this server to end, like pg_terminate_backend. The caller knows that it has not ended yet.
pub fn terminate(pid: i32) {
    // SAFETY: sends a signal.
    unsafe { libc::kill(pid, libc::SIGTERM) };
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

/// Makes the server refuse undefined settings with this prefix.
pub fn reserve_settings(prefix: &std::ffi::CStr) {
    // SAFETY: the server copies the C string.
    unsafe { pg_sys::MarkGUCPrefixReserved(prefix.as_ptr()) }
}

/// Returns whether the server was built with assertions.
pub fn has_assertions() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        // SAFETY: every server has this setting; its text lives as long as the server.
        let set = unsafe { pg_sys::GetConfigOption(c"debug_assertions".as_ptr(), true, false) };
        // SAFETY: null, or a text that ends with NUL.
        !set.is_null() && unsafe { CStr::from_ptr(set) } == c"on"
    })
}
