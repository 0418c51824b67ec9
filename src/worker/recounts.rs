//! Recounts of a database's queues: which, where and when.
//!
//! In each round the worker counts for a moment only, after more urgent work; owners take turns. What takes longer is
//! counted by processes apart, of which the last is kept for an owner without one: neither a huge table nor one with
//! slow rows makes others wait.

use crate::parts::schedule::orders::{End, Report, Work};
use crate::parts::slot;
use crate::worker::crew::Crew;
use crate::worker::maintenance::QueueMaintenance;
use crate::worker::recounter;
use crate::worker::retry::BUSY_PAUSES;
use crate::worker::slowness::Slowness;
use crate::worker::turns::{Candidate, Served, Turns};
use pgrx::pg_sys::Oid;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// How long a recount may take in the worker of the database, and after how much of them its round is over.
const LIMIT: Duration = Duration::from_millis(100);
/// How many processes count at a time. What they have read when they are interrupted has to be read again, so they
/// are given all the time that it takes, and are few.
const COUNTERS: usize = 2;
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
    /// Owners of tables whose recount has reached the limit.
    slow: HashMap<Oid, Slowness>,
    /// The limit has left some to the next round.
    is_cut_off: bool,
}

impl Recounts {
    pub fn of(database: u32) -> Recounts {
        Recounts {
            crew: Crew::of(database, "xqueue recount"),
            turns: Turns::default(),
            apart: HashSet::new(),
            slow: HashMap::new(),
            is_cut_off: false,
        }
    }

    /// Forgets owners and tables that are gone, and slowness of long ago.
    pub fn retain(&mut self, now: Instant, is_there: impl Fn(Oid) -> bool) {
        self.crew.retain(&is_there);
        self.turns.retain(&is_there);
        self.apart.retain(|table| is_there(*table));
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

    /// Counts what has to be counted, but for tables that prepared transactions have changed.
    pub fn work(&mut self, queues: &mut HashMap<Oid, QueueMaintenance>, unsettled: &HashSet<Oid>) {
        let mut wanting: HashMap<Oid, Oid> = HashMap::new();
        for (table, maintenance) in queues.iter() {
            if self.wants(*table, maintenance)
                && maintenance.recount.is_due()
                && !unsettled.contains(table)
            {
                wanting.insert(*table, maintenance.owner);
            }
        }
        self.is_cut_off = false;
        if !wanting.is_empty() {
            self.count_here(queues, &mut wanting);
        }
        self.hand_out(queues, wanting);
        self.crew.stop_late();
    }

    fn wants(&self, table: Oid, maintenance: &QueueMaintenance) -> bool {
        !self.crew.serves(table)
            && slot::lock(maintenance.slot).is_some_and(|slot| slot.needs_recount())
    }

    fn is_for_others(&self, table: Oid, owner: Oid) -> bool {
        let slow = self.slow.get(&owner);
        self.apart.contains(&table) || slow.is_some_and(|s| s.left(Instant::now()).is_some())
    }

    /// Counts within the limit, and takes off what it has seen to.
    fn count_here(
        &mut self,
        queues: &mut HashMap<Oid, QueueMaintenance>,
        wanting: &mut HashMap<Oid, Oid>,
    ) {
        let begun = Instant::now();
        loop {
            let here =
                wanting.iter().filter(|(table, owner)| !self.is_for_others(**table, **owner));
            let here =
                here.map(|(table, owner)| Candidate { owner: *owner, table: *table, what: () });
            let all = Served { most: 1, owners: &[], in_turn: &[] };
            let Some(next) = self.turns.next(&all, here) else { return };
            if begun.elapsed() >= LIMIT {
                self.is_cut_off = true;
                return;
            }
            let Some(maintenance) = queues.get_mut(&next.table) else { return };
            self.turns.take(next.owner);
            self.turns.take(next.table);
            let report = recounter::recount_briefly(next.table, LIMIT);
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

    /// Hands out what takes longer, while there are processes for it.
    fn hand_out(
        &mut self,
        queues: &mut HashMap<Oid, QueueMaintenance>,
        wanting: HashMap<Oid, Oid>,
    ) {
        loop {
            let apart =
                wanting.iter().filter(|(table, owner)| self.is_for_others(**table, **owner));
            let apart =
                apart.map(|(table, owner)| Candidate { owner: *owner, table: *table, what: () });
            let next = self.crew.next(COUNTERS, apart.filter(|c| queues.contains_key(&c.table)));
            let Some(Candidate { owner, table, .. }) = next else { return };
            let Some(maintenance) = queues.get_mut(&table) else { return };
            let Some(opening) = self.crew.open(COUNTERS, owner, true) else { return };
            if !self.crew.employ(opening, table, maintenance.slot, &Work::Recount, ()) {
                if self.crew.has_no_place() {
                    maintenance.recount.note_no_worker(NO_PLACE);
                }
                return;
            }
        }
    }

    fn note(&mut self, table: Oid, maintenance: &mut QueueMaintenance, report: &Report) {
        match report.end {
            End::Busy => maintenance.recount.after(PAUSES),
            End::Slow => drop(self.apart.insert(table)),
            _ => {
                self.apart.remove(&table);
                maintenance.recount.note(report);
            }
        }
    }

    /// How long there is nothing to do; None: until a process apart has ended.
    pub fn pause(&self, queues: &HashMap<Oid, QueueMaintenance>) -> Option<Duration> {
        let left = |(table, maintenance): (&Oid, &QueueMaintenance)| {
            if !self.wants(*table, maintenance) {
                return None;
            }
            match maintenance.recount.left().filter(|left| !left.is_zero()) {
                Some(left) => Some(left),
                None if self.is_for_others(*table, maintenance.owner) => None,
                None => Some(if self.is_cut_off { Duration::ZERO } else { BUSY_PAUSES.1 }),
            }
        };
        queues.iter().filter_map(left).chain(self.crew.pause()).min()
    }
}
