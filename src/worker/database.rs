//! The worker of a database: promotes tasks whose delay is over, gives back those whose time to run is over
//! or whose session has ended, deletes those whose life is over, ends identified sessions, keeps the counters
//! exact.

use crate::error::OrRaise;
use crate::parts::clock;
use crate::parts::leases::departed;
use crate::parts::schedule::databases::{self, Requests};
use crate::parts::schedule::jobs;
use crate::parts::slot;
use crate::server::relation::{self, Lock, Relation};
use crate::server::xact::{self, Failure};
use crate::server::{callbacks, catalog, injection, process, spi, time, worker};
use crate::worker::ages;
use crate::worker::healing;
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
/// Retry delay for a queue whose table is locked exclusively.
const UNREAD_PAUSE: Duration = Duration::from_millis(20);
/// Before the next look at a queue that cannot be worked with, or that has lost triggers or indexes.
const UNFIT_PAUSE: Duration = Duration::from_secs(5);
/// Before the next try to read the list of queues.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);

background_worker!(xqueue_database_main => main);

fn main(database: u32) {
    if !databases::register_worker(database) {
        return;
    }
    callbacks::at_exit(leave_on_exit, database);
    worker::handle_signals();
    worker::connect(Some(database));
    clock::tick(time::now());
    let mut worker = Worker::of(database);
    let mut has_reported = false;
    while let Some(requests) = databases::take_requests(database) {
        worker::reload_settings();
        let is_time = worker.reload_at.is_some_and(|at| Instant::now() >= at);
        if (requests.registry || is_time) && !worker.reload() {
            databases::unregister_worker(database, false);
            return;
        }
        worker.work(requests);
        if !has_reported && worker.reload_at.is_none() {
            has_reported = true;
            databases::report_work(database);
        }
        worker::report_idle();
        let pause = worker.pause();
        databases::report_round(database, pause.map(|pause| pause.as_micros() as i64));
        worker::wait_idle(pause);
    }
}

/// The launcher is to start another one, unless `unregister_worker` has been called before.
fn leave_on_exit(database: u32) {
    jobs::end_all(database);
    databases::unregister_worker(database, true);
}

struct Worker {
    database: u32,
    /// The database's name, for the metrics.
    name: String,
    queues: HashMap<Oid, QueueMaintenance>,
    pool: Pool,
    shares: Shares,
    /// Queues that are first in the next round: their owners' shares of the last one did not suffice.
    unserved: HashSet<Oid>,
    recounts: Recounts,
    /// Tables of queues that have to be looked at, and whether they are a subscriber's copies.
    unread: HashMap<Oid, bool>,
    /// The same for tables that cannot be used as queues at present, and when to look again.
    unfit: HashMap<Oid, (bool, Instant)>,
    /// The same for tables that have lost triggers or indexes.
    lacking: HashMap<Oid, (bool, Instant)>,
    leases: Leases,
    prepared: Prepared,
    nudged: Instant,
    /// When to read the list of queues again, after it could not be read.
    reload_at: Option<Instant>,
    /// It was reported in the log.
    complained: bool,
}

impl Worker {
    fn of(database: u32) -> Worker {
        let name = xact::try_in_transaction(|| catalog::database_name(process::database()));
        Worker {
            database,
            name: name.unwrap_or_default(),
            queues: HashMap::new(),
            pool: Pool::of(database),
            shares: Shares::default(),
            unserved: HashSet::new(),
            recounts: Recounts::of(database),
            unread: HashMap::new(),
            unfit: HashMap::new(),
            lacking: HashMap::new(),
            leases: Leases::default(),
            prepared: Prepared::default(),
            nudged: Instant::now(),
            reload_at: None,
            complained: false,
        }
    }

    /// Reads the list of queues. False if the extension is gone.
    fn reload(&mut self) -> bool {
        self.reload_at = None;
        let listed = xact::try_in_transaction(|| match catalog::is_installed() {
            true if !queue::try_lock() => Outcome::Busy,
            true => Outcome::Done(list_queues()),
            false => Outcome::Gone,
        });
        match listed {
            Ok(Outcome::Done(listed)) => {
                self.queues.retain(|table, _| listed.contains_key(table));
                self.unfit.retain(|table, _| listed.contains_key(table));
                self.lacking.retain(|table, _| listed.contains_key(table));
                let owners: HashSet<Oid> =
                    self.queues.values().map(|maintenance| maintenance.owner).collect();
                let is_there = |oid| owners.contains(&oid) || self.queues.contains_key(&oid);
                let now = Instant::now();
                self.pool.retain(is_there);
                self.shares.retain(now, is_there);
                self.recounts.retain(now, is_there);
                self.unread = listed;
                self.complained = false;
            }
            Ok(Outcome::Gone | Outcome::RunsUserCode | Outcome::OwnedBy(_)) => return false,
            Ok(Outcome::Busy) => self.reload_at = Some(Instant::now() + UNREAD_PAUSE),
            Err(failure) => {
                self.reload_at = Some(Instant::now() + RELOAD_PAUSE);
                if !std::mem::replace(&mut self.complained, true) {
                    failure.warn("read the list of queues");
                }
            }
        }
        true
    }

    /// Reads the definitions of the listed queues. One whose table is locked exclusively is read later: the worker
    /// does not wait.
    fn read_definitions(&mut self) {
        let name = &self.name;
        let queues = &mut self.queues;
        let unfit = &mut self.unfit;
        let lacking = &mut self.lacking;
        let prepared = &mut self.prepared;
        self.unread.retain(|table, passive| {
            let read = xact::try_in_transaction(|| {
                // The lock excludes changes of the triggers, which are reported before they are visible.
                if !queue::try_lock() || !relation::try_lock(*table, Lock::RowExclusive) {
                    return Outcome::Busy;
                }
                let queue = queue::find(*table).or_raise();
                match queue.zip(catalog::table_name(*table)) {
                    Some((queue, (schema, table))) => {
                        let lack = queue.lack(*passive);
                        if let Some(mut slot) = slot::lock(queue.slot) {
                            slot.set_names([name, &schema, &table]);
                            slot.set_tube_names(queue.definition.options.tubes_counted());
                            slot.find_tracked(queue.tracking.is_complete(*passive));
                            slot.set_lack(lack.as_deref().unwrap_or_default());
                        }
                        let owner = Relation::open(queue.table, Lock::None).map(|t| t.owner());
                        let runs_user_code = queue.runs_user_code();
                        let owner = owner.unwrap_or(Oid::INVALID);
                        let is_ill = healing::is_ill(&queue);
                        Outcome::Done((queue, owner, runs_user_code, lack.is_some(), is_ill))
                    }
                    None => Outcome::Gone,
                }
            });
            if let Ok(Outcome::Done((queue, owner, runs_user_code, lacks, is_ill))) = &read {
                let known =
                    queues.get(table).is_some_and(|maintenance| maintenance.slot == queue.slot);
                if !known {
                    queues.insert(*table, QueueMaintenance::of(queue.slot));
                    prepared.ask();
                    // A worker before this one may have been ended in the middle of what was due.
                    if let Some(mut slot) = slot::lock(queue.slot) {
                        slot.lower_due(i64::MIN);
                    }
                }
                if let Some(maintenance) = queues.get_mut(table) {
                    maintenance.set_passive(*passive);
                    maintenance.set_owner(*owner, *runs_user_code);
                    maintenance.set_row_security(queue.has_row_security);
                    maintenance.set_tracked(queue.is_tracked);
                }
                let is_healed = !is_ill || healing::heal(*table);
                if *lacks || !is_healed {
                    lacking.insert(*table, (*passive, Instant::now() + UNFIT_PAUSE));
                } else {
                    lacking.remove(table);
                }
            }
            match &read {
                Ok(Outcome::Busy) => {}
                Ok(Outcome::Done((queue, ..))) if unfit.remove(table).is_some() => {
                    if let Some(mut slot) = slot::lock(queue.slot) {
                        slot.clear_error();
                    }
                }
                Ok(_) => drop(unfit.remove(table)),
                Err(failure) => {
                    note_unfit(name, *table, failure);
                    unfit.insert(*table, (*passive, Instant::now() + UNFIT_PAUSE));
                }
            }
            matches!(read, Ok(Outcome::Busy))
        });
    }

    /// An altered table is reported; other objects that a definition depends on, and indexes, may be repaired unreported.
    fn look_at_unfit(&mut self) {
        let now = Instant::now();
        for (table, (passive, again)) in self.unfit.iter_mut().chain(&mut self.lacking) {
            if *again <= now {
                *again = now + UNFIT_PAUSE;
                self.unread.insert(*table, *passive);
            }
        }
    }

    fn work(&mut self, requests: Requests) {
        injection::point(c"xqueue-worker-is-to-work");
        self.look_at_unfit();
        if !self.unread.is_empty() {
            self.read_definitions();
        }
        self.pool.collect(&mut self.queues);
        self.recounts.collect(&mut self.queues);
        if requests.prepared {
            self.prepared.ask();
        }
        if requests.metrics {
            ages::note(self.queues.keys().copied());
        }
        let unsettled = self.prepared.look(&mut self.queues);
        // The connections are read before the departed sessions: a session left in between is in either list.
        let attached = Attached::now();
        let left = departed::drain(self.database);
        let ended = self.leases.settle(left, attached, requests.sessions);
        for maintenance in self.queues.values_mut() {
            maintenance.note_ended(&ended);
            if requests.sweep {
                maintenance.sweep();
            }
        }
        self.work_in_shares();
        self.pool.hand_out(&mut self.queues);
        self.pool.stop_late();
        self.recounts.work(&mut self.queues, &unsettled);
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
        for is_first in [true, false] {
            for (table, maintenance) in &mut self.queues {
                if first.contains(table) == is_first {
                    let share = self.shares.of(maintenance.owner);
                    if maintenance.work(*table, self.pool.serves(*table), share) {
                        continue;
                    }
                    if is_first {
                        expire_leases.insert(maintenance.owner);
                    }
                    if is_first || !expire_leases.contains(&maintenance.owner) {
                        self.unserved.insert(*table);
                    }
                }
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
        let is_beside_ready = |maintenance: &QueueMaintenance| {
            slot::lock(maintenance.slot).is_some_and(|slot| slot.has_idle_consumers(now))
        };
        let nudge = self.queues.values().any(is_beside_ready).then_some(NUDGE_INTERVAL);
        let unread = (!self.unread.is_empty()).then_some(UNREAD_PAUSE);
        let unfit = self.unfit.values().chain(self.lacking.values()).map(|(_, again)| *again);
        let until = unfit.chain(self.reload_at);
        let until = until.map(|at| at.saturating_duration_since(Instant::now()));
        let maintenance = |(table, maintenance): (&Oid, &QueueMaintenance)| {
            maintenance.pause(self.pool.serves(*table))
        };
        let cares = self.queues.iter().filter_map(maintenance).chain(self.pool.pause());
        let others = [nudge, unread, self.leases.pause(), self.prepared.left()];
        let others = others.into_iter().chain([self.recounts.pause(&self.queues)]);
        cares.chain(until).chain(others.flatten()).min()
    }
}

/// Shows why a table that is listed as a queue cannot be worked with. It may not have had a slot yet.
fn note_unfit(database: &str, table: Oid, failure: &Failure) {
    let of_database = u32::from(process::database());
    let found = slot::find_or_add(of_database, table.into(), 0, None);
    let names = xact::try_in_transaction(|| catalog::table_name(table));
    let Some(mut slot) = found.and_then(|(slot, _)| slot::lock(slot)) else { return };
    if let Ok(Some((schema, name))) = &names {
        slot.set_names([database, schema, name]);
    }
    slot.set_error(&failure.message);
}

const GONE: &str =
    "NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) q.relation)";

/// The tables of this database's queues, and whether they are a subscriber's copies. What the
/// registry says of tables that are gone is deleted.
fn list_queues() -> HashMap<Oid, bool> {
    // Before the registry is read: what is committed by now is seen there.
    let known: Vec<_> = slot::all(Some(process::database().into()))
        .into_iter()
        .filter(|(slot, _)| slot::lock(*slot).is_some_and(|slot| slot.is_settled()))
        .collect();
    spi::connect(|spi| {
        // A DELETE of nothing would tell this worker that the registry has changed.
        if !spi.run(&format!("SELECT FROM xqueue.queue q WHERE {GONE} LIMIT 1")).is_empty() {
            spi.run(&format!("DELETE FROM xqueue.queue q WHERE {GONE}"));
        }
        let rows = spi.run(
            "SELECT q.relation::pg_catalog.oid, EXISTS (SELECT FROM pg_catalog.pg_subscription_rel s \
             WHERE s.srrelid OPERATOR(pg_catalog.=) q.relation) FROM xqueue.queue q",
        );
        let table = |row| Some((rows.value(row, 1)?.to_oid(), rows.value(row, 2)?.to_bool()));
        let listed: HashMap<Oid, bool> = (0..rows.len()).filter_map(table).collect();
        for (slot, table) in known {
            let table = Oid::from(table);
            if !listed.contains_key(&table) && catalog::table_name(table).is_none() {
                slot::remove(slot);
            }
        }
        listed
    })
}
