//! Reads the definitions of a database's queues, decides which process serves each queue, and shows an error for a
//! queue that no process can serve.
//!
//! The first rule that applies decides who serves a queue:
//! 1. A subscriber's copy is not served, because its tasks belong to the publisher.
//! 2. A queue whose code did not end is not served, see [`super::unending`].
//! 3. A restored queue is not served before its triggers exist: they and foreign keys act on changes of tasks.
//! 4. After a queue took too long, all queues of its owner are served by the owner's job worker until a pause ends.
//! 5. A queue whose changes run user code, or need statements, is served by its owner's job worker.
//! 6. All other queues are served by the database worker.

use crate::error::OrRaise;
use crate::parts::slot;
use crate::queue::{self, Queue};
use crate::server::relation::{self, LockMode, Relation};
use crate::server::xact::{self, Failure};
use crate::server::{catalog, process, spi, time, user};
use crate::upgrade::healing;
use crate::worker::job::{JobOutcome, Unfit};
use crate::worker::known::{KnownQueue, Server};
use crate::worker::prepared::PreparedCheck;
use crate::write::direct::upkeep::Upkeep;
use pgrx::pg_sys::Oid;
use std::collections::{HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use xqueue_core::pause::{Limits, Pause};

/// Retry delay for a queue whose table is locked exclusively.
const UNREAD_PAUSE: Duration = Duration::from_millis(20);
/// Pauses between checks of a queue that cannot be used, that lacks triggers or indexes, or that a job worker serves.
const PAUSES: Limits = (Duration::from_secs(5), Duration::from_secs(60));
/// Pauses before the triggers or the note of a queue are repaired again, which a writing transaction hinders.
const HEAL_PAUSES: Limits = (Duration::from_millis(20), Duration::from_secs(60));
/// How long the queues of an owner are left to its job worker after one of them took too long. The last pause is
/// forgotten when the longest pause has passed after its end.
const SLOW_PAUSES: Limits = (Duration::from_secs(5), Duration::from_secs(300));
/// Time per round for reading definitions, so that due tasks of known queues do not wait until all are read.
const READ_LIMIT: Duration = Duration::from_millis(100);

/// The definitions to be read, and when to read them.
pub struct Definitions {
    /// The database's name, for the metrics.
    name: String,
    /// The queues in the list, and whether they are a subscriber's copies.
    listed: HashMap<Oid, bool>,
    unread: HashSet<Oid>,
    again: HashMap<Oid, Again>,
    /// Owners with a queue that took too long, and how long their queues are left to job workers.
    slow: HashMap<Oid, Pause>,
    /// `READ_LIMIT` ended the last round before all definitions were read.
    has_left_some: bool,
}

/// A queue that is checked again although no change was reported.
struct Again {
    pause: Pause,
    limits: Limits,
    /// It cannot be used as a queue at present.
    is_unfit: bool,
    /// The description last read; empty if the definition has to be read again.
    queue: Weak<Queue>,
}

/// The result of reading a queue's definition.
struct Read {
    queue: Rc<Queue>,
    owner: Oid,
    server: Server,
    lacks: bool,
    is_ill: bool,
}

impl Definitions {
    /// Returns an empty list for the database `name`.
    pub fn of(name: String) -> Definitions {
        Definitions {
            name,
            listed: HashMap::new(),
            unread: HashSet::new(),
            again: HashMap::new(),
            slow: HashMap::new(),
            has_left_some: false,
        }
    }

    /// Schedules the definitions of these tables for reading, and forgets all other tables.
    pub fn list(&mut self, listed: HashMap<Oid, bool>) {
        self.again.retain(|table, _| listed.contains_key(table));
        // A dropped check constraint can have been the only reason for a job worker.
        self.again.values_mut().for_each(|again| again.queue = Weak::new());
        self.unread = listed.keys().copied().collect();
        self.listed = listed;
    }

    /// Reads definitions for at most `READ_LIMIT`, new queues first.
    pub fn read_some(
        &mut self,
        queues: &mut HashMap<Oid, KnownQueue>,
        prepared: &mut PreparedCheck,
    ) {
        let begun = Instant::now();
        self.has_left_some = false;
        let mut unread: Vec<Oid> = self.unread.iter().copied().collect();
        unread.sort_by_key(|table| queues.contains_key(table));
        for table in unread {
            if begun.elapsed() >= READ_LIMIT {
                self.has_left_some = true;
                return;
            }
            self.read(table, queues, prepared);
        }
    }

    pub fn has_left_some(&self) -> bool {
        self.has_left_some
    }

    /// Returns the time until there is a definition to read; None means wait for a report. `if_at_all`: ignores healthy
    /// queues of job workers.
    pub fn left(&self, if_at_all: bool) -> Option<Duration> {
        let is_needed = |again: &&Again| !if_at_all || again.queue.strong_count() == 0;
        let again =
            self.again.values().filter(is_needed).map(|again| again.pause.left(time::now()));
        let unread = match self.has_left_some {
            true => Some(Duration::ZERO),
            false => (!self.unread.is_empty()).then_some(UNREAD_PAUSE),
        };
        again.chain(unread).min()
    }

    /// Schedules the queues whose pause has ended. An altered table is reported. Repairs of indexes or of other objects
    /// that a definition depends on are not reported, nor are dropped checks with user code.
    pub fn look_again(&mut self) {
        let now = time::now();
        for (table, again) in &mut self.again {
            if again.pause.is_over(now) {
                // An unchanged definition makes this check cheap, so its pause does not grow.
                if again.queue.strong_count() > 0 {
                    again.pause = Pause::NONE;
                }
                again.pause.begin(now, again.limits);
                self.unread.insert(*table);
            }
        }
        let remembered = SLOW_PAUSES.1.as_micros() as i64;
        self.slow.retain(|_, pause| pause.end_at(now).saturating_add(remembered) > now);
    }

    /// Schedules a definition that was found to have changed.
    pub fn read_again(&mut self, table: Oid) {
        self.unread.insert(table);
    }

    /// Leaves the queues of an owner to its job worker, because one of them took too long.
    pub fn note_slow(&mut self, owner: Oid, queues: &mut HashMap<Oid, KnownQueue>) {
        let pause = self.slow.entry(owner).or_default();
        pause.begin(time::now(), SLOW_PAUSES);
        let is_theirs =
            |queue: &KnownQueue| queue.owner == owner && queue.server() == Server::DatabaseWorker;
        for (table, queue) in queues.iter_mut().filter(|(_, queue)| is_theirs(queue)) {
            queue.set_server(owner, Server::JobWorker);
            let again =
                Again { pause: *pause, limits: PAUSES, is_unfit: false, queue: Weak::new() };
            self.again.insert(*table, again);
        }
    }

    /// Reads the definition of a queue, if it is still listed. If the table is locked exclusively, the definition is
    /// read later: the worker does not wait.
    fn read(
        &mut self,
        table: Oid,
        queues: &mut HashMap<Oid, KnownQueue>,
        prepared: &mut PreparedCheck,
    ) {
        let Some(is_copy) = self.listed.get(&table).copied() else {
            self.unread.remove(&table);
            return;
        };
        let known = queues.get(&table);
        match xact::try_in_transaction(|| self.look_at(table, is_copy, known)) {
            Ok(JobOutcome::Busy) => return,
            Ok(JobOutcome::Done(Some(read))) => self.apply(table, &read, queues, prepared),
            Ok(_) => {}
            Err(failure) => {
                note_unfit(&self.name, table, &failure);
                self.look_later(table, PAUSES, true, Weak::new());
            }
        }
        self.unread.remove(&table);
    }

    /// Compares a queue with its definition. Returns `Done(None)` if nothing has changed.
    fn look_at(
        &self,
        table: Oid,
        is_copy: bool,
        known: Option<&KnownQueue>,
    ) -> JobOutcome<Option<Read>> {
        // The lock excludes changes of the triggers, which are reported before they become visible.
        if !queue::try_lock() || !relation::try_lock(table, LockMode::RowExclusive) {
            return JobOutcome::Busy;
        }
        let again = self.again.get(&table);
        let found = slot::find(process::database().into(), table.into());
        let settled = known.filter(|known| {
            let is_described = again.map(|again| again.queue.strong_count() > 0);
            let is_right = match known.server() {
                Server::JobWorker => is_described == Some(true),
                _ => is_described.is_none(),
            };
            is_right
                && (known.server() == Server::Publisher) == is_copy
                && found == Some(known.slot())
        });
        // Another transaction can have cleared this flag as a precaution, but the triggers are as before.
        if settled.is_some() && again.is_none() && queue::is_unchanged(table) {
            found.and_then(|slot| slot::with(slot, |slot| slot.counters.note_tracked(true)));
            return JobOutcome::Done(None);
        }
        // The indexes are opened below. A dropped table cannot be locked either, and is gone.
        if !relation::try_lock_whole(table, LockMode::RowExclusive)
            && catalog::owner_of(table).is_some()
        {
            return JobOutcome::Busy;
        }
        let queue = queue::find(table).or_raise();
        let described = again.and_then(|again| again.queue.upgrade());
        let Some((queue, (schema, name))) = queue.zip(catalog::table_name(table)) else {
            return JobOutcome::Unfit(Unfit::Gone);
        };
        if settled.is_some() && described.is_some_and(|described| Rc::ptr_eq(&described, &queue)) {
            return JobOutcome::Done(None);
        }
        let lack = queue.lack(is_copy);
        slot::with(queue.slot, |slot| {
            slot.shown.set_names([&self.name, &schema, &name]);
            slot.tubes().set_names(queue.definition.options.tubes_counted());
            slot.counters.note_tracked(queue.tracking.is_complete(is_copy));
            slot.shown().set_lack(lack.as_deref().unwrap_or_default(), time::now());
        });
        let owner = Relation::open(queue.table, LockMode::None).map(|relation| relation.owner());
        let owner = owner.unwrap_or(Oid::INVALID);
        // A job decides in the same way. Otherwise the workers would hand the queue back and forth.
        let needs_job_worker = || {
            queue.runs_user_code() || {
                let _role = user::act_restricted_as(owner);
                Upkeep::of(&queue).is_none()
            }
        };
        let server = match queue.definition.unending {
            _ if is_copy => Server::Publisher,
            true => Server::Nobody,
            false if queue.awaits_triggers().or_raise() => Server::Restore,
            false if self.is_slow(owner) || needs_job_worker() => Server::JobWorker,
            false => Server::DatabaseWorker,
        };
        let is_ill = healing::is_ill(&queue);
        JobOutcome::Done(Some(Read { queue, owner, server, lacks: lack.is_some(), is_ill }))
    }

    fn apply(
        &mut self,
        table: Oid,
        read: &Read,
        queues: &mut HashMap<Oid, KnownQueue>,
        prepared: &mut PreparedCheck,
    ) {
        let Read { queue, owner, server, lacks, is_ill } = read;
        if queues.get(&table).is_none_or(|known| known.slot() != queue.slot) {
            prepared.ask();
            // An earlier worker can have ended in the middle of its work.
            slot::with(queue.slot, |slot| slot.schedule.look_for_all());
            queues.insert(table, KnownQueue::of(queue.slot));
        }
        if let Some(known) = queues.get_mut(&table) {
            known.describe(queue);
            known.set_server(*owner, *server);
        }
        if self.again.get(&table).is_some_and(|again| again.is_unfit) {
            slot::with(queue.slot, |slot| slot.shown.clear_error());
        }
        if *is_ill && !healing::heal(table) {
            self.look_later(table, HEAL_PAUSES, false, Weak::new());
        } else if *lacks {
            self.look_later(table, PAUSES, false, Weak::new());
        } else if *server == Server::JobWorker {
            let is_slow = self.is_slow(*owner);
            let queue = if is_slow { Weak::new() } else { Rc::downgrade(queue) };
            self.look_later(table, PAUSES, false, queue);
        } else {
            self.again.remove(&table);
        }
    }

    fn is_slow(&self, owner: Oid) -> bool {
        self.slow.get(&owner).is_some_and(|pause| !pause.is_over(time::now()))
    }

    fn look_later(&mut self, table: Oid, limits: Limits, is_unfit: bool, queue: Weak<Queue>) {
        let now = time::now();
        let again = self.again.get(&table).filter(|again| again.limits == limits);
        let mut pause = again.map_or(Pause::NONE, |again| again.pause);
        if pause.is_over(now) {
            pause.begin(now, limits);
        }
        self.again.insert(table, Again { pause, limits, is_unfit, queue });
    }
}

/// Shows why a listed table cannot be used as a queue. Adds its slot if it had none.
fn note_unfit(database: &str, table: Oid, failure: &Failure) {
    let of_database = u32::from(process::database());
    let owner = xact::try_in_transaction(|| catalog::owner_of(table)).ok().flatten();
    let owner = owner.map_or(0, u32::from);
    let found = slot::find_or_add(of_database, table.into(), owner, None);
    let names = xact::try_in_transaction(|| catalog::table_name(table));
    let Some(mut slot) = found.and_then(|(slot, _)| slot::lock(slot)) else { return };
    if let Ok(Some((schema, name))) = &names {
        slot.shown.set_names([database, schema, name]);
    }
    slot.shown().set_error(&failure.message, time::now());
}

const GONE: &str =
    "NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) q.relation)";

/// Returns the tables of this database's queues, and whether each is a subscriber's copy. Deletes entries of dropped
/// tables from the registry, and slots of tables that are no longer queues.
pub fn list_queues() -> HashMap<Oid, bool> {
    spi::connect(|spi| {
        // Even a DELETE without rows reports a change of the registry to this worker.
        if !spi.run(&format!("SELECT FROM xqueue.queue q WHERE {GONE} LIMIT 1")).is_empty() {
            spi.run(&format!("DELETE FROM xqueue.queue q WHERE {GONE}"));
        }
        let rows = spi.run(
            "SELECT q.relation::pg_catalog.oid, EXISTS (SELECT FROM pg_catalog.pg_subscription_rel s \
             WHERE s.srrelid OPERATOR(pg_catalog.=) q.relation) FROM xqueue.queue q",
        );
        let table = |row| Some((rows.value(row, 1)?.to_oid(), rows.value(row, 2)?.to_bool()));
        let listed: HashMap<Oid, bool> = (0..rows.len()).filter_map(table).collect();
        let _ = remove_slots_except(&listed);
        listed
    })
}

/// Removes the slots of this database's tables that are no longer queues. `listed`: the tables of queues. Returns false if
/// a slot is left, because its table is locked.
pub fn remove_slots_except(listed: &HashMap<Oid, bool>) -> bool {
    let mut all_gone = true;
    for (slot, table) in slot::all(Some(process::database().into())) {
        let table = Oid::from(table);
        if listed.contains_key(&table) {
            continue;
        }
        match is_no_queue(table) {
            true => slot::remove(slot),
            false => all_gone = false,
        }
    }
    all_gone
}

/// Returns whether a table is no queue and is not about to become one. A transaction that makes it a queue, even a
/// prepared one, has it locked.
fn is_no_queue(table: Oid) -> bool {
    relation::try_lock(table, LockMode::RowExclusive) && matches!(queue::read(table), Ok(None))
}
