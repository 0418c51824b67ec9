//! The worker of a database: promotes tasks whose delay is over, gives back those of sessions that
//! have ended, keeps the counters exact.

use super::job::{self, Batch, Outcome};
use super::recounter::{self, Recounted};
use crate::delta::SlotId;
use crate::model::status::Call;
use crate::pg::relation::{self, Lock};
use crate::pg::transaction::{self, Failure};
use crate::pg::{callbacks, catalog, latch, process, spi, time, types, worker};
use crate::registry::{self, Queue, Statement};
use crate::shmem::databases::{self, Requests};
use crate::shmem::queues::{self, NEVER};
use crate::shmem::sessions;
use pgrx::pg_sys::{self, Datum, Oid};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// With tasks waiting the clock is looked at so often at least, as somebody may set it.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// How often consumers that wait beside ready tasks are woken once more. They should not be there;
/// someone may have had the task's row locked for reasons of his own.
const NUDGE_INTERVAL: Duration = Duration::from_secs(1);
/// Before the next try on a table or row that somebody has locked.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// Before the next try on a queue that has failed: doubled each time, up to a limit.
const FAILURE_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[unsafe(no_mangle)]
#[pgrx::pg_guard]
pub extern "C-unwind" fn xqueue_database_main(argument: pg_sys::Datum) {
    let database = argument.value() as u32;
    if !databases::register_worker(database) {
        return;
    }
    callbacks::at_exit(leave_on_exit);
    worker::handle_signals();
    worker::connect(Some(database));
    let mut worker = Worker::of(database);
    while let Some(requests) = databases::take_requests(database) {
        worker::reload_settings();
        if requests.registry && !worker.reload() {
            databases::unregister_worker(database, false);
            return;
        }
        worker.work(requests);
        worker::report_idle();
        latch::wait(worker.pause(), false);
    }
}

/// The launcher is to start another one, unless `unregister_worker` has been called before.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn leave_on_exit(_code: i32, _argument: Datum) {
    databases::unregister_worker(u32::from(process::database()), true);
}

struct Worker {
    database: u32,
    /// The database's name, for the metrics.
    name: String,
    queues: HashMap<Oid, Care>,
    /// Tables of queues that have to be looked at, and whether they are a subscriber's copies.
    unread: HashMap<Oid, bool>,
    /// A prepared transaction has ended, or a queue is new here and may have been changed by one.
    looks_for_prepared: bool,
    nudged: Instant,
}

/// What the worker has to do for a queue, beyond what the shared slot says.
struct Care {
    slot: SlotId,
    /// Sessions that have ended and may have left tasks.
    ended: Vec<[u8; 16]>,
    /// All taken tasks have to be compared with the live sessions.
    sweep: bool,
    /// Not before this.
    retry_at: Option<Instant>,
    failures: u32,
    /// The table is a subscriber's copy: its tasks belong to another server.
    passive: bool,
}

impl Worker {
    fn of(database: u32) -> Worker {
        let name = transaction::try_in_transaction(|| catalog::database_name(process::database()));
        Worker {
            database,
            name: name.unwrap_or_default(),
            queues: HashMap::new(),
            unread: HashMap::new(),
            looks_for_prepared: true,
            nudged: Instant::now(),
        }
    }

    /// Reads the list of queues. False if the extension is gone.
    fn reload(&mut self) -> bool {
        let listed = transaction::try_in_transaction(|| catalog::is_installed().then(list_queues));
        match listed {
            Ok(Some(listed)) => {
                self.queues.retain(|table, _| listed.contains_key(table));
                self.unread = listed;
                true
            }
            Ok(None) => false,
            Err(failure) => {
                pgrx::warning!("xqueue: cannot read the list of queues: {}", failure.message);
                databases::request(self.database, |requests| requests.registry = true);
                true
            }
        }
    }

    /// Looks at the queues that have been listed. One whose table somebody has for himself is
    /// looked at later: nobody waits here.
    fn read_definitions(&mut self) {
        let name = &self.name;
        let queues = &mut self.queues;
        let looks_for_prepared = &mut self.looks_for_prepared;
        self.unread.retain(|table, passive| {
            let read = transaction::try_in_transaction(|| {
                if !relation::try_lock(*table, Lock::AccessShare) {
                    return Outcome::Busy;
                }
                let queue = registry::find(*table).ok().flatten();
                match queue.zip(catalog::table_name(*table)) {
                    Some((queue, (schema, table))) => {
                        if let Some(mut slot) = queues::lock(queue.slot) {
                            slot.set_names([name, &schema, &table]);
                        }
                        Outcome::Done(queue.slot)
                    }
                    None => Outcome::Gone,
                }
            });
            if let Ok(Outcome::Done(slot)) = read {
                let known = queues.get(table).is_some_and(|care| care.slot == slot);
                if !known {
                    queues.insert(*table, Care::of(slot));
                    *looks_for_prepared = true;
                }
                if let Some(care) = queues.get_mut(table) {
                    care.passive = *passive;
                }
            }
            matches!(read, Ok(Outcome::Busy))
        });
    }

    fn work(&mut self, requests: Requests) {
        if !self.unread.is_empty() {
            self.read_definitions();
        }
        let ended = sessions::drain_ended(self.database);
        if requests.prepared {
            self.looks_for_prepared = true;
        }
        let unsettled = self.look_for_prepared();
        for (table, care) in &mut self.queues {
            care.sweep |= requests.sweep;
            if !ended.is_empty() && queues::lock(care.slot).is_some_and(|slot| slot.has_taken()) {
                care.ended.extend(&ended);
            }
            if care.retry_at.is_none_or(|at| Instant::now() >= at) {
                care.retry_at = None;
                care.give_back(*table);
                care.promote(*table);
                care.recount(*table, self.database, unsettled.contains(table));
            }
        }
        if self.nudged.elapsed() >= NUDGE_INTERVAL {
            self.nudged = Instant::now();
            for care in self.queues.values() {
                if let Some(mut slot) = queues::lock(care.slot) {
                    slot.wake_for_ready();
                }
            }
        }
    }

    /// Finds the queues whose tables prepared transactions have locked; the others' counters can be
    /// exact again.
    fn look_for_prepared(&mut self) -> HashSet<Oid> {
        if !std::mem::take(&mut self.looks_for_prepared) {
            return HashSet::new();
        }
        let marked = |care: &&Care| queues::lock(care.slot).is_some_and(|slot| slot.is_prepared());
        let marked: Vec<&Care> = self.queues.values().filter(marked).collect();
        if marked.is_empty() {
            return HashSet::new();
        }
        // The mark is cleared before the locks are looked at: who prepares meanwhile sets it again.
        for care in &marked {
            if let Some(mut slot) = queues::lock(care.slot) {
                slot.clear_prepared();
                // What was prepared is visible now; it has woken nobody.
                slot.wake(u32::MAX);
                slot.lower_due(i64::MIN);
            }
        }
        let locked = transaction::try_in_transaction(locked_by_prepared).unwrap_or_default();
        for table in &locked {
            if let Some(mut slot) = self.queues.get(table).and_then(|care| queues::lock(care.slot))
            {
                slot.mark_prepared();
            }
        }
        locked
    }

    /// How long there is nothing to do; None: until somebody says so.
    fn pause(&self) -> Option<Duration> {
        let mut pause: Option<Duration> = None;
        let mut at_most =
            |limit: Duration| pause = Some(pause.map_or(limit, |pause| pause.min(limit)));
        if !self.unread.is_empty() {
            at_most(BUSY_PAUSE);
        }
        for care in self.queues.values() {
            let Some(slot) = queues::lock(care.slot) else { continue };
            let due = slot.due();
            let beside_ready = slot.has_consumers() && slot.has_ready();
            let recount = slot.needs_recount();
            drop(slot);
            if beside_ready {
                at_most(NUDGE_INTERVAL);
            }
            match care.retry_at {
                Some(at) => at_most(at.saturating_duration_since(Instant::now())),
                None if care.sweep || !care.ended.is_empty() || recount => at_most(BUSY_PAUSE),
                None if due == NEVER || care.passive => {}
                None => {
                    let left = due.saturating_sub(time::now()).max(0) as u64;
                    at_most(Duration::from_micros(left).min(CLOCK_INTERVAL));
                }
            }
        }
        pause
    }
}

impl Care {
    fn of(slot: SlotId) -> Care {
        Care { slot, ended: vec![], sweep: true, retry_at: None, failures: 0, passive: false }
    }

    /// Gives back what ended sessions had taken.
    fn give_back(&mut self, table: Oid) {
        if self.passive {
            return;
        }
        if self.sweep {
            let found = self.settle(job::run(table, |queue| {
                let holders = holders(queue);
                ownerless(queue, holders.contains(&None));
                holders.into_iter().flatten().collect::<Vec<_>>()
            }));
            let Some(holders) = found else { return };
            self.sweep = false;
            self.ended.extend(sessions::not_live(holders));
        }
        while !self.ended.is_empty() {
            let ended = self.ended.clone();
            let batch = |queue: &Queue| reap(queue, &ended).run();
            match self.settle(run_batch(table, batch, |queue| reap(queue, &ended).run_each())) {
                Some(0) => return self.confirm_given_back(table),
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Tasks whose rows somebody has locked were passed over: they are looked for again.
    fn confirm_given_back(&mut self, table: Oid) {
        let ended = self.ended.clone();
        let left = self.settle(job::run(table, |queue| {
            let holders: HashSet<_> = holders(queue).into_iter().flatten().collect();
            ended.into_iter().filter(|uuid| holders.contains(uuid)).collect::<Vec<_>>()
        }));
        if let Some(left) = left {
            self.ended = left;
            if !self.ended.is_empty() {
                self.retry_at = Some(Instant::now() + BUSY_PAUSE);
            }
        }
    }

    /// Makes tasks ready whose delay is over: one batch, then it is the next queue's turn.
    fn promote(&mut self, table: Oid) {
        let now = time::now();
        let is_due = queues::lock(self.slot).is_some_and(|slot| slot.due() <= now);
        if !is_due || self.passive || self.retry_at.is_some() {
            return;
        }
        if let Some(mut slot) = queues::lock(self.slot) {
            slot.forget_due();
        }
        let batch = |queue: &Queue| match queue.is_delayed() {
            true => (promotion(queue, now).run(), next_due(queue)),
            false => (0, None),
        };
        let each = |queue: &Queue| {
            let (changed, failure) = promotion(queue, now).run_each();
            ((changed, next_due(queue)), failure)
        };
        let outcome = self.settle(run_batch(table, batch, each));
        let Some(mut slot) = queues::lock(self.slot) else { return };
        match outcome {
            Some((promoted, next)) => {
                if let Some(next) = next {
                    slot.lower_due(next);
                    if promoted == 0 && next <= now && self.retry_at.is_none() {
                        self.retry_at = Some(Instant::now() + BUSY_PAUSE);
                    }
                }
            }
            // Nobody knows when: it is looked up at the next try.
            None => {
                slot.lower_due(i64::MIN);
            }
        }
    }

    /// Counts the tasks anew if that is needed: small tables here, large ones elsewhere.
    fn recount(&mut self, table: Oid, database: u32, unsettled: bool) {
        let needed = queues::lock(self.slot).is_some_and(|slot| slot.needs_recount());
        if !needed || unsettled {
            return;
        }
        match recounter::recount(table, Some(recounter::PAGES_COUNTED_BY_WORKER)) {
            Recounted::Done => return,
            Recounted::TooLarge => recounter::start(database),
            Recounted::Later => {}
        }
        self.retry_at = Some(Instant::now() + BUSY_PAUSE);
    }

    /// The result of a job; a failure is noted and delays the next try.
    fn settle<T>(&mut self, outcome: Result<Outcome<T>, Failure>) -> Option<T> {
        match outcome {
            Ok(Outcome::Done(value)) => {
                if self.failures > 0 {
                    self.failures = 0;
                    if let Some(mut slot) = queues::lock(self.slot) {
                        slot.clear_error();
                    }
                }
                Some(value)
            }
            Ok(Outcome::Busy) => {
                self.retry_at = Some(Instant::now() + BUSY_PAUSE);
                None
            }
            Ok(Outcome::Gone) => {
                self.retry_at = Some(Instant::now() + LONGEST_PAUSE);
                None
            }
            Err(failure) => {
                let pause = FAILURE_PAUSE.saturating_mul(1 << self.failures.min(10));
                self.failures += 1;
                self.retry_at = Some(Instant::now() + pause.min(LONGEST_PAUSE));
                if let Some(mut slot) = queues::lock(self.slot) {
                    slot.set_error(&failure.message);
                }
                None
            }
        }
    }
}

/// Runs a batch; if it fails, the tasks one by one, so that one that cannot be changed holds up no
/// others. Its failure is then the outcome's, after the others have been changed.
fn run_batch<T>(
    table: Oid,
    batch: impl FnOnce(&Queue) -> T,
    each: impl FnOnce(&Queue) -> (T, Option<Failure>),
) -> Result<Outcome<T>, Failure> {
    let failure = match job::run(table, |queue| batch(queue)) {
        Err(failure) if !failure.canceled => failure,
        outcome => return outcome,
    };
    match job::run(table, |queue| each(queue))? {
        Outcome::Done((value, None)) => Ok(Outcome::Done(value)),
        Outcome::Done((_, Some(last))) => Err(last),
        Outcome::Busy => Err(failure),
        Outcome::Gone => Ok(Outcome::Gone),
    }
}

fn promotion(queue: &Queue, now: i64) -> Batch<'_> {
    let arguments = vec![Some(Datum::from(now))];
    Batch { queue, statement: Statement::Promote, arguments, call: Call::Delay }
}

fn reap<'a>(queue: &'a Queue, sessions: &[[u8; 16]]) -> Batch<'a> {
    let arguments = vec![Some(types::from_uuids(sessions))];
    Batch { queue, statement: Statement::Reap, arguments, call: Call::Session }
}

/// Tasks that are taken by no session at all, as after an UPDATE by hand before a restart.
fn ownerless(queue: &Queue, any: bool) {
    let batch = Batch {
        queue,
        statement: Statement::ReapOwnerless,
        arguments: vec![],
        call: Call::Session,
    };
    while any && batch.run() > 0 {}
}

fn next_due(queue: &Queue) -> Option<i64> {
    spi::connect(|spi| {
        let rows = spi.run_plan(&queue.plan(spi, Statement::NextDue), &[]);
        rows.datum(0, 1).map(types::timestamp)
    })
}

fn holders(queue: &Queue) -> Vec<Option<[u8; 16]>> {
    spi::connect(|spi| {
        let rows = spi.run_plan(&queue.plan(spi, Statement::Holders), &[]);
        (0..rows.len()).map(|row| rows.datum(row, 1).map(types::uuid)).collect()
    })
}

/// The tables of this database's queues, and whether they are a subscriber's copies. What the
/// registry says of tables that are gone is deleted.
fn list_queues() -> HashMap<Oid, bool> {
    spi::connect(|spi| {
        spi.run(
            "DELETE FROM xqueue.queue q WHERE NOT EXISTS \
             (SELECT FROM pg_catalog.pg_class c WHERE c.oid = q.relation)",
        );
        let rows = spi.run(
            "SELECT q.relation::pg_catalog.oid, EXISTS (SELECT FROM pg_catalog.pg_subscription_rel s \
             WHERE s.srrelid = q.relation) FROM xqueue.queue q",
        );
        let table = |row| Some((types::oid(rows.datum(row, 1)?), rows.datum(row, 2)?.value() != 0));
        (0..rows.len()).filter_map(table).collect()
    })
}

/// The tables that prepared transactions have locked.
fn locked_by_prepared() -> HashSet<Oid> {
    spi::connect(|spi| {
        let rows = spi.run(
            "SELECT DISTINCT l.relation FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d \
             ON d.oid = l.database AND d.datname = pg_catalog.current_database() \
             WHERE l.locktype = 'relation' AND l.pid IS NULL",
        );
        (0..rows.len()).filter_map(|row| rows.datum(row, 1).map(types::oid)).collect()
    })
}
