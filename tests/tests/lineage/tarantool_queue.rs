//! Promises of tarantool/queue's README for its types fifo and fifottl, tested on tables made by `create`, and cases in
//! which that module behaves oddly.

use std::iter::repeat_n;

use xqueue_tests::{
    Client, Queue, Run, Waiter, ack, connect, database, expect_error, id, ids, json, put, release,
    scalar, take, take_all, unique, values,
};

/// Makes a queue by `create` with these features, followed by other arguments.
fn created(theme: &str, features: &str, more: &str) -> (Queue, String) {
    let name = unique(theme);
    let mut q = Queue::adopt(&database(), &name);
    q.sql(&format!("SELECT xqueue.create('{{q}}', '{{\"features\": {features}}}'{more})"));
    (q, name)
}

fn fifo(theme: &str) -> (Queue, String) {
    created(theme, "{}", "")
}

fn fifottl(theme: &str) -> (Queue, String) {
    let features =
        r#"{"delayed": true, "ttl": true, "ttr": true, "priority": true, "buried": true}"#;
    created(theme, features, "")
}

#[test]
fn fifo_with_one_consumer_is_in_strict_order() {
    let (mut q, name) = fifo("fifo");
    let producers: Vec<_> = (0..3)
        .map(|_| {
            let (mut c, name) = (q.client(), name.clone());
            std::thread::spawn(move || (0..50).map(|n| put(&mut c, &name, n)).collect::<Vec<_>>())
        })
        .collect();
    for producer in producers {
        producer.join().expect("it puts");
    }
    let mut consumer = q.client();
    let mut seen = Vec::new();
    for round in 0..150 {
        let task = id(&take(&mut consumer, &name, "0", 1)[0]);
        if round % 10 == 3 {
            // A released task is the next one again.
            assert_eq!(release(&mut consumer, &name, task).len(), 1);
            assert_eq!(ids(&take(&mut consumer, &name, "0", 1)), [task]);
        }
        assert_eq!(ack(&mut consumer, &name, task).len(), 1);
        seen.push(task);
    }
    assert_eq!(seen, (1..=150).collect::<Vec<i64>>());
    for (call, feature) in [
        ("put('{q}', '{}', priority => 1)", "priority"),
        ("put('{q}', '{}', ttl => '1 s')", "ttl"),
        ("put('{q}', '{}', ttr => '1 s')", "ttr"),
        ("put('{q}', '{}', delay => '1 s')", "delayed"),
    ] {
        q.fails(&format!("SELECT xqueue.{call}"), "0A000", &format!("feature {feature} is not"));
    }
}

#[test]
fn names_of_63_characters_in_any_schema() {
    let mut c = connect();
    let schema = format!("\"My {}\"", unique("schema"));
    c.run(&format!("CREATE SCHEMA {schema}"));
    let long: String = repeat_n('n', 63).collect();
    let name = format!("{schema}.{long}");
    for (options, again) in [("'{}'", false), ("'{}', if_not_exists => true", true)] {
        let create = format!("SELECT xqueue.create('{name}', {options})");
        let definition: xqueue_tests::Value = scalar(&mut c, &create, &[]);
        assert_eq!(definition["queue"], name, "{again}");
    }
    expect_error(&mut c, &format!("SELECT xqueue.create('{name}')"), "42P07", "already exists");
    assert_eq!(put(&mut c, &name, 1), 1);
    assert_eq!(take_all(&mut c, &name), [1]);
    // A taken task or a waiting consumer keeps the queue from being dropped, and the error names it.
    let error = expect_error(&mut c, &format!("SELECT xqueue.drop('{name}')"), "55006", "in use");
    assert_eq!(error.detail(), Some("1 tasks are taken, 0 consumers wait."));
    assert!(error.hint().is_some(), "{error:?}");
    assert_eq!(ack(&mut c, &name, 1).len(), 1);
    let mut q = Queue::adopt(&database(), &name);
    let waiter = Waiter::take(&mut q);
    let error = expect_error(&mut c, &format!("SELECT xqueue.drop('{name}')"), "55006", "in use");
    assert_eq!(error.detail(), Some("0 tasks are taken, 1 consumers wait."));
    waiter.cancel(&mut c);
    assert!(waiter.join().result.is_err());
    q.abandon();
    put(&mut c, &name, 2);
    c.run(&format!("SELECT xqueue.drop('{name}'); DROP SCHEMA {schema}"));
}

#[test]
fn an_id_is_not_used_again_after_the_queue_was_empty() {
    let (mut q, name) = fifo("ids");
    let mut c = q.client();
    for expected in 1..=3 {
        assert_eq!(put(&mut c, &name, 0), expected);
        assert_eq!(take_all(&mut c, &name), [expected]);
        assert_eq!(ack(&mut c, &name, expected).len(), 1);
        q.assert_tasks(&[("total", 0)]);
    }
    q.sql("SELECT xqueue.put('{q}', '{}'); SELECT xqueue.truncate('{q}')");
    assert_eq!(put(&mut c, &name, 0), 5);
}

#[test]
fn a_task_of_another_is_not_buried_and_may_be_deleted() {
    let (mut q, name) = fifottl("another");
    let (mut owner, mut other) = (q.client(), q.client());
    put(&mut owner, &name, 1);
    assert_eq!(take_all(&mut owner, &name), [1]);
    for (call, more) in [("bury", ""), ("release", ""), ("ack", ""), ("touch", ", '1 s'")] {
        let sql = format!("SELECT xqueue.{call}('{name}', 1{more})");
        expect_error(&mut other, &sql, "55006", "task 1 is taken by");
    }
    let deleted = values(&mut other, &format!("SELECT xqueue.delete('{name}', 1)"), &[]);
    assert_eq!((&deleted[0]["id"], &deleted[0]["status"]), (&json!(1), &json!("T")));
    let error =
        expect_error(&mut owner, &format!("SELECT xqueue.ack('{name}', 1)"), "P0002", "not found");
    assert!(error.hint().is_some_and(|hint| hint.contains("deleted")), "{error:?}");
    q.assert_tasks(&[("total", 0), ("taken", 0)]);
}

#[test]
fn touch_with_less_than_nothing_and_too_much() {
    let (mut q, name) = fifottl("touch");
    q.sql("SELECT xqueue.put('{q}', '{}', ttl => '1 h', ttr => '1 min')");
    let mut c = q.client();
    assert_eq!(take_all(&mut c, &name), [1]);
    let row = |c: &mut Client| values(c, &format!("SELECT to_jsonb(t) FROM {name} AS t"), &[]);
    let before = row(&mut c);
    let touch = |increment: &str| format!("SELECT xqueue.touch('{name}', 1, {increment})");
    for (increment, state) in [
        ("'-1 s'", "22023"),
        ("'-1 month 29 days'", "22023"),
        ("'292260 years'", "22008"),
        ("make_interval(days => 2147483647)", "22023"),
        ("make_interval(months => 2147483647, days => 2147483647)", "22023"),
    ] {
        expect_error(&mut c, &touch(increment), state, "");
        assert_eq!(row(&mut c), before, "{increment}");
    }
    assert_eq!(values(&mut c, &touch("'1 day'"), &[]).len(), 1);
    assert!(q.holds(
        1,
        "expires > now() + '1 day 59 min'::interval AND runat > now() + '1 day'::interval"
    ));
}
