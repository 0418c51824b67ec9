//! The statistics of a queue for views and metrics: counters, names, the worker's last failure.

use crate::parts::counters::QueueCounters;
use crate::parts::slot::QueueGuard;
use crate::server::time;
use xqueue_core::change::Transitions;
use xqueue_core::counters::rates::Flow;
use xqueue_core::counters::shown::{ERROR_LENGTH, Shown, Text};
use xqueue_core::counters::tubes::TubeCounters;
use xqueue_core::metrics::{Counters, Measured};
use xqueue_core::options::TUBES_COUNTED;
use xqueue_core::status::Status;

/// A copy of a queue's statistics.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// The counters that metrics show.
    pub counters: Counters,
    pub transitions: Transitions,
    pub last_minute: Flow,
    pub tubes: [TubeCounters; TUBES_COUNTED],
    /// Room reserved by open and prepared transactions.
    pub reserved: i64,
    /// The queue's most important problem and the time at which it was found: the worker's last failure, else a skipped
    /// task, else an object that the table lacks.
    pub error: Option<(Text<ERROR_LENGTH>, i64)>,
    /// Since when the oldest task had been ready at the last request for metrics; None if no task is ready now.
    pub ready_since: Option<i64>,
}

impl Statistics {
    /// Adds the measured values that counters do not contain. `tubes`: the names of the tubes with statistics of their
    /// own.
    pub fn measured(
        self,
        names: [String; 3],
        tubes: impl IntoIterator<Item = String>,
        oldest_ready: Option<f64>,
    ) -> Measured {
        let tubes = tubes.into_iter().zip(self.tubes.map(|tube| tube.tasks)).collect();
        let has_error = self.error.is_some();
        Measured { names, counters: self.counters, tubes, oldest_ready, has_error }
    }
}

impl QueueCounters<'_> {
    /// Returns a copy of the queue's statistics.
    pub fn statistics(&mut self) -> Statistics {
        let tubes = *self.slot.tubes().counters();
        let slot = &*self.slot;
        let is_ready = slot.counters.tasks[Status::Ready as usize] > 0;
        Statistics {
            counters: Counters {
                tasks: slot.counters.tasks,
                calls: slot.counters.calls,
                waits: slot.counters.waits,
                works: slot.counters.works,
                consumers: slot.waiters.consumers(),
                producers: slot.waiters.producers,
                capacity: slot.capacity.capacity,
                exact: slot.counters.exact,
            },
            transitions: slot.counters.transitions,
            last_minute: slot.counters.rates.of_last_minute(time::now()),
            tubes,
            reserved: slot.capacity.reserved + slot.capacity.prepared(),
            error: slot.shown.problem(slot.apart.problems, time::now()),
            ready_since: Some(slot.shown.ready_since).filter(|since| is_ready && *since != 0),
        }
    }

    /// Resets the counters of calls and transitions, and the histograms; the numbers of tasks stay.
    pub fn reset_statistics(&mut self) {
        self.slot.counters.reset();
        self.slot.tubes().reset_transitions();
    }
}

impl QueueGuard {
    /// Returns whether there are ready tasks and the recorded age is outdated because tasks have changed since.
    pub fn is_ready_since_outdated(&self) -> bool {
        let is_current = self.shown.ready_at == self.counters.version() && self.counters.tracked;
        self.has_ready() && !is_current
    }

    /// Returns the names and problems that statistics show, for changing them.
    pub fn shown(&mut self) -> Shown<'_> {
        Shown { state: &mut self.queue.shown, problems: self.apart.problems }
    }
}
