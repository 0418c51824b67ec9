//! Known bugs of Tarantool's xqueue, which this queue does not have: one test each.

use xqueue_tests::{
    COLUMNS, Queue, Waiter, id, json, put, release, status, take, take_all, values, wait_until,
};

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
fn a_kick_that_is_rolled_back_kicks_nothing() {
    let mut q = Queue::with("kick", COLUMNS, &json!({"features": {"buried": true}}));
    let task = put(&mut q.admin, &q.name, 1);
    take_all(&mut q.admin, &q.name);
    q.sql("SELECT xqueue.bury('{q}', 1)");
    q.sql("BEGIN; SELECT xqueue.kick('{q}', 1); ROLLBACK");
    assert_eq!(status(&mut q.admin, &q.name, task).as_deref(), Some("B"));
    assert_eq!(q.calls("kick"), 0);
}

#[test]
fn a_second_upgrade_leaves_the_counters_as_they_are() {
    let mut q = Queue::with("twice", COLUMNS, &json!({"features": {"buried": true}}));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 4)");
    assert_eq!(take(&mut q.admin, &q.name, "0", 2).len(), 2);
    q.sql("SELECT xqueue.bury('{q}', 1)");
    q.assert_exact();
    let before = q.stats();
    for options in [json!({}), json!({"features": {"buried": true}})] {
        q.upgrade(&options);
        assert_eq!(q.stats(), before, "after upgrade with {options}");
    }
    // An upgrade that changes something counts each task exactly once.
    q.upgrade(&json!({"features": {"delayed": true, "priority": true, "ttl": true}}));
    q.assert_tasks(&[("ready", 2), ("taken", 1), ("buried", 1)]);
    let after = q.stats();
    assert_eq!(
        (&after["calls"], &after["transitions"]),
        (&before["calls"], &before["transitions"])
    );
}

#[test]
fn a_touch_of_a_task_that_is_not_taken_is_refused_and_leaves_it() {
    let features = json!({"features": {"ttl": "1 hour", "ttr": "1 hour", "buried": true}});
    let mut q = Queue::with("touch", COLUMNS, &features);
    let name = q.name.clone();
    let task = put(&mut q.admin, &name, 1);
    let before = values(&mut q.admin, &format!("SELECT to_jsonb(t) FROM {name} t"), &[]);
    q.fails("SELECT xqueue.touch('{q}', 1, '1 minute')", "55000", "task 1 is not taken by anybody");
    assert_eq!(values(&mut q.admin, &format!("SELECT to_jsonb(t) FROM {name} t"), &[]), before);
    take_all(&mut q.admin, &name);
    q.sql("SELECT xqueue.bury('{q}', 1)");
    q.fails("SELECT xqueue.touch('{q}', 1, '1 minute')", "55000", "task 1 is not taken by anybody");
    assert_eq!(status(&mut q.admin, &name, task).as_deref(), Some("B"));
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
fn a_zombie_without_a_time_is_not_kept_for_ever() {
    let mut q = Queue::with("zombie", COLUMNS, &json!({"features": {"zombie": true}}));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 2)");
    take_all(&mut q.admin, &q.name);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    assert_eq!(status(&mut q.admin, &q.name, 1), None, "no time, no zombie");
    q.sql("SELECT xqueue.ack('{q}', 2, delay => '50 milliseconds')");
    wait_until("the zombie is deleted", || status(&mut q.admin, &q.name, 2).is_none());
    q.assert_tasks(&[("total", 0)]);
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

#[test]
fn without_feature_buried_nothing_is_buried() {
    let mut q = Queue::with("bury", COLUMNS, &json!({"features": {"buried": false}}));
    put(&mut q.admin, &q.name, 1);
    take_all(&mut q.admin, &q.name);
    for call in [
        "xqueue.bury('{q}', 1)",
        "xqueue.dig('{q}', 1)",
        "xqueue.plow('{q}', 1)",
        "xqueue.kick('{q}', 1)",
    ] {
        let e = q.fails(&format!("SELECT {call}"), "0A000", "feature buried is not enabled");
        assert!(e.hint().is_some_and(|hint| hint.contains("\"buried\": true")), "{e:?}");
    }
    assert_eq!(status(&mut q.admin, &q.name, 1).as_deref(), Some("T"));
    q.sql("SELECT xqueue.release('{q}', 1)");
    q.fails("SELECT xqueue.switch('{q}', 1, 'B')", "0A000", "feature buried is not enabled");
}

#[test]
fn a_restart_of_a_task_that_was_acked_gives_it_a_new_life_not_an_endless_one() {
    let mut q =
        Queue::with("ttl", COLUMNS, &json!({"features": {"ttl": "1 hour", "zombie": "1 hour"}}));
    put(&mut q.admin, &q.name, 1);
    take_all(&mut q.admin, &q.name);
    q.sql("UPDATE {q} SET expires = now() - interval '1 minute'");
    q.sql("SELECT xqueue.ack('{q}', 1)");
    q.sql("SELECT xqueue.restart('{q}', 1)");
    let lives = "expires BETWEEN now() + interval '59 minutes' AND now() + interval '61 minutes'";
    assert!(q.holds(1, lives), "an hour from now");
}
