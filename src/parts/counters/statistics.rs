//! The statistics of a queue for views and metrics: counters, names, the worker's last failure.

use crate::parts::slot::QueueGuard;
use crate::server::time;
use xqueue_core::change::{Calls, Transitions};
use xqueue_core::counters::rates::Flow;
use xqueue_core::counters::shown::{ERROR_LENGTH, NAME_LENGTH, Shown, Text};
use xqueue_core::counters::tubes::{CountedTubes, OfTubes, Tube};
use xqueue_core::histogram::Histogram;
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
    pub tubes: [Tube; TUBES_COUNTED],
    /// Room reserved by open and prepared transactions.
    pub reserved: i64,
    /// The queue's most important problem and the time at which it was found: the worker's last failure, else a skipped
    /// task, else an object that the table lacks.
    pub error: Option<(Text<ERROR_LENGTH>, i64)>,
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

impl QueueGuard {
    pub fn statistics(&self) -> Statistics {
        Statistics {
            counters: Counters {
                tasks: self.counters.tasks,
                calls: self.counters.calls,
                waits: self.counters.waits,
                works: self.counters.works,
                consumers: self.waiters.consumers(),
                producers: self.waiters.producers,
                capacity: self.capacity.capacity,
                exact: self.counters.exact,
            },
            transitions: self.counters.transitions,
            last_minute: self.counters.rates.of_last_minute(time::now()),
            tubes: *self.tubes().counters(),
            reserved: self.capacity.reserved + self.capacity.prepared(),
            error: self.shown.problem(self.apart.problems, time::now()),
        }
    }

    /// Resets the counters of calls and transitions, and the histograms; the numbers of tasks stay.
    pub fn reset_statistics(&mut self) {
        self.counters.calls = Calls::default();
        self.counters.transitions = Transitions::default();
        self.counters.waits = Histogram::default();
        self.counters.works = Histogram::default();
        self.of_tubes().reset_transitions();
    }

    /// Returns the names of the tubes with statistics of their own, truncated if too long.
    pub fn tube_names(&self) -> [Text<NAME_LENGTH>; TUBES_COUNTED] {
        self.tubes().names()
    }

    pub(super) fn tubes(&self) -> &CountedTubes {
        if self.counters.has_tubes { self.apart.tubes } else { &CountedTubes::NONE }
    }

    /// Returns the tubes with statistics of their own, for changing them.
    pub(super) fn of_tubes(&mut self) -> OfTubes<'_> {
        OfTubes { are_there: &mut self.queue.counters.has_tubes, counted: self.apart.tubes }
    }

    /// Returns since when the oldest task had been ready at the last request for metrics, unless no task is ready now.
    pub fn ready_since(&self) -> Option<i64> {
        let is_ready = self.counters.tasks[Status::Ready as usize] > 0;
        Some(self.shown.ready_since).filter(|since| is_ready && *since != 0)
    }

    /// Returns whether there are ready tasks and the recorded age is outdated because tasks have changed since.
    pub fn is_ready_since_outdated(&self) -> bool {
        self.has_ready() && (self.shown.ready_at != self.version() || !self.counters.tracked)
    }

    /// Returns a number that differs after tasks have changed.
    pub fn version(&self) -> i64 {
        let changes: i64 = self.counters.transitions.iter().flatten().sum();
        // The emptying of a table counts no transitions.
        changes.wrapping_shl(20).wrapping_add(self.counters.tasks[Status::Ready as usize])
    }

    pub fn set_tube_names(&mut self, tubes: &[String]) {
        self.of_tubes().set_names(tubes);
    }

    /// Returns the names and problems that statistics show, for changing them.
    pub fn shown(&mut self) -> Shown<'_> {
        Shown { state: &mut self.queue.shown, problems: self.apart.problems }
    }
}
