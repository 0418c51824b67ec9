//! Counters: the number of tasks of a queue in each state, and of the calls and transitions that changed them.

mod exact;
pub mod recount;
pub mod shared;
pub mod statistics;

use crate::parts::slot::QueueGuard;
use crate::parts::subqueues;
use xqueue_core::status::Status;

impl QueueGuard {
    /// Notes whether tubes have statistics of their own.
    pub fn note_counted_tubes(&mut self, counts_tubes: bool) {
        self.counters.counts_tubes |= counts_tubes;
    }

    pub fn counts_tubes(&self) -> bool {
        self.counters.counts_tubes
    }

    /// Returns the number of committed tasks.
    pub(in crate::parts) fn total(&self) -> i64 {
        self.counters.tasks.iter().sum()
    }

    /// Returns the known number of consumers that could take a task now.
    pub(in crate::parts) fn ready(&self) -> u32 {
        match self.table.has_subqueues {
            // A sub-queue offers only its first task.
            true if self.has_ready() => subqueues::waiting(self.id()).max(1),
            true => 0,
            false => {
                self.counters.tasks[Status::Ready as usize].clamp(0, i64::from(u32::MAX)) as u32
            }
        }
    }

    pub fn has_taken(&self) -> bool {
        self.may_have(Status::Taken)
    }

    /// Returns whether there can be committed tasks in a state.
    pub fn may_have(&self, status: Status) -> bool {
        !self.counters.exact || self.counters.tasks[status as usize] != 0
    }

    /// Returns whether there can be a task to take.
    pub fn has_ready(&self) -> bool {
        let has_ready = self.counters.tasks[Status::Ready as usize] != 0;
        has_ready && (!self.table.has_subqueues || subqueues::may_have_some(self.id()))
    }
}
