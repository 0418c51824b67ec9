//! One of the kinds of work that the worker does for a queue, and when it tries again what could not be done.

use super::job::{self, Outcome};
use crate::delta::SlotId;
use crate::pg::transaction::Failure;
use crate::registry::Queue;
use crate::shmem::queues;
use pgrx::pg_sys::Oid;
use std::time::{Duration, Instant};

/// Before the next try on a table or row that somebody has locked: doubled each time, up to a
/// limit.
pub const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Before the next try after a failure. Whatever fails, healthy tasks come to be ready in between.
pub const FAILURE_PAUSES: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(1));
/// The same for what has taken too long, which delays others.
const SLOW_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Work of one kind, its failures, and when it may be tried again.
pub struct Retry {
    slot: SlotId,
    /// None: at once.
    at: Option<Instant>,
    /// The last one, until something comes of the work.
    pause: Duration,
    has_failed: bool,
}

impl Retry {
    pub fn of(slot: SlotId) -> Retry {
        Retry { slot, at: None, pause: Duration::ZERO, has_failed: false }
    }

    pub fn is_due(&self) -> bool {
        self.at.is_none_or(|at| Instant::now() >= at)
    }

    pub fn left(&self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub fn after(&mut self, (first, longest): (Duration, Duration)) {
        self.pause = (self.pause * 2).clamp(first, longest);
        self.at = Some(Instant::now() + self.pause);
    }

    /// Whether something has come of the work, or there is no more of it; else somebody has it locked. After a
    /// failure that is of no account.
    pub fn go_on(&mut self, has_come: bool) {
        match self.at {
            Some(_) => {}
            None if has_come => self.pause = Duration::ZERO,
            None => self.after(BUSY_PAUSES),
        }
    }

    /// Runs a job; a failure is noted and delays the next try.
    pub fn run<T>(&mut self, table: Oid, work: impl FnOnce(&Queue) -> T) -> Option<T> {
        self.run_batch(table, |queue| (work(queue), None))
    }

    /// Runs a job that tells of a failure beside what it has done: that is kept, the failure noted.
    pub fn run_batch<T>(
        &mut self,
        table: Oid,
        work: impl FnOnce(&Queue) -> (T, Option<Failure>),
    ) -> Option<T> {
        match job::run(table, |queue| work(queue)) {
            Ok(Outcome::Done((value, None))) => {
                self.end_failure();
                return Some(value);
            }
            Ok(Outcome::Done((value, Some(failure)))) => {
                self.note_failure(&failure);
                return Some(value);
            }
            Ok(Outcome::Busy) => self.after(BUSY_PAUSES),
            Ok(Outcome::Gone) => self.after(SLOW_PAUSES),
            Err(failure) => self.note_failure(&failure),
        }
        None
    }

    fn end_failure(&mut self) {
        self.at = None;
        if std::mem::take(&mut self.has_failed)
            && let Some(mut slot) = queues::lock(self.slot)
        {
            slot.clear_error();
        }
    }

    fn note_failure(&mut self, failure: &Failure) {
        self.has_failed = true;
        self.after(if failure.canceled { SLOW_PAUSES } else { FAILURE_PAUSES });
        if let Some(mut slot) = queues::lock(self.slot) {
            slot.set_error(&failure.message);
        }
    }
}
