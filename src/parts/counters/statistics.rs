//! What is shown of a queue: its counters, its names, and the worker's last failure with it.

use crate::model::change::{Calls, Transitions};
use crate::model::options::TUBES_COUNTED;
use crate::model::status::Tasks;
use crate::parts::slot::{ERROR_LENGTH, NAME_LENGTH, QueueGuard, Tube};
use crate::server::time;

/// What statistics and metrics read of a queue.
#[derive(Clone, Debug)]
pub struct Statistics {
    pub tasks: Tasks,
    pub calls: Calls,
    pub transitions: Transitions,
    pub tubes: [Tube; TUBES_COUNTED],
    pub consumers: u32,
    /// Those that wait for room.
    pub producers: u32,
    pub capacity: Option<i64>,
    /// Room that open and prepared transactions have.
    pub reserved: i64,
    pub exact: bool,
    /// The last failure of the worker, and when it was.
    pub error: Option<(Text<ERROR_LENGTH>, i64)>,
}

/// A text as it lies in shared memory: copied under the lock, where nothing may be allocated, and read without it.
#[derive(Clone, Copy, Debug)]
pub struct Text<const LENGTH: usize>([u8; LENGTH]);

impl<const LENGTH: usize> Text<LENGTH> {
    pub fn read(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(LENGTH);
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }
}

impl QueueGuard {
    pub fn statistics(&self) -> Statistics {
        Statistics {
            tasks: self.tasks,
            calls: self.calls,
            transitions: self.transitions,
            tubes: self.tubes,
            consumers: self.line.consumers(),
            producers: self.line.producers,
            capacity: self.room.capacity,
            reserved: self.room.reserved + self.room.prepared(),
            exact: self.exact,
            error: (self.error[0] != 0).then_some((Text(self.error), self.error_at)),
        }
    }

    /// Sets to zero what counts what has happened; how many tasks there are stays.
    pub fn reset_statistics(&mut self) {
        self.calls = Calls::default();
        self.transitions = Transitions::default();
        self.tubes.iter_mut().for_each(|tube| tube.transitions = Transitions::default());
    }

    /// Names for the metrics: database, schema, table.
    pub fn names(&self) -> [Text<NAME_LENGTH>; 3] {
        self.names.map(Text)
    }

    pub fn set_names(&mut self, names: [&str; 3]) {
        self.settled = true;
        for (place, name) in self.names.iter_mut().zip(names) {
            set_text(place, name);
        }
    }

    /// Keeps the last failure of the worker, for the view `xqueue.queues`.
    pub fn set_error(&mut self, error: &str) {
        set_text(&mut self.error, error);
        self.error_at = time::now();
    }

    pub fn clear_error(&mut self) {
        self.error[0] = 0;
    }
}

fn set_text(place: &mut [u8], text: &str) {
    let length = text.floor_char_boundary(place.len() - 1);
    place[..length].copy_from_slice(&text.as_bytes()[..length]);
    place[length] = 0;
}
