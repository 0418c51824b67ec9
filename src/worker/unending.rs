//! User code that does not end when its job worker is terminated, for example a loop in C that never checks for
//! interrupts. Neither another process nor a restart can cure it. So the queue is marked in the registry, and no worker
//! touches its tasks until `upgrade` rewrites the definition.

use crate::queue;
use crate::server::relation;
use crate::server::types;
use crate::server::value::Value;
use crate::server::{own_table, spi, xact};
use pgrx::pg_sys::Oid;

/// The error of a marked queue.
pub const MESSAGE: &str = "code of its owner did not end when its worker was told to, so its tasks are left alone: fix the \
                           code, and call xqueue.upgrade() on the queue";

/// Marks a queue with a synchronous commit, so that the mark survives a crash. Returns false if the row is locked or an
/// error occurs; the next round tries again.
pub fn mark(table: Oid) -> bool {
    let marked = xact::try_in_transaction(|| {
        if !queue::try_lock() {
            return false;
        }
        spi::connect(|spi| drop(spi.run("SET LOCAL synchronous_commit = on")));
        let marked = own_table::as_owner(|spi| {
            let rows = spi.run_with(
                "UPDATE xqueue.queue SET definition = definition OPERATOR(pg_catalog.||) '{\"unending\": true}' \
                 WHERE relation::pg_catalog.oid OPERATOR(pg_catalog.=) (SELECT q.relation::pg_catalog.oid FROM \
                 xqueue.queue q WHERE q.relation::pg_catalog.oid OPERATOR(pg_catalog.=) $1 FOR UPDATE SKIP LOCKED) \
                 RETURNING true",
                &[(types::OID, Some(Value::oid(table)))],
            );
            !rows.is_empty()
        });
        relation::invalidate(table);
        marked.unwrap_or(false)
    });
    marked.unwrap_or_else(|failure| {
        failure.warn("mark a queue whose code does not end");
        false
    })
}
