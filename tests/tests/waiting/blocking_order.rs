//! The order of waiting consumers: first come, first served, one consumer per task, and batches.

use std::collections::BTreeSet;

use xqueue_tests::*;

#[test]
fn a_take_that_does_not_wait() {
    let mut q = Queue::new("order");
    assert!(take(&mut q.admin, &q.name, "0", 1).is_empty());
    assert!(take(&mut q.admin, &q.name, "30 milliseconds", 1).is_empty(), "the timeout ran out");
    let first = put(&mut q.admin, &q.name, 1);
    let second = put(&mut q.admin, &q.name, 2);
    assert_eq!(ids(&take(&mut q.admin, &q.name, "30s", 1)), [first]);
    assert_eq!(q.takes(5), [second]);
    q.assert_tasks(&[("taken", 2), ("total", 2)]);
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let mut q = Queue::new("order");
    let waiters: Vec<Waiter> = (0..6).map(|_| Waiter::take(&mut q)).collect();
    let mut done = Vec::new();
    for waiter in waiters {
        let id = put(&mut q.admin, &q.name, 1);
        let (client, task) = waiter.task();
        assert_eq!(xqueue_tests::id(&task), id);
        done.push(client);
    }
    q.assert_tasks(&[("taken", 6), ("total", 6)]);
}

#[test]
fn a_waiter_that_was_served_queues_up_again_at_the_end() {
    let mut q = Queue::new("order");
    let name = q.name.clone();
    let first = Waiter::take(&mut q);
    let second = Waiter::take(&mut q);
    put(&mut q.admin, &name, 1);
    let (client, task) = first.task();
    let mut client = client;
    ack(&mut client, &name, id(&task));
    let again = Waiter::start(client, &format!("SELECT xqueue.take('{name}', '30s')"));
    q.wait_for_consumers(2);
    put(&mut q.admin, &name, 2);
    let (_second, task) = second.task();
    assert_eq!(task["payload"], json!({"n": 2}));
    put(&mut q.admin, &name, 3);
    let (_again, task) = again.task();
    assert_eq!(task["payload"], json!({"n": 3}));
}

#[test]
fn fewer_tasks_than_waiters() {
    let mut q = Queue::new("order");
    let waiters: Vec<Waiter> = (0..9).map(|_| Waiter::take(&mut q)).collect();
    q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}, {}]')");
    wait_until("four are served", || waiters.iter().filter(|w| w.finished()).count() >= 4);
    q.wait_for_consumers(5);
    q.assert_tasks(&[("taken", 4), ("total", 4)]);
    assert!(waiters[..4].iter().all(Waiter::finished), "the first four were served");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 5)");
    let held: Vec<(Client, Value)> = waiters.into_iter().map(Waiter::task).collect();
    let distinct: BTreeSet<i64> = held.iter().map(|(_, task)| id(task)).collect();
    assert_eq!(distinct.len(), 9, "each task went to one consumer");
    q.assert_tasks(&[("taken", 9), ("total", 9)]);
    drop(held);
    q.wait_for("ready", 9);
    assert_eq!(take_all(&mut q.admin, &q.name).len(), 9);
}

#[test]
fn more_tasks_than_waiters() {
    let mut q = Queue::new("order");
    let waiters: Vec<Waiter> = (0..3).map(|_| Waiter::take(&mut q)).collect();
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 50)");
    let held: Vec<(Client, Value)> = waiters.into_iter().map(Waiter::task).collect();
    assert_eq!(held.len(), 3);
    q.assert_tasks(&[("ready", 47), ("taken", 3)]);
}

#[test]
fn a_waiter_that_asks_for_many_takes_what_is_there() {
    let mut q = Queue::new("order");
    let name = q.name.clone();
    let waiter = Waiter::start(q.client(), &format!("SELECT xqueue.take('{name}', '30s', 10)"));
    q.wait_for_consumers(1);
    q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}]')");
    let outcome = waiter.join();
    assert_eq!(outcome.result.unwrap().len(), 3);
    q.assert_tasks(&[("taken", 3)]);
}

/// A consumer takes a whole batch for which several were woken: the others keep waiting and miss no later task.
#[test]
fn a_greedy_waiter_leaves_the_others_waiting() {
    let mut q = Queue::new("order");
    let name = q.name.clone();
    let greedy = Waiter::start(q.client(), &format!("SELECT xqueue.take('{name}', '30s', 100)"));
    q.wait_for_consumers(1);
    let others: Vec<Waiter> = (0..4).map(|_| Waiter::take(&mut q)).collect();
    for _ in 0..5 {
        q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}, {}]')");
    }
    let mut held: Vec<(Client, Vec<Value>)> = Vec::new();
    let mut keep = |outcome: Outcome| held.push((outcome.client, outcome.result.unwrap()));
    keep(greedy.join());
    // It can have taken all of them: four more tasks guarantee one for each of the others.
    q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}, {}]')");
    others.into_iter().for_each(|waiter| keep(waiter.join()));
    let taken: BTreeSet<i64> = held.iter().flat_map(|(_, tasks)| ids(tasks)).collect();
    let given: usize = held.iter().map(|(_, tasks)| tasks.len()).sum();
    assert_eq!(taken.len(), given, "no task was given twice");
    q.assert_tasks(&[("taken", given as i64), ("total", 24)]);
}

#[test]
fn the_row_form_waits_too() {
    let mut q = Queue::new("order");
    let name = q.name.clone();
    let sql = format!("SELECT to_jsonb(t) FROM xqueue.take(NULL::{name}, '30s') AS t");
    let waiter = Waiter::waiting(&mut q, &sql);
    let id = put(&mut q.admin, &name, 5);
    let (mut client, task) = waiter.task();
    assert_eq!((xqueue_tests::id(&task), &task["status"]), (id, &json!("T")));
    ack(&mut client, &name, id);
    // The row form returns the columns that an ORM reads.
    let id = put(&mut q.admin, &name, 6);
    let row = client.query_one(&format!("SELECT * FROM xqueue.take(NULL::{name})"), &[]).unwrap();
    assert_eq!(row.get::<_, i64>("id"), id);
    assert_eq!(row.get::<_, Value>("payload"), json!({"n": 6}));
    let sql = format!("SELECT (xqueue.ack(q)).id FROM {name} AS q WHERE id = $1");
    assert_eq!(client.query_one(&sql, &[&id]).unwrap().get::<_, i64>(0), id);
    assert_eq!(status(&mut client, &name, id), None);
}

#[test]
fn a_session_may_wait_in_a_repeatable_read_transaction_only_without_timeout() {
    let mut q = Queue::new("order");
    let name = q.name.clone();
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let id = put(&mut q.admin, &name, 1);
        let mut c = q.client();
        c.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        assert_eq!(take_all(&mut c, &name), [id], "without a timeout it works");
        ack(&mut c, &name, id);
        c.batch_execute(&format!("COMMIT; BEGIN ISOLATION LEVEL {level}")).unwrap();
        let sql = format!("SELECT xqueue.take('{name}', '10s')");
        let error = expect_error(&mut c, &sql, "0A000 25001", "");
        assert!(error.message().to_lowercase().contains("read"), "{error:?}");
        assert!(error.hint().is_some());
        c.batch_execute("ROLLBACK").unwrap();
    }
    q.assert_tasks(&[("total", 0)]);
}
