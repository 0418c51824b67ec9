//! DDL on a queue does not wait for its sleeping consumers, and they get the right rows or a clear error.

use xqueue_tests::*;

fn ddl(q: &mut Queue, sql: &str) {
    q.sql("SET lock_timeout = '10s'");
    q.sql(sql);
}

/// Consumers, producers and watchers wait. A new table of that name is not the queue that they wait for.
#[test]
fn what_ends_the_queue() {
    let features = json!({"features": {"capacity": 1, "delayed": true}});
    for sql in [
        "DROP TABLE {q}; CREATE TABLE {q} ()",
        "DROP SCHEMA {q}_s CASCADE",
        "SELECT xqueue.downgrade('{q}'); INSERT INTO {q} (payload) VALUES ('1'); DELETE FROM {q}",
        "DROP TABLE {q}; SELECT xqueue.create('{q}'); SELECT xqueue.put('{q}', '{}')",
    ] {
        println!("{sql}");
        let mut q = Queue::with("ddl", COLUMNS, &features);
        let called = Watcher::asleep(&mut q, "CALL xqueue.put_wait('{q}', '{}')");
        q.sql("UPDATE {q} SET status = 'W', runat = now() + interval '1 day'");
        let watchers = [called, Watcher::wait(&mut q, 1, "30s")];
        let mut waiters = vec![Waiter::put(&mut q, &json!({})), Waiter::put(&mut q, &json!({}))];
        q.fails("SELECT xqueue.drop('{q}')", "55006", "in use");
        waiters.extend((0..3).map(|_| Waiter::take(&mut q)));
        if sql.contains("SCHEMA") {
            q.sql("CREATE SCHEMA {q}_s; ALTER TABLE {q} SET SCHEMA {q}_s");
        }
        ddl(&mut q, sql);
        for waiter in waiters {
            let (mut client, error) = waiter.error();
            assert_eq!(error.code().code(), "42P01", "{error:?}");
            assert!(error.message().contains("dropped"), "{error:?}");
            assert_eq!(scalar::<i32>(&mut client, "SELECT 1", &[]), 1);
        }
        for error in watchers.map(Watcher::error) {
            assert_eq!(error.code().code(), "42P01", "{error:?}");
            assert!(error.message().contains("dropped or downgraded"), "{error:?}");
        }
        match sql.contains("create") {
            true => q.assert_tasks(&[("ready", 1), ("taken", 0)]),
            false => q.abandon(),
        }
    }
}

#[test]
fn what_leaves_the_queue_in_place() {
    for sql in [
        "BEGIN; DROP TABLE {q}; ROLLBACK",
        "TRUNCATE {q}",
        "CREATE INDEX ON {q} (payload)",
        "VACUUM FULL {q}",
        "CLUSTER {q} USING {q}_pkey",
        "REINDEX TABLE {q}",
        "ANALYZE {q}",
    ] {
        let mut q = Queue::new("ddl");
        q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 300)");
        assert_eq!(take_all(&mut q.admin, &q.name).len(), 300);
        let waiter = Waiter::take(&mut q);
        ddl(&mut q, sql);
        let put = put(&mut q.admin, &q.name, 1);
        assert_eq!(id(&waiter.task().1), put, "{sql}");
    }
}

/// `check` waits for the worker to repair what it reports, and its own lock must not prevent the repair.
#[test]
fn a_check_that_waits_holds_no_lock() {
    let mut q = Queue::new("ddl");
    q.sql("INSERT INTO {q} (status) VALUES ('W')");
    let check = Waiter::start(q.client(), &format!("SELECT xqueue.check('{}')", q.name));
    let sleeps = "SELECT wait_event = 'Extension' FROM pg_stat_activity WHERE pid = $1";
    wait_until("check waits for the worker", || {
        scalar::<Option<bool>>(&mut q.admin, sleeps, &[&check.pid]) == Some(true)
    });
    q.sql("SET lock_timeout = '1s'; ALTER TABLE {q} ADD COLUMN colour text");
    assert!(!check.finished(), "the task waits for nothing: check looks again");
    q.sql("DELETE FROM {q}");
    assert_eq!(check.task().1["ok"], json!(true));
}

/// Runs two sessions concurrently, each of which alternates between two statements. Two sessions that hold a weak lock
/// of the table and request a strong one would deadlock.
fn at_once(statements: [[&str; 2]; 2]) -> Queue {
    let q = Queue::with("ddl", "id bigserial PRIMARY KEY, payload jsonb", &json!({}));
    std::thread::scope(|scope| {
        for alternate in statements {
            let (mut c, name) = (q.client(), q.name.clone());
            scope.spawn(move || {
                for round in 0..120 {
                    let sql = alternate[round % 2].replace("{q}", &name);
                    try_sql(&mut c, &sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
                }
            });
        }
    });
    q
}

#[test]
fn two_truncate_at_once() {
    at_once([["SELECT xqueue.truncate('{q}')"; 2]; 2]).assert_tasks(&[("total", 0)]);
}

#[test]
fn two_create_if_not_exists_at_once() {
    let create = |features: &str| {
        format!(
            "SELECT xqueue.create('{{q}}', '{{\"features\": {features}}}', if_not_exists => true)"
        )
    };
    let [ttl, no_ttl] = [create("{\"ttl\": true}"), create("{\"ttl\": false}")];
    let [tube, no_tube] = [create("{\"tube\": true}"), create("{\"tube\": false}")];
    let mut q = at_once([[&ttl, &no_ttl], [&tube, &no_tube]]);
    let features = q.upgrade(&json!({}))["features"].clone();
    assert_eq!([&features["ttl"], &features["tube"]], [&json!(false), &json!(false)]);
}
