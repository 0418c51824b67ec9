//! Recounts of a database's queues: which, where and when.
//!
//! In each round the worker counts for a moment only: what is waited for comes first, in the middle of a round if need be,
//! then small tables before larger ones; owners take turns. What takes longer is counted by processes apart, of which the
//! last is kept for an owner without one: neither a huge table nor one with slow rows makes others wait.

use crate::parts::schedule::orders::{End, Report, Work};
use crate::parts::schedule::{databases, jobs};
use crate::parts::slot;
use crate::server::process;
use crate::worker::crew::Crew;
use crate::worker::maintenance::QueueMaintenance;
use crate::worker::recounter::{self, MOST_PAGES};
use crate::worker::retry::BUSY_PAUSES;
use crate::worker::slowness::Slowness;
use crate::worker::turns::{Candidate, Turns};
use pgrx::pg_sys::Oid;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// How long a recount may take in the worker of the database, and after how much of them its round is over.
const LIMIT: Duration = Duration::from_millis(100);
/// Tables with more pages are counted after all that have fewer.
const FEW_PAGES: u32 = 16;
/// How many processes count at a time. What they have read when they are interrupted has to be read again, so they
/// are given all the time that it takes, and are few.
const COUNTERS: usize = 2;
/// While databases share too few places, one in this number of all places may be used to count, as that takes as long as it
/// takes and keeps the worker of the database as well.
const COUNTERS_SHARE: usize = 8;
/// Before the next try if all of these are in use.
const DEFERRED: Duration = Duration::from_secs(5);
/// Before the next try on a table that was needed exclusively: doubled each time, up to a limit. All that was
/// counted is lost.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

const NO_PLACE: &str =
    "there is no background worker to count its tasks: raise max_worker_processes";

pub struct Recounts {
    crew: Crew<()>,
    turns: Turns,
    /// Tables that a process apart is to count next.
    apart: HashSet<Oid>,
    /// Tables that were found to have more than `FEW_PAGES`: not looked at again to see that.
    larger: HashSet<Oid>,
    /// Owners of tables whose recount has reached the limit.
    slow: HashMap<Oid, Slowness>,
    /// The limit has left some to the next round.
    is_cut_off: bool,
    /// On what is waited for, in the middle of this round.
    spent: Duration,
    /// Until when others count.
    deferred_until: Option<Instant>,
}

/// A queue that has to be counted.
struct Wanting {
    owner: Oid,
    is_awaited: bool,
}

impl Wanting {
    fn candidate(&self, table: Oid) -> Candidate<()> {
        Candidate { owner: self.owner, table, what: () }
    }
}

impl Recounts {
    pub fn of(database: u32) -> Recounts {
        Recounts {
            crew: Crew::of(database, "xqueue recount"),
            turns: Turns::default(),
            apart: HashSet::new(),
            larger: HashSet::new(),
            slow: HashMap::new(),
            is_cut_off: false,
            spent: Duration::ZERO,
            deferred_until: None,
        }
    }

    /// Forgets owners and tables that are gone, and slowness of long ago.
    pub fn retain(&mut self, now: Instant, is_there: impl Fn(Oid) -> bool) {
        self.crew.retain(&is_there);
        self.turns.retain(&is_there);
        self.apart.retain(|table| is_there(*table));
        self.larger.retain(|table| is_there(*table));
        self.slow.retain(|_, slowness| slowness.is_remembered(now));
    }

    /// Reports the results of recounts to their queues.
    pub fn collect(&mut self, queues: &mut HashMap<Oid, QueueMaintenance>) {
        for (ended, report) in self.crew.collect() {
            if let Some(maintenance) = queues.get_mut(&ended.table).filter(|c| c.slot == ended.slot)
            {
                self.note(ended.table, maintenance, &report);
            }
        }
    }

    /// Counts what has to be counted, but for tables that prepared transactions have changed. `is_over`: no process apart is
    /// given anything.
    pub fn work(
        &mut self,
        queues: &mut HashMap<Oid, QueueMaintenance>,
        unsettled: &HashSet<Oid>,
        is_over: bool,
    ) {
        let mut wanting: HashMap<Oid, Wanting> = HashMap::new();
        for (table, maintenance) in queues.iter() {
            if maintenance.recount.is_due()
                && !unsettled.contains(table)
                && let Some(wanted) = self.wanted(*table, maintenance)
            {
                wanting.insert(*table, wanted);
            }
        }
        (self.is_cut_off, self.spent) = (false, Duration::ZERO);
        for is_awaited in [true, false] {
            self.count_here(queues, &mut wanting, is_awaited);
        }
        if is_over {
            self.put_off();
        } else if !self.hand_out(queues, &wanting) {
            self.crew.withdraw();
        }
        self.crew.stop_late();
    }

    /// Counts those of the tables that are waited for, in the middle of a round, of which this takes no more than the limit;
    /// the next round begins with what is left.
    pub fn count_awaited(&mut self, queues: &mut HashMap<Oid, QueueMaintenance>, tables: &[Oid]) {
        if self.spent >= LIMIT {
            self.is_cut_off = true;
            return;
        }
        let begun = Instant::now();
        let mut wanting: HashMap<Oid, Wanting> = HashMap::new();
        for table in tables {
            if let Some(maintenance) = queues.get(table).filter(|queue| queue.recount.is_due())
                && let Some(wanted) = self.wanted(*table, maintenance)
            {
                wanting.insert(*table, wanted);
            }
        }
        self.count_here(queues, &mut wanting, true);
        self.hand_out(queues, &wanting);
        self.spent += begun.elapsed();
    }

    fn wanted(&self, table: Oid, maintenance: &QueueMaintenance) -> Option<Wanting> {
        if self.crew.serves(table) {
            return None;
        }
        let slot = slot::lock(maintenance.slot).filter(|slot| slot.needs_recount())?;
        Some(Wanting { owner: maintenance.owner, is_awaited: slot.is_recount_awaited() })
    }

    /// Leaves a table to processes apart from the beginning.
    pub fn set_apart(&mut self, table: Oid) {
        self.apart.insert(table);
    }

    fn is_for_others(&self, table: Oid, owner: Oid) -> bool {
        let slow = self.slow.get(&owner);
        self.apart.contains(&table) || slow.is_some_and(|s| s.left(Instant::now()).is_some())
    }

    /// Counts those that are waited for, or the others, within the limit, the smallest first; and takes off what it has
    /// seen to.
    fn count_here(
        &mut self,
        queues: &mut HashMap<Oid, QueueMaintenance>,
        wanting: &mut HashMap<Oid, Wanting>,
        is_awaited: bool,
    ) {
        let begun = Instant::now();
        for most_pages in [FEW_PAGES, MOST_PAGES, u32::MAX] {
            let of_kind = wanting.iter().filter(|(_, wanted)| wanted.is_awaited == is_awaited);
            let in_turn = self.turns.all(of_kind.map(|(table, wanted)| wanted.candidate(*table)));
            for next in in_turn {
                let is_later = most_pages == FEW_PAGES && self.larger.contains(&next.table);
                // An owner may have been found slow just now.
                if is_later || self.is_for_others(next.table, next.owner) {
                    continue;
                }
                if begun.elapsed() >= LIMIT {
                    self.is_cut_off = true;
                    return;
                }
                let Some(maintenance) = queues.get_mut(&next.table) else { continue };
                let report = match most_pages {
                    u32::MAX => Some(Report::none(End::Slow)),
                    _ => recounter::recount_briefly(next.table, LIMIT, most_pages),
                };
                let Some(report) = report else {
                    if most_pages == FEW_PAGES {
                        self.larger.insert(next.table);
                    }
                    continue;
                };
                self.larger.remove(&next.table);
                self.turns.take(next.owner);
                self.turns.take(next.table);
                if report.end != End::Slow {
                    wanting.remove(&next.table);
                }
                if report.is_slow {
                    let slowness = self.slow.entry(next.owner).or_insert_with(Slowness::of_owner);
                    slowness.note_slow(Instant::now());
                }
                self.note(next.table, maintenance, &report);
            }
        }
    }

    /// Returns whether what takes longer is left for later, as other databases need the places.
    fn is_deferred(&mut self, wanting: &HashMap<Oid, Wanting>) -> bool {
        let now = Instant::now();
        if self.deferred_until.is_some_and(|until| now < until) {
            return true;
        }
        let most = (process::worker_limit() / COUNTERS_SHARE).max(1);
        let is_apart =
            wanting.iter().any(|(table, wanted)| self.is_for_others(*table, wanted.owner));
        let is_deferred = is_apart && databases::are_short() && jobs::counters() >= most;
        self.deferred_until = is_deferred.then(|| now + DEFERRED);
        is_deferred
    }

    /// Hands out what takes longer, while there are processes for it. False if there is nothing to hand out at present.
    fn hand_out(
        &mut self,
        queues: &mut HashMap<Oid, QueueMaintenance>,
        wanting: &HashMap<Oid, Wanting>,
    ) -> bool {
        while !self.is_deferred(wanting) {
            let apart = |is_awaited: bool| {
                let apart = wanting.iter().filter(move |(_, w)| w.is_awaited == is_awaited);
                let apart = apart.filter(|(table, w)| self.is_for_others(**table, w.owner));
                apart.map(|(table, wanted)| wanted.candidate(*table))
            };
            let is_there = |is_awaited: &bool| apart(*is_awaited).next().is_some();
            let mut kinds = [true, false].into_iter().filter(is_there).peekable();
            if kinds.peek().is_none() {
                return false;
            }
            let next = kinds.find_map(|is_awaited| self.crew.next(COUNTERS, apart(is_awaited)));
            let Some(Candidate { owner, table, .. }) = next else { return true };
            let Some(maintenance) = queues.get_mut(&table) else { return true };
            let Some(opening) = self.crew.open(COUNTERS, owner, true) else { return true };
            if !self.crew.employ(opening, table, maintenance.slot, &Work::Recount, ()) {
                if self.crew.has_no_place() || self.crew.has_starved() {
                    maintenance.recount.note_no_worker(NO_PLACE);
                }
                return true;
            }
        }
        false
    }

    fn note(&mut self, table: Oid, maintenance: &mut QueueMaintenance, report: &Report) {
        match report.end {
            End::Busy => maintenance.recount.after(PAUSES),
            End::Slow => {
                self.apart.insert(table);
                set_apart(maintenance, true);
            }
            _ => {
                self.apart.remove(&table);
                set_apart(maintenance, false);
                maintenance.recount.note(report);
            }
        }
    }

    fn put_off(&mut self) {
        self.crew.put_off();
        let now = Instant::now();
        if self.deferred_until.is_some_and(|until| until <= now) {
            self.deferred_until = Some(now + DEFERRED);
        }
    }

    /// Returns whether there is no place for a process apart that is wanted.
    pub fn wants_place(&self) -> bool {
        self.crew.wants_place()
    }

    /// Returns whether processes apart count.
    pub fn is_at_work(&self) -> bool {
        self.crew.is_at_work()
    }

    /// How long no worker is needed, if this one gives its place up.
    pub fn rest(&self, queues: &HashMap<Oid, QueueMaintenance>) -> Option<Duration> {
        let is_apart = |(table, maintenance): (&Oid, &QueueMaintenance)| {
            self.wanted(*table, maintenance).is_some()
                && self.is_for_others(*table, maintenance.owner)
        };
        let at_once = self.deferred_until.is_none() && queues.iter().any(is_apart);
        self.pause(queues).into_iter().chain(at_once.then_some(Duration::ZERO)).min()
    }

    /// How long there is nothing to do; None: until a process apart has ended.
    pub fn pause(&self, queues: &HashMap<Oid, QueueMaintenance>) -> Option<Duration> {
        let left = |(table, maintenance): (&Oid, &QueueMaintenance)| {
            self.wanted(*table, maintenance)?;
            match maintenance.recount.left().filter(|left| !left.is_zero()) {
                Some(left) => Some(left),
                None if self.is_for_others(*table, maintenance.owner) => {
                    self.deferred_until.map(|until| until.saturating_duration_since(Instant::now()))
                }
                None => Some(if self.is_cut_off { Duration::ZERO } else { BUSY_PAUSES.1 }),
            }
        };
        queues.iter().filter_map(left).chain(self.crew.pause()).min()
    }
}

fn set_apart(maintenance: &QueueMaintenance, is_slow: bool) {
    if let Some(mut slot) = slot::lock(maintenance.slot) {
        slot.set_counts_apart(is_slow);
    }
}
