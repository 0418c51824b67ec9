//! Producers wait for capacity in the order of their arrival, and are woken only when there is enough for them.

use xqueue_tests::*;

fn numbered(n: i64) -> Value {
    json!({"payload": {"n": n}})
}

fn number(task: &Value) -> i64 {
    task["payload"]["n"].as_i64().unwrap_or_else(|| panic!("a task without number: {task}"))
}

#[test]
fn a_producer_is_woken_by_whatever_makes_room() {
    let mut q = Queue::limited("room", 1, 1);
    let makers = [
        "SELECT xqueue.ack('{q}', (t->>'id')::bigint) FROM xqueue.take('{q}') AS t",
        "SELECT xqueue.delete('{q}', id) FROM {q}",
        "DELETE FROM {q}",
        "TRUNCATE {q}",
        "SELECT xqueue.truncate('{q}')",
    ];
    for maker in makers {
        let producer = Waiter::put(&mut q, &numbered(1));
        q.sql(maker);
        assert_eq!(producer.tasks().len(), 1, "{maker}");
    }
    // A put that is rolled back, to a savepoint and as a whole.
    q.sql("DELETE FROM {q}");
    for end in ["ROLLBACK TO s", "ROLLBACK"] {
        let mut other = q.client();
        other.run("BEGIN; SAVEPOINT s");
        put(&mut other, &q.name, 1);
        let producer = Waiter::put(&mut q, &numbered(2));
        other.run(end);
        assert_eq!(producer.tasks().len(), 1, "{end}");
        q.sql("DELETE FROM {q}");
    }
    // The end of a life.
    q.upgrade(&json!({"features": {"ttl": true}}));
    q.sql("SELECT xqueue.put('{q}', '{}', ttl => '300 milliseconds')");
    assert_eq!(Waiter::put(&mut q, &numbered(3)).tasks().len(), 1);
}

#[test]
fn in_the_order_of_arrival() {
    let mut q = Queue::limited("room", 2, 2);
    let producers: Vec<Waiter> = (0..6).map(|n| Waiter::put(&mut q, &numbered(n))).collect();
    for (n, producer) in producers.into_iter().enumerate() {
        assert!(!producer.finished());
        q.drain(1);
        assert_eq!(producer.tasks().iter().map(number).collect::<Vec<_>>(), [n as i64]);
        q.wait_for_producers(5 - n as i64);
    }
    q.assert_tasks(&[("total", 2)]);
}

/// Producers in line can depend on the end of this transaction, so it does not queue behind them.
#[test]
fn a_producer_with_reserved_room_goes_on() {
    let mut q = Queue::limited("room", 5, 0);
    let mut open = q.client();
    open.run("BEGIN");
    put(&mut open, &q.name, 1);
    let batch = Waiter::put(&mut q, &empty_tasks(5));
    put(&mut open, &q.name, 2);
    q.run(&mut open, "INSERT INTO {q} DEFAULT VALUES; COMMIT");
    q.drain(2);
    assert!(!batch.finished());
    q.drain(1);
    assert_eq!(batch.tasks().len(), 5);
}

#[test]
fn another_capacity() {
    let mut q = Queue::limited("room", 2, 2);
    let capacity = |capacity: Value| json!({"features": {"capacity": capacity}});
    let batch = Waiter::put(&mut q, &empty_tasks(2));
    let single = Waiter::put(&mut q, &numbered(1));
    q.upgrade(&capacity(json!(4)));
    assert_eq!(batch.tasks().len(), 2);
    assert!(!single.finished());
    // An upgrade that is rolled back frees no capacity, and neither does one that changes something else.
    q.sql("BEGIN");
    q.upgrade(&capacity(json!(9)));
    q.sql("ROLLBACK");
    q.upgrade(&json!({"features": {"buried": true}}));
    q.sql("ALTER TABLE {q} ADD COLUMN more int");
    assert!(!single.finished());
    // A put that can never fit any more is refused; the one behind it is not.
    let batch = Waiter::put(&mut q, &empty_tasks(4));
    let last = Waiter::put(&mut q, &numbered(2));
    q.upgrade(&capacity(json!(3)));
    assert_eq!(batch.error().1.code().code(), "53400");
    q.wait_for_producers(2);
    q.upgrade(&capacity(json!(false)));
    assert_eq!((single.tasks().len(), last.tasks().len()), (1, 1));
    q.assert_tasks(&[("total", 6)]);
}

#[test]
fn consumers_and_producers_wait_in_one_queue() {
    let mut q = Queue::limited("room", 2, 0);
    q.sql("INSERT INTO {q} (status) VALUES ('B'), ('B')");
    let consumer = Waiter::take(&mut q);
    let producer = Waiter::put(&mut q, &numbered(1));
    q.drain(1);
    assert_eq!(producer.tasks().len(), 1);
    let (mut client, task) = consumer.task();
    assert_eq!(number(&task), 1);
    let producer = Waiter::put(&mut q, &numbered(2));
    ack(&mut client, &q.name, id(&task));
    assert_eq!(producer.tasks().len(), 1);
}

#[test]
fn put_wait_waits_for_room_first() {
    let mut q = Queue::limited("room", 1, 1);
    let name = q.name.clone();
    let full = format!("CALL xqueue.put_wait('{name}', '{{}}', '50 ms')");
    let outcome: String = scalar(&mut q.admin, &full, &[]);
    assert_eq!(outcome, "full");
    q.assert_tasks(&[("total", 1)]);
    let mut c = q.client();
    let pid = pid(&mut c);
    let call = format!("CALL xqueue.put_wait('{name}', '{{\"payload\": {{\"n\": 7}}}}', '30s')");
    let thread = std::thread::spawn(move || scalar::<String>(&mut c, &call, &[]));
    q.wait_for_producers(1);
    // While it waits it holds neither a snapshot nor a lock.
    let free =
        "SELECT backend_xmin IS NULL AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid
                AND l.relation = $2::text::regclass) FROM pg_stat_activity a WHERE pid = $1";
    assert!(scalar::<bool>(&mut q.admin, free, &[&pid, &name]));
    q.drain(1);
    let task = take(&mut q.admin, &name, "10s", 1);
    assert_eq!(number(&task[0]), 7);
    ack(&mut q.admin, &name, id(&task[0]));
    assert_eq!(thread.join().unwrap(), "acked");
}

/// A transaction that has put already gets capacity before later ones, because they can be waiting for its end.
#[test]
fn a_transaction_that_has_put_already_precedes_newcomers() {
    let mut q = Queue::limited("room", 3, 1);
    let mut first = q.client();
    q.run(&mut first, "BEGIN; SELECT xqueue.put('{q}', '[{}, {}]')");
    let newcomer = Waiter::put(&mut q, &empty_tasks(2));
    let put = format!("SELECT xqueue.put('{}', '{{}}', timeout => '30s')", q.name);
    let insider = Waiter::start(first, &put);
    q.wait_for_producers(2);
    q.drain(1);
    let (mut first, _) = insider.task();
    assert!(!newcomer.finished());
    // A put that never fits with the same transaction's earlier puts does not wait.
    let put = "SELECT xqueue.put('{q}', '{}', timeout => '1 day')";
    assert!(ask(&mut first, &q.name, put).is_empty());
    first.run("ROLLBACK");
    assert_eq!(newcomer.tasks().len(), 2);
}
