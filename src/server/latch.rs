//! Sleeping until an event, and waking another process.

use pgrx::pg_sys;
use pgrx::pg_sys::libpq::be::MyProcPort;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// The reason for a sleep, shown as `wait_event` in pg_stat_activity from PostgreSQL 17 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A consumer waits for a task.
    Task,
    /// A process waits for the outcome of a task.
    Outcome,
    /// A producer waits for capacity.
    Room,
    /// A worker waits for work.
    Work,
    /// A short pause.
    Other,
}

#[cfg(any(feature = "pg17", feature = "pg18"))]
impl Reason {
    fn event(self) -> u32 {
        use std::ffi::CStr;
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

        const NAMES: [&CStr; 4] =
            [c"XqueueTask", c"XqueueOutcome", c"XqueueRoom", c"XqueueWorkerMain"];
        static EVENTS: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];
        let Some((event, name)) = EVENTS.get(self as usize).zip(NAMES.get(self as usize)) else {
            return pg_sys::PG_WAIT_EXTENSION;
        };
        if event.load(Relaxed) == 0 {
            // SAFETY: the name is a constant. The server returns the same number to all processes.
            event.store(unsafe { pg_sys::WaitEventExtensionNew(name.as_ptr()) }, Relaxed);
        }
        event.load(Relaxed)
    }
}

#[cfg(any(feature = "pg15", feature = "pg16"))]
impl Reason {
    fn event(self) -> u32 {
        pg_sys::PG_WAIT_EXTENSION
    }
}

/// Sleeps until this process's latch is set, the timeout passes, or, with `watch_client`, the client has closed its
/// connection. A closed connection, a cancel or a shutdown ends the statement with an error.
pub fn wait(reason: Reason, timeout: Option<Duration>, watch_client: bool) {
    wait_for(reason, timeout, watch_client, None);
}

/// Sleeps until this process's latch is set, the timeout passes, or the socket accepts data or has failed.
pub fn wait_for_room(reason: Reason, timeout: Option<Duration>, socket: Option<BorrowedFd>) {
    wait_for(reason, timeout, false, socket);
}

fn wait_for(
    reason: Reason,
    timeout: Option<Duration>,
    watch_client: bool,
    writable: Option<BorrowedFd>,
) {
    let event = reason.event();
    let mut events = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH;
    let mut milliseconds = -1;
    if let Some(timeout) = timeout {
        events |= pg_sys::WL_TIMEOUT;
        // Rounded up: waits that end early would amount to polling.
        milliseconds = timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as i64;
    }
    let mut socket = pg_sys::PGINVALID_SOCKET as pg_sys::pgsocket;
    if let Some(writable) = writable {
        events |= pg_sys::WL_SOCKET_WRITEABLE;
        socket = writable.as_raw_fd();
    }
    // SAFETY: waits on this process's own latch, and on the client's socket or a borrowed one, which is open.
    // `MyProcPort` is null in processes without a client.
    unsafe {
        if watch_client && !MyProcPort.is_null() && pg_sys::WaitEventSetCanReportClosed() {
            events |= pg_sys::WL_SOCKET_CLOSED;
            socket = (*MyProcPort).sock;
        }
        let happened =
            pg_sys::WaitLatchOrSocket(pg_sys::MyLatch, events as i32, socket, milliseconds, event);
        if happened & pg_sys::WL_LATCH_SET as i32 != 0 {
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
        if happened & pg_sys::WL_SOCKET_CLOSED as i32 != 0 {
            pg_sys::ClientConnectionLost = 1;
            pg_sys::InterruptPending = 1;
        }
        pgrx::check_for_interrupts!();
    }
}

/// Wakes the process at index `process` of the server's process table.
pub fn wake(process: u32) {
    // SAFETY: the table is shared memory that lives as long as the server, and `process` is an index that a process has
    // published of itself. Setting the latch of a process that has exited is harmless.
    unsafe {
        let table = (*pg_sys::ProcGlobal).allProcs;
        pg_sys::SetLatch(std::ptr::addr_of_mut!((*table.add(process as usize)).procLatch));
    }
}
