//! Invariant: whenever `exact` is true, the counters equal the table's contents. Each test changes a table in one way.

use xqueue_tests::*;

const ALL: [&str; 6] = ["R", "T", "W", "B", "Z", "D"];

#[test]
fn deep_nesting() {
    let mut q = Queue::new("count");
    let mut sql = String::from("BEGIN;");
    for n in 0..200 {
        sql += &format!("SAVEPOINT s{n}; INSERT INTO {{q}} DEFAULT VALUES;");
    }
    sql +=
        "ROLLBACK TO s150; RELEASE s100; ROLLBACK TO s50; INSERT INTO {q} DEFAULT VALUES; COMMIT";
    q.sql(&sql);
    q.assert_tasks(&[("ready", 51), ("total", 51)]);
}

/// The worker can release a task that is taken without an owner immediately. It is counted either way.
#[test]
fn every_state_by_hand() {
    let mut q = Queue::new("count");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 36)");
    for from in ALL {
        for to in ALL {
            q.sql(&format!(
                "UPDATE {{q}} SET status = '{to}', runat = now() + interval '1 hour'
                 WHERE id = (SELECT min(id) FROM {{q}} WHERE status = '{from}')"
            ));
            q.assert_exact();
        }
    }
    q.sql("UPDATE {q} SET status = 'R', runat = NULL");
    q.assert_tasks(&[("ready", 36)]);
    q.sql("DELETE FROM {q} WHERE id % 2 = 0");
    q.assert_tasks(&[("ready", 18), ("total", 18)]);
}

/// Programs that write whole rows back do this, and so do subscribers of logical replication.
#[test]
fn an_update_that_sets_the_key_too() {
    let mut q = Queue::new("count");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 5)");
    q.assert_tasks(&[("ready", 5)]);
    q.sql("UPDATE {q} SET id = id, status = 'B' WHERE id <= 2");
    q.sql("UPDATE {q} SET id = id + 10, status = 'D' WHERE id = 3");
    q.sql("UPDATE {q} SET id = id + 10 WHERE id = 4");
    q.assert_tasks(&[("ready", 2), ("buried", 2), ("done", 1), ("total", 5)]);
    assert_eq!((q.transition("R-B"), q.transition("R-D")), (2, 1));
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
    let mut q = Queue::adopt(&database(), &unique("count"));
    q.sql("CREATE TABLE {q} (id int PRIMARY KEY); INSERT INTO {q} SELECT generate_series(1, 20)");
    let columns = "SELECT count(*) FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid = $1::text::regclass";
    let name = q.name.clone();
    q.sql(
        "BEGIN; SELECT xqueue.upgrade('{q}'); SELECT xqueue.put('{q}', '{\"id\": 50}'); ROLLBACK",
    );
    assert_eq!(scalar::<i64>(&mut q.admin, columns, &[&name]), 1);
    expect_error(&mut q.admin, &format!("SELECT xqueue.take('{name}')"), "55000", "is not a queue");
    q.sql("BEGIN; SELECT xqueue.upgrade('{q}'); INSERT INTO {q} (id) VALUES (21); SELECT xqueue.take('{q}'); COMMIT");
    q.assert_tasks(&[("ready", 20), ("taken", 1), ("total", 21)]);
}

#[test]
fn an_update_that_sets_the_priority_too() {
    let options = json!({"features": {"buried": true, "priority": true}});
    let mut q = Queue::with("count", COLUMNS, &options);
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 2)");
    q.sql("UPDATE {q} SET priority = 5, status = 'B' WHERE id = 1");
    q.sql("SELECT xqueue.take('{q}')");
    q.sql("SELECT xqueue.release('{q}', 2, update => '{\"priority\": 7}')");
    assert_eq!((q.transition("R-B"), q.transition("T-R")), (1, 1));
    q.assert_tasks(&[("ready", 1), ("taken", 0), ("buried", 1)]);
}
