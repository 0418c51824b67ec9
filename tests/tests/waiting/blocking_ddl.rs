//! DDL on a queue does not wait for its sleeping consumers, and they get the right rows or a clear error.

use xqueue_tests::*;

fn ddl(q: &mut Queue, sql: &str) {
    q.sql(&format!("SET lock_timeout = '10s'; {sql}"));
}

#[test]
fn drop_table() {
    let mut q = Queue::new("ddl");
    let waiters: Vec<Waiter> = (0..5).map(|_| Waiter::take(&mut q)).collect();
    ddl(&mut q, "DROP TABLE {q}");
    q.abandon();
    for waiter in waiters {
        let (mut client, error) = waiter.error();
        assert_eq!(error.code().code(), "42P01", "{error:?}");
        assert!(error.message().contains("dropped"), "{error:?}");
        assert_eq!(scalar::<i32>(&mut client, "SELECT 1", &[]), 1);
    }
}

#[test]
fn what_leaves_the_queue_in_place() {
    for sql in ["BEGIN; DROP TABLE {q}; ROLLBACK", "TRUNCATE {q}", "CREATE INDEX ON {q} (payload)"]
    {
        let mut q = Queue::new("ddl");
        let waiter = Waiter::take(&mut q);
        ddl(&mut q, sql);
        q.assert_tasks(&[("total", 0)]);
        let id = put(&mut q.admin, &q.name, 1);
        assert_eq!(xqueue_tests::id(&waiter.task().1), id, "{sql}");
    }
}

#[test]
fn drop_table_and_a_new_one_of_that_name() {
    let mut q = Queue::new("ddl");
    let waiter = Waiter::take(&mut q);
    ddl(
        &mut q,
        "DROP TABLE {q}; CREATE TABLE {q} (id bigint PRIMARY KEY);
         SELECT xqueue.upgrade('{q}', '{\"features\": {\"delayed\": true}}'); INSERT INTO {q} (id) VALUES (1)",
    );
    assert_eq!(waiter.error().1.code().code(), "42P01");
    q.assert_tasks(&[("ready", 1), ("taken", 0), ("total", 1)]);
}

#[test]
fn drop_schema_cascade() {
    let mut admin = connect();
    let schema = unique("ddl_schema");
    admin.batch_execute(&format!("CREATE SCHEMA {schema}")).unwrap();
    let columns = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb";
    let mut q = Queue::make(&database(), &format!("{schema}.jobs"), columns, &json!({}));
    let waiter = Waiter::take(&mut q);
    ddl(&mut q, &format!("DROP SCHEMA {schema} CASCADE"));
    q.abandon();
    assert_eq!(waiter.error().1.code().code(), "42P01");
}

#[test]
fn downgrade_ends_the_wait_or_refuses() {
    let mut q = Queue::new("ddl");
    let name = q.name.clone();
    let waiter = Waiter::take(&mut q);
    q.sql("SET lock_timeout = '10s'");
    let sql = format!("SELECT xqueue.downgrade('{name}')");
    if let Err(e) = try_sql(&mut q.admin, &sql) {
        assert!(["55006", "55000"].contains(&code(&e)), "{e:?}");
        waiter.cancel(&mut q.admin);
        waiter.error();
        q.wait_for_consumers(0);
        q.sql("SELECT xqueue.downgrade('{q}')");
    } else {
        let (mut client, error) = waiter.error();
        assert!(["42P01", "55000"].contains(&error.code().code()), "{error:?}");
        assert_eq!(scalar::<i32>(&mut client, "SELECT 1", &[]), 1);
    }
    // It is an ordinary table again: all statements work on it.
    q.sql("INSERT INTO {q} (payload) VALUES ('1'); DELETE FROM {q}; DROP TABLE {q}");
    q.abandon();
}

#[test]
fn vacuum_full_cluster_and_reindex() {
    let mut q = Queue::new("ddl");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 300)");
    assert_eq!(take_all(&mut q.admin, &q.name).len(), 300);
    let waiter = Waiter::take(&mut q);
    for command in
        ["VACUUM FULL {q}", "CLUSTER {q} USING {q}_pkey", "REINDEX TABLE {q}", "ANALYZE {q}"]
    {
        q.sql(command);
    }
    put(&mut q.admin, &q.name, 1);
    waiter.task();
}

#[test]
fn add_column_with_the_jsonb_form() {
    let mut q = Queue::new("ddl");
    let waiter = Waiter::take(&mut q);
    ddl(&mut q, "ALTER TABLE {q} ADD COLUMN extra text NOT NULL DEFAULT 'new'");
    put(&mut q.admin, &q.name, 1);
    let (mut client, task) = waiter.task();
    assert_eq!(task["extra"], json!("new"));
    assert_eq!(ack(&mut client, &q.name, id(&task))[0]["extra"], json!("new"));
}

/// Rows of a running statement have the columns of its plan: the call returns a correct row or a clear error.
#[test]
fn add_and_drop_column_with_the_row_form() {
    for command in [
        "ADD COLUMN extra text DEFAULT 'new'",
        "DROP COLUMN payload",
        "ALTER COLUMN payload TYPE text",
    ] {
        let mut q = Queue::new("ddl");
        let name = q.name.clone();
        let sql = format!("SELECT to_jsonb(t) FROM xqueue.take(NULL::{name}, '30s') AS t");
        let waiter = Waiter::waiting(&mut q, &sql);
        ddl(&mut q, &format!("ALTER TABLE {{q}} {command}"));
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        let Outcome { mut client, result } = waiter.join();
        match result {
            Ok(tasks) => assert_eq!(tasks[0]["status"], json!("T"), "{command}: {tasks:?}"),
            Err(e) => {
                assert_ne!(code(&e), "XX000", "{command}: {e:?}");
                assert_eq!(
                    status(&mut q.admin, &name, 1).as_deref(),
                    Some("R"),
                    "nothing was taken"
                );
            }
        }
        // The next statement of that session sees the new columns.
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        let again = client.query(&sql, &[]);
        assert!(again.is_ok(), "{command}: {again:?}");
        drop(client);
        q.wait_for("ready", 2);
    }
}

#[test]
fn rename_of_table_schema_and_columns() {
    let mut q = Queue::new("ddl");
    let mut admin = q.client();
    let schema = unique("ddl_to");
    let waiter = Waiter::take(&mut q);
    let old = q.name.clone();
    ddl(
        &mut q,
        &format!(
            "CREATE SCHEMA {schema}; ALTER TABLE {{q}} RENAME TO moved; ALTER TABLE moved SET SCHEMA {schema};
             ALTER TABLE {schema}.moved RENAME COLUMN status TO state;
             ALTER TABLE {schema}.moved RENAME COLUMN runat TO act_at;
             ALTER TABLE {schema}.moved RENAME COLUMN id TO number"
        ),
    );
    q.name = format!("{schema}.moved");
    q.status_is("state", ["R", "T", "W", "B", "Z", "D"]);
    q.sql("SELECT xqueue.put('{q}', '{\"payload\": 5}')");
    let (mut client, task) = waiter.task();
    assert_eq!((&task["payload"], &task["state"]), (&json!(5), &json!("T")));
    let number = task["number"].as_i64().unwrap();
    assert_eq!(ack(&mut client, &q.name, number).len(), 1);
    expect_error(&mut admin, &format!("SELECT xqueue.take('{old}')"), "42P01", "");
    drop(q);
    admin.batch_execute(&format!("DROP SCHEMA {schema}")).unwrap();
}

#[test]
fn upgrade_again_while_consumers_wait_and_hold() {
    let mut q = Queue::with("ddl", "id bigserial PRIMARY KEY, payload jsonb", &json!({}));
    let mut holder = q.client();
    let held = put(&mut holder, &q.name, 1);
    take_all(&mut holder, &q.name);
    let waiter = Waiter::take(&mut q);
    q.sql("SET lock_timeout = '10s'");
    let definition = q.upgrade(&json!({"features": {"delayed": true}}));
    assert_eq!(definition["features"]["delayed"], json!(true));
    q.upgrade(&json!({}));
    wait_until("the wait goes on", || is_waiting(&mut q.admin, waiter.pid));
    assert_eq!(
        status(&mut q.admin, &q.name, held).as_deref(),
        Some("T"),
        "a task stays with its consumer"
    );
    q.sql("SELECT xqueue.put('{q}', '{}', '50ms')");
    waiter.task();
    assert_eq!(ack(&mut holder, &q.name, held).len(), 1);
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
