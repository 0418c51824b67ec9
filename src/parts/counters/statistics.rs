//! What views and metrics show of a queue: counters, names, the worker's last failure.

use crate::model::change::{Calls, Transitions};
use crate::model::histogram::Histogram;
use crate::model::options::TUBES_COUNTED;
use crate::model::status::{Status, Tasks};
use crate::parts::counters::rates::Flow;
use crate::parts::counters::shared::Tube;
use crate::parts::counters::shown::{ERROR_LENGTH, NAME_LENGTH, Problem, Text, set_text};
use crate::parts::slot::QueueGuard;
use crate::server::time;

/// What statistics and metrics read of a queue.
#[derive(Clone, Debug)]
pub struct Statistics {
    pub tasks: Tasks,
    pub calls: Calls,
    pub transitions: Transitions,
    /// How long tasks had been ready when they were taken.
    pub waits: Histogram,
    /// How long tasks had been taken when they were acked.
    pub works: Histogram,
    pub last_minute: Flow,
    pub tubes: [Tube; TUBES_COUNTED],
    pub consumers: u32,
    /// Producers that wait for room.
    pub producers: u32,
    pub capacity: Option<i64>,
    /// Room reserved by open and prepared transactions.
    pub reserved: i64,
    pub exact: bool,
    /// Last failure of the worker, or else what the table lacks, and when that was found.
    pub error: Option<(Text<ERROR_LENGTH>, i64)>,
}

impl QueueGuard {
    pub fn statistics(&self) -> Statistics {
        Statistics {
            tasks: self.counters.tasks,
            calls: self.counters.calls,
            transitions: self.counters.transitions,
            waits: self.counters.waits,
            works: self.counters.works,
            last_minute: self.counters.rates.of_last_minute(time::now()),
            tubes: self.counters.tubes,
            consumers: self.waiters.consumers(),
            producers: self.waiters.producers,
            capacity: self.capacity.capacity,
            reserved: self.capacity.reserved + self.capacity.prepared(),
            exact: self.counters.exact,
            error: [&self.shown.error, &self.shown.lack]
                .into_iter()
                .find(|problem| problem.text[0] != 0)
                .map(|problem| (Text(problem.text), problem.at)),
        }
    }

    /// Resets the counters of calls and transitions, and the histograms; numbers of tasks stay.
    pub fn reset_statistics(&mut self) {
        self.counters.calls = Calls::default();
        self.counters.transitions = Transitions::default();
        self.counters.waits = Histogram::default();
        self.counters.works = Histogram::default();
        self.counters.tubes.iter_mut().for_each(|tube| tube.transitions = Transitions::default());
    }

    /// Returns the names for metrics: database, schema, table.
    pub fn names(&self) -> [Text<NAME_LENGTH>; 3] {
        self.shown.names.map(Text)
    }

    /// Returns the names of the tubes with statistics of their own, longer ones shortened.
    pub fn tube_names(&self) -> [Text<NAME_LENGTH>; TUBES_COUNTED] {
        self.shown.tubes.map(Text)
    }

    /// Returns since when the oldest task was ready as the metrics were last asked for, if one still is.
    pub fn ready_since(&self) -> Option<i64> {
        let is_ready = self.counters.tasks[Status::Ready as usize] > 0;
        Some(self.shown.ready_since).filter(|since| is_ready && *since != 0)
    }

    pub fn set_ready_since(&mut self, since: Option<i64>) {
        self.shown.ready_since = since.unwrap_or(0);
    }

    pub fn set_names(&mut self, names: [&str; 3]) {
        self.table.settled = true;
        for (place, name) in self.shown.names.iter_mut().zip(names) {
            set_text(place, name);
        }
    }

    pub fn set_tube_names(&mut self, tubes: &[String]) {
        let names = tubes.iter().map(String::as_str).chain(std::iter::repeat(""));
        for (place, name) in self.shown.tubes.iter_mut().zip(names) {
            set_text(place, name);
        }
    }

    /// Records a failure of the worker, for the view `xqueue.queues`.
    pub fn set_error(&mut self, error: &str) {
        set_problem(&mut self.shown.error, error);
    }

    pub fn clear_error(&mut self) {
        self.shown.error.text[0] = 0;
    }

    /// Records what the table lacks; an empty text if nothing.
    pub fn set_lack(&mut self, lack: &str) {
        if Text(self.shown.lack.text).is(lack) {
            return;
        }
        set_problem(&mut self.shown.lack, lack);
    }
}

fn set_problem(problem: &mut Problem, text: &str) {
    set_text(&mut problem.text, text);
    problem.at = time::now();
}
