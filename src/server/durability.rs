//! How safe a transaction's commit is before it is reported.

use pgrx::pg_sys;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// The setting `synchronous_commit` while a commit is spared the wait that it asks for.
static SPARED: AtomicI32 = AtomicI32::new(NOT_SPARED);

const NOT_SPARED: i32 = -1;

/// Up to where the open transaction has written to the write-ahead log; 0 if it has not.
pub fn written() -> u64 {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::XactLastRecEnd }
}

/// Lets the transaction that is about to commit not wait for the disk or a standby: its loss in a crash has no
/// effect. Followed by `waits_again` at its end.
pub fn need_not_wait() {
    let off = pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_OFF as i32;
    // SAFETY: the server looks at its variable once more when it writes the commit.
    unsafe {
        if pg_sys::synchronous_commit > off {
            SPARED.store(pg_sys::synchronous_commit, Relaxed);
            pg_sys::synchronous_commit = off;
        }
    }
}

/// The setting is as it was. Must neither allocate nor fail.
pub fn waits_again() {
    let setting = SPARED.swap(NOT_SPARED, Relaxed);
    if setting != NOT_SPARED {
        // SAFETY: a variable of the backend, which had this value.
        unsafe { pg_sys::synchronous_commit = setting }
    }
}
