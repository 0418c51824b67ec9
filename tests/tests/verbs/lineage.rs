//! Promises of beanstalkd, tarantool/queue and Tarantool's xqueue, cases in which they behave oddly, and bugs that reviews
//! have found here.

use xqueue_tests::*;

/// In tarantool/queue the next id is the greatest id plus one.
#[test]
fn an_id_is_not_used_again_after_the_queue_was_empty() {
    let mut q = Queue::new("ids");
    q.sql("SELECT xqueue.put('{q}', '{}')");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    q.sql("SELECT xqueue.put('{q}', '{}'); SELECT xqueue.truncate('{q}'); SELECT xqueue.put('{q}', '{}')");
    assert_eq!(q.takes(9), [3]);
}

#[test]
fn touch_with_less_than_nothing_and_too_much() {
    let options = json!({"features": {"ttl": true, "ttr": true}});
    let mut q = Queue::with("touch", COLUMNS, &options);
    q.sql("SELECT xqueue.put('{q}', '{}', ttl => '1 h', ttr => '1 min')");
    assert_eq!(q.takes(1), [1]);
    let before = q.ask_one("SELECT to_jsonb(t) FROM {q} AS t");
    for (increment, state) in [
        ("'-1 s'", "22023"),
        ("'-1 month 29 days'", "22023"),
        ("'292260 years'", "22008"),
        ("make_interval(days => 2147483647)", "22023"),
        ("make_interval(months => 2147483647, days => 2147483647)", "22023"),
    ] {
        q.fails(&format!("SELECT xqueue.touch('{{q}}', 1, {increment})"), state, "");
        assert_eq!(q.ask_one("SELECT to_jsonb(t) FROM {q} AS t"), before, "{increment}");
    }
    q.sql("SELECT xqueue.touch('{q}', 1, '1 day')");
    assert!(q.holds(1, "expires > now() + '1 day 59 min' AND runat > now() + '1 day'"));
}

/// Tarantool's xqueue has one column for the end of life and for the time to run.
#[test]
fn a_task_keeps_its_end_of_life_through_take_release_and_disconnect() {
    let features = json!({"ttl": "1 hour", "ttr": "1 minute"});
    let mut q = Queue::with("ttl", COLUMNS, &json!({ "features": features }));
    let (name, mut consumer) = (q.name.clone(), q.client());
    put(&mut q.admin, &name, 1);
    let expires = q.ask_one("SELECT to_jsonb(expires) FROM {q}");
    assert!(expires.is_string(), "{expires}");
    for statement in ["SELECT xqueue.take('{q}')", "SELECT xqueue.release('{q}', 1)"] {
        ask(&mut consumer, &name, statement);
        assert_eq!(q.ask_one("SELECT to_jsonb(expires) FROM {q}"), expires);
    }
    assert_eq!(take_all(&mut consumer, &name), [1]);
    drop(consumer);
    q.wait_for("ready", 1);
    assert_eq!(q.ask_one("SELECT to_jsonb(expires) FROM {q}"), expires);
}

/// A plan made while the table was known to be empty must not run the pick again for each row.
#[test]
fn a_plan_made_on_an_empty_table_takes_one_task() {
    for columns in
        ["id bigint PRIMARY KEY", "id bigint, part int DEFAULT 0, PRIMARY KEY (part, id)"]
    {
        let mut q = Queue::with("plan", columns, &json!({"features": {"delayed": true}}));
        q.sql("VACUUM ANALYZE {q}");
        assert!(take(&mut q.admin, &q.name, "0", 1).is_empty());
        q.sql("INSERT INTO {q} (id) SELECT generate_series(1, 3000)");
        assert_eq!(q.takes(1), [1]);
        assert_eq!(q.takes(3), [2, 3, 4]);
        q.sql("INSERT INTO {q} (id) SELECT generate_series(3001, 6000)");
        assert_eq!(q.takes(1), [5]);
    }
}

/// Our trigger functions refuse triggers that upgrade would not make.
#[test]
fn trigger_functions_refuse_to_be_used_otherwise() {
    let mut q = Queue::new("misuse");
    for (time, each, function) in [
        ("AFTER", "STATEMENT", "row_changed"),
        ("BEFORE", "ROW", "row_changed"),
        ("BEFORE", "STATEMENT", "row_arrives"),
        ("AFTER", "ROW", "row_arrives"),
        ("AFTER", "ROW", "truncated"),
        ("BEFORE", "ROW", "queue_arrives"),
    ] {
        q.sql(&format!(
            "CREATE TRIGGER misuse {time} INSERT ON {{q}} FOR EACH {each} EXECUTE FUNCTION xqueue_internal.{function}()"
        ));
        q.fails("INSERT INTO {q} DEFAULT VALUES", "39P01", "only as the trigger");
        q.sql("DROP TRIGGER misuse ON {q}");
    }
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn downgraded_and_upgraded_in_one_transaction() {
    let mut q = Queue::new("again");
    let again = r#"SELECT xqueue.downgrade('{q}'); SELECT xqueue.upgrade('{q}', '{
        "fields": {"status": "status", "owner": "owner", "runat": "runat"}, "features": {"delayed": true}}')"#;
    let put = "SELECT xqueue.put('{q}', '{}')";
    q.sql(&format!("BEGIN; SAVEPOINT s; {again}; ROLLBACK TO s; {put}; COMMIT"));
    q.assert_tasks(&[("ready", 1)]);
    q.sql(&format!("BEGIN; {again}; COMMIT"));
    q.assert_tasks(&[("ready", 1)]);
    // The worker still knows the queue.
    q.sql("SELECT xqueue.put('{q}', '{}', '20 milliseconds')");
    q.wait_for("ready", 2);
}

/// A consumer is in one wait queue at a time.
#[test]
fn a_wait_inside_a_wait_is_refused() {
    let (mut outer, inner) = (Queue::new("outer"), Queue::new("inner"));
    let wait = format!("PERFORM xqueue.take('{}', '20s'); RETURN NEW", inner.name);
    outer.before_each("UPDATE", &wait);
    let waiter = Waiter::take(&mut outer);
    outer.sql("SELECT xqueue.put('{q}', '{}')");
    assert_eq!(waiter.error().1.code().code(), "55006");
    outer.mend();
    // No consumer is left in either wait queue.
    outer.wait_for_consumers(0);
    assert_eq!(outer.takes(1), [1]);
}

/// A setting for all sessions of a database must not stop its worker.
#[test]
fn a_database_that_is_read_only_by_default() {
    let mut database = Database::new("readonly");
    let mut q = Queue::new_in(&database.name, "readonly");
    database
        .sql(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name));
    end_worker(&mut q.admin);
    q.sql("SELECT xqueue.put('{q}', '{}', '20 milliseconds')");
    q.wait_for("ready", 1);
    q.sql("SELECT xqueue.ack(t) FROM xqueue.take(NULL::{q}) AS t");
    database.sql(&format!("ALTER DATABASE {} RESET default_transaction_read_only", database.name));
}

/// The worker's own changes must not wake it again.
#[test]
fn an_idle_worker_sleeps() {
    let database = Database::new("idle");
    let mut q = Queue::new_in(&database.name, "idle");
    q.sql("SELECT xqueue.put('{q}', '{}', '10 milliseconds')");
    q.wait_for("ready", 1);
    q.sql("DROP TABLE IF EXISTS nothing");
    let mut watcher = connect();
    let commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = $1";
    let (mut last, mut unchanged) = (0i64, 0);
    wait_until("the database is still", || {
        let now = scalar(&mut watcher, commits, &[&database.name]);
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
        unchanged == 200
    });
}

/// A row read out of another tuple has a short header.
#[test]
fn a_row_out_of_a_materialized_query_is_a_task() {
    let mut q = Queue::new("short");
    q.sql("SELECT xqueue.put('{q}', '[{}, {}]')");
    q.sql(
        "WITH t AS MATERIALIZED (SELECT r FROM xqueue.take(NULL::{q}, count => 2) AS r) \
         SELECT xqueue.ack(t.r) FROM t",
    );
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn a_domain_is_checked_and_read_as_the_type_it_is_based_on() {
    let mut q = Queue::table(
        "domain",
        "CREATE DOMAIN {q}_count AS int NOT NULL; CREATE DOMAIN {q}_data AS jsonb;
         CREATE TABLE {q} (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
             count {q}_count DEFAULT 1, data {q}_data)",
    );
    q.upgrade(&json!({}));
    let put = "SELECT xqueue.put('{q}', '{\"count\": null}')";
    q.fails(put, "23502", "does not allow null values");
    let put = "SELECT xqueue.put('{q}', '{\"count\": 2, \"data\": \"5\"}')->'data'";
    assert_eq!(q.ask_one(put), json!("5"));
}

#[test]
fn a_domain_is_not_checked_in_a_column_that_is_left_out() {
    let mut q = Queue::table(
        "domain",
        "CREATE DOMAIN {q}_count AS int NOT NULL; CREATE DOMAIN {q}_id AS bigint CHECK (VALUE IS NOT NULL);
         CREATE SEQUENCE {q}_ids; CREATE TABLE {q} (id {q}_id PRIMARY KEY DEFAULT nextval('{q}_ids'),
             count {q}_count DEFAULT 1, tags text[])",
    );
    q.upgrade(&json!({}));
    let mut put = |task: &str| ids(&q.ask(&format!("SELECT xqueue.put('{{q}}', '{task}')")));
    assert_eq!(put(r#"{"tags": ["a"]}"#), [1]);
    assert_eq!(put(r#"[{"tags": ["b"]}, {"tags": ["c"]}]"#), [2, 3]);
    assert_eq!(put(r#"{"id": null, "count": 2}"#), [4]);
    assert_eq!(put(r#"[{"id": null}, {"id": null}]"#), [5, 6]);
    assert_eq!(put("[{}]"), [7]);
    assert_eq!(q.takes(1), [1]);
    let task = q.ask_one("SELECT xqueue.release('{q}', 1, update => '{\"tags\": [\"y\"]}')");
    assert_eq!((&task["tags"], &task["count"]), (&json!(["y"]), &json!(1)));
    q.fails("SELECT xqueue.put('{q}', '[{\"count\": null}]')", "23502", "does not allow null");
}
