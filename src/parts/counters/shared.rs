//! The counters of a queue in shared memory, under its lock.

use crate::model::change::{Calls, Transitions};
use crate::model::options::TUBES_COUNTED;
use crate::model::status::Tasks;
use crate::parts::counters::change::{Change, add, add_all};

#[repr(C)]
pub struct Shared {
    pub(in crate::parts) tasks: Tasks,
    pub(super) calls: Calls,
    pub(super) transitions: Transitions,
    /// Some tubes have statistics of their own, or had.
    pub(in crate::parts) counts_tubes: bool,
    /// Those, in the order of the options.
    pub(super) tubes: [Tube; TUBES_COUNTED],
    /// The counters are those of the table.
    pub(in crate::parts) exact: bool,
    /// The table's triggers tell of every change.
    pub(super) told: bool,
    /// The counters have to be counted anew.
    pub(in crate::parts) recount: bool,
    /// Bit i: the recount in area i is about this queue.
    pub(super) recounts: u32,
}

/// The counters of a tube.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Tube {
    pub tasks: Tasks,
    pub transitions: Transitions,
}

impl Shared {
    /// Nothing is known yet.
    pub(in crate::parts) fn uncounted() -> Shared {
        Shared {
            tasks: Tasks::default(),
            calls: Calls::default(),
            transitions: Transitions::default(),
            counts_tubes: false,
            tubes: [Tube::default(); TUBES_COUNTED],
            exact: false,
            told: false,
            recount: true,
            recounts: 0,
        }
    }

    /// Takes over what a transaction has committed.
    pub(super) fn commit(&mut self, change: &Change) {
        if change.tubes_changed {
            self.tubes = [Tube::default(); TUBES_COUNTED];
        }
        if change.replaces {
            self.tasks = Tasks::default();
            self.tubes.iter_mut().for_each(|tube| tube.tasks = Tasks::default());
        }
        add(&mut self.tasks, &change.tasks);
        add(&mut self.calls, &change.calls);
        add_all(&mut self.transitions, &change.transitions);
        for (tube, change) in &change.tubes {
            add(&mut self.tubes[*tube].tasks, &change.tasks);
            add_all(&mut self.tubes[*tube].transitions, &change.transitions);
        }
    }
}
