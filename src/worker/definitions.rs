//! The definitions of a database's queues, as its worker reads them: what it does for a queue, and what it shows of one that
//! it can do nothing for.

use crate::error::OrRaise;
use crate::parts::slot;
use crate::queue::{self, Queue};
use crate::server::relation::{self, Lock, Relation};
use crate::server::xact::{self, Failure};
use crate::server::{catalog, process, spi};
use crate::worker::healing;
use crate::worker::job::Outcome;
use crate::worker::maintenance::QueueMaintenance;
use crate::worker::prepared::Prepared;
use pgrx::pg_sys::Oid;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

/// Retry delay for a queue whose table is locked exclusively.
const UNREAD_PAUSE: Duration = Duration::from_millis(20);
/// Before the next look at a queue that cannot be worked with, or that has lost triggers or indexes.
const UNFIT_PAUSE: Duration = Duration::from_secs(5);

/// Which definitions have to be read, and when.
pub struct Definitions {
    /// The database's name, for the metrics.
    name: String,
    /// Tables of queues that have to be looked at, and whether they are a subscriber's copies.
    unread: HashMap<Oid, bool>,
    /// The same for tables that cannot be used as queues at present, and when to look again.
    unfit: HashMap<Oid, (bool, Instant)>,
    /// The same for tables that have lost triggers or indexes.
    lacking: HashMap<Oid, (bool, Instant)>,
    /// The same for tables whose changes run code of users, as they were last described. They are looked at when there is
    /// another round anyway.
    user_code: HashMap<Oid, (bool, Instant, Weak<Queue>)>,
    /// The time of the last round did not suffice for all.
    has_left_some: bool,
    /// The worker before this one has left nothing that has to be looked for, in queues that are read for the first time.
    resumes: bool,
}

impl Definitions {
    /// `name`: the database's.
    pub fn of(name: String, resumes: bool) -> Definitions {
        Definitions {
            name,
            unread: HashMap::new(),
            unfit: HashMap::new(),
            lacking: HashMap::new(),
            user_code: HashMap::new(),
            has_left_some: false,
            resumes,
        }
    }

    /// Has the definitions of these tables read, and forgets others.
    pub fn list(&mut self, listed: HashMap<Oid, bool>) {
        self.unfit.retain(|table, _| listed.contains_key(table));
        self.lacking.retain(|table, _| listed.contains_key(table));
        self.user_code.clear();
        self.unread = listed;
    }

    /// Returns the tables that have to be looked at: those that are not known before the others.
    pub fn unread(&mut self, queues: &HashMap<Oid, QueueMaintenance>) -> Vec<Oid> {
        self.has_left_some = false;
        let (known, mut unread): (Vec<Oid>, Vec<Oid>) =
            self.unread.keys().partition(|table| queues.contains_key(table));
        unread.extend(known);
        unread
    }

    /// Notes that what has not been read is left to the next round.
    pub fn leave_rest(&mut self) {
        self.has_left_some = true;
    }

    /// Once all has been read, a queue that is read for the first time is new.
    pub fn end_round(&mut self) {
        self.resumes &= !self.unread.is_empty();
    }

    pub fn is_all_read(&self) -> bool {
        self.unread.is_empty()
    }

    pub fn has_left_some(&self) -> bool {
        self.has_left_some
    }

    /// Returns when to look again at what cannot be worked with.
    pub fn look_again_at(&self) -> impl Iterator<Item = Instant> {
        self.unfit.values().chain(self.lacking.values()).map(|(_, again)| *again)
    }

    /// Returns the time until there is something to read; None while all has been.
    pub fn pause(&self) -> Option<Duration> {
        match self.has_left_some {
            true => Some(Duration::ZERO),
            false => (!self.unread.is_empty()).then_some(UNREAD_PAUSE),
        }
    }

    /// Reads the definition of a queue, unless that has been done. One whose table is locked exclusively is read later: the
    /// worker does not wait. Returns whether its table is known to be counted apart.
    pub fn read(
        &mut self,
        table: Oid,
        queues: &mut HashMap<Oid, QueueMaintenance>,
        prepared: &mut Prepared,
    ) -> bool {
        let Some(is_copy) = self.unread.get(&table).copied() else { return false };
        let mut counts_apart = false;
        let of_database = u32::from(process::database());
        let is_settled = queues.get(&table).is_some_and(|maintenance| {
            maintenance.is_passive() == is_copy
                && slot::find(of_database, table.into()) == Some(maintenance.slot)
        }) && !self.unfit.contains_key(&table)
            && !self.lacking.contains_key(&table);
        let read = xact::try_in_transaction(|| {
            // The lock excludes changes of the triggers, which are reported before they are visible.
            if !queue::try_lock() || !relation::try_lock(table, Lock::RowExclusive) {
                return Outcome::Busy;
            }
            // Another transaction may have set this aside in doubt; the table has its triggers as before.
            if is_settled && queue::is_unchanged(table) {
                let slot = queues.get(&table).and_then(|maintenance| slot::lock(maintenance.slot));
                if let Some(mut slot) = slot {
                    slot.find_tracked(true);
                }
                return Outcome::Done(None);
            }
            let queue = queue::find(table).or_raise();
            let looked = self.user_code.get(&table).and_then(|(.., looked)| looked.upgrade());
            let pair = looked.zip(queue.as_ref()).filter(|_| is_settled);
            if pair.is_some_and(|(looked, queue)| Rc::ptr_eq(&looked, queue)) {
                return Outcome::Done(None);
            }
            match queue.zip(catalog::table_name(table)) {
                Some((queue, (schema, name))) => {
                    let lack = queue.lack(is_copy);
                    if let Some(mut slot) = slot::lock(queue.slot) {
                        slot.set_names([&self.name, &schema, &name]);
                        slot.set_tube_names(queue.definition.options.tubes_counted());
                        slot.find_tracked(queue.tracking.is_complete(is_copy));
                        slot.set_lack(lack.as_deref().unwrap_or_default());
                    }
                    let owner = Relation::open(queue.table, Lock::None).map(|t| t.owner());
                    let runs_user_code = queue.runs_user_code();
                    let owner = owner.unwrap_or(Oid::INVALID);
                    let is_ill = healing::is_ill(&queue);
                    Outcome::Done(Some((queue, owner, runs_user_code, lack.is_some(), is_ill)))
                }
                None => Outcome::Gone,
            }
        });
        if let Ok(Outcome::Done(Some((queue, owner, runs_user_code, lacks, is_ill)))) = &read {
            let known =
                queues.get(&table).is_some_and(|maintenance| maintenance.slot == queue.slot);
            if !known {
                let mut maintenance = QueueMaintenance::of(queue.slot);
                // That a policy shows more tasks than before is not reported.
                if self.resumes && !queue.has_row_security {
                    maintenance.resume();
                } else {
                    prepared.ask();
                    // A worker before this one may have been ended in the middle of what was due.
                    if let Some(mut slot) = slot::lock(queue.slot) {
                        slot.lower_due(i64::MIN);
                    }
                }
                queues.insert(table, maintenance);
                counts_apart = slot::lock(queue.slot).is_some_and(|slot| slot.counts_apart());
            }
            if let Some(maintenance) = queues.get_mut(&table) {
                maintenance.set_passive(is_copy, queue.definition.unending);
                maintenance.set_owner(*owner, *runs_user_code);
                maintenance.set_row_security(queue.has_row_security);
                maintenance.set_tracked(queue.is_tracked);
            }
            if *runs_user_code {
                let again = Instant::now() + UNFIT_PAUSE;
                self.user_code.insert(table, (is_copy, again, Rc::downgrade(queue)));
            } else {
                self.user_code.remove(&table);
            }
            let is_healed = !is_ill || healing::heal(table);
            if *lacks || !is_healed {
                self.lacking.insert(table, (is_copy, Instant::now() + UNFIT_PAUSE));
            } else {
                self.lacking.remove(&table);
            }
        }
        match &read {
            Ok(Outcome::Busy) => {}
            Ok(Outcome::Done(Some((queue, ..)))) if self.unfit.remove(&table).is_some() => {
                if let Some(mut slot) = slot::lock(queue.slot) {
                    slot.clear_error();
                }
            }
            Ok(_) => drop(self.unfit.remove(&table)),
            Err(failure) => {
                note_unfit(&self.name, table, failure);
                self.unfit.insert(table, (is_copy, Instant::now() + UNFIT_PAUSE));
            }
        }
        if !matches!(read, Ok(Outcome::Busy)) {
            self.unread.remove(&table);
        }
        counts_apart
    }

    /// An altered table is reported; other objects that a definition depends on, and indexes, may be repaired unreported, and a
    /// check that was code of users be dropped.
    pub fn look_at_unfit(&mut self) {
        let now = Instant::now();
        let user_code = self.user_code.iter_mut();
        let user_code = user_code.map(|(table, (is_copy, again, _))| (table, is_copy, again));
        let others = self.unfit.iter_mut().chain(&mut self.lacking);
        let others = others.map(|(table, (is_copy, again))| (table, is_copy, again));
        for (table, is_copy, again) in others.chain(user_code) {
            if *again <= now {
                *again = now + UNFIT_PAUSE;
                self.unread.insert(*table, *is_copy);
            }
        }
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
pub fn list_queues() -> HashMap<Oid, bool> {
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
        for (slot, table) in slot::all(Some(process::database().into())) {
            let table = Oid::from(table);
            if !listed.contains_key(&table) && is_no_queue(table) {
                slot::remove(slot);
            }
        }
        listed
    })
}

/// Returns whether a table is no queue, and is not about to be one: who makes it one, prepared or not, has it locked.
fn is_no_queue(table: Oid) -> bool {
    relation::try_lock(table, Lock::RowExclusive) && matches!(queue::read(table), Ok(None))
}
