//! `uuidv7`: makes the keys of feature id = uuid on servers before PostgreSQL 18, which cannot make UUIDs of version 7.

use crate::error::Result;
use crate::server::function::Call;
use crate::server::process;
use crate::server::value::Value;
use crate::sql_functions;
use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};
use xqueue_core::uuid7::Clock;

sql_functions! {
    "uuidv7" as uuidv7, pg_finfo_uuidv7() -> uuid => uuidv7_impl;
}

thread_local! {
    static CLOCK: Cell<Clock> = const { Cell::new(Clock::BEGINNING) };
}

fn uuidv7_impl(_: &Call) -> Result<Option<Value<'_>>> {
    // With a clock before 1970 the clock's steps alone keep the order.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (clock, uuid) = CLOCK.get().step(now.as_nanos(), process::random());
    CLOCK.set(clock);
    Ok(Some(Value::uuid(uuid)))
}
