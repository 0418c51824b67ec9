//! The database worker: promotes tasks whose delay has ended, gives back tasks whose time to run or session has ended,
//! and deletes tasks whose life has ended. It also ends identified sessions and keeps the counters exact. It requests
//! job workers for queues whose changes run user code or take too long.
//!
//! The worker leaves
//! 1. immediately, if a command needs the database exclusively or the extension is gone;
//! 2. at the end of a round, if others wait for its worker slot and it is either idle or has had its turn. It stays
//!    while definitions are unread, because a successor would have to read all of them again.
//!
//! Before it leaves, it records when its database needs a worker again.

use crate::parts::clock;
use crate::parts::leases::departed;
use crate::parts::schedule::NEVER;
use crate::parts::schedule::workers::{Requests, WorkerAssignment, WorkerId};
use crate::parts::schedule::{own, requests};
use crate::parts::slot;
use crate::server::xact;
use crate::server::{callbacks, catalog, injection, process, time, worker};
use crate::worker::ages;
use crate::worker::definitions::{self, Definitions};
use crate::worker::job::{JobOutcome, Unfit};
use crate::worker::known::{KnownQueue, Server};
use crate::worker::leases::{Attached, Leases};
use crate::worker::prepared::PreparedCheck;
use crate::worker::recounts::Recounts;
use crate::worker::unending;
use crate::{background_worker, queue, settings};
use pgrx::pg_sys::Oid;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Interval for waking consumers that wait although tasks are ready. Such a consumer scanned the table while another
/// transaction had the task's row locked.
const NUDGE_INTERVAL: Duration = Duration::from_secs(1);
/// Retry delay while the list of queues is locked exclusively.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Retry delay after the list of queues could not be read.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);
/// Time per round for the queues of one owner. Its remaining queues come first in the next round.
const SHARE: Duration = Duration::from_millis(50);
/// Maximum sleep while tasks are due later, because the system clock can be set.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which job workers that were told to end are checked, and refused requests for job workers are repeated.
const JOBS_INTERVAL: Duration = Duration::from_secs(1);

background_worker!(xqueue_database_main => main);

fn main(id: u32) {
    callbacks::at_exit(unregister_on_exit, 0);
    let Some(own) = own::register(WorkerId(id)) else { return };
    worker::handle_signals();
    worker::connect(Some(own.database));
    own::report_connection();
    clock::tick(time::now());
    let mut worker = Worker::of(own.database);
    while let Some(requests) = own::begin_round() {
        worker::reload_settings();
        // This setting affects which process serves a queue.
        if std::mem::replace(&mut worker.allows_direct_path, settings::allows_direct_path())
            != settings::allows_direct_path()
        {
            worker.reload_at = Some(Instant::now());
        }
        let is_time = worker.reload_at.is_some_and(|at| Instant::now() >= at);
        if (requests.registry || is_time) && !worker.reload() {
            return own::retire();
        }
        worker.work(requests);
        let has_left_some = worker.definitions.has_left_some();
        let is_read = worker.reload_at.is_none() && !has_left_some;
        worker::report_idle();
        let pause = worker.pause();
        let sleeps_until = pause.map_or(NEVER, time::in_future);
        let waits = own::end_round(sleeps_until, is_read);
        // A successor would have to read all definitions again.
        if waits && !has_left_some && own::leave(worker.needs_successor_at(), false) {
            return;
        }
        worker::wait_idle(pause);
    }
}

/// Frees this worker's entry. The launcher starts another worker when one is needed.
fn unregister_on_exit(_argument: u32) {
    own::unregister();
}

struct Worker {
    database: u32,
    definitions: Definitions,
    queues: HashMap<Oid, KnownQueue>,
    /// Queues that come first in the next round, because their owner's share of the last round was used up.
    unserved: HashSet<Oid>,
    recounts: Recounts,
    leases: Leases,
    prepared: PreparedCheck,
    nudged: Instant,
    /// When to read the list of queues again, because the last attempt failed or a setting has changed.
    reload_at: Option<Instant>,
    /// When job workers were last requested.
    asked_at: i64,
    /// When to request job workers again, or to check those that do not end.
    jobs_at: Option<Instant>,
    /// The log reports that the list of queues cannot be read.
    complained: bool,
    allows_direct_path: bool,
}

impl Worker {
    fn of(database: u32) -> Worker {
        let name = xact::try_in_transaction(|| catalog::database_name(process::database()));
        Worker {
            database,
            definitions: Definitions::of(name.unwrap_or_default()),
            queues: HashMap::new(),
            unserved: HashSet::new(),
            recounts: Recounts::of(database),
            leases: Leases::default(),
            prepared: PreparedCheck::default(),
            // The first nudge is due immediately: there was no worker since the previous one left.
            nudged: Instant::now().checked_sub(NUDGE_INTERVAL).unwrap_or_else(Instant::now),
            reload_at: None,
            asked_at: i64::MIN,
            jobs_at: None,
            complained: false,
            allows_direct_path: settings::allows_direct_path(),
        }
    }

    /// Reads the list of queues. Returns false if the extension is gone.
    fn reload(&mut self) -> bool {
        self.reload_at = None;
        let mut has_left_slots = false;
        let listed = xact::try_in_transaction(|| match catalog::is_installed() {
            true if !queue::try_lock() => JobOutcome::Busy,
            true => JobOutcome::Done(definitions::list_queues()),
            // The commit of a prepared DROP EXTENSION has not removed the slots.
            false if !definitions::remove_slots_except(&HashMap::new()) => {
                has_left_slots = true;
                JobOutcome::Done(HashMap::new())
            }
            false => {
                departed::forget(process::database().into());
                JobOutcome::Unfit(Unfit::Gone)
            }
        });
        match listed {
            Ok(JobOutcome::Done(listed)) => {
                self.queues.retain(|table, _| listed.contains_key(table));
                self.definitions.list(listed);
                self.complained = false;
                self.reload_at = has_left_slots.then(|| Instant::now() + RELOAD_PAUSE);
            }
            Ok(JobOutcome::Unfit(_)) => return false,
            Ok(JobOutcome::Busy) => self.reload_at = Some(Instant::now() + BUSY_PAUSE),
            Err(failure) => {
                self.reload_at = Some(Instant::now() + RELOAD_PAUSE);
                if !std::mem::replace(&mut self.complained, true) {
                    failure.warn("read the list of queues");
                }
            }
        }
        true
    }

    /// Runs one round.
    fn work(&mut self, requests: Requests) {
        injection::point(c"xqueue-worker-is-to-work");
        self.definitions.look_again();
        self.definitions.read_some(&mut self.queues, &mut self.prepared);
        if requests.prepared {
            self.prepared.ask();
        }
        if requests.metrics {
            ages::note(self.queues.keys().copied());
        }
        let unsettled = self.prepared.look(&self.queues);
        // Recounts come first: exact counters show that many queues need no other work.
        self.recounts.work(&self.queues, &unsettled);
        // The connections are read before the departed sessions, so a session that is left in between is in at least
        // one list.
        let attached = Attached::now();
        let left = departed::drain(self.database);
        let ended = self.leases.settle(left, attached, requests.sessions);
        for queue in self.queues.values_mut() {
            if requests.sweep {
                queue.ask_for_sweep();
            }
            queue.look_again();
            queue.note_ended(&ended);
        }
        self.serve();
        self.ask_for_job_workers();
        if self.nudged.elapsed() >= NUDGE_INTERVAL {
            self.nudged = Instant::now();
            for queue in self.queues.values() {
                slot::with(queue.slot(), |slot| slot.waiters().nudge_for_ready());
            }
        }
    }

    /// Serves the due queues. An owner whose share of the round is used up continues in the next round.
    fn serve(&mut self) {
        let now = time::now();
        let first = std::mem::take(&mut self.unserved);
        let is_own = |queue: &KnownQueue| queue.server() == Server::DatabaseWorker;
        let due =
            self.queues.iter().filter(|(_, queue)| is_own(queue) && queue.needed_at(now) <= now);
        let mut due: Vec<(Oid, Oid)> = due.map(|(table, queue)| (*table, queue.owner)).collect();
        due.sort_by_key(|(table, _)| !first.contains(table));
        let mut used: HashMap<Oid, Duration> = HashMap::new();
        for (table, owner) in due {
            if used.get(&owner).is_some_and(|used| *used >= SHARE) {
                self.unserved.insert(table);
                continue;
            }
            let Some(queue) = self.queues.get_mut(&table) else { continue };
            let begun = Instant::now();
            let done = queue.maintenance.work(table);
            *used.entry(owner).or_default() += begun.elapsed();
            match done {
                Err(Unfit::Slow) => self.definitions.note_slow(owner, &mut self.queues),
                // Nothing reports an added check constraint or a lost privilege to this worker, so the job finds it.
                Err(Unfit::RunsUserCode) => {
                    queue.set_server(owner, Server::JobWorker);
                    self.definitions.read_again(table);
                }
                Err(Unfit::Gone) | Ok(()) => {}
            }
        }
    }

    /// Requests job workers for owners with due queues, withdraws obsolete requests, and marks queues whose code does
    /// not end.
    fn ask_for_job_workers(&mut self) {
        let now = time::now();
        let is_due = |queue: &&KnownQueue| {
            queue.server() == Server::JobWorker && queue.needed_at(now) <= now
        };
        let owners: HashSet<Oid> =
            self.queues.values().filter(is_due).map(|queue| queue.owner).collect();
        let want = |owner: &Oid| {
            let owner = u32::from(*owner);
            requests::want_job_worker(WorkerAssignment {
                database: self.database,
                owner,
                counts: 0,
            })
        };
        let has_all = owners.iter().filter(|owner| !want(owner)).count() == 0;
        let owners: HashSet<u32> = owners.into_iter().map(u32::from).collect();
        requests::withdraw(self.database, |owner| !owners.contains(&owner));
        self.asked_at = now;
        let unending = requests::unending(self.database);
        self.jobs_at = (!has_all || !unending.is_empty()).then(|| Instant::now() + JOBS_INTERVAL);
        for table in unending.into_iter().map(Oid::from) {
            let queue = self.queues.get_mut(&table);
            if let Some(queue) = queue.filter(|queue| queue.server() != Server::Nobody)
                && unending::mark(table)
            {
                queue.set_server(queue.owner, Server::Nobody);
            }
        }
    }

    /// Returns the time until the next scheduled work; None means wait for a signal.
    fn pause(&self) -> Option<Duration> {
        let timed = [self.leases.left(), self.queues_left()].into_iter().flatten().min();
        let others = [self.prepared.left(), timed.map(|left| left.min(CLOCK_INTERVAL))];
        self.lefts(false).into_iter().chain(others).flatten().min()
    }

    /// Returns when the database needs another worker if this one leaves.
    fn needs_successor_at(&self) -> i64 {
        let leases =
            if self.leases.is_settled() { self.leases.left() } else { Some(Duration::ZERO) };
        let others = [self.prepared.rest(), leases, self.queues_left()];
        let left = self.lefts(true).into_iter().chain(others).flatten().min();
        left.map_or(NEVER, time::in_future)
    }

    fn lefts(&self, is_leaving: bool) -> [Option<Duration>; 5] {
        let left = |at: Option<Instant>| at.map(|at| at.saturating_duration_since(Instant::now()));
        let has_idle = self.queues.values().any(KnownQueue::has_idle_consumers);
        [
            left(self.reload_at),
            left(self.jobs_at),
            has_idle.then_some(NUDGE_INTERVAL),
            self.definitions.left(is_leaving),
            self.recounts.pause(&self.queues),
        ]
    }

    /// Returns the time until a queue needs work. Work that was due at the last request is left to the job workers
    /// requested then.
    fn queues_left(&self) -> Option<Duration> {
        let now = time::now();
        let needed_at = |queue: &KnownQueue| match queue.server() {
            Server::JobWorker => match queue.needed_at(self.asked_at) {
                at if at > self.asked_at => at,
                _ => NEVER,
            },
            _ => queue.needed_at(now),
        };
        let needed = self.queues.values().map(needed_at).filter(|at| *at != NEVER);
        let looks = self.queues.values().filter_map(KnownQueue::look_left);
        needed.min().map(time::until).into_iter().chain(looks).min()
    }
}
