//! Owners can disable, drop and replace the triggers of a queue. Counters without reports are then not exact, and
//! `check` says which trigger is missing.

use xqueue_tests::*;

/// Creates a queue with `tasks` ready tasks.
fn queue(tasks: i64) -> Queue {
    let mut q = Queue::new("untold");
    q.sql(&format!("INSERT INTO {{q}} SELECT FROM generate_series(1, {tasks})"));
    q.assert_tasks(&[("ready", tasks)]);
    q
}

fn is_exact(q: &mut Queue) -> bool {
    q.stats()["exact"] == json!(true)
}

/// Asserts that `check` reports a problem with these words. Returns its hint.
#[track_caller]
fn assert_problem(q: &mut Queue, words: &str) -> String {
    let report = q.ask_one("SELECT xqueue.check('{q}')");
    let problems = report["problems"].as_array().expect("a list");
    let is_it = |problem: &Value| problem.as_str().is_some_and(|text| text.contains(words));
    assert!(problems.iter().any(is_it), "{words}: {report}");
    report["hint"].as_str().unwrap_or_default().to_owned()
}

/// Asserts, at many moments, that counters are right whenever they claim to be exact.
#[track_caller]
fn assert_honest(q: &mut Queue) {
    for _ in 0..40 {
        let (stats, counted) = (q.stats(), q.counted());
        assert!(stats["exact"] == json!(false) || stats["tasks"] == counted, "{stats} {counted}");
        std::thread::yield_now();
    }
}

#[test]
fn changes_while_triggers_are_disabled() {
    for (off, on) in [
        ("DISABLE TRIGGER USER", "ENABLE TRIGGER USER"),
        ("DISABLE TRIGGER ALL", "ENABLE TRIGGER ALL"),
        ("DISABLE TRIGGER xqueue_insert", "ENABLE ALWAYS TRIGGER xqueue_insert"),
        ("ENABLE REPLICA TRIGGER xqueue_insert", "ENABLE ALWAYS TRIGGER xqueue_insert"),
    ] {
        let mut q = queue(3);
        q.sql(&format!("ALTER TABLE {{q}} {off}"));
        assert!(!is_exact(&mut q), "{off}");
        q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 2)");
        // The tasks can be counted or not, but the counters must not be exact.
        assert_honest(&mut q);
        assert!(!is_exact(&mut q), "{off}");
        q.sql(&format!("ALTER TABLE {{q}} {on}"));
        assert_honest(&mut q);
        q.assert_tasks(&[("ready", 5)]);
        q.sql("SELECT xqueue.upgrade('{q}')");
    }
}

#[test]
fn changes_in_one_transaction_with_those_of_triggers() {
    for between in [
        "",
        "SELECT xqueue.upgrade('{q}', '{\"features\": {\"buried\": true}}');",
        "SAVEPOINT a; ALTER TABLE {q} DISABLE TRIGGER ALL; ROLLBACK TO a;",
    ] {
        let mut q = queue(1);
        q.sql(&format!(
            "BEGIN; ALTER TABLE {{q}} DISABLE TRIGGER USER; INSERT INTO {{q}} SELECT FROM generate_series(1, 4);
             ALTER TABLE {{q}} ENABLE TRIGGER USER; {between} COMMIT"
        ));
        assert_honest(&mut q);
        q.assert_tasks(&[("ready", 5)]);
        q.sql("SELECT xqueue.upgrade('{q}')");
    }
    let mut q = queue(1);
    let always = ["insert", "delete", "update", "truncate"]
        .map(|event| format!("ALTER TABLE {{q}} ENABLE ALWAYS TRIGGER xqueue_{event};"))
        .concat();
    q.sql(&format!(
        "BEGIN; ALTER TABLE {{q}} DISABLE TRIGGER USER; INSERT INTO {{q}} DEFAULT VALUES; {always}
         PREPARE TRANSACTION '{{q}}'"
    ));
    assert!(!is_exact(&mut q));
    q.sql("COMMIT PREPARED '{q}'");
    assert_honest(&mut q);
    q.sql("SELECT xqueue.upgrade('{q}')");
    q.assert_tasks(&[("ready", 2)]);
}

/// Whoever has the right TRIGGER can make further triggers with a function of ours, under each name of ours that is
/// free. An owner can rename ours.
#[test]
fn changes_that_a_second_trigger_reports() {
    for (timing, function) in [
        ("AFTER INSERT OR UPDATE OR DELETE ON {q} FOR EACH ROW", "row_changed"),
        ("AFTER TRUNCATE ON {q}", "truncated"),
        ("BEFORE INSERT ON {q} FOR EACH ROW", "row_arrives"),
    ] {
        for name in ["mine", "\"~xqueue_arrive\""] {
            // Without delays the queue has no trigger for new rows.
            let mut q = Queue::with("untold", COLUMNS, &json!({}));
            q.sql(&format!(
                "INSERT INTO {{q}} SELECT FROM generate_series(1, 2);
                 CREATE TRIGGER {name} {timing} EXECUTE FUNCTION xqueue_internal.{function}()"
            ));
            q.sql("INSERT INTO {q} DEFAULT VALUES; DELETE FROM {q} WHERE id = 1");
            q.assert_tasks(&[("ready", 2)]);
            q.sql("TRUNCATE {q}; INSERT INTO {q} DEFAULT VALUES");
            q.assert_tasks(&[("ready", 1)]);
            q.sql(&format!("DROP TRIGGER {name} ON {{q}}"));
        }
    }
    let mut q = queue(2);
    q.sql("ALTER TRIGGER xqueue_insert ON {q} RENAME TO mine; SELECT xqueue.upgrade('{q}')");
    q.sql("INSERT INTO {q} DEFAULT VALUES");
    q.assert_tasks(&[("ready", 3)]);
}

#[test]
fn triggers_of_the_users_that_bear_the_names_of_ours() {
    let mut q = Queue::new("untold");
    q.sql(
        "CREATE TABLE {q}_log (word text);
         CREATE FUNCTION {q}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO {q}_log VALUES (TG_NAME); RETURN NULL; END $$;
         CREATE TABLE {q}_new (id bigserial PRIMARY KEY);
         CREATE TRIGGER xqueue_insert AFTER INSERT ON {q}_new FOR EACH ROW EXECUTE FUNCTION {q}_f();
         ALTER TABLE {q}_new ENABLE ALWAYS TRIGGER xqueue_insert",
    );
    let refused = q.fails("SELECT xqueue.upgrade('{q}_new')", "42710", "xqueue_insert");
    assert!(refused.hint().is_some_and(|hint| hint.contains("RENAME TO")));
    q.sql("ALTER TRIGGER xqueue_insert ON {q}_new RENAME TO own; SELECT xqueue.upgrade('{q}_new'); DROP TABLE {q}_new");
    // An owner's trigger with the name of ours fires, is not mistaken for ours, and is not dropped by us.
    q.sql(
        "DROP TRIGGER xqueue_insert ON {q};
         CREATE TRIGGER xqueue_insert AFTER INSERT ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_f();
         ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_insert;
         SELECT xqueue.put('{q}', '[{}, {}]'); SELECT xqueue.put('{q}', '{}'); INSERT INTO {q} DEFAULT VALUES",
    );
    assert_honest(&mut q);
    assert!(!is_exact(&mut q));
    assert_eq!(q.ask_one("SELECT to_jsonb(count(*)) FROM {q}_log"), 4);
    assert_problem(&mut q, "\"xqueue_insert\" of its own");
    q.fails("SELECT xqueue.upgrade('{q}')", "42710", "xqueue_insert");
    q.sql("ALTER TRIGGER xqueue_insert ON {q} RENAME TO own; SELECT xqueue.upgrade('{q}')");
    q.assert_tasks(&[("ready", 4)]);
    q.sql("DROP TRIGGER own ON {q}; DROP FUNCTION {q}_f; DROP TABLE {q}_log");
}

/// Plain triggers do not report replicated rows, so an earlier due task can exist without a report.
#[test]
fn an_earlier_runat_without_a_report() {
    let mut q = queue(0);
    q.sql("ALTER TABLE {q} DISABLE TRIGGER USER; ALTER TABLE {q} ENABLE TRIGGER USER");
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 1}', '1 hour')");
    q.assert_tasks(&[("waiting", 1)]);
    q.sql(
        "BEGIN; SET LOCAL session_replication_role = replica;
         INSERT INTO {q} (id, status, runat) VALUES (2, 'W', now() - interval '1 hour'); COMMIT",
    );
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 3}', '10 milliseconds')");
    q.wait_for("ready", 2);
    q.sql("SELECT xqueue.upgrade('{q}')");
}

#[test]
fn an_index_that_is_not_valid() {
    let mut q = queue(0);
    let index = q.index("ready");
    q.sql(&format!(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{index}'::regclass;
         ALTER INDEX {index} SET (fillfactor = 90)"
    ));
    let hint = assert_problem(&mut q, "an index is missing or not valid");
    assert!(hint.contains("xqueue.upgrade"), "{hint}");
    q.sql("SELECT xqueue.upgrade('{q}')");
}

#[test]
fn an_owner_of_a_task_that_is_not_taken() {
    let features = json!({"delayed": true, "buried": true, "keep": true});
    let mut q = Queue::with("untold", COLUMNS, &json!({ "features": features }));
    for (id, status) in [(1, "R"), (2, "W"), (3, "B"), (4, "D")] {
        q.sql(&format!(
            "INSERT INTO {{q}} (id, status, owner, runat) VALUES ({id}, '{status}', gen_random_uuid(), 'infinity')"
        ));
        assert_problem(&mut q, &format!("{id} tasks that are not taken have an owner"));
    }
    q.sql("UPDATE {q} SET owner = NULL");
}

/// A row in no state, written while the triggers were disabled, and tasks that wait or are zombies without a time.
#[test]
fn rows_that_nothing_would_ever_handle() {
    let mut q = Queue::with("untold", COLUMNS, &json!({}));
    q.sql(
        "ALTER TABLE {q} DISABLE TRIGGER xqueue_insert; INSERT INTO {q} (id, status) VALUES (1, 'X');
         ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_insert; INSERT INTO {q} (id, status) VALUES (2, 'W'), (3, 'W')",
    );
    assert_problem(&mut q, "1 rows have a status that stands for no state");
    assert_problem(&mut q, "2 tasks that wait or are zombies have no time");
    q.sql("UPDATE {q} SET status = 'R'");
    q.assert_tasks(&[("ready", 3)]);
    q.upgrade(&json!({"features": {"zombie": "1 hour"}}));
    q.sql("UPDATE {q} SET status = 'Z' WHERE id = 1");
    assert_problem(&mut q, "1 tasks that wait or are zombies have no time");
    q.sql("DELETE FROM {q}");
}
