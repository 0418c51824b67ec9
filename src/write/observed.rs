//! How long tasks were ready or taken that a statement changes without row triggers: its condition calls a function for
//! each of them, after all other conditions.

use crate::error::Result;
use crate::model::histogram::Histogram;
use crate::parts::clock;
use crate::parts::leases::session;
use crate::server::function::Call;
use crate::server::time;
use crate::server::value::Value;
use crate::sql_functions;
use std::cell::Cell;

sql_functions! {
    "observed" as observed, pg_finfo_observed(writer: xid) -> boolean => observed_impl;
}

thread_local! {
    /// The lengths of the statement in progress; None where triggers see its rows.
    static LENGTHS: Cell<Option<Histogram>> = const { Cell::new(None) };
}

/// Notes the age of a row by the transaction that has written it.
fn observed_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    if let Some(mut lengths) = LENGTHS.get()
        && let Some(writer) = call.get(arg::observed::writer)
        && let Some(age) = clock::age(writer, time::now())
    {
        lengths.add(age);
        LENGTHS.set(Some(lengths));
    }
    Ok(Some(Value::boolean(true)))
}

/// Runs a statement and returns the lengths that it has noted.
pub fn during<T>(work: impl FnOnce() -> T) -> (T, Histogram) {
    let _before = Before(LENGTHS.replace(Some(Histogram::default())));
    let done = work();
    (done, LENGTHS.get().unwrap_or_default())
}

/// Runs a statement whose rows are seen by triggers.
pub fn ignoring<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before(LENGTHS.replace(None));
    work()
}

/// Restores what was noted before on drop, also after an error.
struct Before(Option<Histogram>);

impl Drop for Before {
    fn drop(&mut self) {
        LENGTHS.set(self.0);
    }
}
