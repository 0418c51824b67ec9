//! What views and metrics show of a queue: counters, names, the worker's last failure.

use crate::model::change::{Calls, Transitions};
use crate::model::options::TUBES_COUNTED;
use crate::model::status::Tasks;
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

    /// Resets the counters of calls and transitions; numbers of tasks stay.
    pub fn reset_statistics(&mut self) {
        self.counters.calls = Calls::default();
        self.counters.transitions = Transitions::default();
        self.counters.tubes.iter_mut().for_each(|tube| tube.transitions = Transitions::default());
    }

    /// Returns the names for metrics: database, schema, table.
    pub fn names(&self) -> [Text<NAME_LENGTH>; 3] {
        self.shown.names.map(Text)
    }

    pub fn set_names(&mut self, names: [&str; 3]) {
        self.table.settled = true;
        for (place, name) in self.shown.names.iter_mut().zip(names) {
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
