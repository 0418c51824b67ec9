//! The log of a client: an append-only file of lines `KIND QUEUE BEGIN END ITEM…`, written before and after each call.
//! Times are microseconds of the clock that clients and servers share.

use std::fmt::Write;

/// The identity of a task, known before its put and stored in its payload. The upper half is the number of the client.
pub type Token = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

const LETTERS: [(Kind, char); 9] = [
    (Kind::Connected, 'c'),
    (Kind::WillPut, 'p'),
    (Kind::Put, 'P'),
    (Kind::PutRefused, 'X'),
    (Kind::Took, 'T'),
    (Kind::WillAck, 'a'),
    (Kind::Acked, 'A'),
    (Kind::AckRefused, 'F'),
    (Kind::GaveBack, 'R'),
];

/// A task as an event describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Item {
    pub token: Token,
    /// 0 if the key is not a number.
    pub key: i64,
    pub tube: u32,
    /// After this instant the task can have expired; 0 means that it never expires.
    pub dies: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
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
        let letter = LETTERS.iter().find(|(kind, _)| *kind == self.kind).map_or('?', |(_, l)| *l);
        let mut line = format!("{letter} {} {} {}", self.queue, self.begin, self.end);
        for item in &self.items {
            // Writing into a String cannot fail.
            let _ = write!(line, " {}:{}:{}:{}", item.token, item.key, item.tube, item.dies);
        }
        line.push('\n');
        line
    }

    /// Parses a line; None if it was cut off when its client was killed.
    pub fn parse(line: &str) -> Option<Event> {
        let mut words = line.strip_suffix('\n')?.split(' ');
        let letter = words.next()?;
        let kind = LETTERS.iter().find(|(_, l)| letter == l.to_string())?.0;
        let queue = words.next()?.parse().ok()?;
        let (begin, end) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let items = words.map(item).collect::<Option<_>>()?;
        Some(Event { kind, queue, begin, end, items })
    }
}

fn item(word: &str) -> Option<Item> {
    let mut parts = word.split(':');
    let item = Item {
        token: parts.next()?.parse().ok()?,
        key: parts.next()?.parse().ok()?,
        tube: parts.next()?.parse().ok()?,
        dies: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some(item)
}

/// Returns microseconds since 1970.
pub fn now() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().expect("the clock is after 1970");
    u64::try_from(since.as_micros()).expect("the clock is before the year 586524")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_event() {
        let item = Item { token: 1 << 32, key: -5, tube: 3, dies: 9 };
        let event = Event { kind: Kind::Took, queue: 4, begin: 10, end: 12, items: vec![item; 2] };
        assert_eq!(Event::parse(&event.line()), Some(event));
    }

    #[test]
    fn a_line_that_was_cut_off_is_none() {
        for line in ["", "T 4", "T 4 10 12 7:1:0", "T 4 10 12 7:1:0:0", "Q 4 10 12\n"] {
            assert_eq!(Event::parse(line), None, "{line}");
        }
    }
}
