//! The hash that distinguishes sub-queues, for the indexes and statements on them.

use crate::error::Result;
use crate::queue::digest::{self, Secret};
use crate::server::function::Call;
use crate::server::own_table;
use crate::server::value::Value;
use crate::sql_functions;
use pgrx::pg_sys::Oid;
use std::cell::Cell;

sql_functions! {
    #[immutable]
    "subqueue" as subqueue, pg_finfo_subqueue(label: row) -> bigint => subqueue_impl;
}

thread_local! {
    /// The secret, and the function for which it was read: both change if the extension is dropped and created again.
    static KNOWN: Cell<Option<(Oid, Secret)>> = const { Cell::new(None) };
}

fn subqueue_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let (function, collation) = call.function();
    let secret = match KNOWN.get() {
        Some((of, secret)) if of == function => secret,
        _ => own_table::secret()?,
    };
    KNOWN.set(Some((function, secret)));
    let label = call.value(arg::subqueue::label);
    Ok(Some(Value::int8(digest::subqueue(label, collation, secret) as i64)))
}
