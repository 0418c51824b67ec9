//! Counts the tasks of a queue, usually while other sessions change them, see [`crate::parts::counters::recount`].

use crate::parts::counters::recount;
use crate::parts::schedule::requests;
use crate::parts::slot::{self, QueueGuard};
use crate::queue::{self, Queue};
use crate::server::memory::Scratch;
use crate::server::relation::{self, LockMode, Relation};
use crate::server::row::Tuple;
use crate::server::snapshot::{LatestSnapshot, Snapshot};
use crate::server::{injection, latch, process, spi};
use crate::transaction;
use std::cell::Cell;
use std::time::{Duration, Instant};
use xqueue_core::change::Counts;
use xqueue_core::field::Field;
use xqueue_core::slot_id::SlotId;

/// Maximum wait of a session that needs an exclusive lock on a relation that the recount has locked.
const LOCK_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Longest value, in bytes, that a brief recount reads.
const LONGEST_READ_BRIEFLY: usize = 1 << 20;
/// Size in pages up to which a new queue's table is counted in the same transaction. The worker counts larger tables,
/// without a lock.
const PAGES_COUNTED_AT_ONCE: u32 = 1000;

/// The reason for a recount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecountPurpose {
    /// Compare the counters with the table.
    Check,
    /// Replace the counters by the result.
    Renew,
    /// Replace the counters by the result, unless a row takes long to read.
    RenewBriefly,
}

/// The reason why a recount has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The queue no longer exists, a session waits for a lock that the recount holds, or the counters are being
    /// renewed.
    InTheWay,
    /// Reading one of the rows would take long.
    TooLong,
}

/// The result of a recount.
pub struct Counted {
    pub counts: Counts,
    /// Locked, so that no change intervenes before the caller applies the result.
    pub slot: QueueGuard,
}

/// Asks the worker to recount this queue before others, if it needs a recount.
pub fn hasten(slot: SlotId) {
    let hastens = |mut slot: QueueGuard| {
        slot.counters.is_recount_requested() && slot.counters.await_recount()
    };
    if slot::lock(slot).is_some_and(hastens) {
        requests::request(process::database().into(), |_| {});
    }
}

/// Counts the tasks of a new queue; None if its table is too large. The caller's lock excludes writers.
pub fn count_new(queue: &Queue) -> Option<Counts> {
    let relation = Relation::open(queue.table, LockMode::None)?;
    if relation.pages() > PAGES_COUNTED_AT_ONCE {
        return None;
    }
    let mut counts = Counts::default();
    relation.scan(&Snapshot::latest(), |row| {
        if let Ok(place) = queue.place_of(row) {
            counts.count(place);
        }
        true
    });
    if let Some(mut slot) = slot::lock(queue.slot) {
        let reserved = slot.prepared().begin_search();
        slot.prepared().found_none(reserved);
    }
    Some(counts)
}

/// Counts the tasks of a queue. The caller holds AccessShareLock on the table.
pub fn count(queue: &Queue, purpose: RecountPurpose) -> Result<Counted, Stopped> {
    use Stopped::{InTheWay, TooLong};
    let renews = purpose != RecountPurpose::Check;
    if !renews {
        relation::lock_for_check(queue.table);
    }
    let relation = Relation::open(queue.table, LockMode::AccessShare).ok_or(InTheWay)?;
    let latest = LatestSnapshot::prepare();
    let may_begin = renews || transaction::pending(queue.slot).counters.replaces;
    let mut slot = slot::lock(queue.slot).ok_or(InTheWay)?;
    // A check must not replace a recount that renews the counters.
    if !may_begin && !slot.counters.is_exact() {
        return Err(InTheWay);
    }
    let is_current = slot.table.redefinitions() == queue.redefinitions;
    let (number, snapshot) = slot.counters().begin_recount(latest, renews);
    drop(slot);
    let snapshot = snapshot.register();
    injection::point(c"xqueue-recount-has-begun");
    // The set of counted tubes can have changed since the queue was looked up. A later change requests another recount.
    let anew = match is_current {
        true => None,
        false => Some(queue::find_anew(queue.table).ok().flatten().ok_or(InTheWay)?),
    };
    let queue = anew.as_deref().unwrap_or(queue);
    let mut counts = Counts::default();
    let checked = Cell::new(Instant::now());
    let goes_on = || {
        // Reading a value can take long, for example if it must be decompressed.
        process::serve_interrupts();
        if !renews || checked.get().elapsed() < LOCK_CHECK_INTERVAL {
            return true;
        }
        checked.set(Instant::now());
        !is_waited_for()
    };
    let mut is_too_long = false;
    let scratch = Scratch::new();
    let see = |row: &Tuple| {
        is_too_long = purpose == RecountPurpose::RenewBriefly && is_long(queue, row);
        if is_too_long {
            return false;
        }
        // A row whose value stands for no state is not counted.
        if let Ok(place) = scratch.run(|| queue.place_of(row)) {
            counts.count(place);
        }
        goes_on()
    };
    let pause = || {
        injection::point(c"xqueue-recount-goes-on");
        goes_on()
    };
    let complete = relation.scan_in_parts(&snapshot, see, pause);
    drop(relation);
    if !complete {
        return Err(if is_too_long { TooLong } else { InTheWay });
    }
    while recount::is_ahead(&snapshot) {
        latch::wait(latch::Reason::Other, Some(Duration::from_millis(1)), false);
    }
    drop(snapshot);
    let mut slot = slot::lock(queue.slot).ok_or(InTheWay)?;
    let counts = slot.counters().end_recount(number, counts).ok_or(InTheWay)?;
    Ok(Counted { counts, slot })
}

/// Returns whether a row's state or tube can take long to read.
fn is_long(queue: &Queue, row: &Tuple) -> bool {
    let is_long = |field| {
        queue.value_of(row, field).is_some_and(|value| value.length() > LONGEST_READ_BRIEFLY)
    };
    is_long(Field::Status) || is_long(Field::Tube)
}

/// Returns whether a session waits for a relation that this process has locked: the table, an index of it, its TOAST
/// table, the registry or a catalog. A recount holds only AccessShareLock, so only AccessExclusiveLock has to wait.
fn is_waited_for() -> bool {
    spi::connect(|spi| {
        let waiting = spi.run(
            "SELECT 1 FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'relation' \
             AND CASE WHEN granted THEN pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() \
             ELSE mode OPERATOR(pg_catalog.=) 'AccessExclusiveLock' END \
             GROUP BY database, relation \
             HAVING pg_catalog.bool_or(granted) AND NOT pg_catalog.bool_and(granted)",
        );
        !waiting.is_empty()
    })
}
