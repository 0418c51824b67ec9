//! The wants of the processes in a wait queue, and the numbers of these processes. [`super::shared`] keeps their order.

use crate::parts::waiters::wake::Offer;

/// The event that a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Want {
    /// A ready task.
    Any,
    /// A ready task of one tube.
    Tube(u64),
    /// The end of the task whose key has this hash. `is_vague`: a report can concern another task, and only makes the
    /// watcher look.
    End { hash: u64, is_vague: bool },
    /// Room for this many more tasks.
    Capacity(i64),
}

/// Wait queue of a queue.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct WaitQueue {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(in crate::parts) length: u32,
    /// Number of consumers that want one tube.
    pub(super) choosy: u32,
    /// Number of processes that wait for the end of a task.
    pub(super) watchers: u32,
    /// Number of producers that wait for room.
    pub(in crate::parts) producers: u32,
    /// Number of the last wake-up.
    pub(super) wakes: u64,
    /// End of the pause that the consumers wait out, if the queue is paused.
    pub(in crate::parts) paused_until: i64,
}

impl Want {
    /// Returns whether a ready task can satisfy this want; a task of unknown tube can satisfy a want for any tube.
    pub(super) fn accepts(self, offer: Offer) -> bool {
        match self {
            Want::Any => true,
            Want::Tube(wanted) => offer.tube.is_none_or(|tube| tube == wanted),
            Want::End { .. } | Want::Capacity(_) => false,
        }
    }

    pub fn is_for_task(self) -> bool {
        matches!(self, Want::Any | Want::Tube(_))
    }
}

impl WaitQueue {
    /// Returns the number of consumers that wait for a task.
    pub(in crate::parts) fn consumers(&self) -> u32 {
        self.length - self.watchers - self.producers
    }

    /// Returns whether a consumer waits for a task of one tube.
    pub(super) fn has_choosy(&self) -> bool {
        self.choosy > 0
    }

    /// Updates the numbers for a process that joins or leaves.
    pub(super) fn count(&mut self, want: Want, change: impl Fn(u32) -> u32) {
        self.length = change(self.length);
        match want {
            Want::Any => {}
            Want::Tube(_) => self.choosy = change(self.choosy),
            Want::End { .. } => self.watchers = change(self.watchers),
            Want::Capacity(_) => self.producers = change(self.producers),
        }
    }
}
