//! The order of takes, within one sub-queue and between several.

use super::*;

/// In strict order a failing task is retried before the tasks behind it.
#[test]
fn a_waiting_task_keeps_those_behind_it_where_that_is_strict() {
    let mut q = queue(&json!({"utube": {"strict": true}, "delayed": true}));
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a')");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.release('{q}', 1, delay => '1 hour')");
    assert!(q.takes(9).is_empty());
    q.verify();
    q.sql("SELECT xqueue.restart('{q}', 1)");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.release('{q}', 1, delay => '50 milliseconds')");
    assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', '30 s')")), [1], "its delay is over");
    q.sql("SELECT xqueue.ack('{q}', 1)");
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 0, \"tube\": \"a\"}', delay => '1 hour')");
    assert!(q.takes(9).is_empty(), "one that comes before it waits");
    q.sql("DELETE FROM {q} WHERE id = 0");
    assert_eq!(q.takes(9), [2]);
}

/// pg_regress shows the definition and the index after each switch.
#[test]
fn how_strict_it_is_can_be_switched() {
    let mut q = queue(&json!({"utube": {"strict": true}, "delayed": true}));
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 1, \"tube\": \"a\"}', delay => '1 day')");
    q.sql("INSERT INTO {q} (id, tube) VALUES (2, 'a'), (3, 'a')");
    for (utube, first) in [(json!(true), vec![2]), (json!({"strict": true}), vec![])] {
        q.upgrade(&json!({"features": {"utube": utube}}));
        assert_eq!(q.takes(9), first, "{utube}");
        q.verify();
        q.sql("SELECT xqueue.release(t) FROM {q} t WHERE status = 'T'");
    }
    let waiter = Waiter::take(&mut q);
    q.upgrade(&json!({"features": {"utube": {"strict": false}}}));
    assert_eq!(id(&waiter.task().1), 2, "whoever waits looks again");
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
fn expired_tasks_block_no_other() {
    alone();
    let mut q = queue(&json!({"utube": true, "ttl": true, "delayed": true}));
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
}
