//! The log of a client: an append-only file with an event per line, written before and after each call. A line is a JSON
//! array of the event's fields. Times are microseconds of the clock that clients and servers share.

use serde::{Deserialize, Serialize};

/// The identity of a task, known before its put and stored in its payload. The upper half is the number of the client.
pub type Token = u64;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// A new connection: the client has lost the tasks that it took in the previous one.
    Connected,
    /// A put is sent next. Its outcome is uncertain unless `Put` or `PutRefused` follows.
    WillPut,
    Put,
    /// The server has rolled the put back.
    PutRefused,
    Took,
    /// An ack is sent next. Its outcome is uncertain unless `Acked` or `AckRefused` follows.
    WillAck,
    Acked,
    /// The server has rolled the ack back.
    AckRefused,
    /// Released or buried.
    GaveBack,
}

/// A task as an event describes it.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Item {
    pub token: Token,
    /// 0 if the key is not a number.
    pub key: i64,
    pub tube: u32,
    /// After this instant the task can have expired; 0 means that it never expires.
    pub dies: u64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    /// Index into `QUEUES`.
    pub queue: usize,
    pub begin: u64,
    pub end: u64,
    pub items: Vec<Item>,
}

impl Event {
    pub fn line(&self) -> String {
        let item = |i: &Item| (i.token, i.key, i.tube, i.dies);
        let items: Vec<_> = self.items.iter().map(item).collect();
        let fields = (self.kind, self.queue, self.begin, self.end, items);
        serde_json::to_string(&fields).expect("a kind and numbers") + "\n"
    }

    /// Parses a line; None if it was cut off when its client was killed.
    pub fn parse(line: &str) -> Option<Event> {
        serde_json::from_str(line.strip_suffix('\n')?).ok()
    }
}

/// Returns microseconds since 1970.
pub fn now() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().expect("the clock is after 1970");
    u64::try_from(since.as_micros()).expect("the clock is before the year 586524")
}
