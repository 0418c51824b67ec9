//! Job workers of one kind, as the worker of a database employs them.

use crate::parts::schedule::databases;
use crate::parts::schedule::jobs::{self, JobId, Place};
use crate::parts::schedule::orders::{Report, Work};
use crate::parts::schedule::rota::STARVES_AFTER;
use crate::parts::slot_id::SlotId;
use crate::server::worker;
use crate::worker::job;
use crate::worker::turns::{Candidate, Served, Turns};
use pgrx::pg_sys::Oid;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long an owner's job worker is sure of its place while that owner has work for it. A process is started in some
/// milliseconds, which is what a change of owners costs.
const TURN: Duration = Duration::from_millis(100);

/// Before the next try to start a job worker: doubled each time, up to a limit. The place of one that has just ended is
/// free moments later.
const NO_PLACE_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(5));
/// After a pause that long it is shown that there is no place.
const NO_PLACE_SHOWN: Duration = Duration::from_secs(1);

/// The job workers, and what they are at. `T`: what is noted of a job.
pub struct Crew<T> {
    database: u32,
    /// As pg_stat_activity shows it.
    name: &'static str,
    running: Vec<Running<T>>,
    turns: Turns,
    /// When the next of them will have taken too long, unless it gets on.
    late_at: Option<Instant>,
    /// The server has no place for another one, which is wanted; when that is looked at again.
    no_place_until: Cell<Option<Instant>>,
    /// This try comes before that, as a place was kept.
    is_early: Cell<bool>,
    /// The pause before that, zero once there was a place.
    no_place_pause: Duration,
    /// There was no place in several turns of the workers of this database.
    has_starved: bool,
}

/// A job that was ordered.
pub struct Running<T> {
    id: JobId,
    pub table: Oid,
    pub slot: SlotId,
    pub owner: Oid,
    pub what: T,
}

/// A place for a job of an owner.
pub struct Opening(Place, Oid);

impl<T> Crew<T> {
    pub fn of(database: u32, name: &'static str) -> Crew<T> {
        Crew {
            database,
            name,
            running: vec![],
            turns: Turns::default(),
            late_at: None,
            no_place_until: Cell::new(None),
            is_early: Cell::new(false),
            no_place_pause: Duration::ZERO,
            has_starved: false,
        }
    }

    /// Forgets owners and tables that are gone.
    pub fn retain(&mut self, is_there: impl Fn(Oid) -> bool) {
        self.turns.retain(is_there);
    }

    /// Returns whether job workers are at work.
    pub fn is_at_work(&self) -> bool {
        !self.running.is_empty()
    }

    /// Wants no place for a job worker.
    pub fn withdraw(&self) {
        self.no_place_until.set(None);
    }

    /// Tries no more in this round, nor for a while, unless a place is kept.
    pub fn put_off(&self) {
        let now = Instant::now();
        if self.no_place_until.get().is_some_and(|at| at <= now) {
            self.no_place_until.set(Some(now + NO_PLACE_SHOWN));
        }
    }

    /// Returns whether there is no place for a job worker that is wanted.
    pub fn wants_place(&self) -> bool {
        self.no_place_until.get().is_some()
    }

    /// Returns whether a job worker is at a table.
    pub fn serves(&self, table: Oid) -> bool {
        self.running.iter().any(|running| running.table == table)
    }

    /// Takes off what has ended, with what came of it.
    pub fn collect(&mut self) -> Vec<(Running<T>, Report)> {
        let mut ended = vec![];
        let mut index = 0;
        while index < self.running.len() {
            match jobs::collect(self.running[index].id) {
                Some(report) => ended.push((self.running.remove(index), report)),
                None => index += 1,
            }
        }
        ended
    }

    /// Returns the table whose turn it is, and its work.
    pub fn next<K>(
        &self,
        most: usize,
        candidates: impl Iterator<Item = Candidate<K>>,
    ) -> Option<Candidate<K>> {
        let mut candidates =
            candidates.filter(|candidate| !self.serves(candidate.table)).peekable();
        let is_refused = self
            .no_place_until
            .get()
            .is_some_and(|at| Instant::now() < at && !databases::is_place_kept(self.database));
        if candidates.peek().is_some() && is_refused {
            return None;
        }
        let until = self.no_place_until.replace(None);
        self.is_early.set(until.is_some_and(|at| Instant::now() < at));
        candidates.peek()?;
        let owners: Vec<Oid> = self.running.iter().map(|running| running.owner).collect();
        let in_turn = jobs::owners_idle_since(self.database, TURN.as_micros() as i64);
        let in_turn: Vec<Oid> = in_turn.into_iter().map(Oid::from).collect();
        self.turns.next(&Served { most, owners: &owners, in_turn: &in_turn }, candidates)
    }

    /// Returns a place for a job of an owner, whose code it runs unless `counts`. None if the end of a job worker
    /// will free one.
    pub fn open(&self, most: usize, owner: Oid, counts: bool) -> Option<Opening> {
        let served = if counts { jobs::COUNTER } else { owner.into() };
        let place = jobs::reserve(self.database, most, served);
        (place != Place::Later).then_some(Opening(place, owner))
    }

    /// Has a job done. False if the server has no place for a job worker.
    pub fn employ(
        &mut self,
        Opening(place, owner): Opening,
        table: Oid,
        slot: SlotId,
        work: &Work,
        what: T,
    ) -> bool {
        let (id, is_new) = match place {
            Place::Known(id) => (id, false),
            Place::New(id) => (id, true),
            Place::Later | Place::Nowhere => return self.end_without_place(),
        };
        // If the job worker has just ended, that is found when its report is read.
        jobs::order(id, table.into(), work);
        let notify = databases::launcher_pid();
        if is_new && !worker::start(self.name, "xqueue_job_main", id.to_argument(), notify) {
            jobs::not_started(id);
            return self.end_without_place();
        }
        self.no_place_until.set(None);
        self.no_place_pause = Duration::ZERO;
        self.has_starved = false;
        if is_new {
            databases::has_place();
            databases::drop_claim(self.database);
        }
        self.turns.take(owner);
        self.turns.take(table);
        self.running.push(Running { id, table, slot, owner, what });
        true
    }

    fn end_without_place(&mut self) -> bool {
        let pause = match self.is_early.take() {
            true => self.no_place_pause,
            false => (self.no_place_pause * 2).clamp(NO_PLACE_PAUSES.0, NO_PLACE_PAUSES.1),
        };
        self.no_place_until.set(Some(Instant::now() + pause));
        self.no_place_pause = pause;
        self.has_starved = databases::want_place(self.database) >= STARVES_AFTER;
        false
    }

    /// Returns whether the server has had no place for a job worker for so long that it is to be shown.
    pub fn has_no_place(&self) -> bool {
        self.no_place_pause >= NO_PLACE_SHOWN
    }

    /// Returns whether it has waited for a place for longer than that, beyond the turn of this worker.
    pub fn has_starved(&self) -> bool {
        self.has_starved
    }

    /// Ends job workers that have taken too long.
    pub fn stop_late(&mut self) {
        let ids: Vec<JobId> = self.running.iter().map(|running| running.id).collect();
        let left = if ids.is_empty() { None } else { jobs::stop_late(&ids) };
        // A job worker that has yet to begin says nothing when it does, and has less time from then on.
        let left =
            left.map(|left| Duration::from_micros(left.max(0) as u64).min(job::stop_after()));
        self.late_at = left.map(|left| Instant::now() + left);
    }

    /// How long until a job worker may have taken too long, or until there may be a place for one.
    pub fn pause(&self) -> Option<Duration> {
        let now = Instant::now();
        let place = self.no_place_until.get().map(|at| at.saturating_duration_since(now));
        let late = self.late_at.map(|at| at.saturating_duration_since(now));
        late.into_iter().chain(place).min()
    }
}
