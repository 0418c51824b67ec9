//! `time64`: keys made of the clock, in microseconds, never twice the same.
//!
//! The last one made by this server is in shared memory, so it rises also if the clock is set back.
//! After a restart the greatest keys there are say where to go on.

use crate::error::Result;
use crate::pg::function::Call;
use crate::pg::relation::{self, Lock, Relation};
use crate::pg::{process, spi, time, types, user};
use crate::registry::{self, Queue};
use crate::shmem::databases;
use crate::{session, shmem, sql_functions};
use pgrx::pg_sys::{Datum, Oid};
use std::cell::Cell;

sql_functions! {
    time64, pg_finfo_time64 => time64_impl,
}

thread_local! {
    /// Once true it stays true: who lives on after a crash of the server is a new process.
    static KNOWN: Cell<bool> = const { Cell::new(false) };
}

/// time64()
fn time64_impl(_: &Call) -> Result<Datum> {
    session::require_loaded()?;
    if !KNOWN.get() {
        let database = u32::from(process::database());
        if !databases::knows_keys(database) && learn_all()? {
            databases::note_keys_known(database);
        }
        KNOWN.set(databases::knows_keys(database));
    }
    Ok(Datum::from(shmem::next_key(time::unix_microseconds(time::now()))))
}

/// Goes on after the greatest key of each queue of this database that has such keys. False if
/// someone has a table for himself: then it is tried again.
fn learn_all() -> Result<bool> {
    let mut complete = true;
    for table in queues_by_time()? {
        if !relation::try_lock(table, Lock::AccessShare) {
            complete = false;
        } else if let Some(queue) = registry::find(table)? {
            learn(&queue);
        }
    }
    Ok(complete)
}

fn queues_by_time() -> Result<Vec<Oid>> {
    Ok(spi::connect(|spi| {
        let rows = spi.run(
            "SELECT q.relation::pg_catalog.oid FROM xqueue.queue q \
             WHERE q.definition OPERATOR(pg_catalog.@>) '{\"options\": {\"features\": {\"id\": \"time64\"}}}'",
        );
        (0..rows.len()).filter_map(|row| rows.datum(row, 1).map(types::oid)).collect()
    }))
}

/// Goes on after the greatest key of a queue.
pub fn learn(queue: &Queue) {
    let Some(owner) = Relation::open(queue.table, Lock::None).map(|table| table.owner()) else {
        return;
    };
    let _role = user::act_restricted_as(owner);
    let greatest = spi::connect(|spi| spi.run(&queue.sql.greatest_key()).number());
    shmem::raise_last_key(greatest);
}
