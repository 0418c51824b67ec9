//! The history of each task, from the logs of all clients.

use std::collections::HashMap;

use crate::event::{Event, Item, Kind, Token};

/// The time between a take and the end of its lease, in its client's view.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    pub client: u32,
    connection: u32,
    pub begin: u64,
    pub taken: u64,
    /// The client certainly held the task until this time, when it began a call that settled it. None if the end of the
    /// lease is unknown.
    pub held_until: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    #[default]
    Unknown,
    /// Acknowledged to the client in a call with this begin and end.
    Done(u64, u64),
    Refused,
}

#[derive(Debug, Default)]
pub struct Task {
    pub queue: usize,
    pub put: Outcome,
    pub item: Item,
    pub acks: Vec<(u64, u64)>,
    /// Number of acks whose outcome no client knows.
    pub uncertain_acks: u32,
    pub leases: Vec<Lease>,
    /// A client settled it without a lease in its connection.
    pub settled_without_lease: bool,
    /// A client intended to put it.
    pub was_meant: bool,
}

/// A take by the only consumer of a queue.
pub struct Turn {
    pub queue: usize,
    pub begin: u64,
    pub end: u64,
    pub greatest_key: i64,
}

#[derive(Default)]
pub struct History {
    pub tasks: HashMap<Token, Task>,
    pub turns: Vec<Turn>,
    /// Number of acknowledged puts, takes, acks, releases and burials of single tasks.
    pub operations: u64,
    connections: HashMap<u32, u32>,
}

impl History {
    pub fn add(&mut self, client: u32, event: &Event) {
        if event.kind == Kind::Connected {
            *self.connections.entry(client).or_default() += 1;
            return;
        }
        let told = matches!(event.kind, Kind::Put | Kind::Took | Kind::Acked | Kind::GaveBack);
        self.operations += if told { event.items.len() as u64 } else { 0 };
        if let (Kind::Took, Some(key)) = (event.kind, event.items.iter().map(|i| i.key).max()) {
            let (queue, begin, end) = (event.queue, event.begin, event.end);
            self.turns.push(Turn { queue, begin, end, greatest_key: key });
        }
        let connection = self.connections.get(&client).copied().unwrap_or(0);
        for item in &event.items {
            let task = self.tasks.entry(item.token).or_default();
            task.was_meant |= event.kind == Kind::WillPut;
            task.queue = event.queue;
            task.add((client, connection), event, item);
        }
    }
}

impl Task {
    fn add(&mut self, by: (u32, u32), event: &Event, item: &Item) {
        match event.kind {
            Kind::Connected | Kind::WillPut => {}
            Kind::Put => {
                self.put = Outcome::Done(event.begin, event.end);
                self.item = *item;
            }
            Kind::PutRefused => self.put = Outcome::Refused,
            Kind::Took => {
                // The outcome of the put can be unknown.
                let dies = self.item.dies;
                self.item = Item { dies, ..*item };
                self.leases.push(Lease {
                    client: by.0,
                    connection: by.1,
                    begin: event.begin,
                    taken: event.end,
                    held_until: None,
                });
            }
            Kind::WillAck => self.uncertain_acks += 1,
            Kind::AckRefused => self.uncertain_acks = self.uncertain_acks.saturating_sub(1),
            Kind::Acked => {
                self.uncertain_acks = self.uncertain_acks.saturating_sub(1);
                self.acks.push((event.begin, event.end));
                self.end_lease(by, event.begin);
            }
            Kind::GaveBack => self.end_lease(by, event.begin),
        }
    }

    fn end_lease(&mut self, by: (u32, u32), at: u64) {
        let is_own = |lease: &&mut Lease| (lease.client, lease.connection) == by;
        match self.leases.iter_mut().rev().find(is_own) {
            Some(lease) if lease.held_until.is_none() => lease.held_until = Some(at),
            _ => self.settled_without_lease = true,
        }
    }
}
