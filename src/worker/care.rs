//! What the worker does for one queue: gives tasks back, promotes, deletes what is over, recounts.

use super::job::Batch;
use super::leases::Ended;
use super::leftovers::Leftovers;
use super::recounter::{self, Recounted};
use super::retry::{BUSY_PAUSES, FAILURE_PAUSES, Retry};
use crate::delta::SlotId;
use crate::model::definition::Field;
use crate::pg::value::Value;
use crate::pg::{spi, time};
use crate::registry::{Arguments, Queue, Statement};
use crate::shmem::queues::{self, NEVER};
use crate::statement::{Change, Parameter};
use pgrx::pg_sys::Oid;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How often a queue with row security is looked at as a whole.
const ALL_INTERVAL: Duration = Duration::from_secs(5);
/// With tasks waiting the clock is looked at so often at least, as somebody may set it.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// A queue in the worker's care, beyond what its shared slot says.
pub struct Care {
    pub slot: SlotId,
    /// The table is a subscriber's copy: its tasks belong to another server.
    passive: bool,
    /// It had some since the list of queues was last read.
    has_row_security: Cell<bool>,
    /// When everything was last looked for that there may be to do because of that.
    looked: Instant,
    left: Leftovers,
    promote: Retry,
    recount: Retry,
}

impl Care {
    pub fn of(slot: SlotId) -> Care {
        Care {
            slot,
            passive: false,
            has_row_security: Cell::new(false),
            looked: Instant::now(),
            left: Leftovers::of(slot),
            promote: Retry::of(slot),
            recount: Retry::of(slot),
        }
    }

    /// With row security the owner may not see all that there is to do, and nobody tells when he
    /// does: it is looked for now and then.
    pub fn set_row_security(&mut self, is_on: bool) {
        if self.has_row_security.replace(is_on) && !is_on {
            self.look_for_all();
        }
    }

    pub fn set_told(&mut self, is_told: bool) {
        self.left.set_told(is_told);
    }

    fn look_for_all(&mut self) {
        self.looked = Instant::now();
        self.left.sweep();
        if let Some(mut slot) = queues::lock(self.slot) {
            slot.lower_due(i64::MIN);
        }
    }

    /// Leaves the tasks to another server, or looks after all that this one has left behind.
    pub fn set_passive(&mut self, passive: bool) {
        if std::mem::replace(&mut self.passive, passive) == passive {
            return;
        }
        self.promote = Retry::of(self.slot);
        self.left.forget();
        if !passive {
            self.left.sweep();
        }
        if let Some(mut slot) = queues::lock(self.slot) {
            slot.clear_error();
            slot.lower_due(i64::MIN);
        }
    }

    /// Takes note of sessions that have ended.
    pub fn note_ended(&mut self, ended: &[Ended]) {
        self.left.note(ended);
    }

    /// Some have ended that nobody has noted.
    pub fn sweep(&mut self) {
        self.left.sweep();
    }

    /// Does what there is to do: of each kind a batch, then it is the next queue's turn.
    pub fn work(&mut self, table: Oid, database: u32, may_recount: bool) {
        if self.has_row_security.get() && self.looked.elapsed() >= ALL_INTERVAL {
            self.look_for_all();
        }
        if self.passive {
            self.left.forget();
        } else {
            let secured = &self.has_row_security;
            self.left
                .give_back(table, |queue| secured.set(secured.get() || queue.has_row_security));
            self.promote(table);
        }
        if may_recount {
            self.recount(table, database);
        }
    }

    /// How long there is nothing to do; None: until somebody says so.
    pub fn pause(&self) -> Option<Duration> {
        let slot = queues::lock(self.slot)?;
        let (due, needs_recount) = (slot.due(), slot.needs_recount());
        drop(slot);
        let recount = needs_recount.then(|| self.recount.left().unwrap_or(BUSY_PAUSES.1));
        let promote = (due != NEVER && !self.passive).then(|| {
            let left = Duration::from_micros(due.saturating_sub(time::now()).max(0) as u64);
            left.min(CLOCK_INTERVAL).max(self.promote.left().unwrap_or_default())
        });
        let all = self.has_row_security.get();
        let all = all.then(|| ALL_INTERVAL.saturating_sub(self.looked.elapsed()));
        [self.left.pause(), promote, recount, all].into_iter().flatten().min()
    }

    /// Does what is due: delays, times to run, lives that are over.
    fn promote(&mut self, table: Oid) {
        let now = time::now();
        let is_due = queues::lock(self.slot).is_some_and(|slot| slot.due() <= now);
        if !is_due || !self.promote.is_due() {
            return;
        }
        // Nothing that is there is due before what was known: the entries of what was there before
        // need not be walked over again.
        let mut since = i64::MIN;
        if let Some(mut slot) = queues::lock(self.slot) {
            since = slot.due();
            slot.forget_due();
        }
        let secured = &self.has_row_security;
        let promote = |queue: &Queue| {
            secured.set(secured.get() || queue.has_row_security);
            let since = if queue.is_told { since } else { i64::MIN };
            let mut times = Arguments::of(Parameter::Now, Value::instant(now));
            times.set(Parameter::Since, Value::instant(since));
            let (mut changed, mut failure) = (0, None);
            for change in timed_changes(queue) {
                let (some, failed) = Batch::of(queue, change, times.clone()).run_or_each();
                changed += some;
                failure = failed.or(failure);
            }
            ((changed, next_due(queue, &times)), failure)
        };
        let outcome = self.promote.run_batch(table, promote);
        let Some(mut slot) = queues::lock(self.slot) else { return };
        match outcome {
            Some((promoted, Some(next))) => {
                slot.lower_due(next);
                self.promote.go_on(promoted > 0 || next > now);
            }
            Some((_, None)) => self.promote.go_on(true),
            // Nobody knows when: it is looked up at the next try.
            None => {
                slot.lower_due(i64::MIN);
            }
        }
    }

    /// Counts the tasks anew if that is needed: small tables here, large ones elsewhere.
    fn recount(&mut self, table: Oid, database: u32) {
        let needed = queues::lock(self.slot).is_some_and(|slot| slot.needs_recount());
        if !needed || !self.recount.is_due() {
            return;
        }
        match recounter::recount(table, Some(recounter::PAGES_COUNTED_BY_WORKER)) {
            Recounted::Done => return self.recount = Retry::of(self.slot),
            Recounted::TooLarge => recounter::start(database),
            Recounted::Later => {}
        }
        self.recount.after(FAILURE_PAUSES);
    }
}

/// What there is to do at instants, by the queue's features.
fn timed_changes(queue: &Queue) -> impl Iterator<Item = Change> {
    let features = queue.features();
    let has_runat = queue.number_of(Field::Runat) != 0;
    [
        (has_runat, Change::Promote),
        (features.has_deadlines(), Change::Overdue),
        (features.zombies(), Change::Rot),
        (features.expires(), Change::Expire),
    ]
    .into_iter()
    .filter_map(|(is_on, change)| is_on.then_some(change))
}

fn next_due(queue: &Queue, times: &Arguments) -> Option<i64> {
    spi::connect(|spi| {
        let rows = queue.run(spi, &Statement::NextDue, times);
        rows.value(0, 1).map(Value::to_instant)
    })
}
