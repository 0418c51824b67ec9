//! The sender against real sockets that are down, slow, full, or close when they please.

#![allow(unsafe_code, reason = "sockets and threads as the standard library does not show them")]

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::worker::graphite::link::datagrams;
use crate::worker::graphite::{Event, Protocol, Sender, Target, Timing};

const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than a test lasts that goes well.
const ENDLESS: Duration = Duration::from_secs(60);

fn timing() -> Timing {
    let ms = Duration::from_millis;
    Timing {
        connect: ms(300),
        write: ms(300),
        settle: ms(50),
        retry_first: ms(20),
        retry_last: ms(80),
        ..Timing::default()
    }
}

fn target(port: u16, protocol: Protocol) -> Target {
    Target { host: "127.0.0.1".into(), port, protocol }
}

fn tcp(listener: &TcpListener) -> Target {
    target(listener.local_addr().unwrap().port(), Protocol::Tcp)
}

/// Repeats `attempt` until it yields something; the pause only keeps it from spinning.
fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Sends payloads until an event comes out, as the worker does at each interval.
fn send_until_event(sender: &Sender, target: &Target) -> Event {
    until("an event", || {
        sender.send(target, "a 1 1\n".into());
        sender.events().next()
    })
}

fn dropped(sender: &Sender) -> u64 {
    sender.mailbox.lock().dropped
}

/// Makes a number of attempts at an unhealthy target fail, each after the longest pause.
fn fail(sender: &Sender, target: &Target, attempts: usize) {
    for _ in 0..attempts {
        thread::sleep(timing().retry_last);
        let before = dropped(sender);
        sender.send(target, "a 1 1\n".into());
        until("the attempt to fail", || (dropped(sender) > before).then_some(()));
    }
}

/// Sends while the thread is busy with a payload that it is not done with for an endless time.
fn send_to_busy(sender: &Sender, target: &Target, payload: String) {
    sender.send(target, payload);
    let is_taken = || sender.mailbox.lock().order.is_none().then_some(());
    until("the thread to take the payload", is_taken);
    sender.send(target, "b 2 2\n".into());
    sender.send(target, "c 3 3\n".into());
    // The third has replaced the second: the thread has not come back meanwhile.
    assert_eq!(dropped(sender), 1);
    assert_eq!(sender.events().count(), 0);
}

fn is_failed(event: &Event) -> bool {
    matches!(event, Event::Failed { .. })
}

fn accept(listener: &TcpListener) -> BufReader<TcpStream> {
    listener.set_nonblocking(true).unwrap();
    let stream = until("a connection", || listener.accept().ok()).0;
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(stream)
}

fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line
}

/// Returns a port of this machine without a listener.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn tcp_uses_one_connection_for_all_payloads() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = Sender::start_with(timing()).unwrap();
    sender.send(&tcp(&listener), "a 1 1\n".into());
    let mut stream = accept(&listener);
    assert_eq!(line(&mut stream), "a 1 1\n");
    let event = until("the connection to settle", || sender.events().next());
    assert_eq!(event, Event::Connected { target: tcp(&listener), dropped: 0 });
    for number in 2..20 {
        sender.send(&tcp(&listener), format!("a {number} {number}\n"));
        assert_eq!(line(&mut stream), format!("a {number} {number}\n"));
    }
    assert_eq!(sender.events().count(), 0);
}

#[test]
fn down_is_logged_once_and_up_again_once() {
    let target = target(closed_port(), Protocol::Tcp);
    let sender = Sender::start_with(timing()).unwrap();
    let event = send_until_event(&sender, &target);
    assert!(is_failed(&event) && event.to_string().contains("refused"), "{event}");

    fail(&sender, &target, 10);
    assert_eq!(sender.events().count(), 0);

    let listener = TcpListener::bind(("127.0.0.1", target.port)).unwrap();
    let event = send_until_event(&sender, &target);
    assert!(matches!(event, Event::Connected { dropped, .. } if dropped > 1), "{event}");
    assert_eq!(line(&mut accept(&listener)), "a 1 1\n");
    assert_eq!(sender.events().count(), 0);
}

/// More than the buffers of both sockets take.
fn flood() -> String {
    "a 1 1\n".repeat(4 << 20)
}

#[test]
fn a_peer_that_never_reads_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = Sender::start_with(timing()).unwrap();
    let event = until("the failure", || {
        sender.send(&tcp(&listener), flood());
        sender.events().find(is_failed)
    });
    assert!(event.to_string().contains("does not read"), "{event}");
}

#[test]
fn a_peer_that_never_reads_does_not_block_the_caller() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = Sender::start_with(Timing { write: ENDLESS, ..timing() }).unwrap();
    send_to_busy(&sender, &tcp(&listener), flood());
}

#[test]
fn a_full_backlog_is_a_black_hole() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: the descriptor is open; listen again only makes the backlog smaller.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let address = listener.local_addr().unwrap();
    let mut fillers = Vec::new();
    until("a full backlog", || {
        match TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            Ok(filler) => {
                fillers.push(filler);
                None
            }
            Err(_) => Some(()),
        }
    });
    let patient = Sender::start_with(Timing { connect: ENDLESS, ..timing() }).unwrap();
    send_to_busy(&patient, &tcp(&listener), "a 1 1\n".into());
    let sender = Sender::start_with(timing()).unwrap();
    let event = send_until_event(&sender, &tcp(&listener));
    assert!(is_failed(&event), "{event}");
}

/// From now on the kernel throws away what arrives for this connection: nothing is acknowledged, nothing refused.
fn vanish(stream: &TcpStream) {
    let drop_all = libc::sock_filter { code: libc::BPF_RET as u16, jt: 0, jf: 0, k: 0 };
    let mut program = [drop_all];
    let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    // SAFETY: the descriptor is open, and the value a filter of as many instructions as it says.
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

#[test]
fn a_peer_that_vanishes_is_given_up_and_found_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let acknowledge = Duration::from_millis(300);
    let sender = Sender::start_with(Timing { acknowledge, ..timing() }).unwrap();
    let target = tcp(&listener);
    let event = send_until_event(&sender, &target);
    assert!(matches!(event, Event::Connected { .. }), "{event}");
    let stream = accept(&listener);
    vanish(stream.get_ref());
    let event = send_until_event(&sender, &target);
    assert!(is_failed(&event) && event.to_string().contains("timed out"), "{event}");
    let event = send_until_event(&sender, &target);
    assert!(matches!(event, Event::Connected { .. }), "{event}");
    assert_eq!(line(&mut accept(&listener)), "a 1 1\n");
}

#[test]
fn nothing_is_lost_when_a_settled_peer_closes() {
    for unread in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = Sender::start_with(timing()).unwrap();
        sender.send(&tcp(&listener), "first\n".into());
        let mut stream = accept(&listener);
        until("the connection to settle", || sender.events().next());
        if !unread {
            assert_eq!(line(&mut stream), "first\n");
        }
        // Closed with something unread it is a reset, else an end of file.
        drop(stream);
        sender.send(&tcp(&listener), "second\n".into());
        assert_eq!(line(&mut accept(&listener)), "second\n");
        assert_eq!(sender.events().count(), 0);
    }
}

#[test]
fn a_peer_that_accepts_and_closes_at_once_fails_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = tcp(&listener);
    let closed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&closed);
    // Until the end of this process.
    thread::spawn(move || {
        while let Ok(connection) = listener.accept() {
            drop(connection);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let sender = Sender::start_with(timing()).unwrap();
    let event = send_until_event(&sender, &target);
    assert!(is_failed(&event), "{event}");
    until("many attempts", || {
        sender.send(&target, "a 1 1\n".into());
        (closed.load(Ordering::Relaxed) > 10).then_some(())
    });
    assert_eq!(sender.events().count(), 0);
}

#[test]
fn another_target_gets_a_connection_and_disconnect_ends_it() {
    let (one, two) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let sender = Sender::start_with(timing()).unwrap();
    sender.send(&tcp(&one), "one\n".into());
    let mut first = accept(&one);
    assert_eq!(line(&mut first), "one\n");
    sender.send(&tcp(&two), "two\n".into());
    let mut second = accept(&two);
    assert_eq!(line(&mut second), "two\n");
    assert_eq!(line(&mut first), "", "the first connection is closed");
    let settled = Event::Connected { target: tcp(&two), dropped: 0 };
    until("the second connection to settle", || sender.events().find(|event| *event == settled));
    sender.disconnect();
    assert_eq!(line(&mut second), "", "disconnect closes");
    sender.send(&tcp(&two), "again\n".into());
    let mut third = accept(&two);
    assert_eq!(line(&mut third), "again\n");
    drop(sender);
    assert_eq!(third.read(&mut [0]).unwrap(), 0, "the end of the sender closes");
}

#[test]
fn a_name_that_does_not_resolve_fails_once() {
    let target =
        Target { host: "no-such-host.invalid".into(), port: 2003, protocol: Protocol::Tcp };
    let sender = Sender::start_with(timing()).unwrap();
    let event = send_until_event(&sender, &target);
    assert!(is_failed(&event) && event.to_string().contains("resolve"), "{event}");
}

#[test]
fn udp_datagrams_are_small_and_whole() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let target = target(receiver.local_addr().unwrap().port(), Protocol::Udp);
    let sender = Sender::start_with(timing()).unwrap();
    let payload: String = (0..200)
        .map(|number| format!("xqueue.db.public.jobs.ready {number} 1700000000\n"))
        .collect();
    sender.send(&target, payload.clone());
    let mut received = String::new();
    let mut buffer = [0; 9000];
    while received.len() < payload.len() {
        let length = receiver.recv(&mut buffer).unwrap();
        assert!(length <= 1400 && buffer[length - 1] == b'\n');
        received.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    }
    assert_eq!(received, payload);
    assert!(matches!(until("the event", || sender.events().next()), Event::Connected { .. }));
}

#[test]
fn udp_without_a_listener_fails_once_and_recovers() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let target = target(port, Protocol::Udp);
    let sender = Sender::start_with(timing()).unwrap();
    assert!(is_failed(&send_until_event(&sender, &target)));
    fail(&sender, &target, 10);
    assert_eq!(sender.events().count(), 0);
    let receiver = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    assert!(matches!(send_until_event(&sender, &target), Event::Connected { .. }));
    assert_eq!(receiver.recv(&mut [0; 100]).unwrap(), 6);
}

/// `localhost` is first of all ::1 on many machines, while carbon listens on IPv4 only.
#[test]
fn udp_goes_to_the_address_that_listens() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let target = Target { host: "localhost".into(), port, protocol: Protocol::Udp };
    let sender = Sender::start_with(timing()).unwrap();
    sender.send(&target, "a 1 1\n".into());
    assert_eq!(receiver.recv(&mut [0; 100]).unwrap(), 6);
}

#[test]
fn datagrams_end_at_line_borders() {
    let cut = |payload: &'static str, limit| {
        datagrams(payload.as_bytes(), limit)
            .map(|part| std::str::from_utf8(part).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(cut("", 10), Vec::<&str>::new());
    assert_eq!(cut("aa\nbb\ncc\n", 6), ["aa\nbb\n", "cc\n"]);
    assert_eq!(cut("aa\nbb\ncc\n", 100), ["aa\nbb\ncc\n"]);
    assert_eq!(cut("a\nlonger than that\nb\n", 6), ["a\n", "longer than that\n", "b\n"]);
    assert_eq!(cut("aa\nno end", 4), ["aa\n", "no end"]);
}

#[test]
fn the_thread_takes_no_signals_and_the_caller_keeps_its_own() {
    let blocked = |thread: &str| {
        let status =
            std::fs::read_to_string(format!("/proc/thread-self/../{thread}/status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
        Some((status.lines().next()?.to_string(), u64::from_str_radix(mask.trim(), 16).ok()?))
    };
    // SAFETY: gettid has no preconditions.
    let own = unsafe { libc::gettid() }.to_string();
    let before = blocked(&own).unwrap();
    let _sender = Sender::start_with(timing()).unwrap();
    assert_eq!(blocked(&own).unwrap(), before);
    let masks = until("the thread to have its name", || {
        let masks: Vec<u64> = std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|entry| blocked(entry.ok()?.file_name().to_str()?))
            .filter(|(name, _)| name.contains("xqueue graphite"))
            .map(|(_, mask)| mask)
            .collect();
        (!masks.is_empty()).then_some(masks)
    });
    // Of the 64 signals SIGKILL and SIGSTOP cannot be blocked, and 32 and 33 belong to the C library.
    let unblockable = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1) | 1 << 31 | 1 << 32;
    assert!(masks.iter().all(|mask| mask | unblockable == u64::MAX), "{masks:x?}");
}
