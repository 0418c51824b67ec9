//! What views and metrics show of a queue: counters, names, the worker's last failure.

use crate::model::change::{Calls, Transitions};
use crate::model::options::TUBES_COUNTED;
use crate::model::status::Tasks;
use crate::parts::counters::shared::Tube;
use crate::parts::counters::shown::{ERROR_LENGTH, NAME_LENGTH, Text, set_text};
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
    /// Last failure of the worker, and its instant.
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
            error: (self.shown.error[0] != 0)
                .then_some((Text(self.shown.error), self.shown.error_at)),
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
        set_text(&mut self.shown.error, error);
        self.shown.error_at = time::now();
    }

    pub fn clear_error(&mut self) {
        self.shown.error[0] = 0;
    }
}
