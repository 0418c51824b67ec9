//! Whether the counters are those of the table: not while a prepared transaction may have changed it, while a recount
//! is wanted, and while no triggers tell what happens.

use crate::model::change::Counts;
use crate::parts::delta::Delta;
use crate::parts::slot::QueueGuard;
use serde_json::json;

impl QueueGuard {
    /// Takes over whether the triggers tell of every change once a transaction has committed.
    pub(in crate::parts) fn commit_told(&mut self, delta: &Delta) {
        if let Some(told) = delta.counters.told {
            self.told = told;
            self.exact &= told;
        }
    }

    /// The same as the caller has found, who keeps away whoever changes triggers. What happened while they did not
    /// is not counted.
    pub fn find_told(&mut self, told: bool) {
        let is_news = told && !self.told;
        self.told = told;
        self.recount |= is_news;
        self.exact &= told && !is_news;
    }

    pub fn needs_recount(&self) -> bool {
        self.recount
    }

    /// The counters become what a recount has found.
    pub fn set_counted(&mut self, counts: &Counts) {
        self.tasks = counts.tasks;
        for (tube, tasks) in self.tubes.iter_mut().zip(counts.tubes) {
            tube.tasks = tasks;
        }
        self.exact = self.may_be_exact() && !self.recount;
        let for_good = !self.recount;
        self.room.count(for_good);
        self.trace_recount(|| json!({ "do": "Set" }));
        self.grant();
    }

    /// Whether nothing changes the table but what is counted.
    pub(in crate::parts) fn may_be_exact(&self) -> bool {
        self.told && !self.is_prepared()
    }

    pub(in crate::parts) fn is_exact(&self) -> bool {
        self.exact
    }
}
