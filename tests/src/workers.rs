//! The background workers, from the view of a session.

use postgres::Client;

use crate::client::{scalar, wait_until};

#[track_caller]
pub fn state(c: &mut Client) -> String {
    scalar(c, "SELECT xqueue.state()", &[])
}

/// Waits until the worker of the client's database runs.
#[track_caller]
pub fn wait_running(c: &mut Client) {
    wait_until("the worker runs", || state(c) == "RUNNING");
}

/// Returns the processes of a kind, such as "xqueue worker", in the client's database.
#[track_caller]
pub fn workers(c: &mut Client, kind: &str) -> Vec<i32> {
    let sql = "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity \
               WHERE backend_type = $1 AND datname = current_database()";
    scalar(c, sql, &[&kind])
}

/// Ends the worker of the client's database; the launcher starts another one.
#[track_caller]
pub fn end_worker(c: &mut Client) {
    for pid in workers(c, "xqueue worker") {
        let _ended: bool = scalar(c, "SELECT pg_terminate_backend($1)", &[&pid]);
    }
}
