//! The sender of metrics: a thread that resolves, connects and writes, so that its caller never waits for a network.
//!
//! Plain Rust: nothing here may call Postgres, whose functions belong to the main thread of a process.
//! [`crate::worker::metrics`] is its caller.

mod link;
mod sender_thread;
#[cfg(test)]
mod tests;

use crate::server::system;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sender_thread::SenderThread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// Where the metrics go. `host` is a name or an address of either family, without brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub protocol: Protocol,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{protocol}://{open}{}{close}:{}", self.host, self.port)
    }
}

/// A change of condition: there is never a second `Failed`, or a second `Connected`, of one target in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The target takes metrics. `dropped`: payloads that were not sent since the last such event.
    Connected { target: Target, dropped: u64 },
    /// The target takes none. The next attempts come with growing pauses, the first of them is `retry_in`.
    Failed { target: Target, error: String, retry_in: Duration },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Connected { target, dropped: 0 } => {
                write!(f, "sending metrics to Graphite at {target}")
            }
            Event::Connected { target, dropped } => {
                write!(
                    f,
                    "sending metrics to Graphite at {target}, after {dropped} intervals that were not sent"
                )
            }
            Event::Failed { target, error, retry_in } => write!(
                f,
                "cannot send metrics to Graphite at {target}: {error}; trying again in {retry_in:?} and then less often"
            ),
        }
    }
}

/// How long the thread is patient. Tests pass shorter times.
#[derive(Clone, Debug)]
pub struct Timing {
    /// For one attempt to connect to one address.
    pub connect: Duration,
    /// For writing one payload.
    pub write: Duration,
    /// Time after which the kernel drops a connection whose data the peer does not acknowledge.
    pub acknowledge: Duration,
    /// How long a new connection must last before it counts as one: some peers accept and close at once.
    pub settle: Duration,
    pub retry_first: Duration,
    pub retry_last: Duration,
    /// How long a name stays resolved for UDP, where no broken connection tells that the host has moved.
    pub resolved: Duration,
    /// Between two datagrams, as a burst of them overflows the receiver's buffer.
    pub datagram: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            connect: Duration::from_secs(3),
            write: Duration::from_secs(3),
            acknowledge: Duration::from_secs(10),
            settle: Duration::from_secs(1),
            retry_first: Duration::from_secs(1),
            retry_last: Duration::from_secs(60),
            resolved: Duration::from_secs(60),
            datagram: Duration::from_millis(1),
        }
    }
}

/// The caller's end of the thread.
pub struct Sender {
    mailbox: Arc<Mailbox>,
}

impl Sender {
    /// start spawns the thread with every signal blocked in it: a handler of Postgres must run on the main thread.
    /// The caller need not block signals itself; its own mask is as before when this returns.
    pub fn start() -> io::Result<Sender> {
        Sender::start_with(Timing::default())
    }

    pub fn start_with(timing: Timing) -> io::Result<Sender> {
        let mailbox = Arc::new(Mailbox::default());
        let mut sender_thread = SenderThread::new(Arc::clone(&mailbox), timing);
        system::with_signals_blocked(|| {
            thread::Builder::new()
                .name("xqueue graphite".to_string())
                .spawn(move || sender_thread.run())
        })??;
        Ok(Sender { mailbox })
    }

    /// send hands a payload over and returns at once. While the thread is busy with an earlier one, the newest
    /// waits for it and the one that waited before is dropped: old values are of less use than new ones.
    /// A target other than last time's gets a new connection.
    pub fn send(&self, target: &Target, payload: String) {
        self.mailbox.put(Order::Deliver { target: target.clone(), payload });
    }

    /// disconnect closes the connection and forgets the target, for metrics that were switched off.
    pub fn disconnect(&self) {
        self.mailbox.put(Order::Forget);
    }

    /// events takes out what has changed since the last call.
    pub fn events(&self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.mailbox.lock().events).into_iter()
    }
}

impl Drop for Sender {
    /// The thread may be inside a connect or a name lookup: it ends after that, or with the process.
    fn drop(&mut self) {
        self.mailbox.put(Order::Stop);
    }
}

enum Order {
    Deliver { target: Target, payload: String },
    Forget,
    Stop,
}

/// What the two threads share. Its lock is held for a few instructions only, never during input or output.
#[derive(Default)]
struct Mailbox {
    state: Mutex<Letters>,
    arrived: Condvar,
}

#[derive(Default)]
struct Letters {
    order: Option<Order>,
    events: VecDeque<Event>,
    dropped: u64,
}

/// Maximum number of stored events; the newest are kept.
const MAX_EVENTS: usize = 64;

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Letters> {
        // Poisoned only by a panic between two assignments: the state is valid nevertheless.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, order: Order) {
        let mut letters = self.lock();
        if let Some(Order::Deliver { .. }) = letters.order.replace(order) {
            letters.dropped += 1;
        }
        drop(letters);
        self.arrived.notify_one();
    }

    /// take waits for an order, at most until `deadline`; once that has passed, orders come after it.
    fn take(&self, deadline: Option<Instant>) -> Option<Order> {
        let mut letters = self.lock();
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            if let Some(order) = letters.order.take() {
                return Some(order);
            }
            letters = match left {
                None => self.arrived.wait(letters).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    self.arrived
                        .wait_timeout(letters, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    fn count_dropped(&self) {
        self.lock().dropped += 1;
    }

    fn forget_dropped(&self) {
        self.lock().dropped = 0;
    }

    fn report_connected(&self, target: Target) {
        let mut letters = self.lock();
        let dropped = std::mem::take(&mut letters.dropped);
        letters.push(Event::Connected { target, dropped });
    }

    fn report(&self, event: Event) {
        self.lock().push(event);
    }
}

impl Letters {
    fn push(&mut self, event: Event) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}
