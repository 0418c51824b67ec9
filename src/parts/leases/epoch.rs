//! Doubts whether everybody was told what happened to a queue's tasks: since when a session knows for
//! certain what it holds. They are numbered through all queues.

use crate::parts::segment::Directory;
use crate::parts::slot::{self, QueueGuard};
use crate::parts::slot_id::SlotId;

impl Directory {
    /// A number for one more doubt.
    pub(in crate::parts) fn next_doubt(&mut self) -> u64 {
        self.header.doubts += 1;
        self.header.doubts
    }
}

/// Notes that something may have happened to a queue's tasks of which nobody was told. Must neither
/// allocate nor fail.
pub fn raise(id: SlotId) {
    let mut directory = crate::parts::segment::directory();
    let doubt = directory.next_doubt();
    if let Some(mut queue) = slot::lock(id) {
        queue.doubt = doubt;
    }
}

/// Notes that there is a queue whose triggers do not tell of every task.
pub fn note_untold() {
    crate::parts::segment::directory().header.has_untold = true;
}

impl QueueGuard {
    /// Since there were so many doubts there was none about this queue, but for triggers that are off.
    pub fn doubt(&self) -> u64 {
        self.doubt
    }
}
