//! Sends reports to one Graphite server over non-blocking sockets. The worker's loop calls [`Sender::work`], and then
//! waits for the socket or the time that [`Sender::awaited`] returns. At most one report is kept.

use crate::server::system;
use crate::settings::Protocol;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use std::{mem, vec};
use xqueue_core::metrics::first_datagram;

/// Maximum number of a name's addresses that are tried.
const MAX_ADDRESSES: usize = 4;
/// A connection fails if its peer answers, reads or acknowledges nothing for this long.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A new connection counts as established after this time: some peers accept and then close immediately.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// Pauses after failures double from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// Age at which a UDP socket is replaced and its host name resolved again: no broken connection reveals that the host
/// has moved.
const STALE_AFTER: Duration = Duration::from_secs(60);
/// Maximum size of a datagram (bytes). It fits one Ethernet frame with room for tunnels: a fragmented datagram is lost
/// with any of its fragments.
const MAX_DATAGRAM: usize = 1400;
/// Maximum number of writes in a row. UDP pauses after them, because more datagrams overflow the receiver's buffer.
const MAX_WRITES: usize = 32;
const WRITES_PAUSE: Duration = Duration::from_millis(50);

/// Host, port and protocol. The host is a name or an address of either family without brackets.
type Target = (String, u16, Protocol);

/// The sender for one target. Dropping it closes the connection.
pub struct Sender {
    pub target: Target,
    /// The report that waits or is being sent.
    report: Option<Vec<u8>>,
    link: Option<Link>,
    /// Addresses left to try if the connection fails before it has lasted for `SETTLE_TIME`.
    addresses: vec::IntoIter<SocketAddr>,
    /// After a failure: when the next attempt is due, and the pause before it.
    retry: Option<(Instant, Duration)>,
    /// The last message in the log reports success.
    is_well: bool,
}

/// A connection that is open or being opened.
struct Link {
    socket: Socket,
    protocol: Protocol,
    opened_at: Instant,
    /// Number of bytes of the report sent so far, and the time of the last progress.
    sent: usize,
    sent_at: Instant,
    has_lasted: bool,
}

impl Sender {
    pub fn new(target: Target) -> Sender {
        let addresses = vec![].into_iter();
        Sender { target, report: None, link: None, addresses, retry: None, is_well: false }
    }

    /// Returns whether no report is being sent.
    pub fn is_free(&self) -> bool {
        self.report.is_none() || self.link.is_none()
    }

    /// Takes a report. It replaces a report that still waits after a failure.
    pub fn send(&mut self, report: String, now: Instant) {
        self.report = Some(report.into_bytes());
        let is_usable =
            |link: &Link| link.protocol == Protocol::Tcp || now - link.opened_at < STALE_AFTER;
        self.link = self.link.take().filter(is_usable);
        if let Some(link) = &mut self.link {
            (link.sent, link.sent_at) = (0, now);
        }
    }

    /// Sends as much as the network takes now. Returns a line for the log when the target begins to accept reports or
    /// fails.
    pub fn work(&mut self, now: Instant) -> Option<Result<String, String>> {
        if self.report.is_none() || self.rest(now).is_some() {
            return None;
        }
        match self.advance(now) {
            Ok(false) => None,
            Ok(true) => {
                (self.report, self.retry, self.addresses) = (None, None, vec![].into_iter());
                let message = format!("sending metrics to Graphite at {}", url(&self.target));
                (!mem::replace(&mut self.is_well, true)).then_some(Ok(message))
            }
            Err(error) => self.fail(error, now).map(Err),
        }
    }

    /// Returns the condition for the next call of `work`: the socket takes data, or a pause ends.
    pub fn awaited(&self, now: Instant) -> (Option<BorrowedFd<'_>>, Duration) {
        match (&self.report, &self.link) {
            (None, _) => (None, Duration::MAX),
            (Some(_), None) => (None, self.rest(now).unwrap_or_default()),
            (Some(report), Some(link)) if link.sent == report.len() => {
                (None, link.sent_at + SETTLE_TIME - now)
            }
            (_, Some(Link { protocol: Protocol::Udp, .. })) => (None, WRITES_PAUSE),
            (_, Some(link)) => (Some(link.socket.as_fd()), link.sent_at + TIMEOUT - now),
        }
    }

    /// Returns how much longer the target rests after a failure.
    fn rest(&self, now: Instant) -> Option<Duration> {
        let left = self.retry?.0.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Continues to send, or opens a connection. Returns whether all is sent over a connection that has lasted.
    fn advance(&mut self, now: Instant) -> io::Result<bool> {
        let report = self.report.as_deref().unwrap_or_default();
        let mut error = io::Error::other("the host name has no address");
        match &mut self.link {
            None => self.addresses = resolve(&self.target)?,
            Some(link) => match link.send(report, now) {
                Ok(is_done) => return Ok(is_done),
                Err(failure) => {
                    // A peer that restarts behind a load balancer or closes idle connections causes neither a gap nor a
                    // message.
                    if link.has_lasted && failure.kind() != ErrorKind::TimedOut {
                        self.addresses = resolve(&self.target)?;
                    }
                    error = failure;
                }
            },
        }
        for address in self.addresses.by_ref() {
            match Link::open(address, self.target.2, now) {
                Ok(link) => {
                    self.link = Some(link);
                    return Ok(false);
                }
                Err(failure) => error = failure,
            }
        }
        Err(error)
    }

    fn fail(&mut self, error: io::Error, now: Instant) -> Option<String> {
        self.link = None;
        self.is_well = false;
        let pause = self.retry.map_or(FIRST_PAUSE, |(_, pause)| LAST_PAUSE.min(pause * 2));
        let message = format!(
            "cannot send metrics to Graphite at {}: {error}; trying again in {pause:?} and then less often",
            url(&self.target)
        );
        self.retry.replace((now + pause, pause)).is_none().then_some(message)
    }
}

fn url((host, port, protocol): &Target) -> String {
    let protocol = if *protocol == Protocol::Tcp { "tcp" } else { "udp" };
    let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
    format!("{protocol}://{open}{host}{close}:{port}")
}

/// Resolves the host. Blocks while name servers are asked, unless the host is an address.
fn resolve((host, port, _): &Target) -> io::Result<vec::IntoIter<SocketAddr>> {
    system::limit_name_lookup();
    let addresses = (host.as_str(), *port)
        .to_socket_addrs()
        .map_err(|error| io::Error::other(format!("cannot resolve the host name: {error}")))?;
    Ok(addresses.take(MAX_ADDRESSES).collect::<Vec<_>>().into_iter())
}

impl Link {
    fn open(address: SocketAddr, protocol: Protocol, now: Instant) -> io::Result<Link> {
        let kind = if protocol == Protocol::Tcp { Type::STREAM } else { Type::DGRAM };
        let socket = Socket::new(Domain::for_address(address), kind, None)?;
        socket.set_nonblocking(true)?;
        if protocol == Protocol::Tcp {
            // Otherwise writes to a vanished peer succeed for a quarter of an hour.
            socket.set_tcp_user_timeout(Some(TIMEOUT))?;
        }
        // UDP sockets connect too, because only then does the kernel report a closed port.
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(Link {
                socket,
                protocol,
                opened_at: now,
                sent: 0,
                sent_at: now,
                has_lasted: false,
            }),
        }
    }

    /// Sends as much as fits. Returns whether all is sent and the connection has lasted.
    fn send(&mut self, report: &[u8], now: Instant) -> io::Result<bool> {
        self.check()?;
        for _ in 0..MAX_WRITES {
            let rest = &report[self.sent..];
            if rest.is_empty() {
                self.has_lasted |= now - self.sent_at >= SETTLE_TIME;
                return Ok(self.has_lasted);
            }
            let is_udp = self.protocol == Protocol::Udp;
            let part = if is_udp { first_datagram(rest, MAX_DATAGRAM) } else { rest };
            match self.socket.send(part) {
                Ok(written) => (self.sent, self.sent_at) = (self.sent + written, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if now - self.sent_at >= TIMEOUT {
            let state =
                if self.socket.peer_addr().is_ok() { "read what it is sent" } else { "answer" };
            return Err(io::Error::new(ErrorKind::TimedOut, format!("the peer does not {state}")));
        }
        Ok(false)
    }

    /// Fails if the peer has closed the connection, or no process listens on the port.
    fn check(&self) -> io::Result<()> {
        // If the port is in the ephemeral range, the kernel can give it to this socket, which then connects to itself.
        let ends = (self.socket.local_addr(), self.socket.peer_addr());
        if let (Ok(own), Ok(peer)) = ends
            && own == peer
        {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        // Graphite sends no data. Data from another peer is discarded, so that the end of the connection behind it is
        // seen.
        match (&self.socket).read(&mut [0; 65536]) {
            Ok(0) => Err(io::Error::other("the connection was closed by the peer")),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, UdpSocket};
    use std::thread;

    fn listen() -> (TcpListener, Sender) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, Sender::new(("127.0.0.1".into(), port, Protocol::Tcp)))
    }

    /// Sends a report until it succeeds or fails. Returns the log. The clock runs twenty times as fast.
    fn deliver(sender: &mut Sender, report: &str) -> String {
        let mut now = sender.retry.map_or_else(Instant::now, |(retry_at, _)| retry_at);
        sender.send(report.into(), now);
        let mut log = String::new();
        while sender.report.is_some() && sender.rest(now).is_none() {
            log += &sender.work(now).map_or(String::new(), |line| line.unwrap_or_else(|line| line));
            thread::sleep(Duration::from_millis(1));
            now += Duration::from_millis(20);
        }
        log
    }

    fn lines(listener: &TcpListener) -> impl Iterator<Item = String> {
        BufReader::new(listener.accept().unwrap().0).lines().map(Result::unwrap)
    }

    #[test]
    fn a_peer_that_closes_gets_a_new_connection_without_a_gap() {
        let (listener, mut sender) = listen();
        assert!(deliver(&mut sender, "a\n").starts_with("sending metrics to Graphite at tcp:"));
        for is_read in [false, true] {
            let mut lines = lines(&listener);
            assert_eq!(lines.next().unwrap(), "a");
            assert_eq!(deliver(&mut sender, "b\n"), "");
            assert!(!is_read || lines.next().unwrap() == "b");
            // Closing with unread data resets the connection; otherwise the sender reads an end of file.
            drop(lines);
            assert_eq!(deliver(&mut sender, "a\n"), "");
        }
        assert_eq!(lines(&listener).next().unwrap(), "a");
    }

    #[test]
    fn a_peer_that_closes_midway_gets_the_whole_report_again() {
        let (listener, mut sender) = listen();
        deliver(&mut sender, "a\n");
        let (mut first, _) = listener.accept().unwrap();
        let reader = thread::spawn(move || {
            first.read_exact(&mut [0; 65536]).unwrap();
            drop(first);
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        // More than the kernel buffers.
        let flood = "a 1 1\n".repeat(4 << 20);
        assert_eq!(deliver(&mut sender, &flood), "");
        drop(sender);
        assert!(reader.join().unwrap() == flood.as_bytes());
    }

    #[test]
    fn a_failure_is_logged_once_and_the_pauses_double() {
        let (listener, mut sender) = listen();
        let address = listener.local_addr().unwrap();
        drop(listener);
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            let log = deliver(&mut sender, "a\n");
            assert!(if pause == 1 { log.contains("refused") } else { log.is_empty() }, "{log}");
            let (retry_at, after) = sender.retry.unwrap();
            assert_eq!(after.as_secs(), pause);
            assert_eq!(sender.awaited(retry_at - FIRST_PAUSE / 2).1, FIRST_PAUSE / 2);
            assert_eq!(sender.work(retry_at - FIRST_PAUSE / 2), None);
        }
        let listener = TcpListener::bind(address).unwrap();
        assert!(deliver(&mut sender, "b\n").starts_with("sending"));
        assert_eq!(lines(&listener).next().unwrap(), "b");
    }

    #[test]
    fn a_peer_that_never_reads_and_a_name_without_address_fail() {
        let (_listener, mut sender) = listen();
        let flood = "a 1 1\n".repeat(4 << 20);
        assert!(deliver(&mut sender, &flood).contains("does not read"));
        // The report stays whole for the next attempt.
        assert_eq!(sender.report.as_ref().map(Vec::len), Some(flood.len()));
        let mut sender = Sender::new(("no-such-host.invalid".into(), 2003, Protocol::Tcp));
        assert!(deliver(&mut sender, "a\n").contains("cannot resolve"));
    }

    /// On many machines `localhost` resolves to ::1 first, while carbon listens on IPv4 only.
    #[test]
    fn datagrams_are_small_and_whole_and_go_to_the_address_that_listens() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = receiver.local_addr().unwrap().port();
        let report: String = (0..4000).map(|number| format!("jobs.ready {number}\n")).collect();
        let mut sender = Sender::new(("localhost".into(), port, Protocol::Udp));
        assert!(deliver(&mut sender, &report).starts_with("sending"));
        let (mut received, mut buffer) = (Vec::new(), [0; 9000]);
        while received.len() < report.len() {
            let length = receiver.recv(&mut buffer).unwrap();
            assert!(length <= MAX_DATAGRAM && buffer[length - 1] == b'\n');
            received.extend_from_slice(&buffer[..length]);
        }
        assert_eq!(received, report.as_bytes());
    }
}
