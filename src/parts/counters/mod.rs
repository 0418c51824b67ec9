//! Counters: the number of tasks of a queue in each state, and of the calls and transitions that changed them.

mod exact;
pub mod recount;
pub mod shared;
pub mod statistics;

use crate::parts::leases::sessions;
use crate::parts::slot::QueueGuard;
use crate::parts::subqueues;
use xqueue_core::counters::tubes::OfTubes;
use xqueue_core::status::Status;

/// A queue's counters with the parts that depend on them.
pub struct QueueCounters<'q> {
    slot: &'q mut QueueGuard,
}

impl QueueGuard {
    /// Returns whether there can be tasks in a state.
    ///
    /// A task becomes visible before it is counted, because counting needs the slot's lock. If another transaction removes
    /// it in between, the counters are too low for a moment. A commit in progress is noted before its tasks are visible,
    /// and until it has had the slot's lock, which is held here.
    pub fn may_have(&self, status: Status) -> bool {
        self.counters.may_have(status) || sessions::committing(|_| true).next().is_some()
    }

    pub fn counters(&mut self) -> QueueCounters<'_> {
        QueueCounters { slot: self }
    }

    /// Returns the tubes with statistics of their own.
    pub fn tubes(&mut self) -> OfTubes<'_> {
        OfTubes { are_there: &mut self.queue.counters.has_tubes, counted: self.apart.tubes }
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

    /// Returns whether there can be a task to take.
    pub fn has_ready(&self) -> bool {
        let has_ready = self.counters.tasks[Status::Ready as usize] != 0;
        has_ready && (!self.table.has_subqueues || subqueues::may_have_some(self.id()))
    }
}
