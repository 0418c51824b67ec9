//! Counting the tasks of a queue while others go on working, see [`crate::parts::counters::recount`].

use crate::parts::counters::recount::{self, Area};
use crate::parts::schedule::requests;
use crate::parts::slot::{self, QueueGuard};
use crate::queue::{self, Queue};
use crate::server::memory::Scratch;
use crate::server::relation::{LatestSnapshot, Lock, Relation};
use crate::server::row::Tuple;
use crate::server::value::Value;
use crate::server::{injection, latch, process, spi, types, user};
use pgrx::pg_sys::Oid;
use std::cell::Cell;
use std::time::{Duration, Instant};
use xqueue_core::change::Counts;
use xqueue_core::field::Field;
use xqueue_core::slot_id::SlotId;

/// How long a session that needs the table, or the list of queues, for itself waits at the most.
const LOCK_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// A longer value is not read where nothing may take long, in bytes.
const LONGEST_READ_BRIEFLY: usize = 1 << 20;

/// What a recount is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To compare the counters with the table.
    Check,
    /// The counters are to become what is counted.
    Renew,
    /// The same, if no row takes long to read.
    RenewBriefly,
}

/// Why nothing has been counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The queue is gone, a session waits for a lock that the recount holds, or too many recounts are running.
    InTheWay,
    /// There is a row that may take long to read.
    TooLong,
}

/// What was counted.
pub struct Counted {
    pub counts: Counts,
    /// False if a prepared transaction may have changed the table meanwhile.
    pub is_certain: bool,
    /// Locked, so that nothing can come in between.
    pub slot: QueueGuard,
}

/// Has the worker count a queue before others, if it is to be counted.
pub fn hasten(slot: SlotId) {
    let hastens = |mut slot: QueueGuard| slot.needs_recount() && slot.await_recount();
    if slot::lock(slot).is_some_and(hastens) {
        requests::request(process::database().into(), |_| {});
    }
}

/// Counts the tasks of a queue, on whose table the caller holds AccessShareLock.
pub fn count(queue: &Queue, purpose: Purpose) -> Result<Counted, Stopped> {
    use Stopped::{InTheWay, TooLong};
    let renews = purpose != Purpose::Check;
    let relation = Relation::open(queue.table, Lock::AccessShare).ok_or(InTheWay)?;
    let claim = match purpose {
        Purpose::Check => Area::claim_for_check(user::outer().into()),
        Purpose::Renew | Purpose::RenewBriefly => Area::claim_for_renewal(),
    };
    let claim = claim.ok_or(InTheWay)?;
    let latest = LatestSnapshot::prepare();
    let mut slot = slot::lock(queue.slot).ok_or(InTheWay)?;
    let is_current = slot.redefinitions() == queue.redefinitions;
    let (recount, snapshot) = slot.begin_recount(claim, latest, renews);
    drop(slot);
    let snapshot = snapshot.register();
    injection::point(c"xqueue-recount-has-begun");
    // Other tubes may be counted since the queue was looked up; a later change asks for another recount.
    let anew = match is_current {
        true => None,
        false => Some(queue::find_anew(queue.table).ok().flatten().ok_or(InTheWay)?),
    };
    let queue = anew.as_deref().unwrap_or(queue);
    let mut counts = Counts::default();
    let checked = Cell::new(Instant::now());
    let goes_on = || {
        // A value may take long to read, as one that has to be decompressed.
        process::serve_interrupts();
        if !renews || checked.get().elapsed() < LOCK_CHECK_INTERVAL {
            return true;
        }
        checked.set(Instant::now());
        !is_waited_for(queue.table)
    };
    let mut is_too_long = false;
    let scratch = Scratch::new();
    let see = |row: &Tuple| {
        is_too_long = purpose == Purpose::RenewBriefly && is_long(queue, row);
        if is_too_long {
            return false;
        }
        // A value that stands for no state is counted as none.
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
    let (counts, is_certain) = slot.end_recount(&recount, counts);
    Ok(Counted { counts, is_certain, slot })
}

/// Returns whether a row's state or tube may take long to read.
fn is_long(queue: &Queue, row: &Tuple) -> bool {
    let is_long = |field| {
        queue.value_of(row, field).is_some_and(|value| value.length() > LONGEST_READ_BRIEFLY)
    };
    is_long(Field::Status) || is_long(Field::Tube)
}

/// Returns whether a session waits for a lock that AccessShareLock on the table, or on the list of queues, keeps it
/// from. Others that wait do so for others.
fn is_waited_for(table: Oid) -> bool {
    let tables = [Some(table), queue::oid()].into_iter().flatten().map(Value::oid);
    spi::connect(|spi| {
        let waiting = spi.run_with(
            "SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d \
             ON d.oid OPERATOR(pg_catalog.=) l.database \
             AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() \
             WHERE l.locktype OPERATOR(pg_catalog.=) 'relation' \
             AND l.relation OPERATOR(pg_catalog.=) ANY ($1) \
             AND l.mode OPERATOR(pg_catalog.=) 'AccessExclusiveLock' AND NOT l.granted",
            &[(types::OID_ARRAY, Some(Value::array(tables, types::OID)))],
        );
        !waiting.is_empty()
    })
}
