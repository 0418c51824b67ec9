//! Detects a connection pooler in transaction mode. It runs two transactions of one client on two connections, so the
//! second cannot ack tasks that the first has taken.

use crate::error::Error;
use crate::parts::leases::{sessions, store};
use crate::queue::Queue;
use crate::server::spi::Spi;
use crate::server::types::{self, Uuid};
use crate::server::value::Value;
use crate::server::{catalog, process};
use pgrx::PgSqlErrorCode;

/// Adds a hint to the error of a caller that does not hold the task. `owner`: the session that holds it.
pub fn hinted(error: Error, spi: &Spi, queue: &Queue, task: &str, owner: Uuid) -> Error {
    let rule = "Only the session that took a task may ack, release, bury or touch it";
    if !is_likely(spi, owner) {
        return error
            .hint(format!("{rule}; xqueue.identify() lets several connections share one."));
    }
    if !queue.features().has_deadlines() {
        warn(queue, task);
    }
    error.hint(format!(
        "{rule}. Behind a pooler in transaction mode take and ack in one transaction, or call \
         xqueue.identify(uuid, local => true) in each."
    ))
}

/// Returns whether the owner is an unidentified session of another connection with the same role and address.
fn is_likely(spi: &Spi, owner: Uuid) -> bool {
    let is_anonymous = store::among(&[owner]).is_ok_and(|identified| identified.is_empty());
    sessions::pid_of(owner).is_some_and(|pid| is_anonymous && is_alike(spi, pid))
}

fn is_alike(spi: &Spi, other: i32) -> bool {
    let pids = [process::pid(), other].map(|pid| (types::INT4, Some(Value::int4(pid))));
    let alike = spi.run_with(
        "SELECT FROM pg_catalog.pg_stat_get_activity($1) AS a, pg_catalog.pg_stat_get_activity($2) AS b \
         WHERE a.usesysid OPERATOR(pg_catalog.=) b.usesysid \
         AND coalesce(a.client_addr::pg_catalog.text, '') \
             OPERATOR(pg_catalog.=) coalesce(b.client_addr::pg_catalog.text, '')",
        &pids,
    );
    !alike.is_empty()
}

/// Warns that without `ttr` the task is given back only when the pool closes its connection.
fn warn(queue: &Queue, task: &str) {
    Error::new(
        PgSqlErrorCode::ERRCODE_WARNING,
        format!("task {task} may stay taken for as long as the connection that took it lasts"),
    )
    .detail(format!(
        "Queue \"{}\" has no time to run, and that connection is of your role and from your address, like those \
         of a connection pooler.",
        queue.name
    ))
    .hint(format!(
        "SELECT xqueue.upgrade({}, '{{\"features\": {{\"ttr\": \"5 min\"}}}}'); gives back tasks that are not acked.",
        catalog::quote_literal(&queue.name)
    ))
    .warn();
}
