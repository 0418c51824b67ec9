//! Waiting for a task: stand in line, look again, sleep, pass the baton on.

use crate::delta::SlotId;
use crate::error::{Error, Result};
use crate::pg::{latch, time};
use crate::session;
use crate::shmem::{queues, waiters};
use pgrx::PgSqlErrorCode;
use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    /// The queue in whose line this process stands.
    static LINE: Cell<Option<SlotId>> = const { Cell::new(None) };
    /// A wake-up has been received and the task that it tells of not been looked for yet.
    static BATON: Cell<bool> = const { Cell::new(false) };
    /// The end of the transaction is part of the wait, not the end of it.
    static KEEPS_PLACE: Cell<bool> = const { Cell::new(false) };
}

/// The end of a wait; None if it has none.
#[derive(Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// `microseconds` from now; None: never.
    pub fn after(microseconds: Option<i64>) -> Deadline {
        let length = microseconds.map(|length| Duration::from_micros(length.max(0) as u64));
        Deadline(length.and_then(|length| Instant::now().checked_add(length)))
    }

    fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }

    fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}

/// A place in a queue's line, given up on drop.
pub struct Place {
    slot: SlotId,
    since: i64,
}

impl Place {
    /// Joins the line at its end.
    pub fn join(slot: SlotId, queue: &str) -> Result<Place> {
        if LINE.get().is_some() {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
                "this session waits for a task already",
            )
            .hint("A trigger that runs while a consumer takes a task must not wait for another."));
        }
        LINE.set(Some(slot));
        let place = Place { slot, since: time::now() };
        place.stand(queue)?;
        Ok(place)
    }

    fn stand(&self, queue: &str) -> Result<()> {
        let session = session::current();
        match queues::lock(self.slot) {
            Some(mut line) => {
                line.join_line(self.since, session);
                Ok(())
            }
            None => Err(gone(queue)),
        }
    }

    /// Sleeps until this consumer is woken; false when the deadline has passed before that.
    /// Whoever is woken stands in line again, in the old place, should the task be gone.
    pub fn sleep(&self, deadline: Deadline, queue: &str) -> Result<bool> {
        BATON.set(false);
        while !waiters::was_woken() {
            if deadline.is_over() {
                return Ok(false);
            }
            latch::wait(deadline.left(), true);
        }
        // Nothing is taken for a client that is gone.
        latch::wait(Some(Duration::ZERO), true);
        BATON.set(true);
        self.stand(queue)?;
        Ok(true)
    }

    /// Ends the wait: a task was found. Another wake-up that came meanwhile goes to the next.
    pub fn succeed(self) {
        BATON.set(false);
    }

    /// Ends the transaction without leaving the line.
    pub fn over_transaction_end(&self, end: impl FnOnce()) {
        KEEPS_PLACE.set(true);
        end();
        KEEPS_PLACE.set(false);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        KEEPS_PLACE.set(false);
        leave_any_line();
    }
}

/// Leaves the line that this process stands in, if any, and passes an unused wake-up on. For every
/// end of a wait: a task found, timeout, error, cancel, end of the process.
pub fn leave_any_line() {
    if KEEPS_PLACE.get() {
        return;
    }
    let unused = BATON.take();
    if let Some(slot) = LINE.take()
        && let Some(mut line) = queues::lock(slot)
        && (line.leave_line() || unused)
    {
        line.wake(1);
    }
}

/// The same at the end of the process, whatever it was doing.
pub fn leave_at_exit() {
    KEEPS_PLACE.set(false);
    leave_any_line();
}

pub fn gone(queue: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
        format!("queue \"{queue}\" was dropped or downgraded while this consumer waited"),
    )
    .hint("Create the queue again, or end this consumer.")
}
