//! The low-water mark of `plow` and `kick` never hides a buried task, no matter how it was buried before the mark.

use xqueue_tests::*;

/// Makes a queue whose buried tasks from 1001 on have been kicked one by one, except the last hundred. Its mark is far
/// behind the keys that the tests bury.
fn raised(features: &Value) -> Queue {
    let mut all = json!({"features": {"buried": true, "delayed": true}});
    if let (Some(all), Some(more)) = (all["features"].as_object_mut(), features.as_object()) {
        all.extend(more.clone());
    }
    let mut q = Queue::with("buried", COLUMNS, &all);
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
    let mut q = raised(&json!({"retry": {"limit": 2, "backoff": 0}}));
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
    let mut q = raised(&json!({}));
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

/// Tasks that a transaction digs out, or hides from itself in another way, are buried again after a rollback.
#[test]
fn what_is_rolled_back() {
    for hiding in [
        "SELECT xqueue.kick('{q}', 1000)",
        "SELECT xqueue.plow('{q}')",
        "UPDATE {q} SET status = 'R' WHERE id = 5",
        "UPDATE {q} SET id = id + 10000000",
        "DELETE FROM {q}",
        "TRUNCATE {q}",
    ] {
        for undo in ["ROLLBACK", "ROLLBACK TO s; COMMIT"] {
            let mut q = raised(&json!({}));
            q.sql("INSERT INTO {q} (id, status) VALUES (5, 'B'), (6, 'B')");
            q.sql(&format!("BEGIN; SAVEPOINT s; {hiding}"));
            for _ in 0..enough_kicks() {
                q.ask_one("SELECT to_jsonb(xqueue.kick('{q}', 0))");
                q.ask_one("SELECT to_jsonb(xqueue.kick('{q}', 1))");
            }
            q.sql(undo);
            if undo.contains("COMMIT") {
                // Tasks kicked after the savepoint are buried again, too.
                assert_eq!(q.ask_one("SELECT xqueue.check('{q}')")["ok"], json!(true));
            }
            finds(&mut q, 5);
            finds(&mut q, 6);
        }
    }
}

#[test]
fn triggers_off_and_prepared_transactions() {
    let mut q = raised(&json!({}));
    q.sql(
        "ALTER TABLE {q} DISABLE TRIGGER ALL; INSERT INTO {q} (id, status) VALUES (5, 'B'); \
           ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_insert",
    );
    q.sql("SELECT xqueue.upgrade('{q}')");
    wait_until("it is counted", || q.ask_one("SELECT xqueue.stats('{q}')->'exact'") == json!(true));
    finds(&mut q, 5);
    q.sql("BEGIN; INSERT INTO {q} (id, status) VALUES (3, 'B'); PREPARE TRANSACTION '{q}'");
    replace(&mut q, enough_kicks());
    q.sql("COMMIT PREPARED '{q}'");
    wait_until("it is counted", || q.ask_one("SELECT xqueue.stats('{q}')->'exact'") == json!(true));
    finds(&mut q, 3);
}

/// Many sessions bury and kick concurrently, with keys before and behind the mark: no task is left behind.
#[test]
fn nothing_is_hidden_from_a_crowd() {
    let mut q = raised(&json!({}));
    std::thread::scope(|scope| {
        for number in 0..3_i64 {
            let (mut producer, mut digger) = (q.session(), q.session());
            scope.spawn(move || {
                for n in 0..400 {
                    let key = if n % 7 == 0 { -n } else { 9_100 + n } * 10 + number;
                    let end = if n % 11 == 0 { "ROLLBACK" } else { "COMMIT" };
                    let bury = format!("INSERT INTO {{q}} (id, status) VALUES ({key}, 'B')");
                    producer.sql(&format!("BEGIN; {bury}; {end}"));
                }
            });
            scope.spawn(move || {
                for turn in 0..400 {
                    let end = if (turn + number) % 5 == 0 { "ROLLBACK" } else { "COMMIT" };
                    let kick = format!("SELECT xqueue.kick('{{q}}', {})", 1 + turn % 3);
                    digger.sql(&format!("BEGIN; {kick}; {end}"));
                }
            });
        }
    });
    q.sql("SELECT xqueue.kick('{q}', 100000)");
    assert_eq!(q.counted()["buried"], json!(0));
}

/// With an old snapshot open, a kick does not walk over the index entries of all tasks that were buried before.
#[test]
fn a_kick_does_not_walk_over_what_was_there() {
    let mut q = Queue::with("buried", COLUMNS, &json!({"features": {"buried": true}}));
    q.sql(
        "INSERT INTO {q} (id, status) SELECT n, 'B' FROM generate_series(1, 3000) n; ANALYZE {q}",
    );
    let mut old = q.session();
    old.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    kick(&mut q, 2500);
    let one = format!("SELECT xqueue.kick('{}', 1)", q.name);
    let read = |_| Reads::of(&mut q.admin, &q.name, &one, "COMMIT").entries;
    let walked: i64 = (0..200).map(read).sum();
    // Without a mark, each kick would read at least 2,500 entries.
    let most = 200 * enough_kicks() as i64;
    assert!((200..most).contains(&walked), "{walked} entries were read by 200 kicks");
    drop(old);
}

/// Tasks are dug out by priority, then by key, and the mark follows.
#[test]
fn the_first_by_priority() {
    for (key, value) in [
        ("bigint", "{n}"),
        ("uuid", "lpad(to_hex({n}), 16, '0') || '0000000000000000'"),
        ("uuid", "lpad(to_hex({n}), 32, '0')"),
    ] {
        let columns = format!("id {key} PRIMARY KEY, payload jsonb, n int");
        let features = json!({"features": {"buried": true, "priority": true}});
        let mut q = Queue::with("buried", &columns, &features);
        // More tasks of each priority than are needed to raise the mark.
        let tasks = 2 * enough_kicks() + 200;
        let value = |n: &str| value.replace("{n}", n);
        let bury = |q: &mut Queue, n: i64, priority: i64| {
            let id = value(&n.to_string());
            q.sql(&format!(
                "INSERT INTO {{q}} (id, n, status, priority) VALUES (({id})::{key}, {n}, 'B', {priority})"
            ));
        };
        q.sql(&format!(
            "INSERT INTO {{q}} (id, n, status, priority) SELECT ({})::{key}, 1000 + n, 'B', n % 2 \
             FROM generate_series(1, {tasks}) n",
            value("(1000 + n)")
        ));
        kick(&mut q, tasks - 100);
        let mark = q.ask_one("SELECT xqueue.check('{q}')")["buried_mark"].clone();
        assert!(mark.as_str().is_some_and(|mark| mark.starts_with("(1, ")), "{mark}");
        for (n, priority) in
            [(5, 1), (100_000, 0), (7, 0), (3, -1), (100_001, -2_000_000_000), (9, 1)]
        {
            bury(&mut q, n, priority);
        }
        let listed = q.ask("SELECT xqueue.tasks_by_state('{q}', 'buried', 7)");
        let (first, last) = (1000 + tasks as i64 - 199, 1000 + tasks as i64 - 1);
        let expected = [100_001, 3, 7, 100_000, 5, 9, first];
        let number = |tasks: &[Value]| -> Vec<i64> {
            tasks.iter().map(|task| task["n"].as_i64().unwrap()).collect()
        };
        assert_eq!(number(&listed), expected, "{key}");
        assert_eq!(number(&q.ask("SELECT xqueue.plow('{q}', 2)")), expected[..2], "{key}");
        for n in &expected[2..] {
            assert_eq!(number(&q.ask("SELECT xqueue.plow('{q}', 1)")), [*n], "{key}");
            q.verify();
        }
        // Another priority moves a task to another position.
        q.sql(&format!("UPDATE {{q}} SET priority = -1 WHERE n = {last}"));
        let plowed = q.ask("SELECT xqueue.plow('{q}', 2)");
        assert_eq!(number(&plowed), [last, first + 2], "{key}");
        q.sql("SELECT xqueue.upgrade('{q}', '{\"features\": {\"priority\": false}}')");
        kick(&mut q, 90);
    }
}
