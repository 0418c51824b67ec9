//! The low-water mark of `plow` and `kick` never hides a buried task, no matter how it was buried before the mark. The
//! crowds have more ways; by_column_random has priorities, and tasks that a rollback buries again.

use xqueue_tests::*;

/// Makes a queue whose buried tasks from 1001 on have been kicked one by one, except the last hundred. Its mark is far
/// behind the keys that the tests bury.
fn raised() -> Queue {
    let retry = json!({"limit": 2, "backoff": 0});
    let features = json!({"buried": true, "delayed": true, "tube": true, "retry": retry});
    let mut q = Queue::with("buried", COLUMNS, &json!({ "features": features }));
    q.sql("INSERT INTO {q} (id, status) SELECT 1000 + n, 'B' FROM generate_series(1, 100) n");
    repeat_until("the mark is raised", || {
        replace(&mut q, enough_kicks());
        mark(&mut q, "buried_mark").is_some_and(|mark| mark > 1001)
    });
    q
}

fn kick(q: &mut Queue, times: usize) {
    for _ in 0..times {
        assert_eq!(q.ask_one("SELECT to_jsonb(xqueue.kick('{q}', 1))"), json!(1));
    }
}

/// Kicks `times` tasks one by one, and buries another task behind all others for each.
fn replace(q: &mut Queue, times: usize) {
    for _ in 0..times {
        q.sql("INSERT INTO {q} (id, status) SELECT max(id) + 1, 'B' FROM {q}");
        kick(q, 1);
    }
}

/// Asserts that the next task to be dug out is this one.
#[track_caller]
fn finds(q: &mut Queue, id: i64) {
    assert_eq!(ids(&q.ask("SELECT xqueue.plow('{q}', 1)")), [id]);
    q.verify();
}

#[test]
fn tasks_buried_before_it() {
    let mut q = raised();
    for bury in [
        "SELECT xqueue.take('{q}', id => 5); SELECT xqueue.bury('{q}', 5)",
        "SELECT xqueue.switch('{q}', 5, 'B')",
        "UPDATE {q} SET status = 'B' WHERE id = 5",
        "DELETE FROM {q} WHERE id = 5; INSERT INTO {q} (id, status) VALUES (5, 'B')",
        "SELECT xqueue.take('{q}', id => 5); SELECT xqueue.release('{q}', 5); \
         SELECT xqueue.take('{q}', id => 5); SELECT xqueue.release('{q}', 5)",
        "SELECT xqueue.take('{q}', id => 5); SELECT xqueue.bury('{q}', 5); SELECT xqueue.dig('{q}', 5); \
         SELECT xqueue.take('{q}', id => 5); SELECT xqueue.bury('{q}', 5)",
        "SELECT xqueue.switch('{q}', 1000000, 'B'); UPDATE {q} SET id = 5 WHERE id = 1000000",
    ] {
        q.sql(
            "DELETE FROM {q} WHERE id < 1000 OR id = 1000000; INSERT INTO {q} (id) VALUES (5), (1000000)",
        );
        if bury.contains("1000000") {
            q.sql("DELETE FROM {q} WHERE id = 5");
        }
        q.sql(bury);
        finds(&mut q, 5);
        q.sql("DELETE FROM {q} WHERE id = 1000000");
    }
    // One call also finds all of them.
    q.sql("INSERT INTO {q} (id, status) VALUES (7, 'B'), (6, 'B')");
    assert_eq!(q.ask_one("SELECT to_jsonb(xqueue.kick('{q}', 1000))"), json!(102));
}

#[test]
fn what_is_buried_and_not_committed() {
    let mut q = raised();
    q.sql("BEGIN; INSERT INTO {q} (id, status) VALUES (5, 'B')");
    assert_eq!(ids(&q.ask("SELECT xqueue.plow('{q}', 1)")), [5]);
    q.sql("ROLLBACK");
    let first = q.ask_one("SELECT to_jsonb(min(id)) FROM {q} WHERE status = 'B'").as_i64().unwrap();
    finds(&mut q, first);
    // Tasks of other transactions are found after their commit.
    let mut other = q.session();
    other.sql("BEGIN; INSERT INTO {q} (id, status) VALUES (5, 'B'), (9, 'B')");
    replace(&mut q, enough_kicks());
    other.sql("COMMIT");
    finds(&mut q, 5);
    finds(&mut q, 9);
}

#[test]
fn what_is_buried_in_a_prepared_transaction() {
    let mut q = raised();
    q.sql("BEGIN; INSERT INTO {q} (id, status) VALUES (3, 'B'); PREPARE TRANSACTION '{q}'");
    replace(&mut q, enough_kicks());
    q.sql("COMMIT PREPARED '{q}'");
    wait_until("it is counted", || q.ask_one("SELECT xqueue.stats('{q}')->'exact'") == json!(true));
    finds(&mut q, 3);
}

#[test]
fn a_kick_does_not_walk_over_what_was_there() {
    let mut q = Queue::with("buried", COLUMNS, &json!({"features": {"buried": true}}));
    q.assert_steady(|q, _| {
        q.sql("INSERT INTO {q} (status) VALUES ('B')");
        kick(q, 1);
    });
}
