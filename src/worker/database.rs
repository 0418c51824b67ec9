//! The worker of a database: promotes tasks whose delay is over, gives back those whose time to run is over
//! or whose session has ended, deletes those whose life is over, ends identified sessions, keeps the counters
//! exact.

mod rest;

use crate::parts::clock;
use crate::parts::leases::departed;
use crate::parts::schedule::databases::{self, Requests};
use crate::parts::schedule::jobs;
use crate::parts::slot;
use crate::server::xact;
use crate::server::{callbacks, catalog, injection, process, time, worker};
use crate::worker::ages;
use crate::worker::definitions::{self, Definitions};
use crate::worker::job::Outcome;
use crate::worker::leases::{Attached, Leases};
use crate::worker::maintenance::QueueMaintenance;
use crate::worker::pool::Pool;
use crate::worker::prepared::Prepared;
use crate::worker::recounts::Recounts;
use crate::worker::shares::Shares;
use crate::{background_worker, queue, trace};
use pgrx::pg_sys::Oid;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Interval at which consumers that wait beside ready tasks are woken again. There should be none; a task's row may
/// have been locked by another transaction.
const NUDGE_INTERVAL: Duration = Duration::from_secs(1);
/// Before the next try to read the list of queues, which is locked exclusively, or after a failure.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
const RELOAD_PAUSE: Duration = Duration::from_secs(1);
/// How long definitions are read in one round.
const READ_LIMIT: Duration = Duration::from_millis(100);
/// Interval of looks whether a recount is waited for, in the middle of a round.
const ASK_INTERVAL: Duration = Duration::from_millis(1);

background_worker!(xqueue_database_main => main);

fn main(database: u32) {
    let Some(resumes) = databases::register_worker(database) else { return };
    callbacks::at_exit(leave_on_exit, database);
    worker::handle_signals();
    worker::connect(Some(database));
    databases::report_connection(database);
    clock::tick(time::now());
    let mut worker = Worker::of(database, resumes);
    let mut has_reported = false;
    while let Some((requests, is_over)) = databases::take_requests(database) {
        worker::reload_settings();
        let is_time = worker.reload_at.is_some_and(|at| Instant::now() >= at);
        if (requests.registry || is_time) && !worker.reload() {
            databases::unregister_worker(database, false);
            return;
        }
        worker.work(requests, is_over);
        let has_left_some = worker.definitions.has_left_some();
        if !has_reported && worker.reload_at.is_none() && !has_left_some {
            has_reported = true;
            databases::report_work(database);
        }
        let wants_place = worker.wants_place();
        worker.definitions.end_round();
        worker::report_idle();
        let pause = worker.pause();
        let pause_micros = pause.map(|pause| pause.as_micros() as i64);
        let is_at_work = worker.is_at_work();
        let is_asked =
            databases::report_round(database, pause_micros, is_at_work, wants_place || is_over);
        if is_asked {
            jobs::dismiss_idle(database);
            if databases::give_up(database, worker.rest()) {
                return;
            }
        }
        // The others may have got places meanwhile: what was not begun for their sake is.
        let begins_rest = is_over && !is_at_work;
        worker::wait_idle(if begins_rest { Some(Duration::ZERO) } else { pause });
    }
}

/// The launcher is to start another one, unless this one has left before.
fn leave_on_exit(database: u32) {
    if databases::is_own(database) {
        jobs::end_all(database);
        databases::unregister_worker(database, true);
    }
}

struct Worker {
    database: u32,
    definitions: Definitions,
    queues: HashMap<Oid, QueueMaintenance>,
    pool: Pool,
    shares: Shares,
    /// Queues that are first in the next round: their owners' shares of the last one did not suffice.
    unserved: HashSet<Oid>,
    recounts: Recounts,
    leases: Leases,
    prepared: Prepared,
    nudged: Instant,
    /// When it was last looked at whether a recount is waited for.
    asked: Instant,
    /// When to read the list of queues again, after it could not be read.
    reload_at: Option<Instant>,
    /// It was reported in the log.
    complained: bool,
}

impl Worker {
    fn of(database: u32, resumes: bool) -> Worker {
        let name = xact::try_in_transaction(|| catalog::database_name(process::database()));
        Worker {
            database,
            definitions: Definitions::of(name.unwrap_or_default(), resumes),
            queues: HashMap::new(),
            pool: Pool::of(database),
            shares: Shares::default(),
            unserved: HashSet::new(),
            recounts: Recounts::of(database),
            leases: Leases::default(),
            prepared: Prepared::default(),
            // At once: the worker before this one may have left for others in the meantime.
            nudged: Instant::now().checked_sub(NUDGE_INTERVAL).unwrap_or_else(Instant::now),
            asked: Instant::now(),
            reload_at: None,
            complained: false,
        }
    }

    /// Reads the list of queues. False if the extension is gone.
    fn reload(&mut self) -> bool {
        self.reload_at = None;
        let listed = xact::try_in_transaction(|| match catalog::is_installed() {
            true if !queue::try_lock() => Outcome::Busy,
            true => Outcome::Done(definitions::list_queues()),
            false => Outcome::Gone,
        });
        match listed {
            Ok(Outcome::Done(listed)) => {
                self.queues.retain(|table, _| listed.contains_key(table));
                let owners: HashSet<Oid> =
                    self.queues.values().map(|maintenance| maintenance.owner).collect();
                let is_there = |oid| owners.contains(&oid) || self.queues.contains_key(&oid);
                let now = Instant::now();
                self.pool.retain(is_there);
                self.shares.retain(now, is_there);
                self.recounts.retain(now, is_there);
                self.definitions.list(listed);
                self.complained = false;
            }
            Ok(Outcome::Gone | Outcome::RunsUserCode | Outcome::OwnedBy(_)) => return false,
            Ok(Outcome::Busy) => self.reload_at = Some(Instant::now() + BUSY_PAUSE),
            Err(failure) => {
                self.reload_at = Some(Instant::now() + RELOAD_PAUSE);
                if !std::mem::replace(&mut self.complained, true) {
                    failure.warn("read the list of queues");
                }
            }
        }
        true
    }

    /// Reads the definitions of listed queues, for a limited time: what is due of the queues that are known does not wait
    /// for those of all.
    fn read_definitions(&mut self) {
        let begun = Instant::now();
        for table in self.definitions.unread(&self.queues) {
            if begun.elapsed() >= READ_LIMIT {
                self.definitions.leave_rest();
                break;
            }
            self.read_definition(table);
            self.serve_awaited();
        }
    }

    fn read_definition(&mut self, table: Oid) {
        let apart = self.definitions.read(table, &mut self.queues, &mut self.prepared);
        if apart {
            self.recounts.set_apart(table);
        }
    }

    /// Counts, in the middle of a round, the queues whose recount has come to be waited for.
    fn serve_awaited(&mut self) {
        if self.asked.elapsed() >= ASK_INTERVAL {
            self.asked = Instant::now();
            if databases::take_recount_request(self.database) {
                self.count_awaited();
            }
        }
    }

    fn count_awaited(&mut self) {
        let awaited = slot::all_awaited(self.database).into_iter().map(Oid::from);
        let mut awaited: Vec<Oid> = awaited.collect();
        for table in &awaited {
            self.read_definition(*table);
        }
        let unsettled = self.prepared.look_at(&awaited, &mut self.queues);
        awaited.retain(|table| !unsettled.contains(table));
        self.recounts.count_awaited(&mut self.queues, &awaited);
    }

    /// Makes a round. `is_over`: the worker is to give its place up, and begins nothing that would keep it.
    fn work(&mut self, requests: Requests, is_over: bool) {
        injection::point(c"xqueue-worker-is-to-work");
        self.definitions.look_at_unfit();
        if requests.recount {
            self.count_awaited();
        }
        self.read_definitions();
        self.pool.collect(&mut self.queues);
        self.recounts.collect(&mut self.queues);
        if requests.prepared {
            self.prepared.ask();
        }
        if requests.metrics {
            ages::note(self.queues.keys().copied());
        }
        let unsettled = self.prepared.look(&mut self.queues);
        // What is counted first says of many queues that there is nothing else to do.
        self.recounts.work(&mut self.queues, &unsettled, is_over);
        // The connections are read before the departed sessions: a session left in between is in either list.
        let attached = Attached::now();
        let left = departed::drain(self.database);
        let ended = self.leases.settle(left, attached, requests.sessions);
        for maintenance in self.queues.values_mut() {
            if requests.sweep {
                maintenance.sweep();
            }
            maintenance.note_ended(&ended);
        }
        self.work_in_shares();
        match is_over {
            true => self.pool.put_off(),
            false => self.pool.hand_out(&mut self.queues),
        }
        self.pool.stop_late();
        if self.nudged.elapsed() >= NUDGE_INTERVAL {
            self.nudged = Instant::now();
            for maintenance in self.queues.values() {
                if let Some(mut slot) = slot::lock(maintenance.slot) {
                    slot.nudge_for_ready();
                }
            }
            trace::flush();
        }
    }

    /// Works on the queues in turn. Owners of slow queues get no more than their share of a round.
    fn work_in_shares(&mut self) {
        self.shares.begin();
        let first = std::mem::take(&mut self.unserved);
        // Owners of queues that have waited for two rounds: those of their others that were served just now come behind.
        let mut expire_leases = HashSet::new();
        let (before, after): (Vec<Oid>, Vec<Oid>) =
            self.queues.keys().copied().partition(|table| first.contains(table));
        let tables = before.into_iter().map(|table| (table, true));
        for (table, is_first) in tables.chain(after.into_iter().map(|table| (table, false))) {
            self.serve_awaited();
            let Some(maintenance) = self.queues.get_mut(&table) else { continue };
            let share = self.shares.of(maintenance.owner);
            if maintenance.work(table, self.pool.serves(table), share) {
                continue;
            }
            if is_first {
                expire_leases.insert(maintenance.owner);
            }
            if is_first || !expire_leases.contains(&maintenance.owner) {
                self.unserved.insert(table);
            }
        }
        // An owner that was found slow in this round is so for all of its queues.
        for maintenance in self.queues.values_mut() {
            maintenance.set_share(self.shares.of(maintenance.owner));
        }
    }

    /// Returns the time until the next scheduled work; None means wait for a signal.
    fn pause(&self) -> Option<Duration> {
        let now = time::now();
        let is_beside_ready = self.queues.values().any(|queue| queue.is_beside_ready(now));
        let nudge = is_beside_ready.then_some(NUDGE_INTERVAL);
        let until = self.definitions.look_again_at().chain(self.reload_at);
        let until = until.map(|at| at.saturating_duration_since(Instant::now()));
        let maintenance = |(table, maintenance): (&Oid, &QueueMaintenance)| {
            maintenance.pause(self.pool.serves(*table))
        };
        let cares = self.queues.iter().filter_map(maintenance).chain(self.pool.pause());
        let others = [nudge, self.definitions.pause(), self.leases.pause(), self.prepared.left()];
        let others = others.into_iter().chain([self.recounts.pause(&self.queues)]);
        cares.chain(until).chain(others.flatten()).min()
    }
}
