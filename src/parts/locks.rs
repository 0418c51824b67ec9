//! The locks of shared memory. Everything in it can be built again from the tables.
//!
//! | lock | guards |
//! |---|---|
//! | the directory's | which slot belongs to which queue, the databases, all workers, the sessions |
//! | a queue's, see [`super::slot`] | its counters, marks, waiters, schedule and capacity |
//! | the sub-queues' | those of all queues |
//!
//! No process holds two queues' locks. The directory's is taken before a queue's, the sub-queues' last.
//! Nothing that can fail runs under any of them.

use crate::server::shared_memory::{Guard, HeldLock, Lock};

pub struct DirectoryLock;
pub struct SubqueuesLock;

impl Lock for DirectoryLock {
    const NUMBER: usize = 0;
}

impl Lock for SubqueuesLock {
    const NUMBER: usize = 1;
}

/// The first of the queues' locks.
const QUEUES: usize = 2;

/// Returns the number of locks for a number of queues.
pub fn count(queues: usize) -> usize {
    QUEUES + queues
}

pub type Directory = HeldLock<DirectoryLock>;

pub fn directory() -> Directory {
    Directory::acquire()
}

/// The lock of the queue in a slot.
pub(super) fn queue(slot: usize) -> Guard {
    Guard::acquire(QUEUES + slot)
}
