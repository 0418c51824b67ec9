//! Sessions that end while a transaction takes tasks for them, or while a connection asks to join them.

use super::*;
use std::time::{Duration, Instant};

/// Creates a queue in its own database, in which nothing else makes the worker scan all taken tasks. It has two tasks.
/// The second connection has taken the first of them.
fn alone() -> (Database, Queue, Client, Client) {
    let database = Database::new("ended");
    let mut q = Queue::new_in(&database.name, "ended");
    let (c, mut later) = (q.client(), q.client());
    put(&mut q.admin, &q.name, 1);
    assert_eq!(take_all(&mut later, &q.name).len(), 1);
    put(&mut q.admin, &q.name, 2);
    (database, q, c, later)
}

/// Ends the connection that took the first task. The worker has handled all sessions left before when `ready` tasks are
/// ready.
#[track_caller]
fn ends_last(q: &mut Queue, later: Client, ready: i64) {
    drop(later);
    q.wait_for("ready", ready);
}

const TAKE: &str = "SELECT xqueue.take('{q}')";
const BY_HAND: &str = "UPDATE {q} SET status = 'T', owner = '{session}' WHERE status = 'R'";
const LOCAL: &str = "SELECT xqueue.identify('{session}', local => true)";
const LASTING: &str = "SELECT xqueue.identify('{session}')";

/// The session ends before the transaction commits, so the worker does not see its task.
#[test]
fn a_session_that_the_transaction_has_left() {
    for (take, join, goes_back) in [
        (TAKE, LOCAL, false),
        (BY_HAND, LOCAL, false),
        (TAKE, LASTING, false),
        (TAKE, LASTING, true),
    ] {
        println!("{take}, {join}, {goes_back}");
        let (_database, mut q, mut c, later) = alone();
        let (mut opener, mut other) = (q.client(), q.client());
        let session = open(&mut opener, "50 ms");
        let next = if goes_back { identity(&mut c) } else { open(&mut other, "1 hour") };
        // A join that renewed the lease would lock the session's row until the commit.
        wait_until("the lease is endless", || is_attached(&mut q.admin, &session));
        q.run(&mut c, &format!("BEGIN; {}", join.replace("{session}", &session)));
        q.run(&mut c, &take.replace("{session}", &session));
        let held = format!("SELECT count(*) FROM {} WHERE owner::text = $1", q.name);
        assert_eq!(scalar::<i64>(&mut c, &held, &[&session]), 1);
        drop(opener);
        q.run(&mut c, &join.replace("{session}", &next));
        wait_until("the session has ended", || shown(&mut q.admin, &session).is_none());
        ends_last(&mut q, later, 2);
        c.run("COMMIT");
        q.wait_for("ready", 2);
    }
}

/// A savepoint undoes the opening of a session, but the transaction acts for the session until it opens another. It
/// does not return to the first session when a savepoint undoes the second opening, too.
#[test]
fn a_session_whose_opening_was_undone() {
    for (savepoint, undo) in [("", ""), ("SAVEPOINT t", "ROLLBACK TO t")] {
        let (_database, mut q, mut c, later) = alone();
        c.run("BEGIN; SAVEPOINT s");
        let ghost = open_local(&mut c);
        c.run("ROLLBACK TO s");
        assert_eq!(take_all(&mut c, &q.name).len(), 1);
        c.run(savepoint);
        assert_ne!(open_local(&mut c), ghost);
        c.run(undo);
        ends_last(&mut q, later, 2);
        c.run("COMMIT");
        q.wait_for("ready", 2);
    }
}

/// A savepoint undoes the lease that the transaction saw when it joined the session. At its end the worker checks the
/// real lease.
#[test]
fn a_session_whose_lease_was_undone() {
    let (_database, mut q, mut c, later) = alone();
    c.run("BEGIN; SAVEPOINT s");
    let ghost = open_local(&mut c);
    c.run(&join_local(&ghost));
    c.run("ROLLBACK TO s");
    assert_eq!(take_all(&mut c, &q.name).len(), 1);
    c.run("COMMIT");
    q.wait_for("ready", 1);
    ends_last(&mut q, later, 2);
    let session = open_local(&mut q.admin);
    shorten_lease(&mut q, &session);
    let local = join_local(&session);
    c.run(&format!("BEGIN; SAVEPOINT s; {local}; {local}; ROLLBACK TO s; COMMIT"));
    let is_renewed = "SELECT lease > clock_timestamp() + '50 min' FROM xqueue.sessions WHERE session = $1::text::uuid";
    wait_until("the worker has renewed it", || scalar(&mut q.admin, is_renewed, &[&session]));
}

/// Another connection ends the grace of a session that a transaction uses. The transaction read a longer lease, which
/// needs no renewal at its end.
#[test]
fn a_session_whose_grace_another_connection_ends() {
    let (_database, mut q, mut c, later) = alone();
    let mut other = q.client();
    let session = open_local(&mut other);
    c.run(&format!("BEGIN; {}", join_local(&session)));
    assert_eq!(take_all(&mut c, &q.name).len(), 1);
    other.run(&format!("SELECT xqueue.identify('{session}', grace => '0', local => true)"));
    ends_last(&mut q, later, 2);
    assert!(shown(&mut q.admin, &session).is_some(), "the transaction keeps it");
    c.run("COMMIT");
    q.wait_for("ready", 2);
    wait_until("the session has ended", || shown(&mut q.admin, &session).is_none());
}

/// The worker keeps a session while a connection asks to join it. That connection gives up after all others have left.
#[test]
fn a_session_that_a_connection_fails_to_join() {
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        let (_database, mut q, mut opener, later) = alone();
        let (mut preparer, third) = (q.client(), q.client());
        let session = identity(&mut opener);
        assert_eq!(take_all(&mut opener, &q.name).len(), 1);
        // The prepared transaction has written the session's row, so the next connection waits for its end.
        let prepare = format!("BEGIN; SELECT xqueue.identify('{session}'); PREPARE TRANSACTION");
        q.run(&mut preparer, &format!("{prepare} '{{q}}'"));
        let join = format!("SELECT to_jsonb(xqueue.identify('{session}'))");
        let joining = Waiter::start(third, &join);
        joining.wait_for_lock(&mut q);
        let left = [pid(&mut opener), pid(&mut preparer)];
        drop((opener, preparer));
        wait_until("the connections are gone", || {
            left.iter().all(|pid| !is_connected(&mut q.admin, *pid))
        });
        ends_last(&mut q, later, 1);
        q.sql(&format!("SELECT {end}({})", joining.pid));
        let joining = joining.join();
        assert!(joining.result.is_err(), "{end}");
        q.sql("ROLLBACK PREPARED '{q}'");
        q.wait_for("ready", 2);
    }
}

/// Ends of sessions that cannot be recorded are tried again after pauses that double from 50 ms on.
#[test]
fn failing_ends_are_tried_more_and_more_seldom() {
    const FAILURES: u32 = 6;
    let server = Cluster::new("");
    let (mut admin, mut left) = (server.client(), server.client());
    left.run("SELECT xqueue.identify(grace => '1 ms')");
    admin.run("ALTER TABLE xqueue.session ADD CONSTRAINT never CHECK (false) NOT VALID");
    let begin = Instant::now();
    drop(left);
    let failures = || server.log().matches("cannot look after sessions").count() as u32;
    wait_until("the end fails", || failures() >= FAILURES);
    let least = Duration::from_millis(50) * (2u32.pow(FAILURES - 1) - 1);
    assert!(begin.elapsed() >= least, "{} failures in {:?}", failures(), begin.elapsed());
    admin.run("ALTER TABLE xqueue.session DROP CONSTRAINT never");
    wait_until("the session ends", || {
        scalar(&mut admin, "SELECT NOT EXISTS (SELECT FROM xqueue.session)", &[])
    });
}
