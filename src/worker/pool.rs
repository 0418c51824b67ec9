//! The job workers of a database, as its worker employs them: which queue is served next, and for how long.
//!
//! Owners take turns, and so do the queues of each. Where there may be several job workers, the last one is
//! kept for an owner who has none: the sick queues of a role do not make those of others wait.

use super::care::{Care, Kind};
use super::job;
use crate::delta::SlotId;
use crate::guc;
use crate::pg::worker;
use crate::shmem::jobs::{self, HandedOver, JobId};
use crate::shmem::orders::{End, Report, Work};
use pgrx::pg_sys::Oid;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The job workers of a database, as its worker employs them.
pub struct Pool {
    database: u32,
    running: Vec<Running>,
    turns: Turns,
    /// When the next of them will have taken too long, unless it gets on.
    late_at: Option<Instant>,
    /// The log has been told that there is no place for a job worker.
    complained: bool,
}

/// A job that was handed over.
struct Running {
    id: JobId,
    table: Oid,
    slot: SlotId,
    owner: Oid,
    kind: Kind,
    work: Work,
}

/// When owners and tables had their last turn.
#[derive(Default)]
struct Turns {
    last: u64,
    of: HashMap<Oid, u64>,
}

impl Turns {
    fn take(&mut self, oid: Oid) {
        self.last += 1;
        self.of.insert(oid, self.last);
    }

    /// Least for what has waited for longest.
    fn of(&self, oid: Oid) -> u64 {
        self.of.get(&oid).copied().unwrap_or_default()
    }
}

impl Pool {
    /// Ends job workers that a worker before this one has left.
    pub fn of(database: u32) -> Pool {
        jobs::end_all(database);
        Pool {
            database,
            running: vec![],
            turns: Turns::default(),
            late_at: None,
            complained: false,
        }
    }

    /// Forgets owners and queues that are gone.
    pub fn retain(&mut self, queues: &HashMap<Oid, Care>) {
        self.turns.of.retain(|oid, _| {
            queues.contains_key(oid) || queues.values().any(|care| care.owner == *oid)
        });
    }

    /// Whether a job worker is at a table.
    pub fn serves(&self, table: Oid) -> bool {
        self.running.iter().any(|running| running.table == table)
    }

    /// Tells the queues what has come of their jobs.
    pub fn collect(&mut self, queues: &mut HashMap<Oid, Care>) {
        self.running.retain(|Running { id, table, slot, kind, work, .. }| {
            let Some(report) = jobs::collect(*id) else { return true };
            if let Some(care) = queues.get_mut(table).filter(|care| care.slot == *slot) {
                care.end(*kind, work, &report);
            }
            false
        });
    }

    /// Hands out jobs while there are job workers for them.
    pub fn hand_out(&mut self, queues: &mut HashMap<Oid, Care>) {
        while let Some((table, kind)) = self.next(queues) {
            let Some(care) = queues.get_mut(&table) else { return };
            let work = care.begin(kind);
            if !self.start(table, kind, work, care) {
                return;
            }
        }
    }

    /// The queue whose turn it is, and what is to be done for it.
    fn next(&self, queues: &HashMap<Oid, Care>) -> Option<(Oid, Kind)> {
        let free =
            guc::max_job_workers().checked_sub(self.running.len()).filter(|free| *free > 0)?;
        let is_kept = free == 1 && !self.running.is_empty();
        let has_one = |owner: Oid| self.running.iter().any(|running| running.owner == owner);
        let wanting = queues.iter().filter_map(|(table, care)| {
            if self.serves(*table) || is_kept && has_one(care.owner) {
                return None;
            }
            let kind = care.wanted()?;
            Some((self.turns.of(care.owner), self.turns.of(*table), *table, kind))
        });
        let first = wanting.min_by_key(|(owner, queue, ..)| (*owner, *queue));
        first.map(|(.., table, kind)| (table, kind))
    }

    /// False if there is no job worker to be had.
    fn start(&mut self, table: Oid, kind: Kind, work: Work, care: &mut Care) -> bool {
        let most = guc::max_job_workers();
        let handed_over = jobs::hand_over(self.database, most, table.into(), &work);
        let id = match handed_over {
            HandedOver::ToWorker(id) => id,
            HandedOver::ToStart(id) => {
                let argument = id.to_argument();
                if !worker::start("xqueue job worker", "xqueue_job_main", argument) {
                    jobs::not_started(id);
                    self.complain(kind, &work, care);
                    return false;
                }
                self.complained = false;
                id
            }
            // Those of a worker before this one have not ended yet.
            HandedOver::Nowhere => {
                care.end(kind, &work, &Report::none(End::Busy));
                return false;
            }
        };
        self.turns.take(care.owner);
        self.turns.take(table);
        let (slot, owner) = (care.slot, care.owner);
        self.running.push(Running { id, table, slot, owner, kind, work });
        true
    }

    fn complain(&mut self, kind: Kind, work: &Work, care: &mut Care) {
        let message = "there is no background worker for its triggers: raise max_worker_processes";
        care.end_without_worker(kind, work, message);
        if !std::mem::replace(&mut self.complained, true) {
            pgrx::warning!(
                "xqueue: no background worker for queues with triggers in database {}: raise max_worker_processes",
                self.database
            );
        }
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

    /// How long until a job worker may have taken too long.
    pub fn pause(&self) -> Option<Duration> {
        self.late_at.map(|at| at.saturating_duration_since(Instant::now()))
    }
}
