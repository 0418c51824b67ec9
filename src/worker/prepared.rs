//! Queues that prepared transactions have changed. When these transactions end, the counters can become exact again.
//! The command that ends a prepared transaction notifies the worker. Other transactions can still be in the way, so the
//! worker also checks unasked, at growing intervals.
//!
//! Settling a queue prevents two races:
//! 1. PREPARE meanwhile: the mark is cleared before the locks are read, so a PREPARE in between sets it again.
//! 2. COMMIT PREPARED meanwhile: consumers are woken after the locks are read. Changes whose locks are gone are
//!    visible, but have woken no consumer. An earlier wake-up would miss a transaction that ends in between.

use crate::parts::slot;
use crate::server::value::Value;
use crate::server::{catalog, injection, spi, time, xact};
use crate::worker::known::KnownQueue;
use pgrx::pg_sys::Oid;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use xqueue_core::pause::{Limits, Pause};
use xqueue_core::slot_id::SlotId;

/// Pauses between checks while a queue is unsettled.
const PAUSES: Limits = (Duration::from_secs(1), Duration::from_secs(30));

/// When to check next.
#[derive(Default)]
pub struct PreparedCheck {
    /// A prepared transaction has ended, or a queue is new to this worker and a prepared transaction can have changed
    /// it.
    asked: bool,
    /// Pause before the next unasked check; None while all queues are settled.
    pause: Option<Pause>,
}

impl PreparedCheck {
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// Returns the time until the next unasked check; None means wait for a notification.
    pub fn left(&self) -> Option<Duration> {
        self.pause.map(|pause| pause.left(time::now()))
    }

    /// Returns the time until a worker is needed without a notification: the longest pause.
    pub fn rest(&self) -> Option<Duration> {
        self.pause.map(|_| PAUSES.1)
    }

    /// If a check is due, finds the queues whose tables prepared transactions have changed. The counters of the others
    /// can become exact again.
    pub fn look(&mut self, queues: &HashMap<Oid, KnownQueue>) -> HashSet<Oid> {
        let asked = std::mem::take(&mut self.asked);
        if !asked && self.left().is_none_or(|left| !left.is_zero()) {
            return HashSet::new();
        }
        let slots = queues.iter().map(|(table, queue)| (*table, queue.slot()));
        let mut marked: Vec<(Oid, SlotId)> = slots.filter(|(_, slot)| is_marked(*slot)).collect();
        // Settling a queue wakes all its waiting consumers. So an unasked check tries only queues that can be settled.
        let mut unsettled = if asked { HashSet::new() } else { changed_among(&marked) };
        marked.retain(|(table, _)| !unsettled.contains(table));
        if !marked.is_empty() {
            unsettled.extend(settle(marked));
        }
        let mut pause = self.pause.filter(|_| !asked).unwrap_or_default();
        pause.begin(time::now(), PAUSES);
        self.pause = (!unsettled.is_empty()).then_some(pause);
        unsettled
    }
}

fn is_marked(slot: SlotId) -> bool {
    slot::lock(slot).is_some_and(|slot| slot.prepared.is_possible())
}

/// Settles the queues whose tables no prepared transaction has changed, and returns the others.
fn settle(marked: Vec<(Oid, SlotId)>) -> HashSet<Oid> {
    // Cleared before the locks are read (race 1).
    let mut reserved = Vec::with_capacity(marked.len());
    for (table, slot) in &marked {
        if let Some(mut queue) = slot::lock(*slot) {
            reserved.push((*table, *slot, queue.prepared().begin_search()));
        }
    }
    injection::point(c"xqueue-prepared-are-looked-for");
    let changed = changed_among(&marked);
    let owners = owners_among(marked.iter().filter(|(table, _)| !changed.contains(table)));
    for (table, slot, room) in reserved {
        let is_changed = changed.contains(&table);
        if let Some(mut queue) = slot::lock(slot) {
            // Woken after the locks were read (race 2).
            queue.waiters().recheck();
            queue.schedule.lower_due(i64::MIN);
            match is_changed {
                true => queue.prepared().found(),
                false => queue.prepared().found_none(room),
            }
            if let Some(owner) = owners.get(&table) {
                queue.prepared().resolve_owner((*owner).into());
            }
            if !is_changed {
                // A prepared transaction can have given tasks to sessions that have ended since.
                queue.schedule.ask_for_sweep();
            }
        }
    }
    changed
}

/// Returns the current owners of the tables whose owner a prepared transaction can have changed.
fn owners_among<'a>(tables: impl Iterator<Item = &'a (Oid, SlotId)>) -> HashMap<Oid, Oid> {
    let is_given = |slot| slot::lock(slot).is_some_and(|slot| slot.table.has_prepared_owner());
    let given: Vec<Oid> =
        tables.filter(|(_, slot)| is_given(*slot)).map(|(table, _)| *table).collect();
    if given.is_empty() {
        return HashMap::new();
    }
    let owner = |table: Oid| Some((table, catalog::owner_of(table)?));
    let owners = xact::try_in_transaction(|| given.into_iter().filter_map(owner).collect());
    owners.unwrap_or_default()
}

/// Returns the tables that prepared transactions have changed; all of them if this cannot be read.
fn changed_among(tables: &[(Oid, SlotId)]) -> HashSet<Oid> {
    if tables.is_empty() {
        return HashSet::new();
    }
    let changed = xact::try_in_transaction(changed_by_prepared);
    let is_changed = |table: &Oid| changed.as_ref().map_or(true, |changed| changed.contains(table));
    tables.iter().map(|(table, _)| *table).filter(is_changed).collect()
}

/// Returns the tables on which prepared transactions hold a lock that a change needs. Predicate locks are left out:
/// those of serializable transactions have no process either, and outlast COMMIT PREPARED while overlapping
/// transactions are open.
fn changed_by_prepared() -> HashSet<Oid> {
    spi::connect(|spi| {
        let rows = spi.run(
            "SELECT DISTINCT l.relation FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d \
             ON d.oid OPERATOR(pg_catalog.=) l.database \
             AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() \
             WHERE l.locktype OPERATOR(pg_catalog.=) 'relation' AND l.pid IS NULL \
             AND l.mode OPERATOR(pg_catalog.<>) ALL (ARRAY['SIReadLock', 'AccessShareLock', 'RowShareLock'])",
        );
        (0..rows.len()).filter_map(|row| rows.value(row, 1).map(Value::to_oid)).collect()
    })
}
