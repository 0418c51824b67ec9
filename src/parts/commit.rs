//! What becomes of a queue when a transaction that has changed it commits, part by part, in an order that matters:
//!
//! 1. Whether triggers tell of every change, and the counters: all that follows asks them.
//! 2. Recounts in progress are told, by the same numbers.
//! 3. The marks are lowered before any consumer is woken, which would look from there.
//! 4. Outcomes: those that wait for the end of a task.
//! 5. The queue itself: its owner, its pause.
//! 6. Sub-queues, which wake for what they have, and consumers of ready tasks: all, where the queue is another.
//! 7. The worker's schedule, then the capacity, and last the producers for which there is room now, as all the room
//!    that the transaction gives back has been counted.

use crate::parts::slot::QueueGuard;
use crate::parts::waiters::Offer;
use xqueue_core::transaction::Delta;

impl QueueGuard {
    /// Takes over what transaction `xid` has committed by `now`, and wakes whom it concerns.
    pub fn commit(&mut self, now: i64, xid: u32, delta: &Delta) {
        let Delta { table, counters, marks, waiters, subqueues, leases: _, capacity, schedule } =
            delta;
        let forgets = table.redefined || counters.recount;
        self.commit_counters(now, counters);
        if counters.replaces {
            self.put_rings_aside();
            self.capacity.empty();
        }
        self.capacity.reserved -= capacity.reserved;
        self.tell_recounts(xid, counters);
        self.lower_marks(marks, forgets);
        self.tell_ends(waiters, counters.replaces);
        self.commit_table(table);
        if table.paused == Some(false) {
            self.wake_for_ready();
        }
        self.commit_subqueues(subqueues, forgets || counters.replaces);
        if table.redefined || table.paused == Some(true) {
            self.wake_everyone();
        } else {
            for (tube, count) in waiters.made_ready.by_tube() {
                self.wake(count, Offer { tube });
            }
        }
        // What was none of the worker's may be now.
        let due = if forgets { Some(i64::MIN) } else { schedule.due };
        if let Some(instant) = due {
            self.lower_due(instant);
        }
        if counters.recount {
            self.want_recount();
            self.capacity.distrust();
        }
        if let Some(limit) = capacity.limit {
            self.set_capacity(limit);
        }
        self.grant();
    }
}
