//! The worker's work on one queue: gives tasks back, promotes, deletes what is over, recounts.
//!
//! Where changes of a table run code of its owner, or have taken too long, a job worker does it: this file orders the
//! work and evaluates the reports.

use crate::parts::schedule::NEVER;
use crate::parts::schedule::orders::{End, Report, Work};
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::server::time;
use crate::worker::job::Manner;
use crate::worker::leases::Ended;
use crate::worker::orphans::{Giving, Orphans};
use crate::worker::retry::Retry;
use crate::worker::shares::Share;
use crate::worker::slowness::Slowness;
use crate::worker::unending;
use crate::worker::work;
use pgrx::pg_sys::Oid;
use std::time::{Duration, Instant};

/// Interval of full looks at a queue with row security.
const ALL_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum time between looks at the clock while tasks wait, as the clock may be set.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time before the next try after a failure or a lock, if the worker gives its place up meanwhile: the start of
/// another one is worth it.
const RETRY_REST: Duration = Duration::from_secs(1);

/// The worker's own state of a queue, beyond its shared slot.
pub struct QueueMaintenance {
    pub slot: SlotId,
    /// Owner of the table.
    pub owner: Oid,
    /// Changes of the table run code of its owner.
    runs_user_code: bool,
    slowness: Slowness,
    /// The same for its owner's queues, as of this round.
    owner_slow_until: Option<Instant>,
    /// The table is a subscriber's copy: its tasks belong to another server.
    passive: bool,
    /// Code of its owner did not end: its tasks are left alone.
    unending: bool,
    /// Row security was on at some time since the list of queues was read.
    has_row_security: bool,
    /// Time of the last full look because of that.
    looked: Instant,
    orphans: Orphans,
    promote: Retry,
    /// The kind of timed work with which the next job begins.
    first: u8,
    pub recount: Retry,
    /// The last order to a job worker, as an index of `KINDS`.
    last: usize,
}

/// The kinds of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Give(Giving),
    OnTime,
}

/// In the order in which the worker of the database does them.
const KINDS: [Kind; 4] = [
    Kind::Give(Giving::Departed),
    Kind::Give(Giving::Lost),
    Kind::Give(Giving::Ended),
    Kind::OnTime,
];

impl QueueMaintenance {
    pub fn of(slot: SlotId) -> QueueMaintenance {
        QueueMaintenance {
            slot,
            owner: Oid::INVALID,
            runs_user_code: false,
            slowness: Slowness::of_queue(),
            owner_slow_until: None,
            passive: false,
            unending: false,
            has_row_security: false,
            looked: Instant::now(),
            orphans: Orphans::of(slot),
            promote: Retry::of(slot),
            first: 0,
            recount: Retry::of(slot),
            last: 0,
        }
    }

    /// Goes on as the worker before this one would have.
    pub fn resume(&mut self) {
        self.orphans.forget();
        self.promote.resume(slot::lock(self.slot).and_then(|slot| slot.kept_pause()));
    }

    /// Sets the table's owner, and whether changes of it run the owner's code.
    pub fn set_owner(&mut self, owner: Oid, runs_user_code: bool) {
        (self.owner, self.runs_user_code) = (owner, runs_user_code);
    }

    /// Returns whether its jobs are left to a job worker.
    fn is_for_job_worker(&self) -> bool {
        self.runs_user_code || self.slow_left().is_some()
    }

    /// How long they are because they, or others of its owner's, have taken too long.
    fn slow_left(&self) -> Option<Duration> {
        let now = Instant::now();
        let left =
            |until: Instant| until.checked_duration_since(now).filter(|left| !left.is_zero());
        self.slowness.left(now).max(self.owner_slow_until.and_then(left))
    }

    /// Takes note of how the owner's queues have fared.
    pub fn set_share(&mut self, share: &Share) {
        self.owner_slow_until = share.slow_until();
    }

    /// With row security the owner may not see all due tasks, and their becoming visible is not reported: the queue
    /// is looked at as a whole now and then.
    pub fn set_row_security(&mut self, is_on: bool) {
        if std::mem::replace(&mut self.has_row_security, is_on) && !is_on {
            self.look_for_all();
        }
    }

    pub fn set_tracked(&mut self, is_tracked: bool) {
        self.orphans.set_tracked(is_tracked);
    }

    fn look_for_all(&mut self) {
        self.looked = Instant::now();
        self.orphans.sweep();
        if let Some(mut slot) = slot::lock(self.slot) {
            slot.lower_due(i64::MIN);
        }
    }

    /// Leaves the tasks to another server, or alone as code of the owner's does not end; or looks after all that was left
    /// behind.
    pub fn set_passive(&mut self, passive: bool, unending: bool) {
        if (self.passive, self.unending) == (passive, unending) {
            return;
        }
        (self.passive, self.unending) = (passive, unending);
        self.promote = Retry::of(self.slot);
        self.orphans.forget();
        if !self.is_left() {
            self.orphans.sweep();
        }
        if let Some(mut slot) = slot::lock(self.slot) {
            slot.clear_error();
            slot.lower_due(i64::MIN);
            if unending {
                slot.set_error(unending::MESSAGE);
            }
        }
    }

    /// Returns whether the tasks are none of this worker's business.
    fn is_left(&self) -> bool {
        self.passive || self.unending
    }

    /// Returns whether the tasks are left to another server.
    pub fn is_passive(&self) -> bool {
        self.passive
    }

    /// Takes note of sessions that have ended.
    pub fn note_ended(&mut self, ended: &[Ended]) {
        self.orphans.note(ended);
    }

    /// Records that sessions may have ended unnoticed.
    pub fn sweep(&mut self) {
        self.orphans.sweep();
    }

    /// Does what there is to do: of each kind a batch, then it is the next queue's turn. What is left to a job
    /// worker is not done here, and nothing while one is at it. False if the owner's share of the round did not
    /// suffice.
    pub fn work(&mut self, table: Oid, is_served: bool, share: &mut Share) -> bool {
        if self.has_row_security && self.looked.elapsed() >= ALL_INTERVAL {
            self.look_for_all();
        }
        if self.is_left() {
            self.orphans.forget();
        }
        self.set_share(share);
        for kind in KINDS {
            if is_served || self.is_for_job_worker() || !self.wants(kind) {
                continue;
            }
            if share.is_used_up() {
                return false;
            }
            let begun = Instant::now();
            let is_in_doubt = self.slowness.is_in_doubt(begun);
            let manner = if is_in_doubt { Manner::Careful } else { Manner::Brief };
            let work = self.begin(kind);
            let report = work::perform(table, &work, manner);
            share.note(begun, report.is_slow);
            self.set_share(share);
            self.end(kind, &work, &report);
        }
        true
    }

    /// What a job worker is to do now: the kinds take turns.
    pub fn wanted(&self) -> Option<Kind> {
        let turns = (1..=KINDS.len()).map(|turn| KINDS[(self.last + turn) % KINDS.len()]);
        turns.filter(|_| self.is_for_job_worker()).find(|kind| self.wants(*kind))
    }

    fn wants(&self, kind: Kind) -> bool {
        !self.is_left()
            && match kind {
                Kind::Give(giving) => self.orphans.wants(giving),
                Kind::OnTime => self.promote.is_due() && self.due() <= time::now(),
            }
    }

    fn due(&self) -> i64 {
        slot::lock(self.slot).map_or(NEVER, |slot| slot.due())
    }

    /// The work of a kind. What came of it is to be given to `end`.
    pub fn begin(&mut self, kind: Kind) -> Work {
        self.last = KINDS.iter().position(|known| *known == kind).unwrap_or_default();
        match kind {
            Kind::Give(giving) => self.orphans.begin(giving),
            Kind::OnTime => {
                let now = time::now();
                // Nothing that is there is due before what was known: the entries of what was there before
                // need not be walked over again.
                let mut since = i64::MIN;
                if let Some(mut slot) = slot::lock(self.slot) {
                    since = slot.due();
                    slot.forget_due();
                }
                Work::Timed { now, since, first: self.first }
            }
        }
    }

    /// What came of the work of a kind.
    pub fn end(&mut self, kind: Kind, work: &Work, report: &Report) {
        self.has_row_security |= report.has_row_security;
        self.runs_user_code |= report.end == End::RunsUserCode;
        if report.is_slow && !self.runs_user_code {
            self.slowness.note_slow(Instant::now());
        }
        if report.end == End::OtherOwner {
            self.owner = Oid::from(report.owner);
        }
        match kind {
            Kind::Give(giving) => self.orphans.end(giving, work, report),
            Kind::OnTime => {
                // Otherwise it is not known: it is looked up at the next try.
                let next = if report.end == End::Done { report.next } else { Some(i64::MIN) };
                if let Some((mut slot, next)) = slot::lock(self.slot).zip(next) {
                    slot.lower_due(next);
                }
                self.first = report.first;
                self.promote.note(report);
            }
        }
        if let Some(mut slot) = slot::lock(self.slot).filter(|_| self.unending) {
            slot.set_error(unending::MESSAGE);
        }
    }

    /// Shows that there is no job worker for what is to be done.
    pub fn note_no_worker(&mut self, message: &str) {
        match self.wanted() {
            None => {}
            Some(Kind::Give(giving)) => self.orphans.retry(giving).note_no_worker(message),
            Some(Kind::OnTime) => self.promote.note_no_worker(message),
        }
    }

    /// Returns whether consumers wait beside ready tasks.
    pub fn is_beside_ready(&self, now: i64) -> bool {
        slot::lock(self.slot).is_some_and(|slot| slot.has_idle_consumers(now))
    }

    /// Returns whether only tables and shared memory say what is left to do.
    pub fn is_settled(&self) -> bool {
        self.orphans.is_settled()
    }

    /// Leaves the queue to the next worker; returns when one is needed, if the instant is known.
    pub fn hand_over(&self, now: i64) -> Option<i64> {
        let mut slot = slot::lock(self.slot)?;
        let due = slot.due();
        slot.keep_pause(self.promote.kept(now));
        drop(slot);
        let after = |pause: Duration| now.saturating_add(pause.as_micros() as i64);
        let all = self.has_row_security.then(|| ALL_INTERVAL.saturating_sub(self.looked.elapsed()));
        let retry = |left: Duration| if left.is_zero() { left } else { left.max(RETRY_REST) };
        let promote = (due != NEVER && !self.is_left())
            .then(|| due.max(after(retry(self.promote.left().unwrap_or_default()))));
        let others = self.orphans.pause().map(retry).into_iter().chain(all);
        others.map(after).chain(promote).min()
    }

    /// Returns the time until the next scheduled work; None means wait for a signal. The end of a job is reported to
    /// queues that wait for a job worker.
    pub fn pause(&self, is_served: bool) -> Option<Duration> {
        let due = slot::lock(self.slot)?.due();
        let all = self.has_row_security.then(|| ALL_INTERVAL.saturating_sub(self.looked.elapsed()));
        let promote = (due != NEVER && !self.is_left()).then(|| {
            let left = Duration::from_micros(due.saturating_sub(time::now()).max(0) as u64);
            left.min(CLOCK_INTERVAL).max(self.promote.left().unwrap_or_default())
        });
        let jobs = [self.orphans.pause(), promote].into_iter().flatten().min();
        // What waits for a job worker only because it is slow may be done here once it is not.
        let slow = || self.slow_left().filter(|_| !self.runs_user_code);
        let jobs = match self.wanted() {
            _ if is_served => None,
            Some(_) => slow(),
            None => jobs,
        };
        [jobs, all].into_iter().flatten().min()
    }
}
