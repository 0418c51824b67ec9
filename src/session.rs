//! Who this connection is: a session that owns the tasks it takes until it ends.

use crate::error::{Error, Result};
use crate::pg::{callbacks, process};
use crate::shmem::{self, sessions};
use pgrx::PgSqlErrorCode;
use std::cell::Cell;

thread_local! {
    static SESSION: Cell<Option<[u8; 16]>> = const { Cell::new(None) };
    static EXIT_WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// The error of every function where the server was started without the library.
pub fn not_loaded() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "xqueue must be loaded when the server starts",
    )
    .hint("Put shared_preload_libraries = 'xqueue' into postgresql.conf and restart the server.")
}

/// Refuses to go on where the library is not loaded at server start.
pub fn require_loaded() -> Result<()> {
    if shmem::is_available() { Ok(()) } else { Err(not_loaded()) }
}

/// This connection's session, made known to the worker: from now on what it takes is given back
/// when it ends.
pub fn current() -> [u8; 16] {
    if let Some(uuid) = SESSION.get() {
        return uuid;
    }
    let uuid = new_uuid(process::pid(), process::random());
    if !EXIT_WATCHED.replace(true) {
        callbacks::at_exit(ended, 0);
    }
    sessions::open(uuid);
    SESSION.set(Some(uuid));
    uuid
}

/// This connection's session, if it has one yet.
pub fn current_if_any() -> Option<[u8; 16]> {
    SESSION.get()
}

/// Ends the session; what it had taken is given back. The connection's next one is another.
pub fn end() {
    if SESSION.take().is_some() {
        sessions::close(u32::from(process::database()));
    }
}

/// The process that a session's identifier was made for.
pub fn pid(uuid: [u8; 16]) -> i32 {
    i32::from_be_bytes([uuid[0], uuid[1], uuid[2], uuid[3]])
}

/// A uuid of version 8: the process in the first four bytes, the rest random.
fn new_uuid(pid: i32, random: [u8; 16]) -> [u8; 16] {
    let mut uuid = random;
    uuid[..4].copy_from_slice(&pid.to_be_bytes());
    uuid[6] = 0x80 | (uuid[6] & 0x0f);
    uuid[8] = 0x80 | (uuid[8] & 0x3f);
    uuid
}

/// Runs when the process ends, however it does short of a crash. Its transaction is over, so the
/// rows are free; giving them back is the worker's work, since what blocks here cannot be cancelled.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn ended(_code: i32, _argument: pgrx::pg_sys::Datum) {
    crate::wait::leave_at_exit();
    end();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_can_be_read_from_the_uuid() {
        for number in [1, 4242, i32::MAX] {
            let uuid = new_uuid(number, [0xff; 16]);
            assert_eq!(pid(uuid), number);
            assert_eq!(uuid[6] >> 4, 8);
            assert_eq!(uuid[8] >> 6, 2);
        }
    }
}
