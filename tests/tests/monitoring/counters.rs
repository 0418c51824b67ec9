//! Invariant: whenever `exact` is true, the counters equal the table's contents. Each test changes a table in one way.

use xqueue_tests::*;

/// Programs that write whole rows back do this, and so do subscribers of logical replication.
#[test]
fn an_update_that_sets_the_key_or_the_priority_too() {
    let options = json!({"features": {"buried": true, "priority": true}});
    let mut q = Queue::with("count", COLUMNS, &options);
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 5)");
    q.assert_tasks(&[("ready", 5)]);
    q.sql("UPDATE {q} SET id = id, status = 'B' WHERE id <= 2");
    q.sql("UPDATE {q} SET id = id + 10, status = 'D' WHERE id = 3");
    q.sql("UPDATE {q} SET id = id + 10 WHERE id = 4");
    q.sql("UPDATE {q} SET priority = 5, status = 'B' WHERE id = 5");
    q.sql("SELECT xqueue.take('{q}')");
    q.sql("SELECT xqueue.release('{q}', 14, update => '{\"priority\": 7}')");
    q.assert_tasks(&[("ready", 1), ("taken", 0), ("buried", 3), ("done", 1), ("total", 5)]);
    assert_eq!(["R-B", "R-D", "T-R"].map(|name| q.transition(name)), [3, 1, 1]);
}

/// A take that was rolled back to a savepoint does not keep a transaction from being prepared.
#[test]
fn a_take_that_is_undone_may_be_prepared() {
    let mut q = Queue::new("count");
    q.sql("SELECT xqueue.put('{q}', '{}')");
    q.sql("BEGIN; SAVEPOINT s; SELECT xqueue.take('{q}'); ROLLBACK TO s; SELECT xqueue.put('{q}', '{}'); PREPARE TRANSACTION '{q}'");
    q.sql("COMMIT PREPARED '{q}'");
    q.assert_tasks(&[("ready", 2), ("taken", 0)]);
}

#[test]
fn an_upgrade_that_is_rolled_back() {
    let create =
        "CREATE TABLE {q} (id int PRIMARY KEY); INSERT INTO {q} SELECT generate_series(1, 20)";
    let mut q = Queue::table("count", create);
    q.sql(
        "BEGIN; SELECT xqueue.upgrade('{q}'); SELECT xqueue.put('{q}', '{\"id\": 50}'); ROLLBACK",
    );
    assert_eq!(q.ask_one("SELECT to_jsonb(t) FROM {q} t WHERE id = 1"), json!({"id": 1}));
    q.fails("SELECT xqueue.take('{q}')", "55000", "is not a queue");
    q.sql("BEGIN; SELECT xqueue.upgrade('{q}'); INSERT INTO {q} (id) VALUES (21); SELECT xqueue.take('{q}'); COMMIT");
    q.assert_tasks(&[("ready", 20), ("taken", 1), ("total", 21)]);
}

/// Puts a task in a serializable transaction that has read the table, and prepares it. Its predicate locks outlive it
/// while overlapping transactions are open.
fn prepare_put(q: &mut Queue) {
    q.sql(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM {q};
         SELECT xqueue.put('{q}', '{}'); PREPARE TRANSACTION '{q}'",
    );
    assert_eq!(q.stats()["exact"], json!(false));
}

/// The counters and the capacity do not wait for overlapping transactions.
#[test]
fn a_prepared_transaction_with_predicate_locks() {
    let mut q = Queue::limited("serializable", 3, 1);
    let mut overlapping = q.client();
    q.run(&mut overlapping, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM {q}");
    for (end, total) in [("ROLLBACK", 1), ("COMMIT", 2)] {
        prepare_put(&mut q);
        q.sql(&format!("{end} PREPARED '{{q}}'"));
        q.assert_tasks(&[("total", total)]);
    }
    let stays = "SELECT to_jsonb(count(*) > 0) FROM pg_locks
                 WHERE relation = '{q}'::regclass AND pid IS NULL AND mode = 'SIReadLock'";
    assert_eq!(q.ask_one(stays), json!(true), "the predicate lock of an ended transaction");
    assert_eq!(q.puts(1), 1, "2 tasks, and room for 3");
    assert_eq!(q.puts(1), 0);
    q.drain(1);
    assert_eq!(q.puts(1), 1);
}

/// The other one has only read, or has put a task.
#[test]
fn a_prepared_transaction_beside_another_one() {
    for (other, tasks) in [
        (
            "ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM {q}; SELECT FROM {q} FOR KEY SHARE",
            2,
        ),
        ("; SELECT xqueue.put('{q}', '{}')", 3),
    ] {
        let mut q = Queue::new("serializable");
        q.sql("SELECT xqueue.put('{q}', '{}')");
        q.sql(&format!("BEGIN {other}; PREPARE TRANSACTION '{{q}}_other'"));
        prepare_put(&mut q);
        q.sql("COMMIT PREPARED '{q}'");
        match tasks {
            2 => q.assert_tasks(&[("ready", 2), ("total", 2)]),
            _ => assert_eq!(q.stats()["exact"], json!(false)),
        }
        q.sql("COMMIT PREPARED '{q}_other'");
        q.assert_tasks(&[("ready", tasks), ("total", tasks)]);
    }
}

/// A prepared transaction that is resolved is counted again. The recount does not wait for an open writer, and stays
/// right when that commits.
#[test]
fn a_recount_beside_an_open_writer() {
    let mut q = Queue::new("recount");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 20000)");
    let mut open = q.client();
    q.run(
        &mut open,
        "BEGIN; INSERT INTO {q} (status) VALUES ('B'); DELETE FROM {q} WHERE id <= 10",
    );
    prepare_put(&mut q);
    q.sql("COMMIT PREPARED '{q}'");
    q.sql("SET lock_timeout = '5s'; INSERT INTO {q} (status) VALUES ('D')");
    q.assert_tasks(&[("ready", 20001), ("done", 1), ("buried", 0)]);
    open.run("COMMIT");
    q.assert_tasks(&[("ready", 19991), ("done", 1), ("buried", 1)]);
}
