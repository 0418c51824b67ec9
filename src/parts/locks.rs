//! The locks of shared memory. Everything in it can be rebuilt from the tables.
//!
//! - The directory's lock guards the assignment of slots to queues, the databases, all workers and the sessions.
//! - A queue's lock, see [`super::slot`], guards its counters, marks, waiters, schedule and capacity.
//! - The sub-queues' lock guards the sub-queues of all queues.
//!
//! Rules, of which builds for tests check the first two with each lock, by its rank:
//! 1. No process holds two queues' locks.
//! 2. The directory's lock is taken before a queue's, the sub-queues' lock last.
//! 3. Nothing that can fail runs under any of the locks.

use crate::server::shared_memory::{Guard, HeldLock, Lock, Rank};

pub struct DirectoryLock;
pub struct SubqueuesLock;

impl Lock for DirectoryLock {
    const NUMBER: usize = 0;
    const RANK: Rank = Rank(0);
}

impl Lock for SubqueuesLock {
    const NUMBER: usize = 1;
    const RANK: Rank = Rank(2);
}

/// The number of the first queue's lock.
const QUEUES: usize = 2;
const RANK_OF_QUEUES: Rank = Rank(1);

/// Returns the number of locks for a number of queues.
pub fn count(queues: usize) -> usize {
    QUEUES + queues
}

pub type Directory = HeldLock<DirectoryLock>;

pub fn directory() -> Directory {
    Directory::acquire()
}

/// Locks the queue in a slot.
pub(super) fn queue(slot: usize) -> Guard {
    Guard::acquire(QUEUES + slot, RANK_OF_QUEUES)
}
