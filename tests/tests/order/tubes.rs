//! Features tube and priority: which consumer gets which task and which task wakes it, and the counters of each tube.

mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xqueue_tests::{
    COLUMNS, Client, Queue, Waiter, ack, ask, id, ids, is_waiting, json, refused, take_all,
    wait_until,
};

fn queue(options: &str) -> Queue {
    let options: xqueue_tests::Value = options.parse().expect("options");
    Queue::with("tube", COLUMNS, &options)
}

fn tubes() -> Queue {
    queue(r#"{"features": {"tube": true, "delayed": true, "buried": true}}"#)
}

fn take_from(c: &mut Client, q: &str, tube: &str) -> Vec<i64> {
    ids(&ask(c, q, &format!("SELECT xqueue.take('{{q}}', tube => '{tube}')")))
}

/// Starts a consumer that waits for a task of one tube.
fn waiter(q: &mut Queue, tube: &str) -> Waiter {
    let sql = format!("SELECT xqueue.take('{}', '30 seconds', tube => '{tube}')", q.name);
    Waiter::waiting(q, &sql)
}

/// Returns whether the consumer is still in the wait queue.
fn still_waits(q: &mut Queue, waiter: &Waiter) -> bool {
    !waiter.finished() && is_waiting(&mut q.admin, waiter.pid)
}

#[test]
fn a_take_of_one_tube_gets_only_its_tasks_in_their_order() {
    let mut q = tubes();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'b'), (2, 'a'), (3, NULL), (4, 'a'), (5, 'b'), (6, '')");
    assert_eq!(take_from(&mut q.admin, &q.name, "a"), [2]);
    assert_eq!(take_from(&mut q.admin, &q.name, "a"), [4]);
    assert!(take_from(&mut q.admin, &q.name, "a").is_empty());
    assert_eq!(take_from(&mut q.admin, &q.name, ""), [6], "the empty tube is one of its own");
    assert!(take_from(&mut q.admin, &q.name, "c").is_empty());
    // A take without a tube gets any task, including tasks without a tube.
    assert_eq!(take_all(&mut q.admin, &q.name), [1, 3, 5]);
}

#[test]
fn a_tube_is_given_by_the_call_or_by_the_task() {
    let mut q = tubes();
    q.sql(r#"SELECT xqueue.put('{q}', '[{"id": 1}, {"id": 2}]', tube => 'a')"#);
    q.sql(r#"SELECT xqueue.put('{q}', '[{"id": 3, "tube": "b"}, {"id": 4, "tube": "a"}]')"#);
    q.sql(r#"SELECT xqueue.put(jsonb_populate_record(NULL::{q}, '{"id": 5, "tube": "b"}'))"#);
    let taken = q.ask("SELECT to_jsonb(t) FROM xqueue.take(NULL::{q}, count => 9, tube => 'a') t");
    assert_eq!(ids(&taken), [1, 2, 4]);
    assert_eq!(take_from(&mut q.admin, &q.name, "b"), [3]);
    refused(
        &mut q,
        &[(r#"SELECT xqueue.put('{q}', '{"tube": "b"}', tube => 'a')"#, "22023", "given twice")],
    );
    q.upgrade(&json!({"features": {"tube": false}}));
    refused(
        &mut q,
        &[
            ("SELECT xqueue.put('{q}', '{}', tube => 'a')", "0A000", "feature tube is not enabled"),
            ("SELECT xqueue.take('{q}', tube => 'a')", "0A000", "feature tube is not enabled"),
            ("SELECT xqueue.take('{q}', '1 s', tube => 'a')", "0A000", "tube is not enabled"),
        ],
    );
}

#[test]
fn a_move_that_is_rolled_back_leaves_the_task_to_its_old_tube() {
    let mut q = tubes();
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 1}', tube => 'a')"#);
    let b = waiter(&mut q, "b");
    q.sql("BEGIN; UPDATE {q} SET tube = 'b'; ROLLBACK");
    assert!(still_waits(&mut q, &b));
    assert_eq!(take_from(&mut q.admin, &q.name, "a"), [1]);
    // If a consumer dies, its task returns to the tube that the row now has.
    let mut consumer = q.client();
    q.sql("SELECT xqueue.release('{q}', 1)");
    assert_eq!(take_from(&mut consumer, &q.name, "a"), [1]);
    q.sql("UPDATE {q} SET tube = 'b'");
    assert!(still_waits(&mut q, &b));
    drop(consumer);
    let (_client, task) = b.task();
    assert_eq!(id(&task), 1);
}

#[test]
fn many_consumers_of_few_tubes_get_every_task_once() {
    const ROUNDS: i64 = 100;
    let mut q = tubes();
    let over = Arc::new(AtomicBool::new(false));
    let consumers: Vec<_> = ["'a'", "'b'", "NULL", "'a'", "'b'", "NULL"]
        .map(|tube| {
            let (mut client, name, over) = (q.client(), q.name.clone(), over.clone());
            std::thread::spawn(move || {
                let take =
                    format!("SELECT xqueue.take('{{q}}', '100 milliseconds', tube => {tube})");
                let mut got = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    for task in ask(&mut client, &name, &take) {
                        got.push(id(&task));
                        ask(
                            &mut client,
                            &name,
                            &format!("SELECT xqueue.ack('{{q}}', {})", id(&task)),
                        );
                    }
                }
                got
            })
        })
        .into();
    for _ in 0..ROUNDS {
        q.sql(r#"SELECT xqueue.put('{q}', '[{"tube": "a"}, {"tube": "b"}, {"tube": "c"}, {}]')"#);
        q.sql(r#"INSERT INTO {q} (tube) VALUES ('a'), ('b')"#);
    }
    wait_until("all are acked", || q.calls("ack") == 6 * ROUNDS);
    over.store(true, Ordering::Relaxed);
    let got = consumers.into_iter().map(|c| c.join().expect("no consumer panicked"));
    let mut got: Vec<i64> = got.flatten().collect();
    got.sort_unstable();
    assert_eq!(got, (1..=6 * ROUNDS).collect::<Vec<_>>());
}

#[test]
fn a_prepared_put_wakes_a_consumer_of_its_tube_and_next_takes_of_one_tube() {
    let mut q = tubes();
    let a = waiter(&mut q, "a");
    q.sql("BEGIN; SELECT xqueue.put('{q}', '[{}, {}]', tube => 'a'); PREPARE TRANSACTION '{q}'");
    assert!(!a.finished());
    q.sql("COMMIT PREPARED '{q}'");
    let (_client, task) = a.task();
    assert_eq!(id(&task), 1);
    q.sql("SELECT xqueue.put('{q}', '{}', tube => 'b')");
    assert_eq!(ids(&q.ask("CALL xqueue.next('{q}', '0', 'b')")), [3]);
    assert_eq!(q.ask("CALL xqueue.next('{q}', '0', 'a', '{\"id\": 3}')")[0]["id"], json!(2));
    q.assert_tasks(&[("taken", 2), ("total", 2)]);
}

#[test]
fn priorities_are_given_by_the_call_or_the_task_and_zero_otherwise() {
    let mut q = queue(r#"{"features": {"priority": true}}"#);
    q.sql(r#"SELECT xqueue.put('{q}', '[{"id": 1}, {"id": 2, "priority": -3}]')"#);
    q.sql(r#"SELECT xqueue.put('{q}', '[{"id": 3}, {"id": 4}]', priority => -1)"#);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 5}', priority => 2147483647)"#);
    q.sql("INSERT INTO {q} (id, priority) VALUES (6, -2147483648)");
    assert_eq!(take_all(&mut q.admin, &q.name), [6, 2, 3, 4, 1, 5]);
    q.upgrade(&json!({"features": {"priority": false}}));
    q.fails(
        "SELECT xqueue.put('{q}', '{}', priority => 1)",
        "0A000",
        "feature priority is not enabled",
    );
}

#[test]
fn tubes_can_be_of_any_type_that_has_an_order() {
    for (column, a, b, same_as_a) in [
        ("int", "1", "2", "01"),
        ("mood", "sad", "glad", "sad"),
        ("varchar(5)", "a", "b", "a"),
        ("char(5)", "a", "b", "a "),
        ("numeric", "1.5", "2", "1.50"),
        (
            "uuid",
            "00000000-0000-0000-0000-00000000000a",
            "00000000-0000-0000-0000-00000000000b",
            "00000000-0000-0000-0000-00000000000A",
        ),
    ] {
        let mut q = Queue::adopt(&xqueue_tests::database(), &xqueue_tests::unique("tube"));
        let name = q.name.clone();
        q.sql("CREATE TYPE {q}_mood AS ENUM ('sad', 'glad')");
        let kind = if column == "mood" { format!("{name}_mood") } else { column.to_string() };
        q.sql(&format!("CREATE TABLE {{q}} ({COLUMNS}, kind {kind})"));
        q.upgrade(&json!({"fields": {"tube": "kind"}, "features": {"tube": true}}));
        let (wants_b, wants_a) = (waiter(&mut q, b), waiter(&mut q, same_as_a));
        q.sql(&format!("SELECT xqueue.put('{{q}}', '{{}}', tube => '{a}')"));
        let (_client, task) = wants_a.task();
        assert_eq!(id(&task), 1, "{column}");
        assert!(still_waits(&mut q, &wants_b), "{column}");
        q.sql(&format!(r#"SELECT xqueue.put('{{q}}', '{{"kind": "{b}"}}')"#));
        let (_client, task) = wants_b.task();
        assert_eq!(id(&task), 2, "{column}");
        q.verify();
        q.sql("DROP TABLE {q} CASCADE; DROP TYPE {q}_mood");
        q.abandon();
    }
    let mut q = Queue::with(
        "tube",
        &format!("{COLUMNS}, kind int"),
        &json!({"fields": {"tube": "kind"}, "features": {"tube": true}}),
    );
    refused(
        &mut q,
        &[
            ("SELECT xqueue.put('{q}', '{}', tube => 'many')", "22P02", "many"),
            ("SELECT xqueue.take('{q}', tube => 'many')", "22P02", "many"),
            ("SELECT xqueue.take('{q}', '1 s', tube => 'many')", "22P02", "many"),
        ],
    );
}
