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

/// Returns the problems that `check` reports, and its hint.
fn problems(q: &mut Queue) -> (Vec<String>, Option<String>) {
    let report: Value = scalar(&mut q.admin, "SELECT xqueue.check($1::text)", &[&q.name]);
    let problems = report["problems"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    (problems.filter_map(text).collect(), text(&report["hint"]))
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
        assert_honest(&mut q);
        // The task can be counted or not, but the counters must not be exact.
        wait_until("the tasks are counted", || {
            q.stats()["tasks"]["ready"] != json!(3) || !is_exact(&mut q)
        });
        assert!(!is_exact(&mut q), "{off}");
        q.sql(&format!("ALTER TABLE {{q}} {on}"));
        assert_honest(&mut q);
        q.assert_tasks(&[("ready", 5)]);
        q.sql("SELECT xqueue.upgrade('{q}')");
    }
}

#[test]
fn changes_in_one_transaction_with_those_of_triggers() {
    let mut other = Queue::new("untold");
    for between in [
        String::new(),
        format!(
            "SELECT xqueue.upgrade('{}', '{{\"features\": {{\"buried\": true}}}}');",
            other.name
        ),
        "SELECT xqueue.upgrade('{q}', '{\"features\": {\"buried\": true}}');".into(),
        "SAVEPOINT a; ALTER TABLE {q} DISABLE TRIGGER ALL; ROLLBACK TO a;".into(),
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
    other.verify();
    let mut q = queue(1);
    let gid = q.name.clone();
    q.sql(&format!(
        "BEGIN; ALTER TABLE {{q}} DISABLE TRIGGER USER; INSERT INTO {{q}} DEFAULT VALUES;
         ALTER TABLE {{q}} ENABLE ALWAYS TRIGGER xqueue_insert; ALTER TABLE {{q}} ENABLE ALWAYS TRIGGER xqueue_delete;
         ALTER TABLE {{q}} ENABLE ALWAYS TRIGGER xqueue_update; ALTER TABLE {{q}} ENABLE ALWAYS TRIGGER xqueue_truncate;
         PREPARE TRANSACTION '{gid}'"
    ));
    assert!(!is_exact(&mut q));
    q.sql(&format!("COMMIT PREPARED '{gid}'"));
    assert_honest(&mut q);
    q.sql("SELECT xqueue.upgrade('{q}')");
    q.assert_tasks(&[("ready", 2)]);
}

#[test]
fn changes_after_a_trigger_was_dropped() {
    let mut q = queue(2);
    q.sql("DROP TRIGGER xqueue_delete ON {q}; DELETE FROM {q} WHERE id = 1");
    assert!(!is_exact(&mut q));
    assert_honest(&mut q);
    let (problems, hint) = problems(&mut q);
    assert!(problems.iter().any(|problem| problem.contains("xqueue_delete")), "{problems:?}");
    assert!(hint.is_some_and(|hint| hint.contains("xqueue.upgrade")));
    q.sql("SELECT xqueue.upgrade('{q}')");
    q.assert_tasks(&[("ready", 1)]);
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
        for name in ["mine", "xqueue_arrive", "\"~xqueue_arrive\""] {
            // Without delays the queue has no trigger for new rows.
            let mut q = Queue::with("untold", COLUMNS, &json!({}));
            q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 2)");
            q.assert_tasks(&[("ready", 2)]);
            q.sql(&format!(
                "CREATE TRIGGER {name} {timing} EXECUTE FUNCTION xqueue_internal.{function}()"
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
    let name = q.name.clone();
    q.sql(
        "CREATE TABLE {q}_log (word text);
         CREATE FUNCTION {q}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO {q}_log VALUES (TG_NAME); RETURN NULL; END $$;
         CREATE TABLE {q}_new (id bigserial PRIMARY KEY);
         CREATE TRIGGER xqueue_insert AFTER INSERT ON {q}_new FOR EACH ROW EXECUTE FUNCTION {q}_f();
         ALTER TABLE {q}_new ENABLE ALWAYS TRIGGER xqueue_insert",
    );
    let upgrade = format!("SELECT xqueue.upgrade('{name}_new')");
    let refused = expect_error(&mut q.admin, &upgrade, "42710", "xqueue_insert");
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
    assert_eq!(scalar::<i64>(&mut q.admin, &format!("SELECT count(*) FROM {name}_log"), &[]), 4);
    let (problems, _) = problems(&mut q);
    assert!(
        problems.iter().any(|problem| problem.contains("\"xqueue_insert\" of its own")),
        "{problems:?}"
    );
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
fn indexes_that_are_missing() {
    let mut q = Queue::with(
        "untold",
        "id bigserial PRIMARY KEY, payload jsonb",
        &json!({"features": {"delayed": true, "buried": true, "ttl": true, "utube": true, "priority": true}}),
    );
    let indexes: Vec<String> = q
        .admin
        .query("SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = $1::text::regclass AND NOT indisprimary", &[&q.name])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(indexes.len() > 4, "{indexes:?}");
    for (number, index) in indexes.iter().enumerate() {
        // An invalid index counts as missing.
        q.sql(&match number {
            0 => format!("UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{index}'::regclass; ALTER INDEX {index} SET (fillfactor = 90)"),
            _ => format!("DELETE FROM pg_depend WHERE classid = 'pg_trigger'::regclass AND refobjid = '{index}'::regclass; DROP INDEX {index}"),
        });
        let (problems, hint) = problems(&mut q);
        let missing = |problem: &&String| problem.contains("an index is missing or not valid");
        assert_eq!(problems.iter().filter(missing).count(), 1, "{index}: {problems:?}");
        assert!(hint.is_some_and(|hint| hint.contains("xqueue.upgrade")));
        q.sql("SELECT xqueue.upgrade('{q}')");
        q.verify();
    }
}

#[test]
fn an_owner_of_a_task_that_is_not_taken() {
    let mut q = Queue::with(
        "untold",
        "id bigint PRIMARY KEY",
        &json!({"features": {"delayed": true, "buried": true, "keep": true}}),
    );
    for (id, status) in [(1, "R"), (2, "W"), (3, "B"), (4, "D")] {
        q.sql(&format!(
            "INSERT INTO {{q}} (id, status, owner, runat) VALUES ({id}, '{status}', gen_random_uuid(), 'infinity')"
        ));
        let (problems, _) = problems(&mut q);
        let problem = format!("{id} tasks that are not taken have an owner");
        assert!(problems.iter().any(|told| told.contains(&problem)), "{status}: {problems:?}");
    }
    q.sql("UPDATE {q} SET owner = NULL");
}

/// A row in no state, written while the triggers were disabled, and waiting tasks of a queue without `runat`.
#[test]
fn rows_that_nothing_would_ever_handle() {
    let mut q = Queue::with("untold", "id bigint PRIMARY KEY", &json!({}));
    q.sql(
        "ALTER TABLE {q} DISABLE TRIGGER xqueue_insert; INSERT INTO {q} (id, status) VALUES (1, 'X');
         ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_insert; INSERT INTO {q} (id, status) VALUES (2, 'W'), (3, 'W')",
    );
    let (problems, _) = problems(&mut q);
    for problem in [
        "1 rows have a status that stands for no state",
        "2 tasks that wait or are zombies have no time",
    ] {
        assert!(problems.iter().any(|told| told.starts_with(problem)), "{problems:?}");
    }
    q.sql("UPDATE {q} SET status = 'R'");
    q.assert_tasks(&[("ready", 3)]);
}
