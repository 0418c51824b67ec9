//! Feature tube: which task wakes which consumer, and labels of several types. pg_regress tests takes of one session.

use crate::utube::without_worker;
use xqueue_tests::*;

/// The ways in which task 5, which the session has taken, becomes ready again.
pub const COMES_BACK: [&str; 11] = [
    "SELECT xqueue.release('{q}', 5)",
    "SELECT xqueue.release('{q}', 5, delay => '1 ms')",
    "SELECT xqueue.bury('{q}', 5); SELECT xqueue.dig('{q}', 5)",
    "SELECT xqueue.bury('{q}', 5); SELECT xqueue.kick('{q}', 1)",
    "SELECT xqueue.bury('{q}', 5); SELECT xqueue.switch('{q}', 5, 'R')",
    "SELECT xqueue.ack('{q}', 5); SELECT xqueue.restart('{q}', 5)",
    "SELECT xqueue.snatch('{q}', 5)",
    "SELECT xqueue.release_all('{q}')",
    "UPDATE {q} SET status = 'R', owner = NULL WHERE id = 5",
    "UPDATE {q} SET runat = now() WHERE id = 5",
    "DISCARD ALL",
];

fn tubes() -> Queue {
    let features =
        json!({"tube": true, "delayed": true, "buried": true, "keep": true, "ttr": true});
    Queue::with("tube", COLUMNS, &json!({"features": features}))
}

/// Starts a consumer that waits for a task of one tube.
fn waiter(q: &mut Queue, tube: &str) -> Waiter {
    let sql = format!("SELECT xqueue.take('{}', '30 seconds', tube => '{tube}')", q.name);
    Waiter::waiting(q, &sql)
}

/// Asserts that the consumer gets this task. It holds the task as long as its connection is open.
#[track_caller]
fn gets(waiter: Waiter, task: i64) -> Client {
    let (client, taken) = waiter.task();
    assert_eq!(id(&taken), task);
    client
}

/// Returns whether the consumer is still in the wait queue.
fn still_waits(q: &mut Queue, waiter: &Waiter) -> bool {
    !waiter.finished() && is_waiting(&mut q.admin, waiter.pid)
}

#[test]
fn tubes_can_be_of_any_type_that_has_an_order() {
    let mood = unique("mood");
    connect().run(&format!("CREATE TYPE {mood} AS ENUM ('sad', 'glad')"));
    for (column, a, b, same_as_a) in [
        ("int", "1", "2", "01"),
        (mood.as_str(), "sad", "glad", "sad"),
        ("char(5)", "a", "b", "a "),
        ("numeric", "1.5", "2", "1.50"),
    ] {
        println!("{column}");
        let columns = format!("{COLUMNS}, kind {column}");
        let options = json!({"fields": {"tube": "kind"}, "features": {"tube": true}});
        let mut q = Queue::with("tube", &columns, &options);
        let (wants_b, wants_a) = (waiter(&mut q, b), waiter(&mut q, same_as_a));
        q.sql(&format!("SELECT xqueue.put('{{q}}', '{{}}', tube => '{a}')"));
        let _client = gets(wants_a, 1);
        assert!(still_waits(&mut q, &wants_b));
        q.sql(&format!(r#"SELECT xqueue.put('{{q}}', '{{"kind": "{b}"}}')"#));
        let _client = gets(wants_b, 2);
    }
}

#[test]
fn a_put_wakes_the_first_consumer_that_wants_it_and_no_other() {
    let mut q = tubes();
    let any = Waiter::take(&mut q);
    let b = waiter(&mut q, "b");
    let a1 = waiter(&mut q, "a");
    let a2 = waiter(&mut q, "a");
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 0}', tube => 'a')"#);
    let _any = gets(any, 0);
    assert!(still_waits(&mut q, &a1), "a consumer of any task came earlier");
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 1}', tube => 'a')"#);
    let _first = gets(a1, 1);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 2}', tube => 'c')"#);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 3}')"#);
    assert!(still_waits(&mut q, &b) && still_waits(&mut q, &a2));
    q.sql(r#"SELECT xqueue.put('{q}', '[{"id": 4}, {"id": 5}]', tube => 'a')"#);
    let _second = gets(a2, 4);
    assert!(still_waits(&mut q, &b));
    q.sql(r#"INSERT INTO {q} (id, tube) VALUES (6, 'b')"#);
    let _third = gets(b, 6);
    // Task 5 is still ready.
    q.sql("DELETE FROM {q} WHERE status = 'R'");
    let a3 = waiter(&mut q, "a");
    q.sql("BEGIN; INSERT INTO {q} (id, tube) VALUES (7, 'a'), (8, 'a'); PREPARE TRANSACTION '{q}'");
    assert!(!a3.finished());
    q.sql("COMMIT PREPARED '{q}'");
    let _fourth = gets(a3, 7);
}

/// The first consumer is woken for task 2 and takes task 1, which no other consumer wants.
#[test]
fn a_consumer_that_takes_from_another_tube_passes_its_wake_up_on() {
    alone();
    for (feature, take) in [
        ("tube", "SELECT xqueue.take('{q}', '15 s')"),
        ("tube", "CALL xqueue.next('{q}', '15 s', NULL, NULL)"),
        ("utube", "SELECT xqueue.take('{q}', '15 s')"),
    ] {
        println!("{feature}, {take}");
        let options = json!({"features": {feature: true, "priority": true}});
        let mut q = Queue::with("tube", COLUMNS, &options);
        let _stopped = without_worker(&mut q);
        let any = Waiter::waiting(&mut q, take);
        let x = waiter(&mut q, "x");
        q.sql("INSERT INTO {q} (id, tube, priority) VALUES (2, 'x', 5), (1, 'y', 1)");
        let _first = gets(any, 1);
        let _second = gets(x, 2);
    }
}

/// The consumer that wants task 1 comes too late for it, because one of any task has taken it.
#[test]
fn a_consumer_that_comes_too_late_passes_its_wake_up_on() {
    alone();
    let options = json!({"features": {"tube": true, "priority": true}});
    let mut q = Queue::with("tube", COLUMNS, &options);
    let _worker = without_worker(&mut q);
    let y = waiter(&mut q, "y");
    let (first, second) = (Waiter::take(&mut q), Waiter::take(&mut q));
    let stopped = Stopped::backend(y.pid);
    q.sql("INSERT INTO {q} (id, tube, priority) VALUES (2, 'x', 5), (1, 'y', 1)");
    let _first = gets(first, 1);
    drop(stopped);
    let _second = gets(second, 2);
    y.cancel(&mut q.admin);
}

#[test]
fn a_consumer_is_woken_by_every_way_in_which_a_task_of_its_tube_becomes_ready() {
    for ready in COMES_BACK {
        println!("{ready}");
        let mut q = tubes();
        q.sql(r#"SELECT xqueue.put('{q}', '{"id": 5}', tube => 'a')"#);
        q.sql("SELECT xqueue.take('{q}')");
        let (b, a) = (waiter(&mut q, "b"), waiter(&mut q, "a"));
        ready.split("; ").for_each(|statement| q.sql(statement));
        let _client = gets(a, 5);
        b.cancel(&mut q.admin);
        assert_eq!(b.error().1.code().code(), "57014");
    }
}

#[test]
fn a_wake_up_that_its_consumer_cannot_use_goes_to_the_next_of_the_tube() {
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        let mut q = tubes();
        let first = waiter(&mut q, "a");
        let (b, second) = (waiter(&mut q, "b"), waiter(&mut q, "a"));
        // The first consumer is woken, and ends before it reads the task.
        let stopped = Stopped::backend(first.pid);
        q.sql("SELECT xqueue.put('{q}', '{}', tube => 'a')");
        q.sql(&format!("SELECT {end}({})", first.pid));
        drop(stopped);
        assert!(first.join().result.is_err(), "{end}");
        let _second = gets(second, 1);
        assert!(still_waits(&mut q, &b));
        b.cancel(&mut q.admin);
        b.error();
    }
}

#[test]
fn among_very_many_tubes_in_one_transaction_each_wakes_its_consumers() {
    let mut q = tubes();
    let waiters = ["t1", "t1500", "t3000"].map(|tube| waiter(&mut q, tube));
    let none = waiter(&mut q, "none");
    q.sql("INSERT INTO {q} (id, tube) SELECT n, 't' || n FROM generate_series(1, 3000) n");
    for (waiter, number) in waiters.into_iter().zip([1, 1500, 3000]) {
        let _client = gets(waiter, number);
    }
    q.wait_for_consumers(1);
    assert!(!none.finished());
    none.cancel(&mut q.admin);
    none.error();
}

/// A consumer that waits for a tube also gets its tasks when tubes have become sub-queues meanwhile, and back.
#[test]
fn waiting_for_a_tube_while_the_feature_is_switched() {
    for (from, to) in [(false, true), (true, false)] {
        let features = |utube: bool| json!({"features": {"tube": true, "utube": utube}});
        let mut q = Queue::with("tube", COLUMNS, &features(from));
        let take = format!("SELECT xqueue.take('{}', '30s', tube => 'a')", q.name);
        let call = format!("CALL xqueue.next('{}', '30s', 'a')", q.name);
        for sql in [take, call] {
            q.upgrade(&features(from));
            let waiter = Waiter::waiting(&mut q, &sql);
            q.upgrade(&features(to));
            // Switches without effect on the consumer must not make it check less often.
            for buried in [true, false, true, false, true, false] {
                q.upgrade(&json!({"features": {"buried": buried}}));
            }
            q.wait_for_consumers(1);
            q.sql("SELECT xqueue.put('{q}', '{}', tube => 'a')");
            let (mut c, task) = waiter.task();
            ack(&mut c, &q.name, id(&task));
        }
    }
}
