//! Counting the tasks of a queue while others go on working, see [`crate::shmem::recount`].

use crate::model::change::Counts;
use crate::pg::memory::Scratch;
use crate::pg::relation::{Lock, Relation};
use crate::pg::value::Value;
use crate::pg::{injection, latch, process, spi, types};
use crate::registry::{self, Queue};
use crate::shmem::queues::{self, QueueGuard};
use crate::shmem::recount::Area;
use pgrx::pg_sys::Oid;
use std::time::{Duration, Instant};

/// How long whoever needs the table for himself waits at the most.
const LOCK_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Counts the tasks of a queue, on whose table the caller holds AccessShareLock. Gives the count
/// together with the locked slot, so that nothing can come in between. None if the queue is gone,
/// or, with `renews`, if someone has come to wait for a lock on the table. `renews`: the counters
/// are to become what is counted.
pub fn count(queue: &Queue, renews: bool) -> Option<(Counts, QueueGuard)> {
    let relation = Relation::open(queue.table, Lock::AccessShare)?;
    let claim = Area::claim()?;
    let (recount, snapshot) = queues::lock(queue.slot)?.begin_recount(claim, renews);
    injection::point(c"xqueue-recount-has-begun");
    // Other tubes may be counted since the queue was looked up: whoever says so from here on asks for
    // another recount.
    let queue = &registry::find_anew(queue.table).ok().flatten()?;
    let mut counts = Counts::default();
    let mut checked = Instant::now();
    let scratch = Scratch::new();
    let complete = relation.scan(&snapshot, |row| {
        // A value that stands for no state is counted as none.
        if let Ok(place) = scratch.run(|| queue.place_of(row)) {
            counts.count(place);
        }
        // A value may take long to read, as one that has to be decompressed.
        process::serve_interrupts();
        if !renews || checked.elapsed() < LOCK_CHECK_INTERVAL {
            return true;
        }
        checked = Instant::now();
        !is_waited_for(queue.table)
    });
    drop(snapshot);
    drop(relation);
    if !complete {
        return None;
    }
    while recount.is_ahead() {
        latch::wait(Some(Duration::from_millis(1)), false);
    }
    let mut slot = queues::lock(queue.slot)?;
    let counts = slot.end_recount(&recount, counts);
    Some((counts, slot))
}

fn is_waited_for(table: Oid) -> bool {
    spi::connect(|spi| {
        let waiting = spi.run_with(
            "SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d \
             ON d.oid OPERATOR(pg_catalog.=) l.database \
             AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() \
             WHERE l.locktype OPERATOR(pg_catalog.=) 'relation' AND l.relation OPERATOR(pg_catalog.=) $1 \
             AND NOT l.granted",
            &[(types::OID, Some(Value::oid(table)))],
        );
        !waiting.is_empty()
    })
}
