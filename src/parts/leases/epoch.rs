//! Invalidation epochs: numbers of the events after which a session does not necessarily know all leases it holds. They
//! are counted over all queues.

use crate::parts::locks::{Directory, DirectoryLock, directory};
use crate::server::shared_memory::{Guarded, Zeroed};

/// Epoch of all queues.
#[repr(C)]
pub struct Epoch {
    /// Number of events so far.
    number: u64,
    /// There is or was a queue whose triggers do not report every change.
    has_untracked: bool,
}

// SAFETY: a number and a bool.
unsafe impl Zeroed for Epoch {}

pub(in crate::parts) static EPOCH: Guarded<Epoch, DirectoryLock> = Guarded::new();

/// Returns the number of a new event.
pub(in crate::parts) fn next_epoch(directory: &mut Directory) -> u64 {
    let epoch = &mut EPOCH.get_mut(directory)[0];
    epoch.number += 1;
    epoch.number
}

/// Returns the current epoch, and whether triggers of a queue do not report every change.
pub(in crate::parts) fn now(directory: &Directory) -> (u64, bool) {
    let epoch = &EPOCH.get(directory)[0];
    (epoch.number, epoch.has_untracked)
}

/// Notes that triggers of a queue do not report every change.
pub fn note_untracked() {
    EPOCH.get_mut(&mut directory())[0].has_untracked = true;
}
