//! Known bugs of Tarantool's xqueue, which this queue does not have. pg_regress tests those that one session shows.

use xqueue_tests::{COLUMNS, Queue, Waiter, id, json, put, release, take_all};

#[test]
fn a_kick_wakes_waiting_consumers_and_returns_its_number() {
    let mut q = Queue::with("kick", COLUMNS, &json!({"features": {"buried": true}}));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 3)");
    assert_eq!(take_all(&mut q.admin, &q.name), [1, 2, 3]);
    q.sql("SELECT xqueue.bury('{q}', ARRAY[1, 2, 3])");
    let waiters = [Waiter::take(&mut q), Waiter::take(&mut q)];
    // In Tarantool's xqueue kick commits, throws, and wakes no consumer.
    assert_eq!(q.ask_one("SELECT to_jsonb(xqueue.kick('{q}', 2))"), json!(2));
    let woken: Vec<_> = waiters.into_iter().map(Waiter::task).collect();
    let mut got: Vec<i64> = woken.iter().map(|(_, task)| id(task)).collect();
    got.sort_unstable();
    assert_eq!(got, [1, 2]);
    q.assert_tasks(&[("buried", 1), ("taken", 2)]);
    assert_eq!(q.calls("kick"), 2);
}

#[test]
fn a_task_keeps_its_end_of_life_through_take_release_and_disconnect() {
    let mut q =
        Queue::with("ttl", COLUMNS, &json!({"features": {"ttl": "1 hour", "ttr": "1 minute"}}));
    put(&mut q.admin, &q.name, 1);
    let expires = q.ask_one("SELECT to_jsonb(expires) FROM {q}");
    assert!(expires.is_string(), "{expires}");
    let mut consumer = q.client();
    assert_eq!(take_all(&mut consumer, &q.name), [1]);
    assert_eq!(q.ask_one("SELECT to_jsonb(expires) FROM {q}"), expires);
    release(&mut consumer, &q.name, 1);
    assert_eq!(q.ask_one("SELECT to_jsonb(expires) FROM {q}"), expires);
    assert_eq!(take_all(&mut consumer, &q.name), [1]);
    drop(consumer);
    q.wait_for("ready", 1);
    assert_eq!(q.ask_one("SELECT to_jsonb(expires) FROM {q}"), expires);
}

#[test]
fn no_row_becomes_a_zombie_without_a_time_unnoticed() {
    let mut q = Queue::adopt(&xqueue_tests::database(), &xqueue_tests::unique("zombie"));
    q.sql("CREATE TABLE {q} (id bigint PRIMARY KEY)");
    q.sql("INSERT INTO {q} VALUES (1)");
    let options = r#"{"existing": "Z", "features": {"zombie": "1 hour"}}"#;
    q.fails(&format!("SELECT xqueue.upgrade('{{q}}', '{options}')"), "22023", "zombies (Z)");
    q.upgrade(&json!({"features": {"zombie": "1 hour"}}));
    q.sql("UPDATE {q} SET status = 'Z'");
    let report = q.ask_one("SELECT xqueue.check('{q}')");
    assert_eq!(report["ok"], json!(false), "{report}");
    q.sql("UPDATE {q} SET runat = now()");
    q.wait_for("total", 0);
}
