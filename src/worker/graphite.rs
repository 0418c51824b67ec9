//! Sends reports to one Graphite. Sockets do not block: the caller's loop calls [`Sender::work`] again and again, which
//! writes what fits. A short-lived thread opens each connection, as name lookups and connects wait. It also sends the
//! first report and returns the socket once that has lasted: some peers accept and close at once.
//!
//! The thread may call nothing of Postgres.

use crate::metrics::first_datagram;
use crate::server::system;
use crate::settings::Protocol;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;
/// For connecting to one address, and then for writing the first report.
const TIMEOUT: Duration = Duration::from_secs(3);
/// A new connection counts if it lasts this long.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// The kernel drops a connection whose peer acknowledges, or reads, nothing for this long.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses after failures double from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// After this a name is resolved again for UDP, where no broken connection tells that the host has moved.
const STALE_AFTER: Duration = Duration::from_secs(60);
/// Fits one Ethernet frame with room for tunnels: a datagram that is cut into fragments is lost with any of them.
const MAX_DATAGRAM: usize = 1400;
/// Maximum writes in a row: more datagrams at once overflow the receiver's buffer.
const MAX_WRITES: usize = 32;

/// A name or an address of either family, without brackets, and a port.
type Target = (String, u16, Protocol);

/// A connection to one target, which is closed when this is dropped.
pub struct Sender {
    pub target: Target,
    link: Link,
    /// The report that waits or is on its way, and how many of its bytes are sent.
    report: Option<(Vec<u8>, usize)>,
    /// As the log says.
    is_well: bool,
    /// After a failure: when the next attempt may be made, and the pause before it.
    retry: Option<(Instant, Duration)>,
    /// Reports not sent since the target last was well.
    dropped: u64,
}

enum Link {
    Closed,
    Opening(Receiver<io::Result<Socket>>),
    /// Since when.
    Open(Socket, Instant),
}

enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Sender {
    pub fn new(target: Target) -> Sender {
        Sender { target, link: Link::Closed, report: None, is_well: false, retry: None, dropped: 0 }
    }

    /// Takes a report, or drops it while another waits or the target rests after a failure.
    pub fn send(&mut self, report: String, now: Instant) {
        if self.report.is_some() || self.retry.is_some_and(|(retry_at, _)| now < retry_at) {
            self.dropped += 1;
        } else {
            self.report = Some((report.into_bytes(), 0));
        }
    }

    /// Sends what the network takes now. Returns a line for the log when the target begins to take reports, or fails.
    pub fn work(&mut self, now: Instant) -> Option<Result<String, String>> {
        let error = match (&mut self.link, &mut self.report) {
            (Link::Opening(result), _) => match result.try_recv() {
                Err(TryRecvError::Empty) => return None,
                Err(error) => io::Error::other(error),
                Ok(Err(error)) => error,
                Ok(Ok(socket)) => {
                    self.link = Link::Open(socket, now);
                    return self.succeed().map(Ok);
                }
            },
            (_, None) => return None,
            (Link::Closed, _) => self.open().err()?,
            (Link::Open(Socket::Udp(_), at), _) if now - *at > STALE_AFTER => self.open().err()?,
            (Link::Open(socket, _), Some((report, sent))) => match socket.write(report, sent) {
                Ok(is_all) => {
                    self.report.take_if(|_| is_all);
                    return None;
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => error,
                // A peer that restarts behind a balancer, or closes idle connections, causes no gap and no message.
                Err(_) => self.open().err()?,
            },
        };
        self.fail(error, now).map(Err)
    }

    /// How soon to call `work` again.
    pub fn pause(&self) -> Duration {
        let is_busy = self.report.is_some() || matches!(self.link, Link::Opening(_));
        Duration::from_millis(if is_busy { 50 } else { 1000 })
    }

    fn open(&mut self) -> io::Result<()> {
        let (report, _) = self.report.take().unwrap_or_default();
        let (target, (result, receiver)) = (self.target.clone(), mpsc::channel());
        let thread = thread::Builder::new().name("xqueue graphite".into());
        let work = move || drop(result.send(open(&target, &report)));
        // A handler of Postgres must run on the main thread.
        system::with_signals_blocked(|| thread.spawn(work))??;
        self.link = Link::Opening(receiver);
        Ok(())
    }

    fn succeed(&mut self) -> Option<String> {
        self.retry = None;
        let after = match std::mem::take(&mut self.dropped) {
            0 => String::new(),
            dropped => format!(", after {dropped} intervals that were not sent"),
        };
        let message = format!("sending metrics to Graphite at {}{after}", url(&self.target));
        (!std::mem::replace(&mut self.is_well, true)).then_some(message)
    }

    fn fail(&mut self, error: io::Error, now: Instant) -> Option<String> {
        let is_opening = matches!(self.link, Link::Opening(_));
        self.dropped += u64::from(is_opening) + u64::from(self.report.take().is_some());
        self.link = Link::Closed;
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
    let protocol = match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    };
    let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
    format!("{protocol}://{open}{host}{close}:{port}")
}

/// Waits. Returns a socket to the first of the target's addresses that takes the report.
fn open((host, port, protocol): &Target, report: &[u8]) -> io::Result<Socket> {
    let addresses = (host.as_str(), *port)
        .to_socket_addrs()
        .map_err(|error| io::Error::other(format!("cannot resolve the host name: {error}")))?;
    let mut result = Err(io::Error::other("the host name has no address"));
    for address in addresses.take(MAX_ADDRESSES) {
        result = Socket::connect(&address, *protocol).and_then(|socket| socket.prove(report));
        if result.is_ok() {
            break;
        }
    }
    result
}

impl Socket {
    fn connect(address: &SocketAddr, protocol: Protocol) -> io::Result<Socket> {
        match protocol {
            Protocol::Tcp => {
                let stream = TcpStream::connect_timeout(address, TIMEOUT)?;
                // A port in the range of ephemeral ones may be given to this very socket, which then meets itself.
                if stream.local_addr()? == stream.peer_addr()? {
                    return Err(ErrorKind::ConnectionRefused.into());
                }
                system::give_up_unacknowledged_data(&stream, ACKNOWLEDGE_TIMEOUT)?;
                stream.set_nonblocking(true)?;
                Ok(Socket::Tcp(stream))
            }
            Protocol::Udp => {
                let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                // Connected, because only then does the kernel pass on that the port is closed.
                socket.connect(address)?;
                socket.set_nonblocking(true)?;
                Ok(Socket::Udp(socket))
            }
        }
    }

    /// Waits until the report is sent and the connection has lasted.
    fn prove(mut self, report: &[u8]) -> io::Result<Socket> {
        let (start, mut sent) = (Instant::now(), 0);
        while !self.write(report, &mut sent)? {
            if start.elapsed() > TIMEOUT {
                return Err(io::Error::other("the peer does not read what it is sent"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.check()?;
        thread::sleep(SETTLE_TIME);
        self.check()?;
        Ok(self)
    }

    /// Sends what fits. Returns whether that is all.
    fn write(&mut self, report: &[u8], sent: &mut usize) -> io::Result<bool> {
        self.check()?;
        for _ in 0..MAX_WRITES {
            let rest = &report[*sent..];
            if rest.is_empty() {
                return Ok(true);
            }
            let written = match self {
                Socket::Tcp(stream) => stream.write(rest),
                Socket::Udp(socket) => socket.send(first_datagram(rest, MAX_DATAGRAM)),
            };
            match written {
                Ok(written) => *sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Fails if the peer has closed, or has reported that nothing listens.
    fn check(&mut self) -> io::Result<()> {
        let stream = match self {
            Socket::Tcp(stream) => stream,
            Socket::Udp(socket) => return socket.take_error()?.map_or(Ok(()), Err),
        };
        // Graphite sends nothing; what another peer sends is discarded, as the end follows it.
        match stream.read(&mut [0; 65536]) {
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
    use std::net::TcpListener;

    fn listen() -> (TcpListener, Sender) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, Sender::new(("127.0.0.1".into(), port, Protocol::Tcp)))
    }

    /// Sends a report as soon as one is taken. Returns what is logged.
    fn deliver(sender: &mut Sender, report: &str) -> String {
        let now = sender.retry.map_or_else(Instant::now, |(retry_at, _)| retry_at);
        sender.send(report.into(), now);
        let mut log = String::new();
        while sender.pause() < FIRST_PAUSE {
            log += &sender.work(now).map_or(String::new(), |line| line.unwrap_or_else(|line| line));
            thread::sleep(Duration::from_millis(1));
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
            // Closed with something unread it is a reset, else an end of file.
            drop(lines);
            assert_eq!(deliver(&mut sender, "a\n"), "");
        }
        assert_eq!(lines(&listener).next().unwrap(), "a");
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
            sender.send("too early\n".into(), retry_at - FIRST_PAUSE / 2);
        }
        let listener = TcpListener::bind(address).unwrap();
        let log = deliver(&mut sender, "b\n");
        assert!(log.ends_with(", after 16 intervals that were not sent"), "{log}");
        assert_eq!(lines(&listener).next().unwrap(), "b");
    }

    #[test]
    fn a_peer_that_never_reads_and_a_name_without_address_fail() {
        let (_listener, mut sender) = listen();
        let flood = "a 1 1\n".repeat(4 << 20);
        assert!(deliver(&mut sender, &flood).contains("does not read"));
        deliver(&mut sender, "a\n");
        if let Link::Open(Socket::Tcp(stream), _) = &sender.link {
            system::give_up_unacknowledged_data(stream, Duration::from_millis(300)).unwrap();
        }
        assert!(deliver(&mut sender, &flood).contains("timed out"));
        let mut sender = Sender::new(("no-such-host.invalid".into(), 2003, Protocol::Tcp));
        assert!(deliver(&mut sender, "a\n").contains("cannot resolve"));
    }

    /// `localhost` is first of all ::1 on many machines, while carbon listens on IPv4 only.
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
