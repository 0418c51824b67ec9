//! Whether the counters are those of the table: not while a prepared transaction may have changed it, while a recount
//! is wanted, and while no triggers tell what happens.

use crate::model::change::Counts;
use crate::parts::counters::change::Change;
use crate::parts::slot::QueueGuard;
use serde_json::json;

impl QueueGuard {
    /// Takes over what a transaction has committed.
    pub(in crate::parts) fn commit_counters(&mut self, change: &Change) {
        if let Some(told) = change.told {
            self.counters.told = told;
            self.counters.exact &= told;
        }
        self.counters.commit(change);
        self.counters.exact |= change.replaces && self.may_be_exact();
    }

    /// The counters have to be counted anew.
    pub(in crate::parts) fn want_recount(&mut self) {
        (self.counters.recount, self.counters.exact) = (true, false);
    }

    /// The same as the caller has found, who keeps away whoever changes triggers. What happened while they did not
    /// is not counted.
    pub fn find_told(&mut self, told: bool) {
        let is_news = told && !self.counters.told;
        self.counters.told = told;
        self.counters.recount |= is_news;
        self.counters.exact &= told && !is_news;
    }

    pub fn needs_recount(&self) -> bool {
        self.counters.recount
    }

    /// The counters become what a recount has found.
    pub fn set_counted(&mut self, counts: &Counts) {
        self.counters.tasks = counts.tasks;
        for (tube, tasks) in self.counters.tubes.iter_mut().zip(counts.tubes) {
            tube.tasks = tasks;
        }
        self.counters.exact = self.may_be_exact() && !self.counters.recount;
        let for_good = !self.counters.recount;
        self.capacity.count(for_good);
        self.trace_recount(|| json!({ "do": "Set" }));
        self.grant();
    }

    /// Whether nothing changes the table but what is counted.
    pub(in crate::parts) fn may_be_exact(&self) -> bool {
        self.counters.told && !self.is_prepared()
    }

    pub(in crate::parts) fn is_exact(&self) -> bool {
        self.counters.exact
    }
}
