//! What the worker of a database leaves to the next one, if it gives its place up to the worker of another.

use crate::parts::schedule::NEVER;
use crate::parts::schedule::databases::{Requests, Rest};
use crate::server::time;
use crate::worker::database::{NUDGE_INTERVAL, Worker};
use std::time::{Duration, Instant};

impl Worker {
    /// Returns whether job workers are at work for it.
    pub(super) fn is_at_work(&self) -> bool {
        self.pool.is_at_work() || self.recounts.is_at_work()
    }

    /// Returns whether it has no place for a job worker that it wants, or has not come to the queue yet that may want one.
    pub(super) fn wants_place(&self) -> bool {
        let has_left_some = self.definitions.has_left_some();
        has_left_some || self.pool.wants_place() || self.recounts.wants_place()
    }

    /// Returns what is left to the next worker if this one gives its place up.
    pub(super) fn rest(&self) -> Rest {
        let now = time::now();
        let after = |pause: Duration| now.saturating_add(pause.as_micros() as i64);
        let is_read = self.definitions.is_all_read() && self.reload_at.is_none();
        let has_time = is_read && self.unserved.is_empty() && !self.pool.wants_place();
        let again = self.definitions.look_again_at();
        let again = again.map(|at| after(at.saturating_duration_since(Instant::now())));
        let queues = self.queues.values();
        let nudge =
            queues.clone().any(|queue| queue.is_beside_ready(now)).then_some(NUDGE_INTERVAL);
        let recount = self.recounts.rest(&self.queues);
        let needs = queues.clone().filter_map(|maintenance| maintenance.hand_over(now));
        let needs = needs.chain(again).chain(self.leases.needed_at(now));
        let needs =
            needs.chain([nudge, recount, self.prepared.rest()].into_iter().flatten().map(after));
        let is_settled = self.leases.is_settled() && queues.clone().all(|queue| queue.is_settled());
        Rest {
            needed_at: if has_time { needs.min().unwrap_or(NEVER) } else { now },
            is_clean: is_read && is_settled,
            requests: Requests {
                // Ends of sessions and of prepared transactions are known to this process alone.
                sessions: self.leases.needed_at(now).is_some(),
                prepared: self.prepared.rest().is_some(),
                ..Requests::default()
            },
        }
    }
}
