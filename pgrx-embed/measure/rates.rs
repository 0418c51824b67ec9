//! Races for tasks per second: the works, and their numbers of clients.

use crate::Result;
use crate::effort::Effort;
use crate::peer::{Peers, Work};
use crate::race::Race;
use crate::report::Section;

/// Ready tasks in addition to the lifecycles' tasks, so that no take finds all of them locked.
const SOME: u32 = 1000;

pub fn put(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    Race {
        title: "Put",
        work: Work::Put,
        clients: 4,
        stock: SOME,
        note: "One task a statement and commit.",
    }
    .run(effort, peers)
}

pub fn lifecycle(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    Race {
        title: "Lifecycle: put, take, ack",
        work: Work::Lifecycle,
        clients: 4,
        stock: SOME,
        note: "Each its own statement and commit, but for xqueue-next and xqueue-done, which ack a task and \
               take the next one in one. PgQ hands out batches only: four clients put, one more consumes. limit is no queue: \
               each client takes and acks by their keys, in one statement, the tasks that it has put itself.",
    }
    .run(effort, peers)
}

pub fn backlog(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    Race {
        title: "Take and ack from a backlog",
        work: Work::TakeAndAck,
        clients: 16,
        stock: effort.backlog,
        note: "Each its own statement and commit, but for xqueue-next and xqueue-done, which do both in one. \
               limit is no queue: each client takes and acks by their keys, in one statement, tasks that are its own.",
    }
    .run(effort, peers)
}

pub fn batch_put(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    Race {
        title: "Put, in batches of 100",
        work: Work::PutMany,
        clients: 4,
        stock: SOME,
        note: "A batch is one statement and commit; its tasks come as an array in JSON.",
    }
    .run(effort, peers)
}

pub fn batch_take(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    Race {
        title: "Take and ack, in batches of 100",
        work: Work::TakeAndAckMany,
        clients: 4,
        stock: effort.backlog,
        note: "A batch is two statements and commits; with xqueue-next and xqueue-done, one.",
    }
    .run(effort, peers)
}
