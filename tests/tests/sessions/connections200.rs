//! 200 connections wait, 200 tasks are put, and each connection gets one task. Needs max_connections >= 250.

use std::collections::BTreeSet;

use xqueue_tests::*;

const MANY: usize = 200;

fn waiters(q: &mut Queue, n: usize, sql: &str) -> Vec<Waiter> {
    let waiters: Vec<Waiter> = (0..n).map(|_| Waiter::start(q.client(), sql)).collect();
    q.wait_for_consumers(n as i64);
    waiters
}

#[track_caller]
fn each_has_one(waiters: Vec<Waiter>) -> Vec<Client> {
    let held: Vec<(Client, Value)> = waiters.into_iter().map(Waiter::task).collect();
    let distinct: BTreeSet<i64> = held.iter().map(|(_, task)| id(task)).collect();
    assert_eq!(distinct.len(), held.len(), "no task was given twice");
    held.into_iter().map(|(client, _)| client).collect()
}

#[test]
fn two_hundred_wait() {
    alone();
    let mut q = Queue::new("many");
    let name = q.name.clone();
    // One put at a time, through the function.
    let take = format!("SELECT xqueue.take('{name}', '50s')");
    let all = waiters(&mut q, MANY, &take);
    for n in 0..MANY {
        put(&mut q.admin, &name, n as i64);
    }
    let clients = each_has_one(all);
    q.assert_tasks(&[("taken", MANY as i64), ("ready", 0), ("total", MANY as i64)]);
    // All connections leave simultaneously.
    drop(clients);
    q.wait_for("ready", MANY as i64);
    q.assert_tasks(&[("ready", MANY as i64), ("taken", 0)]);
    q.sql("TRUNCATE {q}");

    // One commit puts all tasks, for consumers that hold no snapshot.
    let next = format!("CALL xqueue.next('{name}', '50s')");
    let all = waiters(&mut q, MANY, &next);
    q.sql(&format!("INSERT INTO {{q}} SELECT FROM generate_series(1, {MANY})"));
    let clients = each_has_one(all);
    q.assert_tasks(&[("taken", MANY as i64), ("ready", 0), ("total", MANY as i64)]);
    drop(clients);
    q.wait_for("ready", MANY as i64);
}
