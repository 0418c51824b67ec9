//! What the worker does for one queue: gives tasks back, promotes, deletes what is over, recounts.

use super::job::{self, Batch, Outcome};
use super::leases::Ended;
use super::recounter::{self, Recounted};
use super::retry::Retry;
use crate::delta::SlotId;
use crate::error::OrRaise;
use crate::model::change::Call;
use crate::model::definition::Field;
use crate::model::position::Position;
use crate::pg::transaction::Failure;
use crate::pg::{spi, time, types};
use crate::registry::{Arguments, Queue, Statement};
use crate::session::store;
use crate::shmem::queues::{self, NEVER};
use crate::shmem::sessions::Uuid;
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

/// So many sessions are looked after at a time that have left tasks.
const LEAVERS: usize = 100;

/// A session that has ended, and the places of the tasks that it has left.
struct Leaver {
    uuid: Uuid,
    /// So many doubts there were when it began.
    since: u64,
    places: Vec<Position>,
}

/// A queue in the worker's care, beyond what its shared slot says.
pub struct Care {
    pub slot: SlotId,
    /// The table is a subscriber's copy: its tasks belong to another server.
    passive: bool,
    /// It had some since the list of queues was last read.
    has_row_security: Cell<bool>,
    /// When everything was last looked for that there may be to do because of that.
    looked: Instant,
    /// Sessions that have ended and may have left tasks, which are looked for.
    ended: Vec<Uuid>,
    /// Those of which it is known which tasks they have left.
    leavers: Vec<Leaver>,
    /// All taken tasks have to be compared with the live sessions.
    sweep: bool,
    give_back: Retry,
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
            ended: vec![],
            leavers: vec![],
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
    pub fn note_ended(&mut self, ended: &[Ended], sweep: bool) {
        self.sweep |= sweep;
        let Some(doubt) = self.doubt_if_taken().filter(|_| !ended.is_empty()) else { return };
        for Ended { uuid, tasks } in ended {
            let Some(held) = tasks.as_ref().filter(|held| held.since >= doubt) else {
                self.ended.push(*uuid);
                continue;
            };
            let places = held.tasks.iter().filter(|task| task.slot == self.slot);
            let places: Vec<Position> = places.map(|task| task.position).collect();
            if !places.is_empty() {
                self.leavers.push(Leaver { uuid: *uuid, since: held.since, places });
            }
        }
    }

    /// The last doubt about what has happened to the queue's tasks, if there may be some that are taken.
    fn doubt_if_taken(&self) -> Option<u64> {
        let slot = queues::lock(self.slot)?;
        slot.has_taken().then(|| slot.doubt())
    }

    /// Does what there is to do: of each kind a batch, then it is the next queue's turn.
    pub fn work(&mut self, table: Oid, database: u32, may_recount: bool) {
        if self.has_row_security.get() && self.looked.elapsed() >= ALL_INTERVAL {
            self.look_for_all();
        }
        if self.passive {
            (self.sweep, self.ended, self.leavers) = (false, vec![], vec![]);
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
        let gives_back = self.sweep || self.has_ended();
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

    fn has_ended(&self) -> bool {
        !self.ended.is_empty() || !self.leavers.is_empty()
    }

    /// Gives back what ended sessions had taken.
    fn give_back(&mut self, table: Oid) {
        if (!self.sweep && !self.has_ended()) || !self.give_back.is_due() {
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
        let mut changed = 0;
        if !self.leavers.is_empty() {
            let Some(some) = self.reap_leavers(table) else { return };
            changed += some;
        }
        if !self.ended.is_empty() {
            let Some((some, held)) = self.reap(table, &self.ended.clone(), None) else { return };
            changed += some;
            self.ended.retain(|uuid| held.contains(uuid));
        }
        if self.has_ended() && changed == 0 {
            self.give_back.after(BUSY_PAUSES);
        }
    }

    /// Gives back what is known to have been left, by some sessions at a time.
    fn reap_leavers(&mut self, table: Oid) -> Option<usize> {
        let mut others = std::mem::take(&mut self.leavers);
        let leavers: Vec<Leaver> = others.drain(..others.len().min(LEAVERS)).collect();
        let uuids: Vec<Uuid> = leavers.iter().map(|leaver| leaver.uuid).collect();
        let places = leavers.iter().flat_map(|leaver| leaver.places.iter().copied()).collect();
        let reaped = self.reap(table, &uuids, Some(places));
        // From here on what they have left was seen as it was before the doubt.
        let doubt = queues::lock(self.slot).map_or(u64::MAX, |slot| slot.doubt());
        self.leavers = others;
        for leaver in leavers {
            let holds = |(_, held): &(usize, HashSet<Uuid>)| held.contains(&leaver.uuid);
            if leaver.since < doubt {
                self.ended.push(leaver.uuid);
            } else if reaped.as_ref().is_none_or(holds) {
                self.leavers.push(leaver);
            }
        }
        reaped.map(|(changed, _)| changed)
    }

    /// Gives back tasks that sessions had taken, those in these places if they are given. How many, and
    /// which of the sessions hold some yet.
    fn reap(
        &mut self,
        table: Oid,
        sessions: &[Uuid],
        places: Option<Vec<Position>>,
    ) -> Option<(usize, HashSet<Uuid>)> {
        let secured = &self.has_row_security;
        let reap = |queue: &Queue| {
            secured.set(secured.get() || queue.has_row_security);
            let mut arguments = Arguments::of(Parameter::Sessions, types::from_uuids(sessions));
            // Without triggers that tell, nobody has been told where they are.
            let keys = places.as_ref().filter(|_| queue.is_told);
            let keys = keys.and_then(|places| queue.keys_at(places));
            let named = keys.is_some();
            arguments.set_or_null(Parameter::Keys, keys);
            let (changed, failure) =
                batch(queue, Change::Reap { named }, arguments.clone()).run_or_each();
            // Rows that somebody has locked were passed over: then there is more to do.
            let held = owners(queue, &Statement::Holding { named }, &arguments);
            ((changed, held.into_iter().flatten().collect()), failure)
        };
        run_batch(table, self.slot, &mut self.give_back, reap)
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
fn owners(queue: &Queue, find: &Statement, arguments: &Arguments) -> Vec<Option<Uuid>> {
    spi::connect(|spi| {
        let rows = queue.run(spi, find, arguments);
        (0..rows.len()).map(|row| rows.datum(row, 1).map(types::uuid)).collect()
    })
}
