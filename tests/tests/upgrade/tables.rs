//! `upgrade`, `create` and `downgrade` of users' tables: with data, own columns, own states and own indexes.

use xqueue_tests::*;

const INDEXES: &str = "SELECT count(*) FROM pg_index WHERE indrelid = $1::text::regclass";

fn adopted(create: &str) -> Queue {
    let mut q = Queue::adopt(&database(), &unique("up"));
    q.sql(create);
    q
}

fn columns(q: &mut Queue) -> Vec<String> {
    let sql = "SELECT attname::text FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    q.admin.query(sql, &[&q.name]).unwrap().iter().map(|row| row.get(0)).collect()
}

#[test]
fn the_definition() {
    let mut q = adopted("CREATE TABLE {q} (id int PRIMARY KEY)");
    let expected = json!({
        "queue": format!("public.{}", q.name), "key": ["id"],
        "fields": {"status": "status", "owner": "owner", "runat": "runat"},
        "states": {"R": "R", "T": "T", "W": "W", "B": "B", "Z": "Z", "D": "D"},
        "features": {
            "id": false, "delayed": true, "buried": false, "keep": false, "zombie": false, "ttl": false,
            "ttr": false, "priority": false, "tube": false, "utube": false, "retry": false, "pick": false,
            "capacity": false,
            "on_task_change": false, "guard": true
        },
        "existing": "R"
    });
    let got = q.upgrade(&json!({"features": {"delayed": true}}));
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&got[key], value, "{key}");
    }
    assert_eq!(q.upgrade(&json!({})), got, "nothing named, nothing changed");
    assert_eq!(q.upgrade(&json!({"features": {"delayed": true}})), got);
    let name = q.name.clone();
    let row: Value = scalar(&mut q.admin, &format!("SELECT xqueue.upgrade(NULL::{name})"), &[]);
    assert_eq!(row, got, "both forms");
}

#[test]
fn a_table_with_data_and_a_status_of_its_own() {
    let mut q = adopted(
        "CREATE TYPE {q}_state AS ENUM ('pending', 'running', 'later', 'failed', 'dead', 'done');
         CREATE TABLE {q} (job uuid PRIMARY KEY DEFAULT gen_random_uuid(), \"Job State\" {q}_state NOT NULL DEFAULT 'pending', what text);
         INSERT INTO {q} (\"Job State\", what) SELECT (ARRAY['pending', 'done', 'failed'])[1 + n % 3]::{q}_state, n::text FROM generate_series(1, 300) n",
    );
    let letters = ["pending", "running", "later", "failed", "dead", "done"];
    let states = json!({"R": "pending", "T": "running", "W": "later", "B": "failed", "Z": "dead", "D": "done"});
    q.upgrade(&json!({"fields": {"status": "Job State"}, "states": states, "features": {"delayed": true}}));
    q.status_is("\"Job State\"", letters);
    q.assert_tasks(&[("ready", 100), ("buried", 100), ("done", 100), ("total", 300)]);
    let name = q.name.clone();
    let tasks = take(&mut q.admin, &name, "0", 10);
    assert!(tasks.iter().all(|t| t["Job State"] == json!("running")), "{tasks:?}");
    let job = tasks[0]["job"].as_str().unwrap();
    assert_eq!(
        values(&mut q.admin, "SELECT xqueue.ack($1::text, $2::text)", &[&name, &job]).len(),
        1
    );
    let job = tasks[1]["job"].as_str().unwrap();
    let late = values(
        &mut q.admin,
        "SELECT xqueue.release($1::text, $2::text, delay => '20ms')",
        &[&name, &job],
    );
    assert_eq!(late[0]["Job State"], json!("later"));
    q.wait_for("waiting", 0);
    q.assert_tasks(&[("taken", 8), ("ready", 91), ("total", 299)]);
    assert!(!columns(&mut q).contains(&"status".to_owned()), "no second status");
    let mut admin = q.client();
    drop(q);
    admin.batch_execute(&format!("DROP TYPE {name}_state")).unwrap();
}

#[test]
fn status_columns_of_each_type() {
    for kind in ["text", "varchar(10)", "char(1)", "\"char\"", "varchar"] {
        let mut q = adopted(&format!(
            "CREATE TABLE {{q}} (id bigserial PRIMARY KEY, st {kind}, payload jsonb)"
        ));
        q.sql("INSERT INTO {q} (st) VALUES ('R'), ('D'), (NULL)");
        let options = json!({"fields": {"status": "st"}, "existing": "B"});
        let result =
            q.admin.query_one("SELECT xqueue.upgrade($1::text, $2::jsonb)", &[&q.name, &options]);
        result.unwrap_or_else(|e| panic!("{kind}: {e:?}"));
        q.status_is("st", ["R", "T", "W", "B", "Z", "D"]);
        // A row without a status gets the state named by `existing`.
        q.assert_tasks(&[("ready", 1), ("done", 1), ("buried", 1)]);
        assert_eq!(take_all(&mut q.admin, &q.name), [1]);
        release(&mut q.admin, &q.name, 1);
    }
}

#[test]
fn an_index_that_exists_is_used() {
    let mut q = adopted("CREATE TABLE {q} (id bigserial PRIMARY KEY, payload jsonb)");
    let name = q.name.clone();
    let plan: Value = scalar(&mut q.admin, "SELECT xqueue.upgrade($1::text, '{}', true)", &[&name]);
    let ddl: Vec<String> =
        plan["ddl"].as_array().unwrap().iter().map(|d| d.as_str().unwrap().to_owned()).collect();
    assert!(!ddl.is_empty() && plan["definition"]["key"] == json!(["id"]), "{plan}");
    assert_eq!(columns(&mut q), ["id", "payload"], "a dry run does nothing");
    q.fails("SELECT xqueue.take('{q}')", "55000", "is not a queue");
    // The administrator adds the columns, and builds the indexes concurrently.
    let mut made = 0;
    for sql in &ddl {
        if sql.starts_with("ALTER TABLE") && sql.contains("ADD COLUMN") {
            q.sql(sql);
        } else if let Some(index) = sql.strip_prefix("CREATE INDEX ") {
            q.sql(&format!("CREATE INDEX CONCURRENTLY {index}"));
            made += 1;
        }
    }
    assert!(made > 0, "{ddl:?}");
    let before: i64 = scalar(&mut q.admin, INDEXES, &[&name]);
    q.upgrade(&json!({"fields": {"status": "status", "owner": "owner"}}));
    assert_eq!(scalar::<i64>(&mut q.admin, INDEXES, &[&name]), before, "no second index");
    let plan: Value = scalar(&mut q.admin, "SELECT xqueue.upgrade($1::text, '{}', true)", &[&name]);
    assert_eq!(plan["ddl"], json!([]), "nothing is left to do");
    put(&mut q.admin, &name, 1);
    assert_eq!(take_all(&mut q.admin, &name).len(), 1);
}

/// Indexes that an administrator made from the dry run, under other names, are recognized for any type of the status
/// column. The server itself normalizes the text of each index for the comparison.
#[test]
fn indexes_made_beforehand_are_recognized_by_the_servers_text() {
    let features =
        json!({"utube": true, "delayed": true, "ttl": true, "buried": true, "priority": true});
    for kind in ["text", "varchar(10)", "char(1)", "char(3)", "\"char\"", "{q}_enum", "{q}_domain"]
    {
        let mut q = adopted(&format!(
            "CREATE TYPE {{q}}_enum AS ENUM ('R', 'T', 'W', 'B', 'Z', 'D'); CREATE DOMAIN {{q}}_domain AS varchar(5); \
             CREATE TABLE {{q}} (id bigserial PRIMARY KEY, st {kind}, payload jsonb)"
        ));
        let name = q.name.clone();
        let options = json!({"fields": {"status": "st"}, "features": features});
        let dry_run = "SELECT xqueue.upgrade($1::text, $2::jsonb, true)";
        let plan: Value = scalar(&mut q.admin, dry_run, &[&name, &options]);
        let ddl = plan["ddl"].as_array().unwrap().iter().map(|sql| sql.as_str().unwrap());
        let mut fields = json!({"status": "st"});
        let mut made = 0;
        for sql in ddl {
            if let Some((_, column)) = sql.split_once(" ADD COLUMN ") {
                q.sql(sql);
                let column = column.split(' ').next().unwrap();
                fields[column] = json!(column);
            } else if let Some((unique, index)) = sql.split_once("INDEX ") {
                let (_, on) = index.split_once(" ON ").unwrap();
                made += 1;
                q.sql(&format!("{unique}INDEX {name}_made_{made} ON {on}"));
            }
        }
        assert!(made > 4, "{kind}: {plan}");
        q.upgrade(&json!({"fields": fields, "features": features}));
        let own: i64 = scalar(
            &mut q.admin,
            "SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid \
             WHERE indrelid = $1::text::regclass AND NOT indisprimary AND relname NOT LIKE '%\\_made\\_%'",
            &[&name],
        );
        assert_eq!(own, 0, "{kind}: a second index was made");
        q.status_is("st", ["R", "T", "W", "B", "Z", "D"]);
        q.sql("SELECT xqueue.put('{q}', '{}', tube => 'a')");
        assert_eq!(take_all(&mut q.admin, &name).len(), 1, "{kind}");
        let mut admin = q.client();
        drop(q);
        admin.batch_execute(&format!("DROP TYPE {name}_enum; DROP DOMAIN {name}_domain")).unwrap();
    }
}

#[test]
fn indexes_of_that_name_that_are_not_ours() {
    let mut q = adopted("CREATE TABLE {q} (id bigserial PRIMARY KEY, status text)");
    let plan: Value = scalar(
        &mut q.admin,
        r#"SELECT xqueue.upgrade($1::text, '{"fields": {"status": "status"}}', true)"#,
        &[&q.name],
    );
    let index = plan["ddl"].to_string();
    let taken =
        index.split("CREATE INDEX ").nth(1).and_then(|s| s.split(' ').next()).unwrap_or_default();
    let taken = taken.trim_matches(['"', '\\']).rsplit('.').next().unwrap_or_default();
    if !taken.is_empty() && taken != "ON" {
        q.sql(&format!("CREATE INDEX \"{taken}\" ON {{q}} (status)"));
    }
    q.upgrade(&json!({"fields": {"status": "status"}}));
    q.sql("INSERT INTO {q} DEFAULT VALUES");
    assert_eq!(take_all(&mut q.admin, &q.name).len(), 1);
}

#[test]
fn a_unique_key_without_a_primary_key() {
    let mut q = adopted(
        "CREATE TABLE {q} (code text NOT NULL UNIQUE, payload jsonb); INSERT INTO {q} VALUES ('a')",
    );
    let definition = q.upgrade(&json!({}));
    assert_eq!(definition["key"], json!(["code"]));
    assert_eq!(q.ask("SELECT xqueue.take('{q}')").len(), 1);
    assert_eq!(q.ask("SELECT xqueue.ack('{q}', 'a'::text)").len(), 1);
}

#[test]
fn downgrade() {
    let mut q = adopted(
        "CREATE TABLE {q} (id bigserial PRIMARY KEY, payload jsonb); INSERT INTO {q} DEFAULT VALUES",
    );
    let name = q.name.clone();
    for drop in ["true", "false"] {
        q.upgrade(&json!({}));
        take_all(&mut q.admin, &name);
        q.sql("SELECT xqueue.release('{q}', 1)");
        q.sql(&format!("SELECT xqueue.downgrade('{{q}}', {drop})"));
        q.fails("SELECT xqueue.take('{q}')", "55000", "is not a queue");
        let triggers = "SELECT count(*) FROM pg_trigger WHERE tgrelid = $1::text::regclass";
        assert_eq!(scalar::<i64>(&mut q.admin, triggers, &[&name]), 0);
        q.sql("INSERT INTO {q} DEFAULT VALUES; DELETE FROM {q} WHERE id <> 1");
    }
    // The remaining columns are the user's now, and have to be named to be used.
    assert_eq!(columns(&mut q), ["id", "payload", "status", "owner"]);
    assert_eq!(scalar::<i64>(&mut q.admin, INDEXES, &[&name]), 1);
    q.upgrade(&json!({"fields": {"status": "status", "owner": "owner"}}));
    q.assert_tasks(&[("ready", 1), ("total", 1)]);
}

#[test]
fn create() {
    let name = unique("created");
    let mut q = Queue::adopt(&database(), &name);
    q.sql(r#"SELECT xqueue.create('{q}', '{"features": {"delayed": true}}')"#);
    q.fails("SELECT xqueue.create('{q}')", "42P07", "already exists");
    q.sql("SELECT xqueue.create('{q}', '{}', if_not_exists => true)");
    put(&mut q.admin, &name, 1);
    q.sql("SELECT xqueue.put('{q}', '{}', '20ms')");
    q.wait_for("ready", 2);
    assert!(scalar::<bool>(
        &mut q.admin,
        "SELECT relpersistence = 'p' FROM pg_class WHERE oid = $1::text::regclass",
        &[&name]
    ));
}

#[test]
fn a_child_table_with_a_foreign_key_does_not_hide_a_task() {
    let mut q = Queue::new("up");
    let name = q.name.clone();
    let mut other = q.client();
    put(&mut q.admin, &name, 1);
    q.sql("CREATE TABLE {q}_child (task bigint REFERENCES {q} ON DELETE CASCADE)");
    other.batch_execute(&format!("BEGIN; INSERT INTO {name}_child VALUES (1)")).unwrap();
    assert_eq!(take_all(&mut q.admin, &name), [1], "a child that is being inserted hides it not");
    other.batch_execute("COMMIT").unwrap();
    ack(&mut q.admin, &name, 1);
    assert_eq!(scalar::<i64>(&mut q.admin, &format!("SELECT count(*) FROM {name}_child"), &[]), 0);
    q.sql("DROP TABLE {q}_child");
}

#[test]
fn a_writer_in_progress_is_counted() {
    let mut q = adopted("CREATE TABLE {q} (id bigserial PRIMARY KEY, payload jsonb)");
    let name = q.name.clone();
    let mut writer = q.client();
    writer
        .batch_execute(&format!("BEGIN; INSERT INTO {name} (payload) VALUES ('1'), ('2')"))
        .unwrap();
    let upgrade = Waiter::start(q.client(), &format!("SELECT xqueue.upgrade('{name}')"));
    wait_until("upgrade waits for the writer, or is done", || {
        let sql = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)";
        upgrade.finished() || scalar(&mut q.admin, sql, &[&upgrade.pid])
    });
    writer.batch_execute("COMMIT").unwrap();
    upgrade.task();
    q.assert_tasks(&[("ready", 2), ("total", 2)]);
}

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
    caught
        .batch_execute(&format!(
            "DO $$ BEGIN PERFORM {upgrade}, 1 / (random() * 0)::integer;
             EXCEPTION WHEN division_by_zero THEN NULL; END $$"
        ))
        .unwrap();
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
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
    q.sql("SELECT xqueue.put('{q}', '{}', delay => '1 hour')");
    old.batch_execute(&format!("SELECT xqueue.upgrade('{name}')")).expect("nothing is to be done");
    let switch =
        format!("SELECT xqueue.upgrade('{name}', '{{\"features\": {{\"delayed\": false}}}}')");
    let error = expect_error(&mut old, &switch, "0A000", "repeatable read");
    assert!(error.hint().is_some());
    old.batch_execute("ROLLBACK").unwrap();
    expect_error(&mut old, &switch, "55006", "1 waiting task");
    q.assert_tasks(&[("waiting", 1)]);
}

/// Downgrade finds the columns that upgrade made under their current names.
#[test]
fn a_downgrade_after_columns_were_renamed_or_lost() {
    let mut q = Queue::new("up");
    q.sql("ALTER TABLE {q} RENAME owner TO holder; ALTER TABLE {q} DROP COLUMN runat CASCADE");
    q.upgrade(&json!({}));
    q.sql("ALTER TABLE {q} ADD COLUMN note text");
    q.sql("SELECT xqueue.downgrade('{q}', drop_columns => true)");
    assert_eq!(columns(&mut q), ["id", "payload", "note"]);
    q.abandon();
    q.sql("DROP TABLE {q}");
}

/// Triggers of a table that was restored alone are replaced.
#[test]
fn triggers_that_were_there_before_are_made_anew() {
    let mut q = Queue::new("up");
    q.sql("DELETE FROM xqueue.queue WHERE relation = '{q}'::regclass");
    let fields = json!({"status": "status", "owner": "owner", "runat": "runat"});
    q.upgrade(&json!({"fields": fields, "features": {"delayed": true, "tube": true}}));
    let sql = "SELECT pg_get_triggerdef(oid) FROM pg_trigger \
               WHERE tgname = 'xqueue_update' AND tgrelid = $1::text::regclass";
    let trigger: String = scalar(&mut q.admin, sql, &[&q.name.clone()]);
    assert!(trigger.contains("tube"), "{trigger}");
}

/// An earlier version's trigger for new tasks had a name that other triggers could sort after.
#[test]
fn a_trigger_with_the_name_that_it_had() {
    let mut q = Queue::with("up", "id bigint PRIMARY KEY", &json!({"features": {"delayed": true}}));
    q.sql("ALTER TRIGGER \"~xqueue_arrive\" ON {q} RENAME TO xqueue_arrive");
    q.upgrade(&json!({}));
    let sql = "SELECT array_agg(tgname::text ORDER BY tgname) FROM pg_trigger \
               WHERE tgrelid = $1::text::regclass AND tgfoid = 'xqueue_internal.row_arrives'::regproc";
    assert_eq!(scalar::<Vec<String>>(&mut q.admin, sql, &[&q.name]), ["~xqueue_arrive"]);
    q.sql("ALTER TRIGGER \"~xqueue_arrive\" ON {q} RENAME TO xqueue_arrive");
    q.sql("SELECT xqueue.downgrade('{q}')");
    assert_eq!(scalar::<Option<Vec<String>>>(&mut q.admin, sql, &[&q.name]), None);
    q.sql("DROP TABLE {q}");
    q.abandon();
}
