//! Promises of beanstalkd, tarantool/queue and Tarantool's xqueue, and cases in which they behave oddly.

use xqueue_tests::*;

/// beanstalkd's priorities are unsigned 32-bit integers: they need a bigint.
#[test]
fn the_greatest_priority() {
    let columns = format!("{COLUMNS}, priority bigint NOT NULL DEFAULT 0");
    let options = json!({"fields": {"priority": "priority"}, "features": {"priority": true}});
    let mut q = Queue::with("priority", &columns, &options);
    for priority in ["4294967295", "9223372036854775807", "0::smallint", "(-1)::int"] {
        q.sql(&format!("SELECT xqueue.put('{{q}}', '{{}}', priority => {priority})"));
    }
    q.sql("SELECT xqueue.put(NULL::{q}, '{}', priority => 4294967294)");
    // The statement path stores the priority too.
    q.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT xqueue.put('{q}', '{}', priority => 4294967293); COMMIT");
    assert_eq!(q.takes(6), [4, 3, 6, 5, 1, 2]);
}

/// In tarantool/queue the next id is the greatest id plus one.
#[test]
fn an_id_is_not_used_again_after_the_queue_was_empty() {
    let mut q = Queue::new("ids");
    q.sql("SELECT xqueue.put('{q}', '{}')");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    q.sql("SELECT xqueue.put('{q}', '{}'); SELECT xqueue.truncate('{q}'); SELECT xqueue.put('{q}', '{}')");
    assert_eq!(q.takes(9), [3]);
}

fn fifottl() -> Queue {
    let features =
        json!({"delayed": true, "ttl": true, "ttr": true, "priority": true, "buried": true});
    Queue::with("fifottl", COLUMNS, &json!({ "features": features }))
}

#[test]
fn touch_with_less_than_nothing_and_too_much() {
    let mut q = fifottl();
    q.sql("SELECT xqueue.put('{q}', '{}', ttl => '1 h', ttr => '1 min')");
    assert_eq!(q.takes(1), [1]);
    let before = q.ask_one("SELECT to_jsonb(t) FROM {q} AS t");
    for (increment, state) in [
        ("'-1 s'", "22023"),
        ("'-1 month 29 days'", "22023"),
        ("'292260 years'", "22008"),
        ("make_interval(days => 2147483647)", "22023"),
        ("make_interval(months => 2147483647, days => 2147483647)", "22023"),
    ] {
        q.fails(&format!("SELECT xqueue.touch('{{q}}', 1, {increment})"), state, "");
        assert_eq!(q.ask_one("SELECT to_jsonb(t) FROM {q} AS t"), before, "{increment}");
    }
    q.sql("SELECT xqueue.touch('{q}', 1, '1 day')");
    assert!(q.holds(1, "expires > now() + '1 day 59 min' AND runat > now() + '1 day'"));
}

/// Tarantool's xqueue has one column for the end of life and for the time to run.
#[test]
fn a_task_keeps_its_end_of_life_through_take_release_and_disconnect() {
    let features = json!({"ttl": "1 hour", "ttr": "1 minute"});
    let mut q = Queue::with("ttl", COLUMNS, &json!({ "features": features }));
    let (name, mut consumer) = (q.name.clone(), q.client());
    put(&mut q.admin, &name, 1);
    let expires = q.ask_one("SELECT to_jsonb(expires) FROM {q}");
    assert!(expires.is_string(), "{expires}");
    for statement in ["SELECT xqueue.take('{q}')", "SELECT xqueue.release('{q}', 1)"] {
        ask(&mut consumer, &name, statement);
        assert_eq!(q.ask_one("SELECT to_jsonb(expires) FROM {q}"), expires);
    }
    assert_eq!(take_all(&mut consumer, &name), [1]);
    drop(consumer);
    q.wait_for("ready", 1);
    assert_eq!(q.ask_one("SELECT to_jsonb(expires) FROM {q}"), expires);
}

#[test]
fn a_zombie_without_a_time_is_reported() {
    let mut q = Queue::with("zombie", COLUMNS, &json!({"features": {"zombie": "1 hour"}}));
    q.sql("INSERT INTO {q} DEFAULT VALUES");
    q.sql("UPDATE {q} SET status = 'Z'");
    let report = q.ask_one("SELECT xqueue.check('{q}')");
    assert_eq!(report["ok"], json!(false), "{report}");
    q.sql("UPDATE {q} SET runat = now()");
    q.wait_for("total", 0);
}
