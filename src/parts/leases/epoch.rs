//! Doubts whether everybody was told what happened to a queue's tasks: since when a session knows for
//! certain what it holds. They are numbered through all queues.

use crate::parts::locks::{Directory, DirectoryLock, directory};
use crate::server::shared_memory::{Guarded, Zeroed};

/// Of all queues.
#[repr(C)]
pub struct Epoch {
    /// How often nobody may have been told what happened to a queue's tasks.
    doubts: u64,
    /// There is a queue whose triggers do not tell of every task, or was.
    has_untold: bool,
}

// SAFETY: a number and a bool.
unsafe impl Zeroed for Epoch {}

pub(in crate::parts) static EPOCH: Guarded<Epoch, DirectoryLock> = Guarded::new();

/// A number for one more doubt.
pub(in crate::parts) fn next_doubt(directory: &mut Directory) -> u64 {
    let epoch = &mut EPOCH.get_mut(directory)[0];
    epoch.doubts += 1;
    epoch.doubts
}

/// How many doubts there were, and whether a queue's triggers do not tell of every task.
pub(in crate::parts) fn now(directory: &Directory) -> (u64, bool) {
    let epoch = &EPOCH.get(directory)[0];
    (epoch.doubts, epoch.has_untold)
}

/// Notes that there is a queue whose triggers do not tell of every task.
pub fn note_untold() {
    EPOCH.get_mut(&mut directory())[0].has_untold = true;
}
