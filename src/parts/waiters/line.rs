//! The line of a queue, and what is waited for in it.

use crate::parts::waiters::wake::Offer;

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Want {
    /// A ready task.
    Any,
    /// A ready task of one tube.
    Tube(u64),
    /// The end of the task with this key.
    End(u64),
    /// Room for so many tasks more.
    Room(i64),
}

/// The line of a queue.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Line {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(in crate::parts) length: u32,
    /// Of these, those who want the tasks of one tube.
    pub(super) choosy: u32,
    /// Of these, those who wait for the end of a task.
    pub(super) watchers: u32,
    /// Of these, those who wait for room.
    pub(in crate::parts) producers: u32,
    /// How often consumers were to be woken: the number of the last wake-up.
    pub(super) wakes: u64,
    /// The end of the pause that those in line wait for, if there is one.
    pub(in crate::parts) paused_until: i64,
}

impl Want {
    /// Whether a ready task is what is wanted. Where its tube is not known it may be.
    pub(super) fn accepts(self, offer: Offer) -> bool {
        match self {
            Want::Any => true,
            Want::Tube(wanted) => offer.tube.is_none_or(|tube| tube == wanted),
            Want::End(_) | Want::Room(_) => false,
        }
    }

    pub fn is_for_task(self) -> bool {
        matches!(self, Want::Any | Want::Tube(_))
    }
}

impl Line {
    /// Consumers that wait for a task.
    pub(in crate::parts) fn consumers(&self) -> u32 {
        self.length - self.watchers - self.producers
    }

    /// Counts someone in or out.
    pub(super) fn count(&mut self, want: Want, change: impl Fn(u32) -> u32) {
        self.length = change(self.length);
        match want {
            Want::Any => {}
            Want::Tube(_) => self.choosy = change(self.choosy),
            Want::End(_) => self.watchers = change(self.watchers),
            Want::Room(_) => self.producers = change(self.producers),
        }
    }
}
