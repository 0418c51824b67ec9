//! Doubts whether everybody was told what happened to a queue's tasks: since when a session knows for
//! certain what it holds. They are numbered through all queues.

use super::Directory;
use super::queues::{self, QueueGuard};
use crate::delta::SlotId;

impl Directory {
    /// A number for one more doubt.
    pub(super) fn next_doubt(&mut self) -> u64 {
        self.header.doubts += 1;
        self.header.doubts
    }
}

/// Notes that something may have happened to a queue's tasks of which nobody was told. Must neither
/// allocate nor fail.
pub fn raise(id: SlotId) {
    let mut directory = super::directory();
    let doubt = directory.next_doubt();
    if let Some(mut queue) = queues::lock(id) {
        queue.doubt = doubt;
    }
}

/// Notes that there is a queue whose triggers do not tell of every task.
pub fn note_untold() {
    super::directory().header.has_untold = true;
}

impl QueueGuard {
    /// Since there were so many doubts there was none about this queue, but for triggers that are off.
    pub fn doubt(&self) -> u64 {
        self.doubt
    }
}
