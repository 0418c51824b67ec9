//! Queues behind PgBouncer: how each of its modes affects tasks, and the recipes of docs/consuming.md.

mod pooler;

use std::cell::RefCell;
use std::collections::HashSet;

use pooler::Pooler;
use postgres::SimpleQueryMessage;
use postgres::error::DbError;
use xqueue_tests::*;

const CONSUMER: &str = env!("CARGO_BIN_EXE_consumer");

/// Returns the first column of the last row. It uses the simple protocol: in transaction mode a prepared statement can
/// belong to another connection.
fn ask(c: &mut Client, sql: &str) -> Option<String> {
    let messages = c.simple_query(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    messages.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}

fn backend(c: &mut Client) -> String {
    ask(c, "SELECT pg_backend_pid()").expect("a PID")
}

#[test]
fn session_mode_gives_back_the_tasks_of_a_client_that_leaves() {
    let pooler = Pooler::start("session", 1);
    let mut q = Queue::new("pooled");
    put(&mut q.admin, &q.name, 1);
    let identify = "SELECT xqueue.identify()";

    let mut first = pooler.client();
    assert_eq!(take_all(&mut first, &q.name), [1]);
    let (connection, session) = (backend(&mut first), ask(&mut first, identify));
    drop(first);
    q.wait_for("ready", 1);

    let mut second = pooler.client();
    assert_eq!(backend(&mut second), connection, "the same connection to the server");
    assert_ne!(ask(&mut second, identify), session, "but another session");
    let ack_it = format!("SELECT xqueue.ack('{}', 1)", q.name);
    expect_error(&mut second, &ack_it, "55000", "not taken");
    assert_eq!(take_all(&mut second, &q.name), [1]);
    assert_eq!(ack(&mut second, &q.name, 1).len(), 1);
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn nothing_is_taken_for_a_client_that_was_killed_while_it_waited() {
    for mode in ["session", "transaction"] {
        let pooler = Pooler::start(mode, 2);
        let mut q = Queue::new("pooled");
        let mut child =
            Consumer::start_at(&pooler.folder(), pooler::PORT, CONSUMER, &database(), &q.name);
        q.wait_for_consumers(1);
        child.kill();
        q.wait_for_consumers(0);
        let task = put(&mut pooler.client(), &q.name, 1);
        q.assert_tasks(&[("ready", 1), ("total", 1)]);
        assert_eq!(take_all(&mut pooler.client(), &q.name), [task], "{mode}");
    }
}

/// One transaction keeps the client on one connection.
#[test]
fn transaction_mode_take_work_and_ack_in_one_transaction() {
    let pooler = Pooler::start("transaction", 2);
    let mut q = Queue::new("pooled");
    let name = q.name.clone();
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 40)");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut c = pooler.client();
                for _ in 0..10 {
                    let mut work = c.transaction().expect("a transaction");
                    let take = format!("SELECT t.id FROM xqueue.take(NULL::{name}, '10s') t");
                    let task: i64 = work.query_one(&take, &[]).expect("a task").get(0);
                    work.query_one(&format!("SELECT xqueue.ack('{name}', $1::bigint)"), &[&task])
                        .expect("it is acked");
                    work.commit().expect("it is committed");
                }
            });
        }
    });
    q.assert_tasks(&[("total", 0)]);
}

/// Takes the only task and acks it in another transaction, while another client has the connection that took it.
/// Returns the error and the warnings.
fn ack_on_another_connection(q: &mut Queue, pooler: &Pooler) -> (DbError, Vec<String>) {
    let name = q.name.clone();
    put(&mut q.admin, &name, 1);
    let (mut consumer, heard) = Heard::open(pooler.config());
    let take = format!("SELECT pg_backend_pid() FROM xqueue.take('{name}')");
    let taken = ask(&mut consumer, &take).expect("a task");

    let mut other = pooler.client();
    ask(&mut other, "BEGIN");
    assert_eq!(backend(&mut other), taken, "the connection that is free is used again");
    let mine = backend(&mut consumer);
    assert_ne!(mine, taken);
    let words = format!("task 1 is taken by {taken}, not by you ({mine})");
    let ack = format!("SELECT xqueue.ack('{name}', 1)");
    let error = expect_error(&mut consumer, &ack, "55006", &words);
    // The client is gone, but the pool's connection stays and keeps the task.
    drop(consumer);
    q.assert_tasks(&[("taken", 1)]);
    ask(&mut other, "ROLLBACK");
    q.sql("SELECT xqueue.snatch('{q}', 1)");
    let warnings = heard.take().iter().map(|warning| warning.message().to_owned()).collect();
    (error, warnings)
}

/// Between two transactions another client can get the connection that took the task.
#[test]
fn transaction_mode_ack_in_another_transaction_is_refused() {
    let pooler = Pooler::start("transaction", 2);
    let mut q = Queue::new("pooled");
    let (error, warnings) = ack_on_another_connection(&mut q, &pooler);
    assert!(error.hint().is_some_and(|hint| hint.contains("pooler")), "{error:?}");
    let expected = "task 1 may stay taken for as long as the connection that took it lasts";
    assert_eq!(warnings, [expected]);

    // With a time to run the task cannot stay taken, so there is no warning.
    q.sql("TRUNCATE {q} RESTART IDENTITY");
    q.upgrade(&json!({"features": {"ttr": "1 hour"}}));
    let (error, warnings) = ack_on_another_connection(&mut q, &pooler);
    assert!(error.hint().is_some_and(|hint| hint.contains("pooler")), "{error:?}");
    assert!(warnings.is_empty(), "{warnings:?}");
}

/// Each transaction can run on any connection, so the client names its session.
#[test]
fn transaction_mode_identity_in_each_transaction() {
    let pooler = Pooler::start("transaction", 2);
    let mut q = Queue::new("pooled");
    let name = q.name.clone();
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 20)");
    let (mut consumer, mut other) = (pooler.client(), pooler.client());
    let open = "SELECT xqueue.identify(grace => '1 min', local => true)";
    let session = ask(&mut consumer, open).expect("a session");
    let join = format!("SELECT xqueue.identify('{session}', local => true)");
    let used = RefCell::new(HashSet::new());
    let step = |c: &mut Client, sql: &str| {
        ask(c, "BEGIN");
        ask(c, &join);
        let answer = ask(c, sql).expect("an answer");
        used.borrow_mut().insert(backend(c));
        ask(c, "COMMIT");
        answer
    };
    for _ in 0..20 {
        let task = step(&mut consumer, &format!("SELECT t.id FROM xqueue.take(NULL::{name}) t"));
        // The other client gets the connection that took the task.
        ask(&mut other, "BEGIN");
        ask(&mut other, "SELECT 1");
        step(&mut consumer, &format!("SELECT xqueue.ack('{name}', {task})"));
        ask(&mut other, "COMMIT");
    }
    assert_eq!(used.borrow().len(), 2, "both connections were used");
    q.assert_tasks(&[("total", 0)]);

    // If the other client names no session, the hint is to identify, not the pooler, and there is no warning.
    put(&mut q.admin, &name, 1);
    let task = step(&mut consumer, &format!("SELECT t.id FROM xqueue.take(NULL::{name}) t"));
    let ack = format!("SELECT xqueue.ack('{name}', {task})");
    let error = expect_error(&mut other, &ack, "55006", &format!("is taken by session {session}"));
    assert!(error.hint().is_some_and(|hint| hint.contains("identify")), "{error:?}");
    let ack_if_held = format!("SELECT xqueue.ack('{name}', {task}, if_held => true)");
    assert_eq!(ask(&mut other, &ack_if_held), None);
    step(&mut consumer, &ack_if_held);
    q.sql(&format!("DELETE FROM xqueue.session WHERE uuid = '{session}'"));
}

/// The tasks of a vanished client come back after the grace of its session, or after their time to run, although no
/// connection ends.
#[test]
fn transaction_mode_gives_back_the_tasks_of_a_client_that_is_gone() {
    for (call, ttr, before) in [
        ("session", json!(false), "SELECT xqueue.identify(grace => '300 ms', local => true)"),
        ("ttr", json!("300 ms"), "SELECT 1"),
    ] {
        let pooler = Pooler::start("transaction", 2);
        let mut q = Queue::new("pooled");
        q.upgrade(&json!({"features": {"ttr": ttr}}));
        let name = q.name.clone();
        put(&mut q.admin, &name, 1);
        let mut consumer = pooler.client();
        ask(&mut consumer, "BEGIN");
        assert!(ask(&mut consumer, before).is_some());
        assert!(ask(&mut consumer, &format!("SELECT xqueue.take('{name}')")).is_some());
        ask(&mut consumer, "COMMIT");
        drop(consumer);
        wait_until("the task is given back", || q.calls(call) == 1);
        q.assert_tasks(&[("ready", 1)]);
    }
}
