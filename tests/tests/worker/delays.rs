//! Delayed tasks become ready when their delay ends. A bad row delays no other row, and a bad queue delays no other
//! queue.

use xqueue_tests::*;

#[test]
fn an_earlier_runat_wakes_the_worker() {
    let mut q = Queue::new("delay");
    q.sql("SELECT xqueue.put('{q}', '{}', '2 hours'); SELECT xqueue.put('{q}', '{}', '1 hour')");
    for (id, change, end) in [
        (
            100,
            "INSERT INTO {q} (id, status, runat) VALUES (100, 'W', now() + interval '70 milliseconds')",
            "",
        ),
        // The end of the delay is now, in a transaction that commits later.
        (1, "BEGIN; UPDATE {q} SET runat = now() WHERE id = 1", "COMMIT"),
        (2, "BEGIN; SAVEPOINT s; UPDATE {q} SET runat = now() WHERE id = 2; RELEASE s", "COMMIT"),
        (
            200,
            "BEGIN; SELECT xqueue.put('{q}', '{\"id\": 200}', '1 millisecond'); PREPARE TRANSACTION '{q}'",
            "COMMIT PREPARED '{q}'",
        ),
    ] {
        q.sql(change);
        q.sql(end);
        assert_eq!(ids(&take(&mut q.admin, &q.name, "30s", 1)), [id]);
    }
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
    q.sql("CREATE TABLE {q}_log (xid xid8, id bigint)");
    let note = "INSERT INTO public.{q}_log VALUES (pg_current_xact_id(), NEW.id); RETURN NEW";
    q.before_each("UPDATE", note);
    q.sql("INSERT INTO {q} (status, runat) SELECT 'W', now() + interval '150 milliseconds' FROM generate_series(1, 10000)");
    q.wait_for("ready", 10000);
    q.assert_tasks(&[("ready", 10000), ("waiting", 0)]);
    let are_bounded = "SELECT to_jsonb(max(n) <= current_setting('xqueue.batch_size')::int)
         FROM (SELECT count(*) AS n FROM {q}_log GROUP BY xid) AS batch";
    assert_eq!(q.ask_one(are_bounded), json!(true), "batches are bounded");
    let once = "SELECT to_jsonb(count(*) = count(DISTINCT id)) FROM {q}_log";
    assert_eq!(q.ask_one(once), json!(true), "each was promoted once");
    q.mend();
    q.sql("DROP TABLE {q}_log");
}

#[test]
fn a_poison_row_stops_no_other() {
    let (mut q, mut healthy) = (Queue::new("poison"), Queue::new("healthy"));
    q.before_each("UPDATE", "IF NEW.id = 500 THEN RAISE 'poison %', NEW.id; END IF; RETURN NEW");
    q.sql("INSERT INTO {q} (status, runat) SELECT 'W', now() FROM generate_series(1, 1200)");
    healthy.sql("SELECT xqueue.put('{q}', '[{}, {}]', '50 milliseconds')");
    healthy.wait_for("ready", 2);
    q.wait_for("ready", 1199);
    assert!(q.holds(500, "status = 'W'"));
    wait_until("the error is shown", || q.error().contains("poison 500"));
    assert!(q.stats().get("error_at").is_some());
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
    let mut other = q.client();
    q.sql("INSERT INTO {q} (status, runat) SELECT 'W', now() + interval '1 hour' FROM generate_series(1, 5)");
    q.run(&mut other, "BEGIN; SELECT FROM {q} WHERE id = 2 FOR UPDATE");
    q.sql("UPDATE {q} SET runat = now() WHERE id <> 2");
    q.wait_for("ready", 4);
    q.run(&mut other, "UPDATE {q} SET runat = now() WHERE id = 2");
    q.sql("SELECT xqueue.put('{q}', '{}', '10 milliseconds')");
    q.wait_for("ready", 5);
    other.run("COMMIT");
    q.wait_for("ready", 6);
    // A row that is due, but locked by a transaction that does not change it.
    q.sql(
        "INSERT INTO {q} (id, status, runat) VALUES (50, 'W', now() + interval '200 milliseconds')",
    );
    q.run(&mut other, "BEGIN; SELECT FROM {q} WHERE id = 50 FOR UPDATE");
    q.sql("SELECT xqueue.put('{q}', '{}', '250 milliseconds')");
    q.wait_for("ready", 7);
    assert!(q.holds(50, "status = 'W'"));
    other.run("ROLLBACK");
    q.wait_for("ready", 8);
}

#[test]
fn a_locked_table_delays_no_other_queue() {
    let (mut q, mut healthy) = (Queue::new("locked"), Queue::new("healthy"));
    let mut other = q.client();
    q.sql("SELECT xqueue.put('{q}', '{}', '100 milliseconds')");
    q.run(&mut other, "BEGIN; LOCK TABLE {q} IN ACCESS EXCLUSIVE MODE");
    healthy.is_served(5);
    other.run("COMMIT");
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
    let mut q = Queue::new("delay");
    q.sql(&format!("ALTER TABLE {{q}} OWNER TO {}; INSERT INTO {{q}} (id) VALUES (1)", role.name));
    let mut consumer = q.client();
    assert_eq!(take_all(&mut consumer, &q.name), [1]);
    q.sql("ALTER TABLE {q} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY");
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 2}', delay => '10 ms')");
    drop(consumer);
    wait_until("it is due", || q.holds(2, "runat < now() - '100 ms'::interval"));
    assert_eq!(q.calls("delay"), 0);
    q.sql("ALTER TABLE {q} DISABLE ROW LEVEL SECURITY");
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
    let features =
        json!({"delayed": true, "priority": true, "tube": true, "ttr": true, "ttl": "1 hour"});
    let mut q = Queue::with("delay", COLUMNS, &json!({ "features": features }));
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
                // `put` sets the time to live itself.
                let lives = match put.contains("xqueue.put") || expected == "B" {
                    true => "true",
                    false => "expires > greatest(runat, now()) + interval '59 minutes'",
                };
                let are_so = format!(
                    "SELECT to_jsonb(bool_and(status = '{expected}' AND {lives})) FROM {{q}}"
                );
                assert_eq!(q.ask_one(&are_so), json!(true), "{trigger} {body}: {put}");
            }
            q.assert_exact();
            q.sql(&format!("DROP TRIGGER {trigger} ON {{q}}"));
        }
    }
    // Consumers see the values that the trigger set.
    before_insert(&mut q, "zz", "NEW.priority := -NEW.id; NEW.tube := 'b'");
    q.sql("DELETE FROM {q}; INSERT INTO {q} (id, tube, priority) VALUES (1, 'a', 1), (2, 'a', 2)");
    assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => 'b', count => 2)")), [2, 1]);
    q.sql("DELETE FROM {q}; DROP TRIGGER zz ON {q}");
    // A trigger whose name sorts even later is reported, unless it is irrelevant.
    for (trigger, is_reported) in [("\"é\"", true), ("\"~z\"", true), ("\"~x\"", false)] {
        before_insert(&mut q, trigger, "NULL");
        let report = q.ask_one("SELECT xqueue.check('{q}')");
        let mend = format!("ALTER TRIGGER {trigger} ON");
        let is_hint = report["hint"].as_str().is_some_and(|hint| hint.starts_with(&mend));
        assert_eq!((report["ok"] == json!(false), is_hint), (is_reported, is_reported), "{report}");
        q.sql(&format!("ALTER TABLE {{q}} DISABLE TRIGGER {trigger}"));
        q.verify();
        q.sql(&format!("DROP TRIGGER {trigger} ON {{q}}"));
    }
    q.sql("DROP FUNCTION {q}_f");
}
