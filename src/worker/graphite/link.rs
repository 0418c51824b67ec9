//! One connection, or one UDP socket, to a target: open, check, write, each within a bounded time.

use crate::server::system;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::worker::graphite::{Protocol, Target, Timing};

/// Fits one Ethernet frame with room for tunnels: a datagram that is cut into fragments is lost with any of them.
const MAX_DATAGRAM: usize = 1400;

/// A name may have many addresses; the time for one attempt stays bounded.
const MAX_ADDRESSES: usize = 4;

pub(super) struct Link {
    socket: Socket,
    opened: Instant,
    settled: bool,
}

enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Link {
    /// open_and_write tries the target's addresses in turn, beginning with the one numbered `first`, until one takes
    /// the payload. Writing belongs to it as UDP learns only by that whether anybody listens.
    pub(super) fn open_and_write(
        target: &Target,
        payload: &[u8],
        timing: &Timing,
        first: usize,
    ) -> io::Result<Link> {
        let mut addresses: Vec<SocketAddr> = (target.host.as_str(), target.port)
            .to_socket_addrs()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("cannot resolve the host name: {error}"))
            })?
            .take(MAX_ADDRESSES)
            .collect();
        if !addresses.is_empty() {
            let start = first % addresses.len();
            addresses.rotate_left(start);
        }
        let mut result =
            Err(io::Error::new(io::ErrorKind::NotFound, "the host name has no address"));
        for address in addresses {
            result = Link::open(&address, target.protocol, timing).and_then(|mut link| {
                link.write(payload, timing)?;
                link.check()?;
                Ok(link)
            });
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn open(address: &SocketAddr, protocol: Protocol, timing: &Timing) -> io::Result<Link> {
        let socket = match protocol {
            Protocol::Tcp => {
                let stream = TcpStream::connect_timeout(address, timing.connect)?;
                // A port in the range of ephemeral ones may be given to this very socket, which then meets itself.
                if stream.local_addr()? == stream.peer_addr()? {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                system::give_up_unacknowledged_data(&stream, timing.acknowledge)?;
                Socket::Tcp(stream)
            }
            Protocol::Udp => {
                let local: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(local)?;
                // Connected, because only then does the kernel pass on that the port is closed.
                socket.connect(address)?;
                socket.set_write_timeout(Some(timing.write))?;
                Socket::Udp(socket)
            }
        };
        Ok(Link { socket, opened: Instant::now(), settled: false })
    }

    /// Fails if the peer has closed, or reported that nothing listens. Never waits.
    pub(super) fn check(&mut self) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                let result = look_for_end(stream);
                stream.set_nonblocking(false)?;
                result
            }
            Socket::Udp(socket) => socket.take_error()?.map_or(Ok(()), Err),
        }
    }

    pub(super) fn write(&mut self, payload: &[u8], timing: &Timing) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => write_until(stream, payload, Instant::now() + timing.write),
            Socket::Udp(socket) => {
                for (number, datagram) in datagrams(payload, MAX_DATAGRAM).enumerate() {
                    if number > 0 {
                        thread::sleep(timing.datagram);
                    }
                    socket.send(datagram)?;
                }
                Ok(())
            }
        }
    }

    /// settles_at is when this new link is to be checked; none for one that has been.
    pub(super) fn settles_at(&self, settle: Duration) -> Option<Instant> {
        (!self.settled).then(|| self.opened + settle)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    pub(super) fn mark_settled(&mut self) {
        self.settled = true;
    }

    /// is_stale tells that the name is to be resolved again.
    pub(super) fn is_stale(&self, timing: &Timing) -> bool {
        matches!(self.socket, Socket::Udp(_)) && self.opened.elapsed() > timing.resolved
    }
}

/// look_for_end reads what there is: Graphite sends nothing, but other peers may, and the end stands behind it.
fn look_for_end(stream: &mut TcpStream) -> io::Result<()> {
    const MAX_READS: usize = 16;
    let mut discarded = [0; 4096];
    for _ in 0..MAX_READS {
        match stream.read(&mut discarded) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the connection was closed by the peer",
                ));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// write_until writes everything before the deadline: a peer that reads a byte now and then does not prolong it.
/// std sends with MSG_NOSIGNAL, so a closed peer is an error here and no SIGPIPE.
fn write_until(stream: &mut TcpStream, mut rest: &[u8], deadline: Instant) -> io::Result<()> {
    let too_slow =
        || io::Error::new(io::ErrorKind::TimedOut, "the peer does not read what it is sent");
    while !rest.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(too_slow());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(too_slow()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// datagrams cuts at line borders. A single line above the limit goes alone.
pub(super) fn datagrams(payload: &[u8], limit: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = 0;
        while let Some(length) = rest[end..].iter().position(|byte| *byte == b'\n') {
            if end > 0 && end + length + 1 > limit {
                break;
            }
            end += length + 1;
        }
        let (datagram, after) = rest.split_at(if end == 0 { rest.len() } else { end });
        rest = after;
        Some(datagram)
    })
}
