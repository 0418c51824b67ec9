//! The job workers that run code of users in a database: what they are given.

use crate::error::Error;
use crate::parts::schedule::jobs;
use crate::parts::schedule::orders::{End, Report, Work};
use crate::parts::slot;
use crate::settings;
use crate::worker::crew::Crew;
use crate::worker::maintenance::{Kind, QueueMaintenance};
use crate::worker::slowness::Slowness;
use crate::worker::turns::Candidate;
use crate::worker::unending;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

const NO_PLACE: &str = "there is no background worker for its tasks: raise max_worker_processes";

/// Interval of looks at job workers that were told to end and have not.
const ENDING_INTERVAL: Duration = Duration::from_secs(1);

/// The job workers of a database, each bound to an owner.
pub struct Pool {
    crew: Crew<(Kind, Work)>,
    /// Owners whose job workers were ended by force: they wait for growing times, so that others have theirs.
    ended: HashMap<Oid, Slowness>,
    /// Queues marked because their code does not end.
    unending: HashSet<Oid>,
    database: u32,
    /// The lack of a slot for a job worker was reported in the log.
    complained: bool,
}

impl Pool {
    /// Ends job workers that a worker before this one has left.
    pub fn of(database: u32) -> Pool {
        jobs::end_all(database);
        Pool {
            crew: Crew::of(database, "xqueue job worker"),
            ended: HashMap::new(),
            unending: HashSet::new(),
            database,
            complained: false,
        }
    }

    /// Forgets owners and queues that are gone.
    pub fn retain(&mut self, is_there: impl Fn(Oid) -> bool) {
        let now = Instant::now();
        self.ended.retain(|_, slowness| slowness.is_remembered(now));
        self.crew.retain(is_there);
    }

    /// Returns whether a job worker is at a table.
    pub fn serves(&self, table: Oid) -> bool {
        self.crew.serves(table)
    }

    /// Reports the results of jobs to their queues.
    pub fn collect(&mut self, queues: &mut HashMap<Oid, QueueMaintenance>) {
        for (ended, report) in self.crew.collect() {
            let (kind, work) = &ended.what;
            if report.is_ended {
                let slowness = self.ended.entry(ended.owner).or_insert_with(Slowness::of_owner);
                slowness.note_slow(Instant::now());
            } else if let Some(slowness) = self.ended.get_mut(&ended.owner) {
                slowness.note_good();
            }
            if let Some(maintenance) = queues.get_mut(&ended.table).filter(|c| c.slot == ended.slot)
            {
                maintenance.end(*kind, work, &report);
            }
        }
    }

    /// Hands out nothing in this round.
    pub fn put_off(&self) {
        self.crew.put_off();
    }

    /// Hands out jobs while there are job workers for them.
    pub fn hand_out(&mut self, queues: &mut HashMap<Oid, QueueMaintenance>) {
        let ending: Vec<Oid> =
            jobs::ending_owners(self.database).into_iter().map(Oid::from).collect();
        // Those that do not end take the places of no others, up to a limit.
        let most = settings::max_job_workers();
        let most = most + ending.len().min(most);
        let now = Instant::now();
        let is_out = |owner: &Oid, pauses: &HashMap<Oid, Slowness>| {
            ending.contains(owner) || pauses.get(owner).is_some_and(|p| p.left(now).is_some())
        };
        loop {
            let wanting = queues.iter().filter_map(|(table, maintenance)| {
                let what = maintenance.wanted()?;
                if is_out(&maintenance.owner, &self.ended) {
                    return None;
                }
                Some(Candidate { owner: maintenance.owner, table: *table, what })
            });
            let next = self.crew.next(most, wanting);
            let Some(Candidate { owner, table, what: kind }) = next else { return };
            let Some(maintenance) = queues.get_mut(&table) else { return };
            let Some(opening) = self.crew.open(most, owner, false) else { return };
            let work = maintenance.begin(kind);
            let noted = (kind, work.clone());
            if !self.crew.employ(opening, table, maintenance.slot, &work, noted) {
                maintenance.end(kind, &work, &Report::none(End::NoWorker));
                return self.complain(queues);
            }
            self.complained = false;
        }
    }

    /// Shows each queue that waits why it does, and says so in the log, until there was a place again.
    fn complain(&mut self, queues: &mut HashMap<Oid, QueueMaintenance>) {
        if !self.crew.has_no_place() {
            return;
        }
        let crew = &self.crew;
        let is_waiting = |(table, maintenance): &(&Oid, &mut QueueMaintenance)| {
            !crew.serves(**table) && maintenance.wanted().is_some()
        };
        let mut first = None;
        let mut count = 0;
        for (_, maintenance) in queues.iter_mut().filter(is_waiting) {
            maintenance.note_no_worker(NO_PLACE);
            first = first.or_else(|| slot::lock(maintenance.slot).map(|slot| slot.names()));
            count += 1;
        }
        let Some(names) = first else { return };
        let [database, schema, table] = names.map(|name| name.read());
        if !std::mem::replace(&mut self.complained, true) {
            Error::new(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_RESOURCES,
                format!(
                    "xqueue: no background worker for queues of database \"{database}\" that are slow or run \
                     code of their owners, as \"{schema}.{table}\" ({count} in all)"
                ),
            )
            .detail("Their delayed, overdue and abandoned tasks stay as they are.")
            .hint("Raise max_worker_processes in postgresql.conf and restart the server.")
            .warn();
        }
    }

    /// Returns whether job workers are at work.
    pub fn is_at_work(&self) -> bool {
        self.crew.is_at_work()
    }

    /// Returns whether there is no place for a job worker that is wanted.
    pub fn wants_place(&self) -> bool {
        self.crew.wants_place()
    }

    /// Ends job workers that have taken too long, and marks the queues of those that do not end.
    pub fn stop_late(&mut self) {
        self.crew.stop_late();
        let unending: Vec<Oid> = jobs::unending(self.database).into_iter().map(Oid::from).collect();
        self.unending.retain(|table| unending.contains(table));
        for table in unending {
            if !self.unending.contains(&table) && unending::mark(table) {
                self.unending.insert(table);
            }
        }
    }

    /// How long until a job worker may have taken too long, or an owner may have one again.
    pub fn pause(&self) -> Option<Duration> {
        let now = Instant::now();
        let owners = self.ended.values().filter_map(|slowness| slowness.left(now));
        let ending = !jobs::ending_owners(self.database).is_empty();
        owners.chain(self.crew.pause()).chain(ending.then_some(ENDING_INTERVAL)).min()
    }
}
