//! The order of takes, within one sub-queue and between several.

use super::*;

#[test]
fn a_waiting_task_holds_up_no_other() {
    let mut q = subqueues();
    let name = q.name.clone();
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 1, \"tube\": \"a\"}', delay => '1 day')");
    q.sql("INSERT INTO {q} (id, tube) VALUES (2, 'a'), (3, 'a')");
    assert_eq!(q.takes(9), [2]);
    q.sql("SELECT xqueue.release('{q}', 2, delay => '1 hour')");
    assert_eq!(q.takes(9), [3], "its place is free while it waits");
    q.verify();
    q.sql("SELECT xqueue.restart('{q}', 2)");
    assert!(q.takes(9).is_empty(), "one is in flight");
    q.sql("SELECT xqueue.release('{q}', 3)");
    assert_eq!(q.takes(9), [2], "it has come back to its place");
    q.sql("SELECT xqueue.ack('{q}', 2); SELECT xqueue.take('{q}')");
    q.sql("SELECT xqueue.release('{q}', 3, delay => '50 milliseconds')");
    let sql = format!("SELECT xqueue.take('{name}', '30 s')");
    let (mut consumer, task) = Waiter::start(q.client(), &sql).task();
    assert_eq!(id(&task), 3, "whoever waits is woken when its delay is over");
    ack(&mut consumer, &name, 3);
    assert!(q.takes(9).is_empty());
    q.sql("UPDATE {q} SET status = 'R', runat = NULL WHERE id = 1");
    assert_eq!(q.takes(9), [1], "by hand as well");
}

/// In strict order a failing task is retried before the tasks behind it.
#[test]
fn a_waiting_task_keeps_those_behind_it_where_that_is_strict() {
    let mut q = strict_subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a')");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.release('{q}', 1, delay => '1 hour')");
    assert!(q.takes(9).is_empty());
    q.verify();
    q.sql("SELECT xqueue.restart('{q}', 1)");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.release('{q}', 1, delay => '50 milliseconds')");
    let name = q.name.clone();
    let sql = format!("SELECT xqueue.take('{name}', '30 s')");
    let (mut consumer, task) = Waiter::start(q.client(), &sql).task();
    assert_eq!(id(&task), 1, "its delay is over");
    ack(&mut consumer, &name, 1);
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 0, \"tube\": \"a\"}', delay => '1 hour')");
    assert!(q.takes(9).is_empty(), "one that comes before it waits");
    q.sql("DELETE FROM {q} WHERE id = 0");
    assert_eq!(q.takes(9), [2]);
}

#[test]
fn how_strict_it_is_can_be_switched() {
    let mut q = strict_subqueues();
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 1, \"tube\": \"a\"}', delay => '1 day')");
    q.sql("INSERT INTO {q} (id, tube) VALUES (2, 'a'), (3, 'a')");
    let indexes = |q: &mut Queue| {
        let sql = "SELECT to_jsonb(indexdef) FROM pg_indexes WHERE tablename = '{q}' \
                   AND indexname LIKE '%subqueue_idx'";
        let [index] = &q.ask(sql)[..] else { panic!("one index of those in line") };
        index.as_str().is_some_and(|index| index.contains("'W'"))
    };
    for (utube, strict, first) in [
        (json!({"strict": true}), true, vec![]),
        (json!(true), false, vec![2]),
        (json!({"strict": true}), true, vec![]),
        (json!({"strict": false}), false, vec![2]),
    ] {
        let definition = q.upgrade(&json!({"features": {"utube": utube}}));
        let shown = if strict { json!({"strict": true}) } else { json!(true) };
        assert_eq!(definition["features"]["utube"], shown, "{utube}");
        assert_eq!(indexes(&mut q), strict, "{utube}");
        assert_eq!(q.takes(9), first, "{utube}");
        q.verify();
        q.sql("SELECT xqueue.release(t) FROM {q} t WHERE status = 'T'");
    }
    q.upgrade(&json!({"features": {"utube": {"strict": true}}}));
    let waiter = Waiter::take(&mut q);
    q.upgrade(&json!({"features": {"utube": true}}));
    assert_eq!(id(&waiter.task().1), 2, "whoever waits looks again");
    q.fails(
        "SELECT xqueue.upgrade('{q}', '{\"features\": {\"utube\": {\"strict\": 1}}}')",
        "22023",
        "utube",
    );
}

#[test]
fn sub_queues_take_turns() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (tube) SELECT 'long' FROM generate_series(1, 1000)");
    q.sql(
        "INSERT INTO {q} (id, tube) SELECT 2000 + i, 'short ' || i FROM generate_series(1, 50) i",
    );
    let mut served = vec![];
    for _ in 0..60 {
        let [task] = q.takes(1)[..] else { panic!("there are tasks") };
        q.sql(&format!("SELECT xqueue.ack('{{q}}', {task})"));
        served.push(task);
    }
    let short = served[..51].iter().filter(|task| **task > 2000).count();
    assert_eq!(short, 50, "{served:?}");
    assert_eq!(served[51..], (2..=10).collect::<Vec<_>>()[..]);
}

#[test]
fn priority_comes_before_the_key() {
    let mut q =
        queue(r#"{"features": {"utube": {"strict": true}, "priority": true, "delayed": true}}"#);
    q.sql("INSERT INTO {q} (id, tube, priority) VALUES (1, 'a', 5), (2, 'a', 1), (3, 'a', 3)");
    assert_eq!(q.takes(9), [2]);
    q.sql("SELECT xqueue.ack('{q}', 2)");
    assert_eq!(q.takes(9), [3]);
    q.sql("SELECT xqueue.release('{q}', 3, delay => '1 hour')");
    assert!(q.takes(9).is_empty());
    q.sql("UPDATE {q} SET priority = 9 WHERE id = 3");
    assert_eq!(q.takes(9), [1], "the one that waits stands behind it now");
    q.sql("SELECT xqueue.ack('{q}', 1); INSERT INTO {q} (id, tube, priority) VALUES (5, 'b', 1), (4, 'b', 2)");
    assert_eq!(q.takes(9), [5]);
    q.sql("SELECT xqueue.ack('{q}', 5)");
    q.verify();
    assert_eq!(q.takes(9), [4], "a smaller key, but a later turn");
}

#[test]
fn expired_tasks_block_no_other() {
    alone();
    let mut q = queue(r#"{"features": {"utube": true, "ttl": true, "delayed": true}}"#);
    let worker = Stopped::worker(&mut q.admin);
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 1}', ttl => '1 ms', tube => 'a')");
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 2}', tube => 'a')");
    wait_until("task 1 is passed over", || q.takes(1) == [2]);
    drop(worker);
    q.wait_for("total", 1);
}

#[test]
fn labels_may_be_of_any_type_that_can_be_hashed() {
    let kind = unique("colour");
    connect().batch_execute(&format!("CREATE TYPE {kind} AS ENUM ('red', 'green')")).unwrap();
    for (column, a, b) in [
        ("text", "'a'", "'b'"),
        ("varchar(5)", "'a'", "'b'"),
        ("char(5)", "'a'", "'b'"),
        ("\"char\"", "'a'", "'b'"),
        ("integer", "1", "2"),
        ("bigint", "1", "2"),
        ("numeric", "1.0", "2"),
        ("boolean", "true", "false"),
        ("date", "'2024-01-01'", "'2024-01-02'"),
        ("timestamptz", "'2024-01-01'", "'2024-01-02'"),
        ("uuid", "gen_random_uuid()", "gen_random_uuid()"),
        ("integer[]", "'{1,2}'", "'{}'"),
        ("text COLLATE \"C\"", "'a'", "'b'"),
        (kind.as_str(), "'red'", "'green'"),
    ] {
        let columns = format!("{COLUMNS}, label {column}");
        let options = json!({"fields": {"tube": "label"}, "features": {"utube": true}});
        let mut q = Queue::with("utube", &columns, &options);
        q.sql("SELECT xqueue.take('{q}')");
        q.sql(&format!("INSERT INTO {{q}} (id, label) VALUES (1, {a}), (3, {b}), (5, NULL)"));
        q.sql("INSERT INTO {q} (id, label) SELECT id + 1, label FROM {q}");
        let mut first = q.takes(9);
        first.sort_unstable();
        assert_eq!(first, [1, 3, 5], "{column}");
        q.verify();
        q.sql("SELECT xqueue.ack('{q}', 1)");
        assert_eq!(q.takes(9), [2], "{column}");
        q.sql("SELECT xqueue.ack('{q}', 3)");
        let label = q.ask_one("SELECT to_jsonb(label::text) FROM {q} WHERE id = 4");
        assert_eq!(take_from(&mut q, label.as_str().unwrap()), [4], "{column}");
    }
    let columns = format!("{COLUMNS}, label tsvector");
    let mut q = Queue::with("utube", &columns, &json!({}));
    let sql = "SELECT xqueue.upgrade('{q}', '{\"fields\": {\"tube\": \"label\"}, \"features\": {\"utube\": true}}')";
    q.fails(sql, "42804", "cannot be the tube");
    connect().batch_execute(&format!("DROP TYPE {kind} CASCADE")).unwrap();
}

#[test]
fn keys_of_several_columns_make_the_order_too() {
    let columns = "a int, b text, payload jsonb, PRIMARY KEY (a, b)";
    let mut q = Queue::with("utube", columns, &json!({"features": {"utube": true, "ttr": "1 h"}}));
    q.sql("INSERT INTO {q} (a, b, tube) VALUES (2, 'x', 'a'), (1, 'y', 'a'), (1, 'x', 'a'), (1, 'z', 'b')");
    let mut order = vec![];
    for _ in 0..4 {
        let task = q.ask_one("SELECT xqueue.take('{q}')");
        let key = json!({"a": task["a"], "b": task["b"]});
        q.sql(&format!("SELECT xqueue.ack('{{q}}', '{key}'::jsonb)"));
        order.push(format!("{}{}", task["a"], task["b"].as_str().unwrap()));
    }
    assert_eq!(order, ["1x", "1z", "1y", "2x"]);
}

#[test]
fn next_goes_through_a_sub_queue_in_order() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (tube) SELECT 'a' FROM generate_series(1, 20)");
    let (mut served, mut task) = (vec![], Value::Null);
    loop {
        let sql = format!("CALL xqueue.next('{}', '0', task => $1)", q.name);
        let given = (task != Value::Null).then_some(&task);
        let row = q.admin.query_one(&sql, &[&given]).expect("next");
        match row.get::<_, Option<Value>>(0) {
            Some(next) => task = next,
            None => break,
        }
        served.push(id(&task));
    }
    assert_eq!(served, (1..=20).collect::<Vec<_>>());
}

#[test]
fn acks_come_before_the_take_in_one_call() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'b')");
    assert_eq!(q.takes(9), [1, 3]);
    let next = q.ask("SELECT xqueue.take('{q}', done => '{1,3}'::bigint[], count => 9)");
    assert_eq!(ids(&next), [2]);
}
