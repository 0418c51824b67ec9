//! Services of the operating system that the standard library lacks: the signals of a thread, the timeout of a socket.
//! Threads can call them, because they do not use PostgreSQL.

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Runs `work` while this thread, and the threads that it starts, receive no signals.
pub fn with_signals_blocked<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: sigfillset initializes `all`; pthread_sigmask reads `all` and writes `before`.
    let result = unsafe {
        let mut all = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr())
    };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    let value = work();
    // SAFETY: the call above succeeded, so `before` is initialized; the old mask is not requested.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) }
    {
        0 => Ok(value),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Limits how long sent data can stay unacknowledged. Without the limit, writes into a connection whose peer has
/// vanished succeed for a quarter of an hour.
pub fn give_up_unacknowledged_data(stream: &TcpStream, after: Duration) -> io::Result<()> {
    let milliseconds = libc::c_uint::try_from(after.as_millis()).unwrap_or(libc::c_uint::MAX);
    // SAFETY: the descriptor is open because `stream` is borrowed; the value is a live c_uint of the given length.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_USER_TIMEOUT,
            (&raw const milliseconds).cast(),
            size_of::<libc::c_uint>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
