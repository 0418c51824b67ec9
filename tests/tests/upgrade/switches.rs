//! Features switched on a queue in use: no consumer gets an error, no task is lost, and no counter is wrong.

use xqueue_tests::{COLUMNS, Queue, Run, Value, Waiter, ask, id, json};

fn queue(features: &Value) -> Queue {
    Queue::with("switch", COLUMNS, &json!({ "features": features }))
}

/// The upgrade changes rows: of a table that becomes a queue, and of tasks that it converts. The deferred trigger fires
/// before the table is altered: the server refuses to alter a table with pending trigger events.
#[test]
fn beside_a_deferred_trigger() {
    let mut q = Queue::table(
        "switch",
        "CREATE TABLE {q} (id int PRIMARY KEY, status text);
         CREATE FUNCTION {q}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER own AFTER UPDATE ON {q} DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION {q}_f();
         INSERT INTO {q} VALUES (1, NULL)",
    );
    q.upgrade(&json!({"fields": {"status": "status"}, "features": {"delayed": true}}));
    q.assert_tasks(&[("ready", 1), ("total", 1)]);
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 2}', '1 hour')");
    q.upgrade(&json!({"features": {"delayed": false}, "convert": {"W": "R"}}));
    q.assert_tasks(&[("ready", 2), ("total", 2)]);
}

/// Each feature is switched off after each column was dropped.
#[test]
fn a_feature_goes_after_its_column() {
    let features = ["delayed", "buried", "zombie", "ttl", "ttr", "priority", "tube", "retry"];
    let on: Value = features.map(|feature| (feature, true)).into_iter().collect();
    let mut q = queue(&on);
    q.sql("INSERT INTO {q} DEFAULT VALUES; SELECT xqueue.take('{q}')");
    let columns =
        ["status", "owner", "runat", "priority", "tube", "attempts", "expires", "ttr", "reason"];
    for column in columns {
        for feature in features {
            let convert = match feature {
                "delayed" => json!({"W": "R"}),
                "buried" => json!({"B": "R"}),
                "zombie" => json!({"Z": "R"}),
                _ => json!({}),
            };
            let off = json!({"features": {feature: false}, "convert": convert});
            q.sql(&format!(
                "BEGIN; ALTER TABLE {{q}} DROP COLUMN {column} CASCADE;
                 SELECT xqueue.upgrade('{{q}}', '{off}'); ROLLBACK"
            ));
        }
    }
    q.sql("SELECT xqueue.release_all('{q}')");
}

#[test]
fn a_session_sees_a_switch_that_another_has_made_in_its_open_transaction() {
    let mut q = queue(&json!({}));
    let (name, mut other) = (q.name.clone(), q.client());
    other.run("BEGIN");
    assert_eq!(ask(&mut other, &name, "SELECT to_jsonb(1)"), [json!(1)]);
    q.upgrade(&json!({"features": {"delayed": true, "buried": true}}));
    let waiting = ask(&mut other, &name, "SELECT xqueue.put('{q}', '{}', delay => '1 hour')");
    assert_eq!(waiting[0]["status"], json!("W"));
    other.run("COMMIT");
    // A switch that is rolled back has no effect.
    q.sql(r#"BEGIN; SELECT xqueue.upgrade('{q}', '{"features": {"ttl": "1 hour"}}'); ROLLBACK"#);
    let put = ask(&mut other, &name, "SELECT xqueue.put('{q}', '{}')");
    assert!(put[0].get("expires").is_none(), "{put:?}");
}

#[test]
fn converted_tasks_wake_waiting_consumers_and_end_waits() {
    let mut q = queue(&json!({"buried": true, "keep": true}));
    q.sql("INSERT INTO {q} (id, status) VALUES (1, 'B')");
    let waiter = Waiter::take(&mut q);
    q.upgrade(&json!({"features": {"buried": false}, "convert": {"B": "R"}}));
    let (_client, task) = waiter.task();
    assert_eq!(id(&task), 1);
}
