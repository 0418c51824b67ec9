//! Invariant: whenever `exact` is true, the counters equal the table's contents. Each test changes a table in one way.

use xqueue_tests::*;

const ALL: [&str; 6] = ["R", "T", "W", "B", "Z", "D"];

#[test]
fn rollback() {
    let mut q = Queue::new("count");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 10)");
    q.assert_tasks(&[("ready", 10)]);
    q.sql("BEGIN; DELETE FROM {q} WHERE id < 5; INSERT INTO {q} DEFAULT VALUES; UPDATE {q} SET status = 'B'; ROLLBACK");
    q.assert_tasks(&[("ready", 10), ("buried", 0), ("total", 10)]);
    // An error in the middle of a statement undoes the counts of its rows.
    assert!(
        try_sql(
            &mut q.admin,
            &format!("UPDATE {} SET status = 'B', payload = to_jsonb(1 / (id - 7))", q.name)
        )
        .is_err()
    );
    q.assert_tasks(&[("ready", 10), ("buried", 0)]);
}

#[test]
fn nested_savepoints() {
    let mut q = Queue::new("count");
    q.sql(
        "BEGIN; INSERT INTO {q} SELECT FROM generate_series(1, 2);
         SAVEPOINT a; INSERT INTO {q} SELECT FROM generate_series(1, 3);
           SAVEPOINT b; INSERT INTO {q} (status) SELECT 'B' FROM generate_series(1, 5);
             SAVEPOINT c; DELETE FROM {q} WHERE status = 'R'; ROLLBACK TO c; RELEASE c;
           RELEASE b;
           SAVEPOINT d; INSERT INTO {q} (status) SELECT 'D' FROM generate_series(1, 7); ROLLBACK TO d;
             INSERT INTO {q} (status) SELECT 'Z' FROM generate_series(1, 11);
         RELEASE a; COMMIT",
    );
    q.assert_tasks(&[("ready", 5), ("buried", 5), ("done", 0), ("zombie", 11), ("total", 21)]);
    q.sql("BEGIN; SAVEPOINT a; SAVEPOINT b; DELETE FROM {q}; RELEASE b; ROLLBACK TO a; UPDATE {q} SET status = 'R' WHERE status = 'B'; COMMIT");
    q.assert_tasks(&[("ready", 10), ("buried", 0), ("zombie", 11), ("total", 21)]);
    q.sql("DELETE FROM {q}");
}

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

#[test]
fn exception_blocks() {
    let mut q = Queue::new("count");
    q.sql(
        "DO $$ BEGIN FOR i IN 1..40 LOOP
           BEGIN
             INSERT INTO {q} DEFAULT VALUES;
             BEGIN INSERT INTO {q} (status) VALUES ('B'); RAISE 'inner'; EXCEPTION WHEN raise_exception THEN NULL; END;
             IF i % 2 = 0 THEN RAISE 'outer'; END IF;
           EXCEPTION WHEN raise_exception THEN INSERT INTO {q} (status) VALUES ('D'); END;
         END LOOP; END $$",
    );
    q.assert_tasks(&[("ready", 20), ("buried", 0), ("done", 20), ("total", 40)]);
}

#[test]
fn truncate() {
    let mut q = Queue::new("count");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 9); TRUNCATE {q}");
    q.assert_tasks(&[("total", 0)]);
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 9)");
    q.sql("BEGIN; INSERT INTO {q} DEFAULT VALUES; TRUNCATE {q}; INSERT INTO {q} (status) VALUES ('B'), ('B'); ROLLBACK");
    q.assert_tasks(&[("ready", 9), ("buried", 0), ("total", 9)]);
    q.sql("BEGIN; SAVEPOINT s; TRUNCATE {q}; INSERT INTO {q} (status) VALUES ('D'); ROLLBACK TO s; INSERT INTO {q} DEFAULT VALUES; COMMIT");
    q.assert_tasks(&[("ready", 10), ("done", 0), ("total", 10)]);
    q.sql("BEGIN; INSERT INTO {q} DEFAULT VALUES; SAVEPOINT s; TRUNCATE {q}; INSERT INTO {q} (status) VALUES ('B'), ('B'), ('B'); RELEASE s; DELETE FROM {q} WHERE id IN (SELECT min(id) FROM {q}); COMMIT");
    q.assert_tasks(&[("ready", 0), ("buried", 2), ("total", 2)]);
    q.sql("BEGIN; TRUNCATE {q}; TRUNCATE {q}; SAVEPOINT s; INSERT INTO {q} DEFAULT VALUES; TRUNCATE {q}; ROLLBACK TO s; INSERT INTO {q} DEFAULT VALUES; COMMIT");
    q.assert_tasks(&[("ready", 1), ("total", 1)]);
    q.sql("TRUNCATE {q} RESTART IDENTITY CASCADE");
    q.assert_tasks(&[("total", 0)]);
}

/// A writer in progress when the table is truncated is counted before the TRUNCATE, or waits and is counted after it.
#[test]
fn truncate_beside_another_writer() {
    let mut q = Queue::new("count");
    let name = q.name.clone();
    let mut other = q.client();
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 5)");
    other.batch_execute(&format!("BEGIN; INSERT INTO {name} DEFAULT VALUES")).unwrap();
    let truncating = Waiter::start(q.client(), &format!("TRUNCATE {name}"));
    wait_until("it waits for the writer", || {
        let sql = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)";
        scalar(&mut q.admin, sql, &[&truncating.pid])
    });
    other.batch_execute("COMMIT").unwrap();
    truncating.join().result.unwrap();
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn copy() {
    let mut q = Queue::new("count");
    let copy = |q: &mut Queue, rows: &str| {
        let mut to = q.admin.copy_in(&format!("COPY {} (id, status) FROM STDIN", q.name)).unwrap();
        std::io::Write::write_all(&mut to, rows.as_bytes()).unwrap();
        to.finish().is_ok()
    };
    let rows: String =
        (1..=1500).map(|n| format!("{n}\t{}\n", if n % 3 == 0 { "B" } else { "R" })).collect();
    assert!(copy(&mut q, &rows));
    q.assert_tasks(&[("ready", 1000), ("buried", 500)]);
    assert!(!copy(&mut q, "2001\tR\n2002\tR\n1\tR\n"), "1 is there already");
    q.assert_tasks(&[("ready", 1000), ("buried", 500), ("total", 1500)]);
}

#[test]
fn on_conflict() {
    let mut q = Queue::new("count");
    q.sql("INSERT INTO {q} (id) VALUES (1), (2)");
    q.sql("INSERT INTO {q} (id) VALUES (1), (3) ON CONFLICT DO NOTHING");
    q.assert_tasks(&[("ready", 3), ("total", 3)]);
    q.sql("INSERT INTO {q} (id, status) VALUES (1, 'D'), (2, 'R'), (4, 'B') ON CONFLICT (id) DO UPDATE SET status = 'B'");
    q.assert_tasks(&[("ready", 1), ("buried", 3), ("total", 4)]);
    q.sql(
        "INSERT INTO {q} (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET payload = '1' WHERE false",
    );
    q.assert_tasks(&[("ready", 1), ("buried", 3), ("total", 4)]);
    q.sql(
        "MERGE INTO {q} q USING (VALUES (1), (2), (9)) v (id) ON q.id = v.id
           WHEN MATCHED AND v.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET status = 'R'
           WHEN NOT MATCHED THEN INSERT (id, status) VALUES (v.id, 'D')",
    );
    q.assert_tasks(&[("ready", 2), ("buried", 1), ("done", 1), ("total", 4)]);
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

#[test]
fn keys_and_partial_updates() {
    let mut q = Queue::new("count");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 10)");
    q.sql("UPDATE {q} SET id = id + 100; UPDATE {q} SET payload = '1'; UPDATE {q} SET status = status");
    q.assert_tasks(&[("ready", 10), ("total", 10)]);
    assert_eq!(take_all(&mut q.admin, &q.name), (101..=110).collect::<Vec<i64>>());
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

#[test]
fn session_replication_role_replica() {
    let mut q = Queue::new("count");
    q.sql("SET session_replication_role = replica; INSERT INTO {q} SELECT FROM generate_series(1, 10); DELETE FROM {q} WHERE id = 1; RESET session_replication_role");
    q.assert_tasks(&[("ready", 9), ("total", 9)]);
}

#[test]
fn two_phase_commit_and_rollback() {
    let mut q = Queue::new("count");
    let (gid, name) = (q.name.clone(), q.name.clone());
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 4)");
    for (outcome, ready) in [("ROLLBACK", 4), ("COMMIT", 7)] {
        q.sql(&format!(
            "BEGIN; SELECT xqueue.put('{{q}}', '[{{}}, {{}}]'); SAVEPOINT s; INSERT INTO {{q}} DEFAULT VALUES; RELEASE s;
             SAVEPOINT t; DELETE FROM {{q}}; ROLLBACK TO t; PREPARE TRANSACTION '{gid}'"
        ));
        assert_eq!(q.stats()["exact"], json!(false));
        assert_eq!(q.counted()["ready"], json!(4));
        // Other sessions go on meanwhile.
        let id = put(&mut q.admin, &name, 1);
        assert_eq!(take(&mut q.admin, &name, "0", 1).len(), 1);
        assert_eq!(q.stats()["exact"], json!(false));
        q.sql(&format!("{outcome} PREPARED '{gid}'"));
        q.assert_tasks(&[("ready", ready), ("taken", 1), ("total", ready + 1)]);
        q.sql(&format!(
            "UPDATE {{q}} SET status = 'R', owner = NULL WHERE status = 'T'; DELETE FROM {{q}} WHERE id = {id}"
        ));
        q.assert_tasks(&[("ready", ready), ("total", ready)]);
    }
}

#[test]
fn a_take_may_not_be_prepared() {
    let mut q = Queue::new("count");
    let (gid, name) = (q.name.clone(), q.name.clone());
    put(&mut q.admin, &name, 1);
    q.sql("BEGIN; SELECT xqueue.take('{q}')");
    let e = expect_error(&mut q.admin, &format!("PREPARE TRANSACTION '{gid}'"), "0A000", "");
    assert!(e.hint().is_some(), "{e:?}");
    q.sql("ROLLBACK");
    q.assert_tasks(&[("ready", 1), ("taken", 0)]);
    // A take that was rolled back to a savepoint does not count as a take.
    q.sql(&format!("BEGIN; SAVEPOINT s; SELECT xqueue.take('{{q}}'); ROLLBACK TO s; SELECT xqueue.put('{{q}}', '{{}}'); PREPARE TRANSACTION '{gid}'"));
    q.sql(&format!("COMMIT PREPARED '{gid}'"));
    q.assert_tasks(&[("ready", 2), ("taken", 0)]);
}

#[test]
fn calls_are_counted_when_they_commit() {
    let mut q = Queue::new("count");
    q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}]'); INSERT INTO {q} DEFAULT VALUES");
    q.sql("BEGIN; SELECT xqueue.put('{q}', '{}'); ROLLBACK; BEGIN; SELECT xqueue.take('{q}', '0', 2); ROLLBACK");
    // Every insertion counts as a put.
    assert_eq!((q.calls("put"), q.calls("take")), (4, 0));
    let taken = q.takes(3);
    release(&mut q.admin, &q.name, taken[0]);
    ack(&mut q.admin, &q.name, taken[1]);
    assert_eq!(
        (q.calls("take"), q.calls("release"), q.calls("ack"), q.calls("session")),
        (3, 1, 1, 0)
    );
}

#[test]
fn a_table_that_was_full_before() {
    let mut q = Queue::adopt(&database(), &unique("count"));
    q.sql(
        "CREATE TABLE {q} (id int PRIMARY KEY); INSERT INTO {q} SELECT generate_series(1, 20000)",
    );
    q.upgrade(&json!({"existing": "D"}));
    q.assert_tasks(&[("done", 20000), ("ready", 0)]);
    q.sql("UPDATE {q} SET status = 'R' WHERE id <= 10");
    q.assert_tasks(&[("done", 19990), ("ready", 10)]);
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
    let columns = "id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, payload jsonb";
    let options = json!({"features": {"buried": true, "priority": true}});
    let mut q = Queue::with("count", columns, &options);
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 2)");
    q.sql("UPDATE {q} SET priority = 5, status = 'B' WHERE id = 1");
    q.sql("SELECT xqueue.take('{q}')");
    q.sql("SELECT xqueue.release('{q}', 2, update => '{\"priority\": 7}')");
    assert_eq!((q.transition("R-B"), q.transition("T-R")), (1, 1));
    q.assert_tasks(&[("ready", 1), ("taken", 0), ("buried", 1)]);
}
