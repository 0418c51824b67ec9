//! Waiting for a task, for the end of a task, or for room: register, recheck, sleep, pass the wake token on.

use crate::error::{Error, Result};
use crate::parts::leases::session;
use crate::parts::schedule::requests;
use crate::parts::slot::{self, QueueGuard};
use crate::parts::waiters::token::LookEnd;
use crate::parts::waiters::wake::WakeToken;
use crate::parts::waiters::{self, Want};
use crate::server::latch::{self, Reason};
use crate::server::{callbacks, injection, process, time, xact};
use pgrx::PgSqlErrorCode;
use std::cell::Cell;
use std::time::{Duration, Instant};
use xqueue_core::change::Outcome;
use xqueue_core::slot_id::SlotId;

thread_local! {
    static EXIT_WATCHED: Cell<bool> = const { Cell::new(false) };
    /// The queue in whose wait queue this process is.
    static WAIT_QUEUE: Cell<Option<SlotId>> = const { Cell::new(None) };
    /// The wake-up whose task this process is searching for, and whether other consumers can find tasks that it does
    /// not find.
    static TOKEN: Cell<Option<(WakeToken, bool)>> = const { Cell::new(None) };
    /// This process has taken a task that the wake-up was for.
    static IS_USED: Cell<bool> = const { Cell::new(false) };
    /// The end of the transaction does not end the wait.
    static KEEPS_PLACE: Cell<bool> = const { Cell::new(false) };
}

/// The end of a wait; None if the wait is unlimited.
#[derive(Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the instant `microseconds` from now; None means never.
    pub fn after(microseconds: Option<i64>) -> Deadline {
        let length = microseconds.map(|length| Duration::from_micros(length.max(0) as u64));
        Deadline(length.and_then(|length| Instant::now().checked_add(length)))
    }

    fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }

    pub fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}

/// This process's entry in a wait queue, given up on drop.
pub struct WaitEntry {
    slot: SlotId,
    since: i64,
    want: Cell<Want>,
    precedes: bool,
    /// Microseconds until the next check after an unsuccessful wake-up.
    patience: Cell<i64>,
    /// Other consumers can find tasks that the last check did not find.
    by_caller: Cell<bool>,
}

/// First and longest delay before such a check (µs).
const PATIENCE: (i64, i64) = (1_000_000, 64_000_000);

/// A check that found no task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoTask {
    /// End of the pause of the queue.
    pub paused_until: Option<i64>,
    /// Tasks depend on the caller: other consumers can find tasks that this one did not find.
    pub by_caller: bool,
}

/// A report to a watcher of a task.
pub enum News {
    /// The task has ended with this outcome.
    Ended(Outcome),
    /// Something has happened, possibly this end: the watcher has to check.
    Check(Option<Outcome>),
    /// Nothing happened until the deadline.
    None,
}

/// Result of a producer's wait for room.
pub enum Waited {
    /// Room for this many tasks was reserved, which the caller has to record.
    Granted(i64),
    /// The capacity has changed: check again.
    Check,
    /// The deadline has passed.
    TooLate,
}

impl WaitEntry {
    /// Joins the wait queue at its end.
    pub fn join(slot: SlotId, queue: &str, want: Want) -> Result<WaitEntry> {
        WaitEntry::join_at(slot, queue, want, false)
    }

    /// Joins the wait queue: with `precedes` before all newcomers, otherwise at its end.
    pub fn join_at(slot: SlotId, queue: &str, want: Want, precedes: bool) -> Result<WaitEntry> {
        if WAIT_QUEUE.get().is_some() {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
                "this session waits for a task already",
            )
            .hint("A trigger that runs while a consumer takes a task must not wait for another."));
        }
        if xact::in_recovery() {
            let refused = format!("cannot wait for a task of queue \"{queue}\"");
            return Err(
                Error::on_standby(refused).detail("It learns of no changes on the primary.")
            );
        }
        // An error between here and the entry into the wait queue would leave another queue's reservation in the entry.
        session::current()?;
        WAIT_QUEUE.set(Some(slot));
        let place = WaitEntry {
            slot,
            since: time::now(),
            want: Cell::new(want),
            precedes,
            patience: Cell::new(0),
            by_caller: Cell::new(false),
        };
        place.stand(queue, |_| time::now() + PATIENCE.0)?;
        injection::point(c"xqueue-consumer-stands-in-line");
        Ok(place)
    }

    /// Joins the wait queue under its lock, after `prepare`, which returns the instant of the next check without a
    /// wake-up.
    fn stand(&self, queue: &str, prepare: impl FnOnce(&mut QueueGuard) -> i64) -> Result<()> {
        let session = session::current()?;
        watch_exit();
        match slot::lock(self.slot) {
            Some(mut shared) => {
                let nudge_at = prepare(&mut shared);
                let wish = (self.want.get(), self.precedes, self.by_caller.get());
                shared.waiters().join(self.since, session, wish, nudge_at);
                Ok(())
            }
            None => Err(gone(queue)),
        }
    }

    /// Waits for something else from now on, at the old position. Returns true if the want has changed: earlier offers
    /// for it did not reach this process.
    pub fn wants(&self, want: Want, queue: &str) -> Result<bool> {
        if self.want.replace(want) == want {
            return Ok(false);
        }
        self.stand(queue, |shared| {
            let another = shared.waiters().leave();
            if let Some((token, by_caller)) = another {
                shared.waiters().hand_on(token, by_caller);
            }
            time::now() + PATIENCE.0
        })?;
        Ok(true)
    }

    /// Sleeps after an unsuccessful check until this consumer is woken; returns false if the deadline passes first.
    /// Once woken, the consumer joins the wait queue again at its old position, in case the task is gone.
    pub fn sleep(&self, deadline: Deadline, look: NoTask, queue: &str) -> Result<bool> {
        self.by_caller.set(look.by_caller);
        // Also if there is another wake-up: it is handed on.
        if deadline.is_over() {
            return Ok(false);
        }
        if self.has_missed_some(look) {
            latch::wait(Reason::Other, Some(Duration::ZERO), true);
            return Ok(true);
        }
        injection::point(c"xqueue-consumer-is-to-sleep");
        if !self.is_woken_before(deadline, look.paused_until, Reason::Task) {
            return Ok(false);
        }
        // Ends here if the client has disconnected, so that no task is taken for it.
        latch::wait(Reason::Other, Some(Duration::ZERO), true);
        self.stand(queue, |shared| {
            let token = shared.waiters().token();
            let unused = TOKEN.replace(Some((token, look.by_caller)));
            IS_USED.set(false);
            if let Some((token, by_caller)) = unused {
                shared.waiters().hand_on(token, by_caller);
            }
            // If other consumers take the tasks, an unsuccessful wake-up says nothing about the next one.
            let is_first = look.by_caller && !token.is_nudge();
            let patience = if is_first { 0 } else { self.patience.get() * 2 };
            self.patience.set(patience.clamp(PATIENCE.0, PATIENCE.1));
            time::now() + self.patience.get()
        })?;
        Ok(true)
    }

    /// Sleeps until there is news of the watched task. `is_hint`: an outcome only makes the caller check the task.
    pub fn watch(&self, deadline: Deadline, is_hint: bool, queue: &str) -> Result<News> {
        if !self.is_woken_before(deadline, None, Reason::Outcome) {
            return Ok(News::None);
        }
        let news = self.news(queue)?;
        injection::point(c"xqueue-watcher-has-news");
        Ok(match news {
            News::Ended(outcome) if is_hint => News::Check(Some(outcome)),
            news => news,
        })
    }

    /// Returns the news since the last call.
    pub fn news(&self, queue: &str) -> Result<News> {
        let mut shared = slot::lock(self.slot).ok_or_else(|| gone(queue))?;
        Ok(match shared.waiters().news() {
            Some(Some(outcome)) => News::Ended(outcome),
            Some(None) => News::Check(None),
            None => News::None,
        })
    }

    /// Sleeps until there is room.
    pub fn room(&self, deadline: Deadline, queue: &str) -> Result<Waited> {
        let is_woken = self.is_woken_before(deadline, None, Reason::Room);
        // Ends here if the client has disconnected, so that no task is put for it.
        latch::wait(Reason::Other, Some(Duration::ZERO), true);
        let granted = slot::lock(self.slot).ok_or_else(|| gone(queue))?.waiters().take_grant();
        Ok(match granted {
            0 if is_woken => Waited::Check,
            0 => Waited::TooLate,
            tasks => Waited::Granted(tasks),
        })
    }

    /// Returns whether this consumer has to check again: tasks became ready during its unsuccessful check, and other
    /// consumers were possibly woken for them. If it is about to sleep although tasks are ready, the worker is asked to
    /// check.
    fn has_missed_some(&self, look: NoTask) -> bool {
        let Some(mut shared) = slot::lock(self.slot) else { return false };
        let token = TOKEN.take().map(|(token, _)| token);
        let LookEnd { has_changed, looks_again, kept } =
            shared.waiters().end_look(token, look.by_caller);
        TOKEN.set(kept.map(|token| (token, look.by_caller)));
        let has_ready = shared.has_ready();
        // After a wake-up the pause might have ended: this consumer checks again first.
        if let Some(until) = look.paused_until.filter(|_| !has_changed) {
            shared.waiters().note_pause(until);
        }
        drop(shared);
        if has_ready && !looks_again && look.paused_until.is_none() {
            requests::request(process::database().into(), |_| {});
        }
        looks_again
    }

    fn is_woken_before(&self, deadline: Deadline, mut pause: Option<i64>, reason: Reason) -> bool {
        while !waiters::was_woken() {
            if deadline.is_over() {
                return false;
            }
            let paused = pause.map(|until| until.saturating_sub(time::now()).max(0) as u64);
            if let (Some(0), Some(mut shared)) = (paused, slot::lock(self.slot)) {
                shared.waiters().end_pause(pause.take().unwrap_or_default());
                continue;
            }
            let paused = paused.map(Duration::from_micros);
            latch::wait(reason, [deadline.left(), paused].into_iter().flatten().min(), true);
        }
        true
    }

    /// Ends the wait because a task was found. A further wake-up goes to the next consumer. So does this one if the
    /// task is of another tube.
    pub fn succeed(self) {
        let is_used = TOKEN.get().is_none_or(|(token, _)| !token.names_tube()) || IS_USED.get();
        if is_used || slot::lock(self.slot).is_none_or(|shared| !shared.waiters.has_choosy()) {
            TOKEN.set(None);
        }
    }

    /// Ends the transaction without leaving the wait queue.
    pub fn over_transaction_end(&self, end: impl FnOnce()) {
        KEEPS_PLACE.set(true);
        end();
        KEEPS_PLACE.set(false);
    }
}

impl Drop for WaitEntry {
    fn drop(&mut self) {
        KEEPS_PLACE.set(false);
        leave_any_wait_queue();
    }
}

/// Records that this process has taken a task of this tube.
pub fn note_taken(slot: SlotId, tube: Option<u64>) {
    if WAIT_QUEUE.get() == Some(slot) && TOKEN.get().is_some_and(|(token, _)| token.is_for(tube)) {
        IS_USED.set(true);
    }
}

/// Leaves the wait queue, if this process is in one, and passes an unused wake-up on. Called at every end of a wait:
/// a task found, timeout, error, cancel, end of the process.
pub fn leave_any_wait_queue() {
    if KEEPS_PLACE.get() {
        return;
    }
    let unused = TOKEN.take();
    if let Some(slot) = WAIT_QUEUE.take()
        && let Some(mut shared) = slot::lock(slot)
    {
        let another = shared.waiters().leave();
        for (token, by_caller) in unused.into_iter().chain(another) {
            shared.waiters().hand_on(token, by_caller);
        }
    }
}

/// Makes the process leave its wait queue at exit. The server calls exit callbacks in reverse order of registration,
/// so this runs before the session's.
fn watch_exit() {
    if !EXIT_WATCHED.replace(true) {
        callbacks::at_exit(leave_at_exit, 0);
    }
}

/// Leaves the wait queue at the end of the process.
fn leave_at_exit(_argument: u32) {
    KEEPS_PLACE.set(false);
    leave_any_wait_queue();
}

pub fn gone(queue: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
        format!("queue \"{queue}\" was dropped or downgraded while this session waited"),
    )
    .hint("Create the queue again, or end what works with it.")
}
