//! What the worker does for one queue: gives tasks back, promotes, deletes what is over, recounts.

use super::job::{self, Batch, Outcome};
use super::recounter::{self, Recounted};
use crate::delta::SlotId;
use crate::error::OrRaise;
use crate::model::change::Call;
use crate::model::definition::Field;
use crate::pg::transaction::Failure;
use crate::pg::{spi, time, types};
use crate::registry::{Arguments, Queue, Statement};
use crate::session::store;
use crate::shmem::queues::{self, NEVER};
use crate::statement::{Change, Parameter};
use pgrx::pg_sys::{Datum, Oid};
use std::cell::Cell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Before the next try on a table or row that somebody has locked: doubled each time, up to a
/// limit.
const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Before the next try after a failure. Whatever fails, healthy tasks come to be ready in between.
const FAILURE_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// The same for what has taken too long, which delays others.
const SLOW_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
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
    /// Sessions that have ended and may have left tasks.
    ended: Vec<[u8; 16]>,
    /// All taken tasks have to be compared with the live sessions.
    sweep: bool,
    give_back: Retry,
    promote: Retry,
    recount: Retry,
}

/// When something may be tried again.
#[derive(Default)]
struct Retry {
    at: Option<Instant>,
    pause: Duration,
    has_failed: bool,
}

impl Retry {
    fn is_due(&self) -> bool {
        self.at.is_none_or(|at| Instant::now() >= at)
    }

    fn left(&self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn after(&mut self, (first, longest): (Duration, Duration)) {
        self.pause = (self.pause * 2).clamp(first, longest);
        self.at = Some(Instant::now() + self.pause);
    }

    fn succeed(&mut self) {
        (self.at, self.pause) = (None, Duration::ZERO);
    }
}

impl Care {
    pub fn of(slot: SlotId) -> Care {
        Care {
            slot,
            passive: false,
            has_row_security: Cell::new(false),
            looked: Instant::now(),
            ended: vec![],
            sweep: true,
            give_back: Retry::default(),
            promote: Retry::default(),
            recount: Retry::default(),
        }
    }

    /// With row security the owner may not see all that there is to do, and nobody tells when he
    /// does: it is looked for now and then.
    pub fn set_row_security(&mut self, is_on: bool) {
        if self.has_row_security.replace(is_on) && !is_on {
            self.look_for_all();
        }
    }

    fn look_for_all(&mut self) {
        (self.looked, self.sweep) = (Instant::now(), true);
        if let Some(mut slot) = queues::lock(self.slot) {
            slot.lower_due(i64::MIN);
        }
    }

    /// Leaves the tasks to another server, or looks after all that this one has left behind.
    pub fn set_passive(&mut self, passive: bool) {
        if std::mem::replace(&mut self.passive, passive) == passive {
            return;
        }
        (self.give_back, self.promote) = (Retry::default(), Retry::default());
        self.sweep = !passive;
        if let Some(mut slot) = queues::lock(self.slot) {
            slot.clear_error();
            slot.lower_due(i64::MIN);
        }
    }

    /// Takes note of sessions that have ended; with `sweep`, of some that nobody has noted.
    pub fn note_ended(&mut self, ended: &[[u8; 16]], sweep: bool) {
        self.sweep |= sweep;
        if !ended.is_empty() && queues::lock(self.slot).is_some_and(|slot| slot.has_taken()) {
            self.ended.extend(ended);
        }
    }

    /// Does what there is to do: of each kind a batch, then it is the next queue's turn.
    pub fn work(&mut self, table: Oid, database: u32, may_recount: bool) {
        if self.has_row_security.get() && self.looked.elapsed() >= ALL_INTERVAL {
            self.look_for_all();
        }
        if self.passive {
            (self.sweep, self.ended) = (false, vec![]);
        } else {
            self.give_back(table);
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
        let gives_back = self.sweep || !self.ended.is_empty();
        let give_back = gives_back.then(|| self.give_back.left().unwrap_or_default());
        let recount = needs_recount.then(|| self.recount.left().unwrap_or(BUSY_PAUSES.1));
        let promote = (due != NEVER && !self.passive).then(|| {
            let left = Duration::from_micros(due.saturating_sub(time::now()).max(0) as u64);
            left.min(CLOCK_INTERVAL).max(self.promote.left().unwrap_or_default())
        });
        let all = self.has_row_security.get();
        let all = all.then(|| ALL_INTERVAL.saturating_sub(self.looked.elapsed()));
        [give_back, promote, recount, all].into_iter().flatten().min()
    }

    /// Gives back what ended sessions had taken.
    fn give_back(&mut self, table: Oid) {
        if (!self.sweep && self.ended.is_empty()) || !self.give_back.is_due() {
            return;
        }
        if self.sweep {
            let secured = &self.has_row_security;
            let found = job::run(table, |queue| {
                secured.set(secured.get() || queue.has_row_security);
                let holders = owners(queue, &Statement::Holders, &Arguments::default());
                let ownerless = match holders.contains(&None) {
                    true => batch(queue, Change::ReapOwnerless, Arguments::default()).run(),
                    false => 0,
                };
                let lost = store::lost(holders.into_iter().flatten().collect()).or_raise();
                (lost, ownerless)
            });
            let Some((lost, ownerless)) = settle(self.slot, &mut self.give_back, found) else {
                return;
            };
            self.sweep = ownerless > 0;
            self.ended.extend(lost);
        }
        if self.ended.is_empty() {
            return;
        }
        let (ended, secured) = (&self.ended, &self.has_row_security);
        let reap = |queue: &Queue| {
            secured.set(secured.get() || queue.has_row_security);
            let sessions = Arguments::of(Parameter::Sessions, types::from_uuids(ended));
            let (changed, failure) = batch(queue, Change::Reap, sessions.clone()).run_or_each();
            // Rows that somebody has locked were passed over: then there is more to do.
            let held = owners(queue, &Statement::Holding, &sessions);
            let held: HashSet<_> = held.into_iter().flatten().collect();
            ((changed, held), failure)
        };
        let Some((changed, held)) = run_batch(table, self.slot, &mut self.give_back, reap) else {
            return;
        };
        self.ended.retain(|uuid| held.contains(uuid));
        if !self.ended.is_empty() && changed == 0 {
            self.give_back.after(BUSY_PAUSES);
        }
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
            let mut times = Arguments::of(Parameter::Now, Datum::from(now));
            times.set(Parameter::Since, Datum::from(since));
            let (mut changed, mut failure) = (0, None);
            for change in timed_changes(queue) {
                let (some, failed) = batch(queue, change, times.clone()).run_or_each();
                changed += some;
                failure = failed.or(failure);
            }
            ((changed, next_due(queue, &times)), failure)
        };
        let outcome = run_batch(table, self.slot, &mut self.promote, promote);
        let Some(mut slot) = queues::lock(self.slot) else { return };
        match outcome {
            Some((promoted, Some(next))) => {
                slot.lower_due(next);
                if promoted == 0 && next <= now {
                    self.promote.after(BUSY_PAUSES);
                }
            }
            Some((_, None)) => {}
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
            Recounted::Done => return self.recount.succeed(),
            Recounted::TooLarge => recounter::start(database),
            Recounted::Later => {}
        }
        self.recount.after(FAILURE_PAUSES);
    }
}

/// Runs a job that tells of a failure beside what it has done: that is kept, the failure noted.
fn run_batch<T>(
    table: Oid,
    slot: SlotId,
    retry: &mut Retry,
    work: impl FnOnce(&Queue) -> (T, Option<Failure>),
) -> Option<T> {
    match job::run(table, |queue| work(queue)) {
        Ok(Outcome::Done((value, None))) => settle(slot, retry, Ok(Outcome::Done(value))),
        Ok(Outcome::Done((value, Some(failure)))) => {
            note_failure(slot, retry, &failure);
            Some(value)
        }
        Ok(Outcome::Busy) => settle(slot, retry, Ok(Outcome::Busy)),
        Ok(Outcome::Gone) => settle(slot, retry, Ok(Outcome::Gone)),
        Err(failure) => settle(slot, retry, Err(failure)),
    }
}

/// The result of a job; a failure is noted and delays the next try.
fn settle<T>(slot: SlotId, retry: &mut Retry, outcome: Result<Outcome<T>, Failure>) -> Option<T> {
    match outcome {
        Ok(Outcome::Done(value)) => {
            retry.succeed();
            if std::mem::take(&mut retry.has_failed)
                && let Some(mut slot) = queues::lock(slot)
            {
                slot.clear_error();
            }
            return Some(value);
        }
        Ok(Outcome::Busy) => retry.after(BUSY_PAUSES),
        Ok(Outcome::Gone) => retry.after(SLOW_PAUSES),
        Err(failure) => note_failure(slot, retry, &failure),
    }
    None
}

fn note_failure(slot: SlotId, retry: &mut Retry, failure: &Failure) {
    retry.has_failed = true;
    retry.after(if failure.canceled { SLOW_PAUSES } else { FAILURE_PAUSES });
    if let Some(mut slot) = queues::lock(slot) {
        slot.set_error(&failure.message);
    }
}

fn batch(queue: &Queue, change: Change, arguments: Arguments) -> Batch<'_> {
    let call = match change {
        Change::Promote => Call::Delay,
        Change::Overdue => Call::Ttr,
        Change::Expire => Call::Ttl,
        Change::Rot => Call::Zombie,
        _ => Call::Session,
    };
    Batch { queue, change, arguments, call }
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
        rows.datum(0, 1).map(types::timestamp)
    })
}

/// The sessions that a statement finds; None for no session.
fn owners(queue: &Queue, find: &Statement, arguments: &Arguments) -> Vec<Option<[u8; 16]>> {
    spi::connect(|spi| {
        let rows = queue.run(spi, find, arguments);
        (0..rows.len()).map(|row| rows.datum(row, 1).map(types::uuid)).collect()
    })
}
