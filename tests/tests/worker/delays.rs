//! Delayed tasks become ready when their delay ends. A bad row delays no other row, and a bad queue delays no other
//! queue.

use xqueue_tests::*;

#[test]
fn an_earlier_runat_wakes_the_worker() {
    let mut q = Queue::new("delay");
    q.sql("SELECT xqueue.put('{q}', '{}', '2 hours')");
    q.sql("SELECT xqueue.put('{q}', '{}', '1 hour')");
    q.sql(
        "INSERT INTO {q} (id, status, runat) VALUES (100, 'W', now() + interval '70 milliseconds')",
    );
    assert_eq!(ids(&take(&mut q.admin, &q.name, "30s", 1)), [100]);
    // A statement moves the delay's end to now, in a transaction that commits later.
    q.sql("BEGIN; UPDATE {q} SET runat = now() WHERE id = 1");
    q.sql("COMMIT");
    assert_eq!(ids(&take(&mut q.admin, &q.name, "30s", 1)), [1]);
    // In a released savepoint, and in a prepared transaction.
    q.sql("BEGIN; SAVEPOINT s; UPDATE {q} SET runat = now() WHERE id = 2; RELEASE s; COMMIT");
    assert_eq!(ids(&take(&mut q.admin, &q.name, "30s", 1)), [2]);
    q.sql("BEGIN; SELECT xqueue.put('{q}', '{\"id\": 200}', '1 millisecond'); PREPARE TRANSACTION '{q}'");
    q.sql("COMMIT PREPARED '{q}'");
    assert_eq!(ids(&take(&mut q.admin, &q.name, "30s", 1)), [200]);
}

#[test]
fn a_later_runat_is_heard_too() {
    let mut q = Queue::new("delay");
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 1}', '300 milliseconds'); UPDATE {q} SET runat = now() + interval '1 hour'");
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 2}', '400 milliseconds')");
    assert_eq!(ids(&take(&mut q.admin, &q.name, "30s", 1)), [2]);
    q.assert_tasks(&[("waiting", 1), ("taken", 1)]);
}

#[test]
fn ten_thousand_at_once() {
    let mut q = Queue::new("delay");
    let name = q.name.clone();
    q.sql("CREATE TABLE {q}_log (xid xid8, id bigint)");
    q.before_each(
        "UPDATE",
        "INSERT INTO public.{q}_log VALUES (pg_current_xact_id(), NEW.id); RETURN NEW",
    );
    q.sql("INSERT INTO {q} (status, runat) SELECT 'W', now() + interval '150 milliseconds' FROM generate_series(1, 10000)");
    q.wait_for("ready", 10000);
    q.assert_tasks(&[("ready", 10000), ("waiting", 0)]);
    let sql =
        format!("SELECT max(n) FROM (SELECT count(*) AS n FROM {name}_log GROUP BY xid) AS batch");
    let largest: i64 = scalar(&mut q.admin, &sql, &[]);
    let bound: String = scalar(&mut q.admin, "SELECT current_setting('xqueue.batch_size')", &[]);
    assert!(largest <= bound.parse().unwrap(), "batches are bounded: {largest}");
    let sql = format!("SELECT count(*) = count(DISTINCT id) FROM {name}_log");
    assert!(scalar::<bool>(&mut q.admin, &sql, &[]), "each was promoted once");
    q.sql("DROP TABLE {q}_log CASCADE; DROP TRIGGER own ON {q}; DROP FUNCTION {q}_f()");
}

#[test]
fn a_poison_row_stops_no_other() {
    let (mut q, mut healthy) = (Queue::new("poison"), Queue::new("healthy"));
    q.before_each("UPDATE", "IF NEW.id = 500 THEN RAISE 'poison %', NEW.id; END IF; RETURN NEW");
    q.sql("INSERT INTO {q} (status, runat) SELECT 'W', now() FROM generate_series(1, 1200)");
    healthy.sql("SELECT xqueue.put('{q}', '[{}, {}]', '50 milliseconds')");
    healthy.wait_for("ready", 2);
    q.wait_for("ready", 1199);
    assert_eq!(status(&mut q.admin, &q.name, 500).as_deref(), Some("W"));
    wait_until("the error is shown", || q.error().contains("poison 500"));
    let at = "SELECT s ? 'error_at' FROM xqueue.stats($1::text) s";
    assert!(scalar::<bool>(&mut q.admin, at, &[&q.name]));
    assert_eq!(healthy.error(), "");
    // Tasks that come later are promoted too, and so is the bad row once it is repaired.
    q.sql("SELECT xqueue.put('{q}', '{}', '30 milliseconds')");
    q.wait_for("ready", 1200);
    q.mend();
    q.wait_for("ready", 1201);
    wait_until("the error is gone", || q.error().is_empty());
}

#[test]
fn a_locked_row_is_passed_over_and_promoted_later() {
    let mut q = Queue::new("delay");
    let name = q.name.clone();
    let mut other = q.client();
    q.sql("INSERT INTO {q} (status, runat) SELECT 'W', now() + interval '1 hour' FROM generate_series(1, 5)");
    other.batch_execute(&format!("BEGIN; SELECT FROM {name} WHERE id = 2 FOR UPDATE")).unwrap();
    q.sql("UPDATE {q} SET runat = now() WHERE id <> 2");
    q.wait_for("ready", 4);
    other.batch_execute(&format!("UPDATE {name} SET runat = now() WHERE id = 2")).unwrap();
    q.sql("SELECT xqueue.put('{q}', '{}', '10 milliseconds')");
    q.wait_for("ready", 5);
    other.batch_execute("COMMIT").unwrap();
    q.wait_for("ready", 6);
    // A row that is due, but locked by a transaction that does not change it.
    q.sql(
        "INSERT INTO {q} (id, status, runat) VALUES (50, 'W', now() + interval '200 milliseconds')",
    );
    other.batch_execute(&format!("BEGIN; SELECT FROM {name} WHERE id = 50 FOR UPDATE")).unwrap();
    q.sql("SELECT xqueue.put('{q}', '{}', '250 milliseconds')");
    q.wait_for("ready", 7);
    assert_eq!(status(&mut q.admin, &name, 50).as_deref(), Some("W"));
    other.batch_execute("ROLLBACK").unwrap();
    q.wait_for("ready", 8);
}

#[test]
fn a_locked_table_delays_no_other_queue() {
    let (mut q, mut healthy) = (Queue::new("locked"), Queue::new("healthy"));
    let mut other = q.client();
    q.sql("SELECT xqueue.put('{q}', '{}', '100 milliseconds')");
    other.batch_execute(&format!("BEGIN; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", q.name)).unwrap();
    healthy.is_served(5);
    other.batch_execute("COMMIT").unwrap();
    q.wait_for("ready", 1);
}

#[test]
fn far_away_times() {
    let mut q = Queue::new("delay");
    q.sql("INSERT INTO {q} (status, runat) VALUES ('W', 'infinity'), ('W', '294276-12-31'), ('W', '-infinity'), ('W', '4713-01-01 BC')");
    q.wait_for("ready", 2);
    q.sql("SELECT xqueue.put('{q}', '{}', '40 milliseconds')");
    q.wait_for("ready", 3);
    q.assert_tasks(&[("waiting", 2), ("ready", 3)]);
}

/// The column's default delays the task, also when it is inserted by plain SQL.
#[test]
fn a_runat_by_default_makes_a_put_wait_too() {
    let columns = "id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, payload jsonb, \
                   run_at timestamptz DEFAULT now() + interval '1 hour'";
    let options = json!({"fields": {"runat": "run_at"}, "features": {"delayed": true}});
    let mut q = Queue::with("default", columns, &options);
    q.sql("SELECT xqueue.put('{q}', '{}'); INSERT INTO {q} (payload) VALUES ('1')");
    q.assert_tasks(&[("waiting", 2), ("ready", 0)]);
}

/// A new feature makes times count that the worker had ignored before.
#[test]
fn times_that_a_feature_makes_count() {
    let columns = "id bigint PRIMARY KEY, dies timestamptz";
    let mut q = Queue::with("delay", columns, &json!({"features": {"delayed": true}}));
    q.sql(
        "INSERT INTO {q} (id, dies) VALUES (1, now() + '50 ms'), (2, NULL); \
           SELECT xqueue.put('{q}', '{\"id\": 3}', delay => '10 ms')",
    );
    q.wait_for("ready", 3);
    q.sql("UPDATE {q} SET status = 'Z', runat = now() + '50 ms' WHERE id = 2");
    q.upgrade(&json!({"fields": {"expires": "dies"}, "features": {"ttl": true, "zombie": true}}));
    q.wait_for("total", 1);
}

/// The worker acts as the owner. Row security hides tasks from it, and it processes them when row security is disabled.
#[test]
fn times_and_tasks_behind_row_security() {
    let role = Role::create();
    let mut owner = role.client();
    let name = unique("delay");
    owner
        .batch_execute(&format!(
            "CREATE TABLE {name} (id bigint PRIMARY KEY); \
             SELECT xqueue.upgrade('{name}', '{{\"features\": {{\"delayed\": true}}}}'); \
             INSERT INTO {name} VALUES (1)"
        ))
        .unwrap();
    let mut q = Queue::adopt(&database(), &name);
    let mut consumer = q.client();
    assert_eq!(take_all(&mut consumer, &name), [1]);
    owner
        .batch_execute(&format!(
            "ALTER TABLE {name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
        ))
        .unwrap();
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 2}', delay => '10 ms')");
    drop(consumer);
    let sql = "SELECT count(*) FROM {q} WHERE runat < now() - '100 ms'::interval";
    let sql = sql.replace("{q}", &name);
    wait_until("it is due", || scalar::<i64>(&mut q.admin, &sql, &[]) == 1);
    assert_eq!(q.calls("delay"), 0);
    owner.batch_execute(&format!("ALTER TABLE {name} DISABLE ROW LEVEL SECURITY")).unwrap();
    q.wait_for("ready", 2);
}

/// Creates a user trigger that runs `body` before each new task.
fn before_insert(q: &mut Queue, trigger: &str, body: &str) {
    q.sql(&format!(
        "CREATE OR REPLACE FUNCTION {{q}}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$;
         CREATE TRIGGER {trigger} BEFORE INSERT ON {{q}} FOR EACH ROW EXECUTE FUNCTION {{q}}_f()"
    ));
}

#[test]
fn what_a_trigger_sets_is_what_a_new_task_is() {
    let options = json!({"features": {"delayed": true, "priority": true, "tube": true, "ttr": true, "ttl": "1 hour"}});
    let mut q = Queue::with("delay", "id bigserial PRIMARY KEY, payload jsonb", &options);
    let name = q.name.clone();
    let puts = [
        "INSERT INTO {q} DEFAULT VALUES",
        "INSERT INTO {q} SELECT 1 ON CONFLICT (id) DO NOTHING",
        "MERGE INTO {q} USING (SELECT 1) AS s ON false WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
        "SELECT xqueue.put('{q}', '{}')",
        "SELECT xqueue.put('{q}', '[{}, {}]'::jsonb)",
        "SELECT xqueue.put(NULL::{q}, '{}')",
    ];
    for (body, expected) in [
        ("NEW.runat := now() + interval '2 hours'", "W"),
        ("NEW.runat := now() - interval '2 hours'", "R"),
        ("NEW.runat := now() + interval '2 hours'; NEW.status := 'R'; NEW.ttr := '5 s'", "W"),
        ("NEW.runat := now() + interval '2 hours'; NEW.status := 'W'", "W"),
        ("NEW.runat := now() + interval '2 hours'; NEW.status := 'B'", "B"),
        ("NEW.priority := 7; NEW.tube := 'a'; NEW.expires := NULL", "R"),
    ] {
        for trigger in ["a", "xqueue_z", "zz", "\"~\"", "\"~a\""] {
            before_insert(&mut q, trigger, body);
            for put in puts {
                q.sql("DELETE FROM {q}");
                q.sql(put);
                let sql = format!("SELECT array_agg(DISTINCT status) FROM {name}");
                let states: Vec<String> = scalar(&mut q.admin, &sql, &[]);
                assert_eq!(states, [expected], "{trigger} {body}: {put}");
                // `put` sets the time to live itself.
                let lives = put.contains("xqueue.put") || expected == "B";
                let sql = format!(
                    "SELECT bool_and(expires > greatest(runat, now()) + interval '59 minutes') FROM {name}"
                );
                assert!(lives || scalar(&mut q.admin, &sql, &[]), "{trigger} {body}: {put}");
            }
            q.assert_exact();
            q.sql(&format!("DROP TRIGGER {trigger} ON {{q}}"));
        }
    }
    // Consumers see the values that the trigger set.
    before_insert(&mut q, "zz", "NEW.priority := -NEW.id; NEW.tube := 'b'");
    q.sql("DELETE FROM {q}; INSERT INTO {q} (id, tube, priority) VALUES (1, 'a', 1), (2, 'a', 2)");
    let sql = format!("SELECT xqueue.take('{name}', tube => 'b', count => 2)");
    assert_eq!(ids(&values(&mut q.admin, &sql, &[])), [2, 1]);
    q.sql("DELETE FROM {q}; DROP TRIGGER zz ON {q}");
    // A trigger whose name sorts even later is reported, unless it is irrelevant.
    for (trigger, is_reported) in [("\"é\"", true), ("\"~z\"", true), ("\"~x\"", false)] {
        before_insert(&mut q, trigger, "NULL");
        let report: Value = scalar(&mut q.admin, "SELECT xqueue.check($1::text)", &[&name]);
        let hint = report["hint"].as_str().unwrap_or_default();
        assert_eq!(report["ok"] == json!(false), is_reported, "{report}");
        assert_eq!(
            hint.starts_with(&format!("ALTER TRIGGER {trigger} ON")),
            is_reported,
            "{report}"
        );
        q.sql(&format!("ALTER TABLE {{q}} DISABLE TRIGGER {trigger}"));
        q.verify();
        q.sql(&format!("DROP TRIGGER {trigger} ON {{q}}"));
    }
    q.sql("DROP FUNCTION {q}_f");
}
