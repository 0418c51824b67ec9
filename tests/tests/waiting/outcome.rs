//! `wait` and `put_wait` wait for the end of a task and return its outcome.

use xqueue_tests::*;

const LONG: &str = "30 seconds";

fn queue(features: &str) -> Queue {
    let features: Value = features.parse().expect("features");
    Queue::with("outcome", COLUMNS, &json!({ "features": features }))
}

/// Makes a queue whose own connection has taken task 1, and a watcher that waits for the end of that task.
fn watched(features: &str) -> (Queue, Watcher) {
    let mut q = queue(features);
    put(&mut q.admin, &q.name, 1);
    assert_eq!(take_all(&mut q.admin, &q.name), [1]);
    let watcher = Watcher::wait(&mut q, 1, LONG);
    (q, watcher)
}

#[test]
fn every_end_of_a_task_is_returned_by_its_name() {
    for (features, end, outcome) in [
        ("{}", "SELECT xqueue.ack('{q}', 1)", "acked"),
        (r#"{"keep": true}"#, "SELECT xqueue.ack('{q}', 1)", "acked"),
        (r#"{"zombie": "1 hour"}"#, "SELECT xqueue.ack('{q}', 1)", "acked"),
        (r#"{"zombie": true}"#, "SELECT xqueue.ack('{q}', 1, delay => '50 ms')", "acked"),
        (r#"{"buried": true}"#, "SELECT xqueue.bury('{q}', 1)", "buried"),
        (r#"{"retry": {"limit": 1}}"#, "SELECT xqueue.release('{q}', 1)", "buried"),
        (r#"{"retry": {"limit": 1}}"#, "its session is lost", "buried"),
        (r#"{"retry": {"limit": 1}, "ttr": "1 day"}"#, "UPDATE {q} SET runat = now()", "buried"),
        (r#"{"ttl": true}"#, "SELECT xqueue.release('{q}', 1, ttl => '0')", "expired"),
        ("{}", "SELECT xqueue.delete('{q}', 1)", "deleted"),
        ("{}", "DELETE FROM {q}", "deleted"),
        ("{}", "SELECT xqueue.truncate('{q}')", "deleted"),
        (r#"{"keep": true}"#, "UPDATE {q} SET status = 'D', owner = NULL", "acked"),
    ] {
        println!("{features}: {end}");
        let (mut q, watcher) = watched(features);
        match end {
            "its session is lost" => q.reconnect(),
            end => q.sql(end),
        }
        watcher.assert_told(outcome);
    }
}

#[test]
fn what_does_not_end_a_task_does_not_end_the_wait() {
    let (mut q, watcher) = watched(r#"{"delayed": true, "ttr": true, "buried": true}"#);
    q.sql("SELECT xqueue.touch('{q}', 1, '1 hour')");
    q.sql("SELECT xqueue.release('{q}', 1, delay => '1 millisecond')");
    q.wait_for("ready", 1);
    q.sql("SELECT xqueue.take('{q}')");
    q.sql("SELECT xqueue.snatch('{q}', 1)");
    q.sql("UPDATE {q} SET payload = '{}'");
    // The end of another task only wakes its own watchers.
    q.sql("INSERT INTO {q} (id) VALUES (2)");
    let others = [(); 2].map(|()| Watcher::wait(&mut q, 2, LONG));
    q.sql("DELETE FROM {q} WHERE id = 2");
    others.into_iter().for_each(|other| other.assert_told("deleted"));
    q.sql("SELECT xqueue.take('{q}')");
    assert!(!watcher.finished());
    q.sql("SELECT xqueue.ack('{q}', 1)");
    watcher.assert_told("acked");
}

#[test]
fn an_end_that_is_undone_is_not_reported() {
    for (undone, end, outcome) in [
        ("BEGIN; SELECT xqueue.ack('{q}', 1); ROLLBACK", "bury", "buried"),
        (
            "BEGIN; SAVEPOINT s; SELECT xqueue.ack('{q}', 1); ROLLBACK TO s; COMMIT",
            "bury",
            "buried",
        ),
        ("BEGIN; TRUNCATE {q}; ROLLBACK", "bury", "buried"),
        ("BEGIN; SAVEPOINT s; DELETE FROM {q}; ROLLBACK TO s; RELEASE s; COMMIT", "bury", "buried"),
        // No other transaction saw it buried.
        (
            "BEGIN; SELECT xqueue.bury('{q}', 1); SELECT xqueue.dig('{q}', 1); COMMIT",
            "delete",
            "deleted",
        ),
        (
            "BEGIN; SELECT xqueue.bury('{q}', 1); SAVEPOINT s; SELECT xqueue.dig('{q}', 1); RELEASE s; COMMIT",
            "delete",
            "deleted",
        ),
    ] {
        println!("{undone}");
        let (mut q, watcher) = watched(r#"{"buried": true}"#);
        q.sql(undone);
        q.sql(&format!("SELECT xqueue.{end}('{{q}}', 1)"));
        watcher.assert_told(outcome);
    }
}

#[test]
fn a_wait_among_very_many_ends_gets_its_own() {
    let mut q = queue("{}");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 9000)");
    let watchers = [1, 4500, 9000].map(|id| Watcher::wait(&mut q, id, LONG));
    q.sql("DELETE FROM {q}");
    for watcher in watchers {
        watcher.assert_told("deleted");
    }
}

#[test]
fn a_cancelled_or_killed_waiter_harms_no_other() {
    let (mut q, stays) = watched("{}");
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        let watcher = Watcher::wait(&mut q, 1, LONG);
        q.sql(&format!("SELECT {end}({})", watcher.pid));
        assert!(watcher.join().is_err(), "{end}");
    }
    let timed = Watcher::wait(&mut q, 1, "1 second");
    assert_eq!(timed.outcome(), None);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    stays.assert_told("acked");
}

#[test]
fn no_lock_is_held_during_a_wait() {
    let (mut q, watcher) = watched("{}");
    let called = Watcher::asleep(&mut q, "CALL xqueue.put_wait('{q}', '{}')");
    let held = "SELECT count(*) FROM pg_locks WHERE pid = ANY ($1) AND locktype = 'relation' \
                AND relation = $2::text::regclass";
    let (pids, name) = (vec![watcher.pid, called.pid], q.name.clone());
    assert_eq!(scalar::<i64>(&mut q.admin, held, &[&pids, &name]), 0);
    let snapshots = "SELECT to_jsonb(backend_xmin) FROM pg_stat_activity WHERE pid = $1";
    assert_eq!(
        values(&mut q.admin, &format!("SELECT coalesce(({snapshots}), 'null')"), &[&called.pid]),
        [json!(null)]
    );
    q.sql("SET lock_timeout = '5s'; ALTER TABLE {q} ADD COLUMN extra int");
    // Every switch leaves the waits alone.
    for (on, keep, zombie) in [(true, true, false), (true, false, true), (false, false, false)] {
        q.upgrade(&json!({"features": {
            "delayed": on, "buried": on, "ttl": on, "ttr": on, "priority": on, "tube": on, "retry": on,
            "keep": keep, "zombie": zombie}}));
        assert!(!watcher.finished() && !called.finished());
    }
    q.upgrade(&json!({"features": {"buried": true}}));
    q.sql("SELECT xqueue.ack('{q}', 1)");
    watcher.assert_told("acked");
    q.sql("SELECT xqueue.take('{q}')");
    q.sql("SELECT xqueue.bury('{q}', 2)");
    called.assert_told("buried");
}

/// The server's hash functions give the two keys of each pair equal hashes with every seed.
#[test]
fn a_wait_is_not_ended_by_a_task_whose_key_has_the_same_hash() {
    for (key, one, other) in
        [("numeric", "5", "-5"), ("timestamp", "2000-01-01 00:00:00", "2000-01-01 01:11:34.967297")]
    {
        let mut q = Queue::with("outcome", &format!("id {key} PRIMARY KEY"), &json!({}));
        let [one, other] = [one, other].map(|value| format!("'{value}'::{key}"));
        q.sql(&format!("INSERT INTO {{q}} (id) VALUES ({one}), ({other})"));
        let wait = format!("SELECT xqueue.wait('{{q}}', {one}, '{LONG}')");
        let watcher = Watcher::asleep(&mut q, &wait);
        q.sql("SELECT xqueue.take('{q}', count => 2)");
        q.sql(&format!("SELECT xqueue.ack('{{q}}', {other})"));
        q.sql(&format!("SELECT xqueue.delete('{{q}}', {one})"));
        watcher.assert_told("deleted");
        q.sql(&format!("INSERT INTO {{q}} (id) VALUES ({one}), ({other})"));
        q.sql("SELECT xqueue.take('{q}', count => 2)");
        q.sql(&format!("SELECT xqueue.ack('{{q}}', ARRAY[{one}, {other}])"));
        q.assert_tasks(&[("total", 0)]);
    }
}

#[test]
fn a_deletion_by_a_prepared_transaction_ends_the_wait() {
    let mut q = queue("{}");
    let (name, mut other) = (q.name.clone(), q.client());
    for _ in 0..20 {
        put(&mut q.admin, &name, 1);
        let id: i64 = scalar(&mut q.admin, &format!("SELECT id FROM {name}"), &[]);
        let wait = format!("SELECT xqueue.wait('{name}', '{id}', '20 seconds')");
        let watcher = Watcher::asleep(&mut q, &wait);
        q.sql("BEGIN; DELETE FROM {q}; PREPARE TRANSACTION '{q}'");
        assert!(!watcher.finished());
        // The worker checks prepared transactions because another one ends, and this one ends meanwhile.
        other.run(&format!("BEGIN; PREPARE TRANSACTION '{name}_0'"));
        other.run(&format!("ROLLBACK PREPARED '{name}_0'"));
        q.sql("COMMIT PREPARED '{q}'");
        let told = watcher.outcome();
        assert!(["deleted", "gone"].contains(&told.as_deref().unwrap_or("")), "{told:?}");
    }
}

#[test]
fn a_key_is_the_same_in_sessions_with_other_settings() {
    for (key, value, setting) in [
        ("timestamptz", "2030-01-01 00:00:00+00", "SET timezone = 'Asia/Tokyo'"),
        ("bytea", "\\x0102", "SET bytea_output = 'escape'"),
        ("float8", "0.1", "SET extra_float_digits = 0; SET extra_float_digits = -15"),
    ] {
        let mut q = Queue::with("outcome", &format!("id {key} PRIMARY KEY, n int"), &json!({}));
        q.sql(&format!("INSERT INTO {{q}} (id) VALUES ('{value}')"));
        let wait = format!("SELECT xqueue.wait('{{q}}', '{value}'::{key}, '30 seconds')");
        let watcher = Watcher::asleep(&mut q, &wait);
        q.sql(setting);
        q.sql(&format!("SELECT xqueue.delete('{{q}}', '{value}'::{key})"));
        watcher.assert_told("deleted");
    }
}

/// Returns an id for which the key (2, id) would hash like (1, 5) if the hash had no secret.
fn forged() -> i64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let step = |hash: u64, part: u64| (hash.rotate_left(23) ^ part).wrapping_mul(PRIME);
    (step(BASIS, 1).rotate_left(23) ^ step(BASIS, 2).rotate_left(23) ^ 5) as i64
}

#[test]
fn no_other_key_that_can_be_computed_stands_for_the_same_task() {
    let columns = "tenant bigint, id bigint, payload jsonb, PRIMARY KEY (tenant, id)";
    let mut q = Queue::with("outcome", columns, &json!({"features": {"buried": true}}));
    let forged = forged();
    q.sql(&format!("INSERT INTO {{q}} VALUES (1, 5), (2, {forged})"));
    let wait = "SELECT xqueue.wait('{q}', ROW(1::bigint, 5::bigint), '30 seconds')";
    let watcher = Watcher::asleep(&mut q, wait);
    q.sql("DELETE FROM {q} WHERE tenant = 2");
    q.sql("UPDATE {q} SET status = 'B' WHERE tenant = 1");
    watcher.assert_told("buried");
}

/// Transactions of other tenants also report an end.
#[test]
fn under_row_security_an_end_is_looked_for() {
    let mut q = queue("{}");
    q.sql("ALTER TABLE {q} ENABLE ROW LEVEL SECURITY");
    let again = "BEGIN; TRUNCATE {q}; INSERT INTO {q} (id) VALUES (1); COMMIT";
    q.sql("INSERT INTO {q} (id) VALUES (1)");
    let watcher = Watcher::wait(&mut q, 1, LONG);
    q.sql(again);
    q.sql(again);
    assert_eq!(q.ask_one("SELECT xqueue.take('{q}')")["id"], json!(1));
    q.sql("SELECT xqueue.ack('{q}', 1)");
    watcher.assert_told("acked");
    q.sql("TRUNCATE {q} RESTART IDENTITY");
    let watcher =
        Watcher::asleep(&mut q, "CALL xqueue.put_wait('{q}', '{}', '30 seconds', NULL, NULL)");
    q.sql(again);
    q.sql("SELECT xqueue.delete('{q}', 1)");
    watcher.assert_told("deleted");
}

/// The returned key identifies the task for another wait, for keys of any type.
#[test]
fn put_wait_returns_the_key_of_its_task() {
    for (columns, task, key) in [
        ("id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n int", "{}", json!(1)),
        ("id text PRIMARY KEY, n int", r#"{"id": "O''Neil \"x\""}"#, json!("O'Neil \"x\"")),
        ("id numeric PRIMARY KEY, n int", r#"{"id": 1.50}"#, json!(1.5)),
        ("id int[] PRIMARY KEY, n int", r#"{"id": [1, 2]}"#, json!({"id": [1, 2]})),
        ("id jsonb PRIMARY KEY, n int", r#"{"id": [1, "x"]}"#, json!([1, "x"])),
        ("id jsonb PRIMARY KEY, n int", r#"{"id": "1"}"#, json!("1")),
        (
            "b text, n int, a int, PRIMARY KEY (a, b)",
            r#"{"a": 1, "b": "x"}"#,
            json!({"a": 1, "b": "x"}),
        ),
    ] {
        let mut q = Queue::with("outcome", columns, &json!({}));
        let name = q.name.clone();
        let call = format!("CALL xqueue.put_wait('{name}', '{task}', '10 milliseconds')");
        let told =
            q.admin.query_one(&call, &[]).unwrap_or_else(|error| panic!("{call}: {error:?}"));
        let id: Value = told.get(1);
        assert_eq!((told.get::<_, Option<String>>(0), &id), (None, &key), "{columns}");
        let again = format!("SELECT xqueue.wait('{{q}}', $1${id}$1$::jsonb)");
        let watcher = Watcher::asleep(&mut q, &again.replace("$1$", "$id$"));
        q.sql("SELECT xqueue.take('{q}'); SELECT xqueue.ack(t) FROM {q} t");
        assert_eq!(watcher.outcome().as_deref(), Some("acked"), "{columns}");
    }
}

#[test]
fn put_wait_misses_nothing_however_fast_the_consumer_is() {
    let mut q = queue("{}");
    let (name, mut consumer) = (q.name.clone(), q.client());
    let worker = std::thread::spawn(move || {
        for _ in 0..200 {
            let task = ask(&mut consumer, &name, "SELECT xqueue.take('{q}', '20 seconds')");
            assert_eq!(task.len(), 1, "a task in time");
            let ack = format!("SELECT xqueue.ack('{{q}}', {})", task[0]["id"]);
            ask(&mut consumer, &name, &ack);
        }
    });
    for _ in 0..200 {
        let call = format!("CALL xqueue.put_wait('{}', '{{}}', '20 seconds')", q.name);
        let told: Option<String> = scalar(&mut q.admin, &call, &[]);
        assert_eq!(told.as_deref(), Some("acked"));
    }
    worker.join().expect("the consumer did not panic");
}
