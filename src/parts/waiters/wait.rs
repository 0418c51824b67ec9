//! Waiting for a task, for the end of one, or for room: stand in line, look again, sleep, pass the
//! wake token on.

use crate::error::{Error, Result};
use crate::model::change::Outcome;
use crate::parts::leases::session;
use crate::parts::schedule::{NEVER, databases};
use crate::parts::slot::{self, QueueGuard};
use crate::parts::slot_id::SlotId;
use crate::parts::waiters::token::LookEnd;
use crate::parts::waiters::wake::WakeToken;
use crate::parts::waiters::{self, Want};
use crate::server::{callbacks, injection, latch, process, time, xact};
use crate::trace;
use pgrx::PgSqlErrorCode;
use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    static EXIT_WATCHED: Cell<bool> = const { Cell::new(false) };
    /// The queue in whose line this process stands.
    static LINE: Cell<Option<SlotId>> = const { Cell::new(None) };
    /// A wake-up has been received, and the look for the task that it tells of has not ended yet. With
    /// it, whether others may find what that look does not.
    static TOKEN: Cell<Option<(WakeToken, bool)>> = const { Cell::new(None) };
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

    pub fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}

/// A place in a queue's line, given up on drop.
pub struct Place {
    slot: SlotId,
    since: i64,
    want: Cell<Want>,
    precedes: bool,
    /// After how many microseconds to look again after a wake-up that came to nothing.
    patience: Cell<i64>,
    /// Others may find what the last look did not.
    by_caller: Cell<bool>,
}

/// The first look again, and the longest pause before another.
const PATIENCE: (i64, i64) = (1_000_000, 64_000_000);

/// A look for tasks that has found none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InVain {
    /// The end of the pause that the queue is in.
    pub paused_until: Option<i64>,
    /// What the queue gives depends on the caller: others may find what this one did not.
    pub by_caller: bool,
}

/// What somebody who waits for the end of a task comes to know.
pub enum News {
    /// It has ended so.
    Ended(Outcome),
    /// Something has happened, perhaps this end: look. The process stands in line meanwhile.
    Look(Option<Outcome>),
    /// Nothing, until the time was over.
    None,
}

/// What comes of a producer's wait for room.
pub enum Waited {
    /// Room for so many tasks has been reserved: it is the caller's to note.
    Granted(i64),
    /// The capacity is another: look.
    Look,
    /// The time is over.
    InVain,
}

impl Place {
    /// Joins the line at its end.
    pub fn join(slot: SlotId, queue: &str, want: Want) -> Result<Place> {
        Place::join_at(slot, queue, want, false)
    }

    /// The same; with `precedes` in front of all newcomers.
    pub fn join_at(slot: SlotId, queue: &str, want: Want, precedes: bool) -> Result<Place> {
        if LINE.get().is_some() {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
                "this session waits for a task already",
            )
            .hint("A trigger that runs while a consumer takes a task must not wait for another."));
        }
        if xact::in_recovery() {
            let refused = format!("cannot wait for a task of queue \"{queue}\"");
            return Err(
                Error::on_standby(refused).detail("It is not told of what happens on the primary.")
            );
        }
        LINE.set(Some(slot));
        let place = Place {
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

    /// Joins the line, after `prepare` has had it locked, which says when to look again without a wake-up.
    fn stand(&self, queue: &str, prepare: impl FnOnce(&mut QueueGuard) -> i64) -> Result<()> {
        let session = session::current()?;
        watch_exit();
        match slot::lock(self.slot) {
            Some(mut line) => {
                let nudge_at = prepare(&mut line);
                let wish = (self.want.get(), self.precedes, self.by_caller.get());
                line.join_line(self.since, session, wish, nudge_at);
                line.note_joined(TOKEN.get().map(|(token, _)| token));
                Ok(())
            }
            None => Err(gone(queue)),
        }
    }

    /// Stands in line for something else from now on, in the old place. True if it is something else:
    /// what was offered before that nobody was told of.
    pub fn wants(&self, want: Want, queue: &str) -> Result<bool> {
        if self.want.replace(want) == want {
            return Ok(false);
        }
        self.stand(queue, |line| {
            let another = line.leave_line();
            line.note_left(None, another);
            if let Some((token, by_caller)) = another {
                line.hand_on(token, by_caller);
            }
            time::now() + PATIENCE.0
        })?;
        Ok(true)
    }

    /// Sleeps, after a look in vain, until this consumer is woken; false when the deadline has passed
    /// before that. Once woken it stands in line again, in the old place, should the task be gone.
    pub fn sleep(&self, deadline: Deadline, look: InVain, queue: &str) -> Result<bool> {
        self.by_caller.set(look.by_caller);
        if !deadline.is_over() && self.has_missed_some(look) {
            latch::wait(Some(Duration::ZERO), true);
            return Ok(true);
        }
        injection::point(c"xqueue-consumer-is-to-sleep");
        if !self.is_woken_before(deadline, look.paused_until) {
            return Ok(false);
        }
        // Nothing is taken for a client that is gone.
        latch::wait(Some(Duration::ZERO), true);
        self.stand(queue, |line| {
            let token = line.token();
            let unused = TOKEN.replace(Some((token, look.by_caller)));
            if let Some((token, by_caller)) = unused {
                line.note_step("Again", || serde_json::json!({ "by_caller": by_caller }));
                line.hand_on(token, by_caller);
            }
            // Where others take what there is, a wake-up in vain says nothing of the next.
            let is_first = look.by_caller && !token.is_nudge();
            let patience = if is_first { 0 } else { self.patience.get() * 2 };
            self.patience.set(patience.clamp(PATIENCE.0, PATIENCE.1));
            time::now() + self.patience.get()
        })?;
        Ok(true)
    }

    /// Sleeps until there is news of the task whose end this process waits for. `is_hint`: an end that is told of
    /// has to be looked for.
    pub fn watch(&self, deadline: Deadline, is_hint: bool, queue: &str) -> Result<News> {
        if !self.is_woken_before(deadline, None) {
            return Ok(News::None);
        }
        match self.news(queue)? {
            News::Ended(outcome) if is_hint => {
                self.stand(queue, |_| NEVER)?;
                Ok(News::Look(Some(outcome)))
            }
            news => Ok(news),
        }
    }

    /// The news that there is by now.
    pub fn news(&self, queue: &str) -> Result<News> {
        let mut line = slot::lock(self.slot).ok_or_else(|| gone(queue))?;
        Ok(match line.news() {
            Some(Some(outcome)) => News::Ended(outcome),
            Some(None) => News::Look(None),
            None => News::None,
        })
    }

    /// Sleeps until there is room.
    pub fn room(&self, deadline: Deadline, queue: &str) -> Result<Waited> {
        let is_woken = self.is_woken_before(deadline, None);
        // Nothing is put for a client that is gone.
        latch::wait(Some(Duration::ZERO), true);
        let granted = slot::lock(self.slot).ok_or_else(|| gone(queue))?.take_grant();
        Ok(match granted {
            0 if is_woken => Waited::Look,
            0 => Waited::InVain,
            tasks => Waited::Granted(tasks),
        })
    }

    /// Whether tasks came to be ready while this consumer looked in vain, which others may have
    /// been woken for. Should it sleep beside ready tasks, the worker is to look after it.
    fn has_missed_some(&self, look: InVain) -> bool {
        let Some(mut line) = slot::lock(self.slot) else { return false };
        let token = TOKEN.take().map(|(token, _)| token);
        let LookEnd { has_changed, looks_again, kept } = line.end_look(token, look.by_caller);
        TOKEN.set(kept.map(|token| (token, look.by_caller)));
        let has_ready = line.has_ready();
        // If somebody was woken meanwhile the pause may be over: this consumer looks again first.
        if let Some(until) = look.paused_until.filter(|_| !has_changed) {
            line.note_pause(until);
        }
        drop(line);
        if has_ready && !looks_again && look.paused_until.is_none() {
            databases::request(process::database().into(), |_| {});
        }
        looks_again
    }

    fn is_woken_before(&self, deadline: Deadline, mut pause: Option<i64>) -> bool {
        trace::flush();
        while !waiters::was_woken() {
            if deadline.is_over() {
                return false;
            }
            let paused = pause.map(|until| until.saturating_sub(time::now()).max(0) as u64);
            if let (Some(0), Some(mut line)) = (paused, slot::lock(self.slot)) {
                line.end_pause(pause.take().unwrap_or_default());
                continue;
            }
            let paused = paused.map(Duration::from_micros);
            latch::wait([deadline.left(), paused].into_iter().flatten().min(), true);
        }
        true
    }

    /// A look begins.
    pub fn looks(&self) {
        waiters::note_look(self.slot.index, false);
    }

    /// Ends the wait: a task was found. Another wake-up that came meanwhile goes to the next.
    pub fn succeed(self) {
        waiters::note_look(self.slot.index, true);
        TOKEN.set(None);
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
    let unused = TOKEN.take();
    if let Some(slot) = LINE.take()
        && let Some(mut line) = slot::lock(slot)
    {
        let another = line.leave_line();
        line.note_left(unused, another);
        for (token, by_caller) in unused.into_iter().chain(another) {
            line.hand_on(token, by_caller);
        }
    }
}

/// Has the process leave its line when it ends: before its session does, which watches the end already, as the server calls
/// the last to watch first.
fn watch_exit() {
    if !EXIT_WATCHED.replace(true) {
        callbacks::at_exit(leave_at_exit, 0);
    }
}

/// The same at the end of the process, whatever it was doing.
fn leave_at_exit(_argument: u32) {
    KEEPS_PLACE.set(false);
    leave_any_line();
    trace::flush();
}

pub fn gone(queue: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
        format!("queue \"{queue}\" was dropped or downgraded while this session waited"),
    )
    .hint("Create the queue again, or end what works with it.")
}
