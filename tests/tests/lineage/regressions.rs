//! Bugs found by reviews and other tests, one test each.

use serde_json::json;
use xqueue_tests::*;

const DELAYED: &str = r#"{"features": {"delayed": true}}"#;

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

/// An operator of the caller's own must not be used when the registry is written.
#[test]
fn the_registry_is_written_with_a_search_path_of_our_own() {
    let role = Role::create();
    let (mut c, r, trap) = (role.client(), &role.name, unique("trap"));
    let mut admin = connect();
    admin.batch_execute(&format!("CREATE SCHEMA {trap} AUTHORIZATION {r}")).unwrap();
    c.batch_execute(&format!(
        "CREATE TABLE {trap}.t (id bigint PRIMARY KEY);
         CREATE TABLE {trap}.seen (who text);
         GRANT INSERT ON {trap}.seen TO PUBLIC; GRANT USAGE ON SCHEMA {trap} TO PUBLIC;
         CREATE FUNCTION {trap}.eq(regclass, oid) RETURNS boolean LANGUAGE plpgsql AS
           $$ BEGIN INSERT INTO {trap}.seen VALUES (current_user); RETURN $1::oid OPERATOR(pg_catalog.=) $2; END $$;
         CREATE OPERATOR {trap}.= (LEFTARG = regclass, RIGHTARG = oid, FUNCTION = {trap}.eq);
         SELECT xqueue.upgrade('{trap}.t');
         SET search_path = {trap}, pg_catalog;
         SELECT xqueue.upgrade('{trap}.t', '{DELAYED}');
         SELECT xqueue.downgrade('{trap}.t')"
    ))
    .unwrap();
    let seen: Vec<String> = admin
        .query(&format!("SELECT who FROM {trap}.seen WHERE who <> $1"), &[r])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(seen, Vec::<String>::new(), "the trap was run as another role");
    admin.batch_execute(&format!("DROP SCHEMA {trap} CASCADE")).unwrap();
}

/// Our trigger functions refuse triggers that upgrade would not make.
#[test]
fn trigger_functions_refuse_to_be_used_otherwise() {
    let mut q = Queue::new("misuse");
    for trigger in [
        "AFTER INSERT ON {q} FOR EACH STATEMENT EXECUTE FUNCTION xqueue_internal.row_changed()",
        "BEFORE INSERT ON {q} FOR EACH ROW EXECUTE FUNCTION xqueue_internal.row_changed()",
        "BEFORE INSERT ON {q} FOR EACH STATEMENT EXECUTE FUNCTION xqueue_internal.row_arrives()",
        "AFTER INSERT ON {q} FOR EACH ROW EXECUTE FUNCTION xqueue_internal.row_arrives()",
        "AFTER INSERT ON {q} FOR EACH ROW EXECUTE FUNCTION xqueue_internal.truncated()",
        "BEFORE INSERT ON {q} FOR EACH ROW EXECUTE FUNCTION xqueue_internal.queue_arrives()",
    ] {
        q.sql(&format!("CREATE TRIGGER misuse {trigger}"));
        let sql = format!("INSERT INTO {} DEFAULT VALUES", q.name);
        expect_error(&mut q.admin, &sql, "39P01", "only as the trigger");
        q.sql("DROP TRIGGER misuse ON {q}");
    }
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn downgraded_and_upgraded_in_one_transaction() {
    let mut q = Queue::new("again");
    let again = format!(
        "SELECT xqueue.downgrade('{{q}}'); SELECT xqueue.upgrade('{{q}}', '{}')",
        json!({"fields": {"status": "status", "owner": "owner", "runat": "runat"}, "features": {"delayed": true}})
    );
    q.sql("SELECT xqueue.put('{q}', '{}')");
    q.sql(&format!("BEGIN; {again}; ROLLBACK"));
    q.assert_tasks(&[("ready", 1)]);
    q.sql(&format!(
        "BEGIN; SAVEPOINT s; {again}; ROLLBACK TO s; SELECT xqueue.put('{{q}}', '{{}}'); COMMIT"
    ));
    q.assert_tasks(&[("ready", 2)]);
    q.sql(&format!("BEGIN; {again}; COMMIT"));
    q.assert_tasks(&[("ready", 2)]);
    // The worker still knows the queue.
    q.sql("SELECT xqueue.put('{q}', '{}', '20 milliseconds')");
    q.wait_for("ready", 3);
}

/// An orphan whose row is locked does not keep the worker from promoting other tasks.
#[test]
fn a_locked_orphan_does_not_stop_promotion() {
    let mut q = Queue::new("orphan");
    let name = q.name.clone();
    let id = put(&mut q.admin, &name, 1);
    let mut consumer = q.client();
    assert_eq!(ids(&take(&mut consumer, &name, "0", 1)), [id]);
    let mut other = q.client();
    other
        .batch_execute(&format!("BEGIN; UPDATE {name} SET payload = '2' WHERE id = {id}"))
        .unwrap();
    drop(consumer);
    q.sql("SELECT xqueue.put('{q}', '{}', '20 milliseconds')");
    q.wait_for("ready", 1);
    other.batch_execute("COMMIT").unwrap();
    q.wait_for("ready", 2);
}

/// A consumer is in one wait queue at a time.
#[test]
fn a_wait_inside_a_wait_is_refused() {
    let mut outer = Queue::new("outer");
    let inner = Queue::new("inner");
    outer.sql(&format!(
        "CREATE FUNCTION {{q}}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           PERFORM xqueue.take('{}', '20s'); RETURN NEW; END $$;
         CREATE TRIGGER nested BEFORE UPDATE ON {{q}} FOR EACH ROW EXECUTE FUNCTION {{q}}_f()",
        inner.name
    ));
    let waiter = Waiter::take(&mut outer);
    let name = outer.name.clone();
    put(&mut outer.admin, &name, 1);
    assert_eq!(waiter.error().1.code().code(), "55006");
    outer.sql("DROP TRIGGER nested ON {q}; DROP FUNCTION {q}_f()");
    // No consumer is left in either wait queue.
    outer.wait_for_consumers(0);
    let waiter = Waiter::start(outer.client(), &format!("SELECT xqueue.take('{name}', '20s')"));
    waiter.task();
}

/// A setting for all sessions of a database must not stop its worker.
#[test]
fn a_database_that_is_read_only_by_default() {
    let mut database = Database::new("readonly");
    let mut q = Queue::new_in(&database.name, "readonly");
    database
        .sql(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name));
    let restart = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'xqueue worker' AND datname = current_database()";
    q.sql(restart);
    q.sql("SELECT xqueue.put('{q}', '{}', '20 milliseconds')");
    q.wait_for("ready", 1);
    let id = take_all(&mut q.admin, &q.name)[0];
    ack(&mut q.admin, &q.name, id);
    database.sql(&format!("ALTER DATABASE {} RESET default_transaction_read_only", database.name));
}

/// Drivers and ORMs read the name of the violated constraint.
#[test]
fn an_error_of_the_server_keeps_its_names() {
    let mut q = Queue::new("names");
    q.sql("ALTER TABLE {q} ADD CONSTRAINT small CHECK (id < 100)");
    let name = q.name.clone();
    let sql = format!("SELECT xqueue.put('{name}', '{{\"id\": 200}}')");
    let error = expect_error(&mut q.admin, &sql, "23514", "");
    assert_eq!((error.constraint(), error.table()), (Some("small"), Some(name.as_str())));
    // The next error does not repeat these names.
    let error = expect_error(&mut q.admin, &format!("SELECT xqueue.ack('{name}', 1)"), "P0002", "");
    assert_eq!((error.constraint(), error.table()), (None, None));
    let sql = format!(
        "DO $$ BEGIN PERFORM xqueue.put('{name}', '{{\"id\": 1}}'), xqueue.put('{name}', '{{\"id\": 1}}'); END $$"
    );
    let error = expect_error(&mut q.admin, &sql, "23505", "");
    assert_eq!(error.constraint(), Some(format!("{name}_pkey").as_str()));
}

/// A dump restores the registry's rows, the tables' rows and the triggers, in this order.
#[test]
fn a_restored_dump_is_attended_to() {
    let source = Database::new("source");
    let mut from = source.client();
    from.batch_execute(&format!(
        "CREATE TABLE jobs (id bigserial PRIMARY KEY, payload text); SELECT xqueue.upgrade('jobs', '{DELAYED}');
         SELECT xqueue.put('jobs', '[{{}}, {{}}]'); SELECT xqueue.put('jobs', '{{}}', '10 milliseconds')"
    ))
    .unwrap();
    // The task's owner stays connected to the other database.
    assert_eq!(take(&mut from, "jobs", "0", 1).len(), 1);
    let copy = Database::new("copy");
    let mut to = copy.client();
    to.batch_execute(
        "CREATE TABLE jobs (id bigserial PRIMARY KEY, payload text, status \"char\" NOT NULL DEFAULT 'R', owner uuid, runat timestamptz)",
    )
    .unwrap();
    let definition: String = scalar(&mut from, "SELECT definition::text FROM xqueue.queue", &[]);
    to.batch_execute(&format!(
        "INSERT INTO xqueue.queue VALUES ('jobs', 1, '{}')",
        definition.replace('\'', "''")
    ))
    .unwrap();
    let attended = "SELECT count(*) FROM xqueue.queues";
    wait_until("the worker knows the queue", || scalar::<i64>(&mut to, attended, &[]) == 1);
    for row in values(&mut from, "SELECT to_jsonb(jobs) FROM jobs", &[]) {
        let sql = "INSERT INTO jobs SELECT * FROM jsonb_populate_record(NULL::jobs, $1)";
        to.execute(sql, &[&row]).unwrap();
    }
    let ddl = values(
        &mut to,
        "SELECT to_jsonb(d) FROM jsonb_array_elements_text(xqueue.upgrade('jobs', dry_run => true)->'ddl') d",
        &[],
    );
    for statement in ddl {
        to.batch_execute(statement.as_str().unwrap()).unwrap();
    }
    let mut q = Queue::adopt(&copy.name, "jobs");
    q.wait_for("ready", 3);
    q.assert_exact();
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
    let name = unique("domain");
    let mut q = Queue::adopt(&database(), &name);
    q.sql("CREATE DOMAIN {q}_count AS int NOT NULL; CREATE DOMAIN {q}_data AS jsonb");
    q.sql(
        "CREATE TABLE {q} (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, count {q}_count \
         DEFAULT 1, data {q}_data)",
    );
    q.upgrade(&json!({}));
    let put = format!("SELECT xqueue.put('{name}', '{{\"count\": null}}')");
    expect_error(&mut q.admin, &put, "23502", "does not allow null values");
    let sql = format!("SELECT xqueue.put('{name}', '{{\"count\": 2, \"data\": \"5\"}}')->'data'");
    assert_eq!(scalar::<Value>(&mut q.admin, &sql, &[]), json!("5"));
    q.verify();
    q.sql("DROP TABLE {q}; DROP DOMAIN {q}_count; DROP DOMAIN {q}_data");
    q.abandon();
}
