//! `time64`: keys made from the clock (µs), each one unique.
//!
//! The last key of each queue is in shared memory, so keys rise even if the clock is set back. After a restart they
//! continue after the greatest key in the table. Keys that no clock could have made do not count: producers can insert
//! any key, and no key follows the greatest bigint.

use crate::error::{Error, Result};
use crate::parts::leases::session;
use crate::parts::slot;
use crate::queue::{self, Queue};
use crate::server::function::Call;
use crate::server::relation::{LockMode, Relation};
use crate::server::value::Value;
use crate::server::{privileges, spi, time, types, user, xact};
use crate::sql_functions;

sql_functions! {
    "time64" as time64, pg_finfo_time64(queue: regclass) -> bigint => time64_impl;
}

fn time64_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let table = call.require(arg::time64::queue)?;
    // The primary makes greater keys meanwhile, which are not known here.
    if xact::in_recovery() {
        let name = queue::display_name(table);
        return Err(Error::on_standby(format!("cannot make a key of queue \"{name}\"")));
    }
    if !privileges::may_insert(table) {
        return Err(Error::permission_denied(&queue::display_name(table)));
    }
    let queue = queue::get(table)?;
    let next = || {
        let now = time::unix_microseconds(time::now());
        slot::lock(queue.slot).and_then(|mut slot| slot.table.next_key(now))
    };
    let key = next().or_else(|| {
        learn(&queue);
        next()
    });
    key.map(|key| Some(Value::int8(key))).ok_or_else(|| queue::not_a_queue(table))
}

/// A hundred years (µs): no clock is wrong by more. Even then keys stay below 2^53, the limit for programs that read
/// JSON numbers as floating point.
const FARTHEST_AHEAD: i64 = 36_525 * 86_400_000_000;

/// Makes later keys greater than the greatest key in the table that a clock could have made.
pub fn learn(queue: &Queue) {
    let raise = |greatest| {
        if let Some(mut slot) = slot::lock(queue.slot) {
            slot.table.raise_last_key(greatest);
        }
    };
    if queue.key.first().is_none_or(|key| !types::is_integer(key.base)) {
        return raise(0);
    }
    let Some(owner) = Relation::open(queue.table, LockMode::AccessShare).map(|table| table.owner())
    else {
        return;
    };
    let _role = user::act_restricted_as(owner);
    let limit = time::unix_microseconds(time::now()) + FARTHEST_AHEAD;
    raise(spi::connect(|spi| spi.run(&queue.sql.greatest_key_up_to(limit)).number()));
}
