//! Fake Graphites: listeners that accept no connection, vanish, or close each connection.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use xqueue_tests::wait_until;

pub fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

pub fn port(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("it is bound").port()
}

/// Returns the local ports of the connections to a port of this machine, including connections not yet established.
pub fn connections_to(port: u16) -> BTreeSet<u16> {
    const ESTABLISHED: &str = "01";
    const SYN_SENT: &str = "02";
    let far = format!("{:08X}:{port:04X}", u32::from_ne_bytes([127, 0, 0, 1]));
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel lists its sockets");
    let near_end = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (near, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
        let is_wanted = remote == far && [ESTABLISHED, SYN_SENT].contains(&state);
        let (_, port) = near.split_once(':').filter(|_| is_wanted)?;
        u16::from_str_radix(port, 16).ok()
    };
    table.lines().filter_map(near_end).collect()
}

pub fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    listener.set_nonblocking(true).expect("a socket of ours");
    let mut accepted = None;
    wait_until("the server connects", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (stream, address) = accepted.expect("it was accepted");
    stream.set_nonblocking(false).expect("a socket of ours");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket of ours");
    (stream, address)
}

/// Closes each connection to the listener from now on. Returns the number of closed connections.
pub fn closing(listener: TcpListener) -> Arc<AtomicUsize> {
    let closed = Arc::new(AtomicUsize::new(0));
    let count = closed.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream.expect("a connection"));
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    closed
}

/// Connects until the kernel no longer answers: later attempts to connect get no reply at all.
pub fn fill(listener: &TcpListener) -> Vec<TcpStream> {
    // SAFETY: the descriptor is open, and the second listen only shrinks the backlog.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let address = listener.local_addr().expect("it is bound");
    let mut connected = Vec::new();
    wait_until("the backlog is full", || {
        let attempt = TcpStream::connect_timeout(&address, Duration::from_millis(200));
        let refused = attempt.is_err();
        connected.extend(attempt);
        refused
    });
    connected
}

/// Makes the kernel drop everything that arrives for this connection, without acknowledging or refusing it.
pub fn vanish(stream: &TcpStream) {
    let drop_all = libc::sock_filter { code: libc::BPF_RET as u16, jt: 0, jf: 0, k: 0 };
    let mut program = [drop_all];
    let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    // SAFETY: the descriptor is open, and the filter has as many instructions as its length says.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
