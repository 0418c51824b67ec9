//! Puts that fire triggers or compute columns, and user code in the midst of them. Most tests run once on the direct
//! path and once by statements.

use super::{OUTGOING, queue, statements};
use xqueue_tests::*;

/// Runs `work` on the direct path, and by statements. `adds` is added to the table before. On the direct path, a put
/// must use no statement, unless a trigger puts a task too.
fn both_ways(features: &Value, adds: &str, work: impl Fn(&mut Queue)) {
    alone();
    for direct_path in ["on", "off"] {
        let mut q = queue(features);
        q.sql(adds);
        q.sql(&format!("SET xqueue.direct_path = {direct_path}"));
        work(&mut q);
        let name = q.name.clone();
        if direct_path == "on" && !adds.contains("xqueue.") {
            assert!(!statements(&mut q.admin, &name).contains("INSERT"), "{adds}");
        }
        q.sql("ROLLBACK");
    }
}

/// Returns a trigger that runs `body` at these events.
fn acts(events: &str, body: &str) -> String {
    format!(
        "CREATE FUNCTION {{q}}_acts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;
         CREATE TRIGGER acts {events} ON {{q}} FOR EACH ROW EXECUTE FUNCTION {{q}}_acts();"
    )
}

#[test]
fn a_trigger_that_refuses_tasks() {
    let refuses = "IF NEW.customer = 2 THEN RETURN NULL; END IF; RETURN NEW;";
    let adds = acts("BEFORE INSERT", refuses);
    both_ways(&json!({}), &adds, |q| {
        let put = "SELECT xqueue.put('{q}', '[{\"customer\": 1}, {\"customer\": 2}, {\"customer\": 3}]')->'id'";
        assert_eq!(q.ask(put), [1, 3]);
        assert!(q.ask("SELECT xqueue.put('{q}', '{\"customer\": 2}')").is_empty());
        q.assert_tasks(&[("ready", 2), ("total", 2)]);
        assert_eq!(q.calls("put"), 2);
        assert_eq!(q.takes(9), [1, 3]);
    });
}

#[test]
fn a_trigger_that_changes_the_state() {
    let changes = "NEW.status := coalesce(NEW.note, NEW.status); RETURN NEW;";
    let adds = acts("BEFORE INSERT", changes);
    let features = json!({"utube": true, "buried": true});
    both_ways(&features, &adds, |q| {
        q.sql("SELECT xqueue.put('{q}', '[{\"note\": \"B\"}, {\"note\": \"R\"}]')");
        q.assert_tasks(&[("buried", 1), ("ready", 1)]);
        assert_eq!(q.takes(9), [2]);
        q.fails("SELECT xqueue.put('{q}', '{\"note\": \"X\"}')", "23514", "");
        // A taken task is the only one of its sub-queue.
        q.sql("SELECT xqueue.put('{q}', '{\"note\": \"T\"}', tube => 'a')");
        q.fails("SELECT xqueue.put('{q}', '{\"note\": \"T\"}', tube => 'a')", "23505", "");
        q.sql("SELECT xqueue.put('{q}', '{}', tube => 'a')");
        assert!(q.takes(1).is_empty());
        q.sql("SET enable_seqscan = off");
        assert_eq!(q.ask_one("SELECT to_jsonb(count(*)) FROM {q} WHERE status = 'B'"), json!(1));
        // No session has taken this task, which check reports.
        q.sql("RESET enable_seqscan; DELETE FROM {q} WHERE owner IS NULL AND status = 'T'");
    });
}

/// The queue's own trigger sees what a user's trigger has set.
#[test]
fn a_trigger_that_delays() {
    let adds = acts("BEFORE INSERT", "NEW.runat := '2100-01-01'; RETURN NEW;");
    both_ways(&json!({"delayed": true, "ttl": "1 hour"}), &adds, |q| {
        assert_eq!(q.ask_one("SELECT xqueue.put('{q}', '{}')->'status'"), "W");
        q.assert_tasks(&[("waiting", 1), ("ready", 0)]);
    });
}

#[test]
fn errors_and_savepoints() {
    let adds = format!("{OUTGOING} DEFERRABLE; CREATE UNIQUE INDEX ON {{q}} (note)");
    both_ways(&json!({}), &adds, |q| {
        q.sql("SELECT xqueue.put('{q}', '{\"note\": \"a\"}')");
        q.fails("SELECT xqueue.put('{q}', '[{}, {\"note\": \"a\"}]')", "23505", "duplicate key");
        q.fails("SELECT xqueue.put('{q}', '{\"customer\": 9}')", "23503", "foreign key");
        q.assert_tasks(&[("ready", 1), ("total", 1)]);
        q.sql("BEGIN; SELECT xqueue.put('{q}', '{}'); SAVEPOINT s; SELECT xqueue.put('{q}', '[{}, {}]')");
        q.fails("SELECT xqueue.put('{q}', '{\"customer\": 9}')", "23503", "foreign key");
        q.sql("ROLLBACK TO s; SELECT xqueue.put('{q}', '{}'); COMMIT");
        q.assert_tasks(&[("ready", 3), ("total", 3)]);
        q.sql("BEGIN; SET CONSTRAINTS ALL DEFERRED; SELECT xqueue.put('{q}', '{\"customer\": 9}')");
        q.fails("COMMIT", "23503", "foreign key");
        q.sql("BEGIN; SET CONSTRAINTS ALL DEFERRED; SELECT xqueue.put('{q}', '{\"customer\": 9}')");
        q.sql("INSERT INTO {q}_customers VALUES (9); COMMIT");
        q.assert_tasks(&[("ready", 4), ("total", 4)]);
    });
}

#[test]
fn generated_columns() {
    let adds = acts("BEFORE INSERT", "NEW.note := upper(NEW.note); RETURN NEW;");
    let adds = format!(
        "{adds} ALTER TABLE {{q}} ADD made text GENERATED ALWAYS AS (note || '!') STORED CHECK (made <> 'NO!'), \
         ADD size int GENERATED ALWAYS AS (length(note)) STORED; CREATE UNIQUE INDEX ON {{q}} (made)"
    );
    both_ways(&json!({}), &adds, |q| {
        let put = "SELECT xqueue.put('{q}', '[{\"note\": \"a\"}, {\"note\": \"bc\"}, {}]')";
        let made = |task: &Value| (task["made"].clone(), task["size"].clone());
        let expected =
            [(json!("A!"), json!(1)), (json!("BC!"), json!(2)), (json!(null), json!(null))];
        assert_eq!(q.ask(put).iter().map(made).collect::<Vec<_>>(), expected);
        q.fails("SELECT xqueue.put('{q}', '{\"note\": \"A\"}')", "23505", "made");
        q.fails("SELECT xqueue.put('{q}', '{\"note\": \"no\"}')", "23514", "made");
        assert_eq!(q.ask("SELECT xqueue.take('{q}', count => 2)->'made'"), ["A!", "BC!"]);
    });
}

#[test]
fn a_task_that_gives_a_generated_value() {
    let mut q = queue(&json!({}));
    q.sql("ALTER TABLE {q} ADD made int GENERATED ALWAYS AS (1) STORED");
    q.fails("SELECT xqueue.put('{q}', '{\"made\": 1}')", "428C9", "made");
    q.sql("ALTER TABLE {q} ALTER id SET GENERATED ALWAYS");
    q.fails("SELECT xqueue.put('{q}', '{\"id\": 5}')", "428C9", "id");
    assert_eq!(q.ask_one("SELECT xqueue.put('{q}', '{}')->'made'"), json!(1));
}

#[test]
fn user_code_in_the_midst() {
    for when in ["BEFORE", "AFTER"] {
        let acting = |body: &str| {
            let body = format!("IF pg_trigger_depth() = 1 THEN {body} END IF; RETURN NEW;");
            acts(&format!("{when} INSERT"), &body)
        };
        let put = "SELECT xqueue.put('{q}', '[{}, {}]')";
        both_ways(&json!({}), &acting("PERFORM xqueue.put('{q}', '{}');"), |q| {
            assert_eq!(q.ask(put).len(), 2);
            q.assert_tasks(&[("ready", 4), ("total", 4)]);
            assert_eq!(q.calls("put"), 4);
        });
        let lifecycle = "PERFORM xqueue.ack('{q}', (xqueue.take('{q}')->>'id')::bigint);";
        both_ways(&json!({}), &acting(lifecycle), |q| {
            q.sql("INSERT INTO {q} (note) VALUES ('first')");
            assert_eq!(q.ask(put).len(), 2);
            q.assert_tasks(&[("taken", 0), ("total", if when == "BEFORE" { 1 } else { 0 })]);
        });
        for refused in [
            "ALTER TABLE {q} ADD other int;",
            "DROP TABLE {q};",
            "TRUNCATE {q};",
            "CREATE INDEX ON {q} (note);",
        ] {
            both_ways(&json!({}), &acting(refused), |q| drop(q.fails(put, "55006", "being used")));
        }
        both_ways(&json!({}), &acting("RAISE SQLSTATE 'P1234';"), |q| {
            q.sql("BEGIN; SAVEPOINT s");
            q.fails(put, "P1234", "");
            q.sql("ROLLBACK TO s; ALTER TABLE {q} DISABLE TRIGGER acts");
            q.sql(put);
            q.sql("COMMIT");
            q.assert_tasks(&[("ready", 2), ("total", 2)]);
        });
    }
    let endless = acts("BEFORE INSERT", "PERFORM xqueue.put('{q}', '{}'); RETURN NEW;");
    both_ways(&json!({}), &endless, |q| {
        q.fails("SELECT xqueue.put('{q}', '{}')", "54001", "nested too deep");
        q.assert_tasks(&[("total", 0)]);
    });
}

/// A put that waits for room fires its triggers once it has room.
#[test]
fn a_put_that_waits_for_room() {
    alone();
    let mut q = queue(&json!({"capacity": 1}));
    q.sql("CREATE TRIGGER own AFTER INSERT ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_logs()");
    q.sql(OUTGOING);
    q.sql("SELECT xqueue.put('{q}', '{}')");
    let (name, producer) = (q.name.clone(), q.client());
    let put =
        Waiter::start(producer, &format!("SELECT xqueue.put('{name}', '{{}}', timeout => '30s')"));
    q.wait_for_producers(1);
    assert_eq!(q.takes(1), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    let (mut producer, _task) = put.task();
    assert_eq!(statements(&mut producer, &name), "");
    q.assert_tasks(&[("ready", 1), ("total", 1)]);
    assert_eq!(q.ask_one("SELECT to_jsonb(count(*)) FROM {q}_log"), json!(2));
}
