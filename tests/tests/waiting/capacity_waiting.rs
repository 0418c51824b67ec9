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
        other.batch_execute("BEGIN; SAVEPOINT s").unwrap();
        put(&mut other, &q.name, 1);
        let producer = Waiter::put(&mut q, &numbered(2));
        other.batch_execute(end).unwrap();
        assert_eq!(producer.tasks().len(), 1, "{end}");
        q.sql("DELETE FROM {q}");
    }
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn the_end_of_a_life_makes_room() {
    let mut q = Queue::limited("room", 1, 0);
    q.upgrade(&json!({"features": {"ttl": true}}));
    q.sql("SELECT xqueue.put('{q}', '{}', ttl => '300 milliseconds')");
    let sql = format!("SELECT xqueue.put('{}', '{{}}', timeout => '30s')", q.name);
    assert_eq!(Waiter::producing(&mut q, &sql).tasks().len(), 1);
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

/// A smaller put does not overtake earlier ones, whether it is in line already or arrives later.
#[test]
fn a_large_batch_is_not_overtaken() {
    let mut q = Queue::limited("room", 5, 4);
    let batch = Waiter::put(&mut q, &empty_tasks(3));
    let single = Waiter::put(&mut q, &numbered(1));
    assert_eq!(q.puts(1), 0, "there is room for one, but others have waited for longer");
    q.fails("INSERT INTO {q} DEFAULT VALUES", "53400", "is full");
    q.drain(1);
    assert_eq!(q.stats()["producers"], json!(2));
    q.drain(1);
    assert_eq!(batch.tasks().len(), 3);
    q.wait_for_producers(1);
    q.drain(1);
    assert_eq!(single.tasks().len(), 1);
    q.assert_tasks(&[("total", 5)]);
}

/// When the large batch at the head gives up, the puts behind it proceed.
#[test]
fn a_producer_that_gives_up_makes_way() {
    let mut q = Queue::limited("room", 5, 4);
    let sql = format!("SELECT xqueue.put('{}', '[{{}}, {{}}]', timeout => '300 ms')", q.name);
    let batch = Waiter::producing(&mut q, &sql);
    let single = Waiter::put(&mut q, &numbered(1));
    assert_eq!(single.tasks().len(), 1);
    assert!(batch.tasks().is_empty(), "its time is over");
    q.assert_tasks(&[("total", 5)]);
}

/// Producers in line can depend on the end of this transaction, so it does not queue behind them.
#[test]
fn a_producer_with_reserved_room_goes_on() {
    let mut q = Queue::limited("room", 5, 0);
    let name = q.name.clone();
    let mut open = q.client();
    open.batch_execute("BEGIN").unwrap();
    put(&mut open, &name, 1);
    let batch = Waiter::put(&mut q, &empty_tasks(5));
    put(&mut open, &name, 2);
    open.batch_execute(&format!("INSERT INTO {name} DEFAULT VALUES; COMMIT")).unwrap();
    q.drain(2);
    assert!(!batch.finished());
    q.drain(1);
    assert_eq!(batch.tasks().len(), 5);
}

#[test]
fn several_get_room_at_once() {
    let mut q = Queue::limited("room", 10, 10);
    let producers: Vec<Waiter> = (0..12).map(|n| Waiter::put(&mut q, &numbered(n))).collect();
    q.sql("TRUNCATE {q}");
    q.wait_for_producers(2);
    let mut put = Vec::new();
    let mut producers = producers.into_iter();
    for producer in producers.by_ref().take(10) {
        put.extend(producer.tasks().iter().map(number));
    }
    assert_eq!(put, (0..10).collect::<Vec<_>>());
    q.drain(10);
    producers.for_each(|producer| assert_eq!(producer.tasks().len(), 1));
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
fn the_queue_is_gone() {
    for end in ["DROP TABLE {q}", "SELECT xqueue.downgrade('{q}')"] {
        let mut q = Queue::limited("room", 1, 1);
        let first = Waiter::put(&mut q, &numbered(1));
        let second = Waiter::put(&mut q, &numbered(2));
        q.fails("SELECT xqueue.drop('{q}')", "55006", "in use");
        q.sql(end);
        assert_eq!(first.error().1.code().code(), "42P01");
        assert_eq!(second.error().1.code().code(), "42P01");
        if !end.starts_with("DROP") {
            q.sql("DROP TABLE {q}");
        }
        q.abandon();
    }
}

#[test]
fn waiting_consumers_are_shown() {
    let mut q = Queue::limited("room", 2, 2);
    let batch = Waiter::put(&mut q, &empty_tasks(2));
    let shown = q.ask("SELECT to_jsonb(p) FROM xqueue.producers p WHERE queue = '{q}'::regclass");
    assert_eq!((&shown[0]["pid"], &shown[0]["tasks"]), (&json!(batch.pid), &json!(2)));
    assert_eq!((shown.len(), &q.stats()["consumers"]), (1, &json!(0)));
    assert!(!is_waiting(&mut q.admin, batch.pid), "he is no consumer");
    // A waiting producer holds no lock.
    let held = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND relation = $2::text::regclass";
    assert_eq!(scalar::<i64>(&mut q.admin, held, &[&batch.pid, &q.name]), 0);
    q.sql("TRUNCATE {q}");
    batch.tasks();
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
fn a_put_that_waits_in_its_transaction() {
    let mut q = Queue::limited("room", 3, 1);
    let name = q.name.clone();
    let mut c = q.client();
    c.batch_execute("BEGIN").unwrap();
    put(&mut c, &name, 1);
    let sql = format!("SELECT xqueue.put('{name}', '[{{}}, {{}}]', timeout => '30s')");
    let producer = Waiter::start(c, &sql);
    q.wait_for_producers(1);
    q.drain(1);
    let mut c = producer.join().client;
    q.assert_reserved(3);
    c.batch_execute("COMMIT").unwrap();
    q.assert_tasks(&[("total", 3)]);
    // A put that never fits with the same transaction's earlier puts does not wait.
    c.batch_execute(&format!("BEGIN; TRUNCATE {name}")).unwrap();
    put(&mut c, &name, 1);
    assert!(
        ask(&mut c, &name, "SELECT xqueue.put('{q}', '[{}, {}, {}]', timeout => '1 day')")
            .is_empty()
    );
    c.batch_execute("ROLLBACK").unwrap();
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
    let name = q.name.clone();
    let mut first = q.client();
    first.batch_execute(&format!("BEGIN; SELECT xqueue.put('{name}', '[{{}}, {{}}]')")).unwrap();
    let newcomer = Waiter::put(&mut q, &empty_tasks(2));
    let insider =
        Waiter::start(first, &format!("SELECT xqueue.put('{name}', '{{}}', timeout => '30s')"));
    q.wait_for_producers(2);
    q.drain(1);
    let (mut first, _) = insider.task();
    assert!(!newcomer.finished());
    first.batch_execute("ROLLBACK").unwrap();
    assert_eq!(newcomer.tasks().len(), 2);
}
