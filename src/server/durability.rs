//! How durable a transaction's commit is before it is reported.

use pgrx::pg_sys;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// The saved value of `synchronous_commit` while a commit does not wait for durability.
static SPARED: AtomicI32 = AtomicI32::new(NOT_SPARED);

const NOT_SPARED: i32 = -1;

/// Returns the end of the open transaction's records in the write-ahead log; 0 if it has written none.
pub fn written() -> u64 {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::XactLastRecEnd }
}

/// Lets the commit of the current transaction skip the wait for the disk or a standby: losing it in a crash has no
/// effect. `waits_again` follows at its end.
pub fn need_not_wait() {
    let off = pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_OFF as i32;
    // SAFETY: the server reads its variable when it writes the commit record.
    unsafe {
        if pg_sys::synchronous_commit > off {
            SPARED.store(pg_sys::synchronous_commit, Relaxed);
            pg_sys::synchronous_commit = off;
        }
    }
}

/// Restores the setting. Must neither allocate nor fail.
pub fn waits_again() {
    let setting = SPARED.swap(NOT_SPARED, Relaxed);
    if setting != NOT_SPARED {
        // SAFETY: a variable of the backend gets its previous value.
        unsafe { pg_sys::synchronous_commit = setting }
    }
}
