//! Applies a committed transaction to a queue, part by part. The order matters:
//!
//! 1. Counters, the recount in progress, and whether triggers report every change: all later steps ask for these.
//! 2. Marks. They are lowered before any consumer is woken, because a consumer starts its search at the mark.
//! 3. Outcomes, for processes that wait for the end of a task.
//! 4. The queue itself: its owner, its pause.
//! 5. Sub-queues, which wake consumers for the tasks they have, then consumers of ready tasks; all consumers if the
//!    queue was redefined.
//! 6. The worker's schedule, the capacity, and last the producers that now have room: by then all room that the
//!    transaction returns has been counted.

use crate::parts::slot::QueueGuard;
use crate::parts::waiters::Offer;
use xqueue_core::transaction::Delta;

impl QueueGuard {
    /// Applies the changes that transaction `xid` has committed by `now`, and wakes the processes concerned.
    pub fn commit(&mut self, now: i64, xid: u32, delta: &Delta) {
        let Delta { table, counters, marks, waiters, subqueues, leases: _, capacity, schedule } =
            delta;
        let forgets = table.redefined || counters.recount;
        self.counters().commit(now, xid, counters);
        if counters.replaces {
            self.marks().discard_rings();
            self.capacity.empty();
        }
        self.capacity.reserved -= capacity.reserved;
        self.marks().lower(marks, forgets);
        self.waiters().report_ends(waiters, counters.replaces);
        self.table.commit(table);
        if table.paused == Some(false) {
            self.waiters().wake_for_ready();
        }
        self.subqueues().commit(subqueues, forgets || counters.replaces);
        if table.redefined || table.paused == Some(true) {
            self.waiters().wake_everyone();
        } else {
            for (tube, count) in waiters.made_ready.by_tube() {
                self.waiters().wake(count, Offer { tube });
            }
        }
        // After unreported changes any task can be due.
        let due = if forgets { Some(i64::MIN) } else { schedule.due };
        if let Some(instant) = due {
            self.schedule.lower_due(instant);
        }
        if counters.recount {
            self.counters.request_recount();
            self.capacity.distrust();
        }
        if let Some(limit) = capacity.limit {
            self.room().set_capacity(limit);
        }
        self.waiters().grant();
    }
}
