//! `time64`: keys made of the clock, in microseconds, never twice the same.
//!
//! The last key of each queue is in shared memory, so keys rise also if the clock is set back. After
//! a restart the greatest key that is there says where to go on.

use crate::error::{Error, Result};
use crate::pg::function::Call;
use crate::pg::relation::{Lock, Relation};
use crate::pg::{spi, time, transaction, types, user};
use crate::registry::{self, Queue};
use crate::shmem::queues;
use crate::{session, sql_functions};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Datum;

sql_functions! {
    time64, pg_finfo_time64 => time64_impl,
}

/// time64(queue regclass)
fn time64_impl(call: &Call) -> Result<Datum> {
    session::require_loaded()?;
    let table = call.datum(0).map(types::oid).ok_or_else(|| Error::null("queue"))?;
    // The primary makes greater ones meanwhile, which are not known here.
    if transaction::in_recovery() {
        let name = registry::display_name(table);
        return Err(Error::on_standby(format!("cannot make a key of queue \"{name}\"")));
    }
    let queue = registry::get(table)?;
    let next = |now| queues::lock(queue.slot).and_then(|mut slot| slot.next_key(now));
    let now = time::unix_microseconds(time::now());
    let key = match next(now) {
        Some(key) => Some(key),
        None => {
            learn(&queue);
            next(now)
        }
    };
    key.map(Datum::from).ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            format!("queue \"{}\" has no greater key to give", queue.name),
        )
        .hint("The greatest key is the greatest bigint: change that task's key.")
    })
}

/// Makes the keys of a queue go on after the greatest that is there.
pub fn learn(queue: &Queue) {
    let Some(owner) = Relation::open(queue.table, Lock::AccessShare).map(|table| table.owner())
    else {
        return;
    };
    let _role = user::act_restricted_as(owner);
    let greatest = spi::connect(|spi| spi.run(&queue.sql.greatest_key()).number());
    if let Some(mut slot) = queues::lock(queue.slot) {
        slot.raise_last_key(greatest);
    }
}
