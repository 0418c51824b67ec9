//! `upgrade`, `create` and `downgrade` of users' tables: with data, own columns, own states and own indexes.

use xqueue_tests::*;

/// Only the definition changes, without any change of the table.
#[test]
fn a_switch_without_ddl_is_in_force_at_once_and_never_after_a_rollback() {
    let mut q = Queue::new("up");
    let name = q.name.clone();
    put(&mut q.admin, &name, 1);
    let keep = json!({"features": {"keep": true}});
    assert_eq!(q.upgrade(&keep)["features"]["keep"], json!(true), "it says what is in force");
    assert_eq!(q.upgrade(&json!({"features": {"keep": false}}))["features"]["keep"], json!(false));

    // In sessions that have not used the queue yet: a failing statement, and a failing statement inside a DO block.
    let upgrade = format!("xqueue.upgrade('{name}', '{keep}')");
    let mut failed = q.client();
    let fails = format!("SELECT {upgrade}, 1 / (random() * 0)::integer");
    expect_error(&mut failed, &fails, "22012", "");
    let mut caught = q.client();
    caught.run(&format!(
        "DO $$ BEGIN PERFORM {upgrade}, 1 / (random() * 0)::integer;
         EXCEPTION WHEN division_by_zero THEN NULL; END $$"
    ));
    for mut c in [failed, caught] {
        let task = put(&mut c, &name, 2);
        assert!(take_all(&mut c, &name).contains(&task));
        ack(&mut c, &name, task);
        assert_eq!(status(&mut c, &name, task), None, "acked tasks are not kept");
    }
}

/// With an old snapshot the switch would not see the task, and no later call could lead the task out of its state.
#[test]
fn a_switch_with_an_old_snapshot_is_refused() {
    let mut q = Queue::new("up");
    let name = q.name.clone();
    let mut old = q.client();
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    q.sql("SELECT xqueue.put('{q}', '{}', delay => '1 hour')");
    old.run(&format!("SELECT xqueue.upgrade('{name}')"));
    let switch =
        format!("SELECT xqueue.upgrade('{name}', '{{\"features\": {{\"delayed\": false}}}}')");
    let error = expect_error(&mut old, &switch, "0A000", "repeatable read");
    assert!(error.hint().is_some());
    old.run("ROLLBACK");
    expect_error(&mut old, &switch, "55006", "1 waiting task");
    q.assert_tasks(&[("waiting", 1)]);
}

/// A row that the snapshot does not show could keep a status that stands for no state, or a key that an identity gives
/// again. An upgrade that only adds columns gives their values to every row.
#[test]
fn a_first_upgrade_with_an_old_snapshot() {
    let mut q = Queue::table("up", "CREATE TABLE {q} (id bigint PRIMARY KEY, status text)");
    let name = q.name.clone();
    let mut old = q.client();
    let upgrade = |options| format!("SELECT xqueue.upgrade('{name}', '{options}')");
    for options in [
        r#"{"fields": {"status": "status"}}"#,
        r#"{"fields": {"status": "state"}, "features": {"id": "auto_increment"}}"#,
    ] {
        old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        let error = expect_error(&mut old, &upgrade(options), "0A000", "repeatable read");
        assert!(error.hint().is_some());
        old.run("ROLLBACK");
    }
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    q.sql("INSERT INTO {q} VALUES (1)");
    old.run(&upgrade(r#"{"fields": {"status": "state"}}"#));
    old.run("COMMIT");
    q.status_is("state", LETTERS);
    q.assert_tasks(&[("ready", 1)]);
}

/// No other transaction has written to a table that this one has created.
#[test]
fn a_first_upgrade_in_repeatable_read_of_a_table_made_there() {
    let mut q = Queue::table(
        "up",
        r#"BEGIN ISOLATION LEVEL REPEATABLE READ;
           CREATE TABLE {q} (id bigint PRIMARY KEY, status text);
           INSERT INTO {q} VALUES (4, 'R');
           SELECT xqueue.upgrade('{q}', '{"fields": {"status": "status"}, "features": {"id": "auto_increment"}}');
           COMMIT"#,
    );
    q.sql("SELECT xqueue.put('{q}', '{}')");
    assert_eq!(q.takes(2), [4, 5]);
}

/// Downgrade finds the columns that upgrade made under their current names.
#[test]
fn a_downgrade_after_columns_were_renamed_or_lost() {
    let mut q = Queue::new("up");
    q.sql("ALTER TABLE {q} RENAME owner TO holder; ALTER TABLE {q} DROP COLUMN runat CASCADE");
    q.upgrade(&json!({}));
    q.sql("ALTER TABLE {q} ADD COLUMN note text");
    q.sql("SELECT xqueue.downgrade('{q}', drop_columns => true)");
    let columns = "SELECT to_jsonb(attname) FROM pg_attribute \
                   WHERE attrelid = '{q}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    assert_eq!(q.ask(columns), ["id", "payload", "note"]);
    q.abandon();
    q.sql("DROP TABLE {q}");
}
