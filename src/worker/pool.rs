//! The job workers that run code of users in a database: what they are given.

use super::care::{Care, Kind};
use super::crew::Crew;
use super::turns::Candidate;
use crate::guc;
use crate::shmem::jobs;
use crate::shmem::orders::{End, Report, Work};
use pgrx::pg_sys::Oid;
use std::collections::HashMap;
use std::time::Duration;

/// The job workers of a database, each bound to an owner.
pub struct Pool {
    database: u32,
    crew: Crew<(Kind, Work)>,
    /// The log has been told that there is no place for a job worker.
    complained: bool,
}

impl Pool {
    /// Ends job workers that a worker before this one has left.
    pub fn of(database: u32) -> Pool {
        jobs::end_all(database);
        Pool { database, crew: Crew::of(database, "xqueue job worker"), complained: false }
    }

    /// Forgets owners and queues that are gone.
    pub fn retain(&mut self, is_there: impl Fn(Oid) -> bool) {
        self.crew.retain(is_there);
    }

    /// Whether a job worker is at a table.
    pub fn serves(&self, table: Oid) -> bool {
        self.crew.serves(table)
    }

    /// Tells the queues what has come of their jobs.
    pub fn collect(&mut self, queues: &mut HashMap<Oid, Care>) {
        for (ended, report) in self.crew.collect() {
            let (kind, work) = &ended.what;
            if let Some(care) = queues.get_mut(&ended.table).filter(|c| c.slot == ended.slot) {
                care.end(*kind, work, &report);
            }
        }
    }

    /// Hands out jobs while there are job workers for them.
    pub fn hand_out(&mut self, queues: &mut HashMap<Oid, Care>) {
        let most = guc::max_job_workers();
        loop {
            let wanting = queues.iter().filter_map(|(table, care)| {
                let what = care.wanted()?;
                Some(Candidate { owner: care.owner, table: *table, what })
            });
            let next = self.crew.next(most, wanting);
            let Some(Candidate { owner, table, what: kind }) = next else { return };
            let Some(care) = queues.get_mut(&table) else { return };
            let Some(opening) = self.crew.open(most, owner, false) else { return };
            let work = care.begin(kind);
            let noted = (kind, work.clone());
            if !self.crew.employ(opening, table, care.slot, &work, noted) {
                care.end(kind, &work, &Report::none(End::NoWorker));
                return self.complain(queues);
            }
            self.complained = false;
        }
    }

    fn complain(&mut self, queues: &mut HashMap<Oid, Care>) {
        if !self.crew.has_no_place() {
            return;
        }
        let message = "there is no background worker for its tasks: raise max_worker_processes";
        let waiting = queues.iter_mut().filter(|(table, _)| !self.crew.serves(**table));
        waiting.for_each(|(_, care)| care.note_no_worker(message));
        if !std::mem::replace(&mut self.complained, true) {
            pgrx::warning!(
                "xqueue: no background worker for queues with triggers in database {}: raise max_worker_processes",
                self.database
            );
        }
    }

    /// Ends job workers that have taken too long.
    pub fn stop_late(&mut self) {
        self.crew.stop_late();
    }

    /// How long until a job worker may have taken too long.
    pub fn pause(&self) -> Option<Duration> {
        self.crew.pause()
    }
}
