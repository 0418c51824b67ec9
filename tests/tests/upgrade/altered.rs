//! Owners can alter the tables of their queues in every way that PostgreSQL allows. Each read of a definition checks
//! again the properties of the table that it relies on.

use xqueue_tests::*;

const COLUMNS: &str = "id bigserial PRIMARY KEY, payload jsonb";
const ALL: &str = r#"{"features": {"delayed": true, "buried": true, "ttl": true, "ttr": true, "priority": true,
    "tube": true, "retry": {"limit": 3}}}"#;

/// Creates a queue with all fields, one task taken by this session and one ready task, without triggers and indexes.
fn stripped() -> Queue {
    let mut q = Queue::with("altered", COLUMNS, &serde_json::from_str(ALL).expect("options"));
    put(&mut q.admin, &q.name, 2);
    take_all(&mut q.admin, &q.name);
    put(&mut q.admin, &q.name, 1);
    strip(&mut q);
    q
}

/// Drops all triggers, and all indexes except the key's.
fn strip(q: &mut Queue) {
    q.sql(
        "DO $$ DECLARE x text; BEGIN
           FOR x IN SELECT tgname FROM pg_trigger WHERE tgrelid = '{q}'::regclass AND NOT tgisinternal
           LOOP EXECUTE format('DROP TRIGGER %I ON {q}', x); END LOOP;
           FOR x IN SELECT indexrelid::regclass FROM pg_index WHERE indrelid = '{q}'::regclass AND NOT indisprimary
           LOOP EXECUTE format('DROP INDEX %s', x); END LOOP;
         END $$",
    );
}

/// Returns the worker's error with the queue, from the view.
fn error(q: &mut Queue) -> Option<String> {
    scalar(
        &mut q.admin,
        "SELECT error FROM xqueue.queues WHERE queue = $1::text::regclass",
        &[&q.name],
    )
}

/// Asserts that `check` reports a problem with these words.
#[track_caller]
fn assert_found(q: &mut Queue, words: &str) {
    let report: Value = scalar(&mut q.admin, "SELECT xqueue.check($1::text)", &[&q.name]);
    let problem = report["problems"][0].as_str().unwrap_or_default();
    assert!(report["ok"] == json!(false) && problem.contains(words), "{report}");
}

#[test]
fn a_column_that_has_got_another_type() {
    let mut q = stripped();
    let mut other = Queue::new("altered");
    for (column, kind, using, wanted) in [
        ("owner", "bigint", "140737488355328", "uuid"),
        ("runat", "text", "'x'", "timestamp with or without time zone"),
        ("expires", "bytea", "'x'", "timestamp with or without time zone"),
        ("ttr", "bigint", "1", "interval"),
        ("attempts", "text", "'1'", "integer"),
        ("priority", "uuid", "gen_random_uuid()", "integer"),
        ("reason", "bigint", "1", "text"),
        ("status", "real", "1", "char"),
        ("tube", "json", "'{}'", "order"),
        ("id", "json", "to_json(id)", "order"),
    ] {
        let was: String = scalar(
            &mut q.admin,
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attname = $2",
            &[&q.name, &column],
        );
        if column == "id" {
            q.sql("ALTER TABLE {q} ALTER id DROP DEFAULT, DROP CONSTRAINT {q}_pkey");
        }
        q.sql(&format!(
            "ALTER TABLE {{q}} ALTER {column} DROP DEFAULT, ALTER {column} TYPE {kind} USING {using}"
        ));
        for call in [
            "take('{q}')",
            "take(NULL::{q})",
            "put('{q}', '{}')",
            "ack('{q}', 1)",
            "peek('{q}', 1)",
            "tasks_by_state('{q}', 'taken')",
        ] {
            let sql = format!("SELECT xqueue.{}", call.replace("{q}", &q.name));
            let refused = expect_error(&mut q.admin, &sql, "42804", &format!("\"{column}\""));
            assert!(refused.message().contains(&q.name), "{}", refused.message());
            let hint = refused.hint().expect("a hint");
            assert!(hint.contains(wanted) && hint.contains("downgrade"), "{hint}");
        }
        assert_found(&mut q, &format!("\"{column}\""));
        // The view shows the other queues.
        q.sql("SELECT * FROM xqueue.taken");
        wait_until("the worker shows the error", || {
            error(&mut q).is_some_and(|error| error.contains(&format!("\"{column}\"")))
        });
        other.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
        other.wait_for("waiting", 0);
        let back = match column {
            "id" => "1".to_owned(),
            "status" => "'R'".to_owned(),
            "priority" | "attempts" => "0".to_owned(),
            _ => "NULL".to_owned(),
        };
        if column == "id" {
            q.sql("DELETE FROM {q}");
        }
        q.sql(&format!("ALTER TABLE {{q}} ALTER {column} TYPE {was} USING {back}::{was}"));
        let lack = "triggers are missing or disabled";
        wait_until("the worker is content, but for what was dropped", || {
            error(&mut q).is_some_and(|error| error.contains(lack))
        });
    }
    q.sql("ALTER TABLE {q} ADD PRIMARY KEY (id)");
    q.sql("SELECT xqueue.upgrade('{q}')");
    q.sql("INSERT INTO {q} (id, status, priority, attempts) VALUES (7, 'R', 0, 0); SELECT xqueue.take('{q}')");
}

/// The check of a domain can alter the table in the middle of a call.
#[test]
fn a_table_that_is_altered_in_the_middle_of_a_call() {
    let name = unique("altered");
    let mut q = Queue::adopt(&database(), &name);
    q.sql(
        "CREATE FUNCTION {q}_f(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
           IF $1 = 'now' THEN
             ALTER TABLE {q} DROP COLUMN owner;
             ALTER TABLE {q} ADD COLUMN owner bigint DEFAULT 140737488355328;
           END IF;
           RETURN true; END $$;
         CREATE DOMAIN {q}_d AS text CHECK ({q}_f(VALUE));
         CREATE TABLE {q} (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, word text, tube {q}_d)",
    );
    q.upgrade(&json!({"fields": {"tube": "tube"}, "features": {"tube": true}}));
    q.sql("SELECT xqueue.put('{q}', '{\"word\": \"a\"}', tube => 'then')");
    for call in [
        "put('{q}', '{\"word\": \"b\"}', tube => 'now')",
        "take('{q}', tube => 'now')",
        "put(NULL::{q}, '{\"word\": \"b\"}', tube => 'now')",
    ] {
        let sql = format!("SELECT xqueue.{}", call.replace("{q}", &name));
        let refused = match try_sql(&mut q.admin, &sql) {
            Ok(()) => panic!("{sql} succeeds"),
            Err(error) => error,
        };
        assert!(!code(&refused).starts_with("XX"), "{sql}: {refused:?}");
        q.sql("SELECT count(*), max(word), max(owner::text) FROM {q}");
    }
    q.verify();
    q.sql("DROP TABLE {q}; DROP DOMAIN {q}_d; DROP FUNCTION {q}_f");
    q.abandon();
}

/// Up to PostgreSQL 15 a rule can turn a table into a view.
#[test]
fn a_table_that_is_made_a_view() {
    let mut q =
        Queue::with("altered", COLUMNS, &json!({"features": {"delayed": true, "ttl": true}}));
    if scalar::<i32>(&mut q.admin, "SELECT current_setting('server_version_num')::int / 10000", &[])
        > 15
    {
        return eprintln!("skipped: since PostgreSQL 16 no rule makes a table a view");
    }
    let role = Role::create();
    q.sql(&format!("CREATE FUNCTION {{q}}_f() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE '%', current_user; END $$; ALTER TABLE {{q}} OWNER TO {0}; ALTER FUNCTION {{q}}_f OWNER TO {0}", role.name));
    let mut other = Queue::new("altered");
    strip(&mut q);
    q.sql("ALTER TABLE {q} DROP CONSTRAINT {q}_pkey, ALTER id DROP DEFAULT");
    // VACUUM clears relhastriggers and relhasindex.
    q.sql("VACUUM {q}");
    let columns: String = scalar(
        &mut q.admin,
        "SELECT string_agg(CASE attname WHEN 'id' THEN $1 || '_f() AS id' ELSE format('NULL::%s AS %I', format_type(atttypid, atttypmod), attname) END, ', ' ORDER BY attnum)
         FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped",
        &[&q.name],
    );
    q.sql(&format!("CREATE RULE \"_RETURN\" AS ON SELECT TO {{q}} DO INSTEAD SELECT {columns}"));
    for call in [
        "take('{q}')",
        "put('{q}', '{}')",
        "peek('{q}', 1)",
        "upgrade('{q}')",
        "time64('{q}')",
        "truncate('{q}')",
    ] {
        let sql = format!("SELECT xqueue.{}", call.replace("{q}", &q.name));
        expect_error(&mut q.admin, &sql, "42809", &q.name.clone());
    }
    assert_found(&mut q, "not an ordinary table");
    q.sql("SELECT * FROM xqueue.taken; SELECT * FROM xqueue.queues; SELECT xqueue.metrics(); SELECT xqueue.stats()");
    wait_until("the worker shows the error", || {
        error(&mut q).is_some_and(|error| error.contains("not an ordinary table"))
    });
    other.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
    other.wait_for("waiting", 0);
    q.sql("DROP VIEW {q}; DROP FUNCTION {q}_f");
    q.abandon();
}

#[test]
fn labels_that_the_column_does_not_tell_from_each_other() {
    let name = unique("altered");
    let mut q = Queue::adopt(&database(), &name);
    q.sql(
        "CREATE TABLE {q} (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, state char(10))",
    );
    let upgrade = |q: &mut Queue, states: &str| {
        let sql = format!(
            r#"SELECT xqueue.upgrade('{}', '{{"fields": {{"status": "state"}}, "states": {states}}}')"#,
            q.name
        );
        try_sql(&mut q.admin, &sql)
    };
    let refused = |result: Result<(), postgres::Error>| {
        let error = result.expect_err("the labels are equal");
        let error = db_error(&error);
        assert_eq!(error.code().code(), "22023", "{error:?}");
        assert!(error.message().contains("does not distinguish"), "{}", error.message());
        assert!(error.hint().is_some_and(|hint| hint.contains("states")));
    };
    refused(upgrade(&mut q, r#"{"R": "R", "T": "R "}"#));
    // Blanks are significant in text.
    q.sql("ALTER TABLE {q} ALTER state TYPE text");
    upgrade(&mut q, r#"{"R": "R", "T": "R "}"#).expect("they differ");
    // A taken task needs a session as its owner, otherwise the worker releases it.
    q.sql("INSERT INTO {q} (id, state, owner) VALUES (1, 'R', NULL), (2, 'R ', xqueue.identify())");
    q.sql("SELECT xqueue.take('{q}')");
    q.status_is("state", ["R", "R ", "W", "B", "Z", "D"]);
    q.assert_tasks(&[("ready", 0), ("taken", 2)]);
    // If the labels become equal later, calls on the queue fail.
    strip(&mut q);
    q.sql("ALTER TABLE {q} ALTER state DROP DEFAULT, ALTER state TYPE char(10)");
    let sql = format!("SELECT xqueue.take('{name}')");
    expect_error(&mut q.admin, &sql, "22023", "does not distinguish");
    q.sql("SELECT xqueue.downgrade('{q}', drop_columns => true)");
    q.sql("DROP TABLE {q}");

    let collation = "CREATE COLLATION {q}_ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    if let Err(error) = try_sql(&mut q.admin, &collation.replace("{q}", &name)) {
        assert_eq!(code(&error), "0A000", "{error:?}");
        eprintln!("skipped: this server knows no collations that tell by rules: {error}");
        return q.abandon();
    }
    q.sql("CREATE TABLE {q} (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, state text COLLATE {q}_ci)");
    refused(upgrade(&mut q, r#"{"R": "ready", "T": "READY"}"#));
    // A value that equals a label has that label's state, in any spelling.
    q.sql("INSERT INTO {q} (state) VALUES ('READY'), ('ready')");
    upgrade(&mut q, r#"{"R": "ready", "T": "taken"}"#).expect("they differ");
    q.sql("INSERT INTO {q} (state) VALUES ('ReadY')");
    let tasks: Value = q.stats()["tasks"].clone();
    assert_eq!(tasks["ready"], json!(3), "{tasks}");
    q.sql("SELECT xqueue.take('{q}', count => 3)");
    q.status_is("state", ["ready", "taken", "W", "B", "Z", "D"]);
    q.assert_tasks(&[("ready", 0), ("taken", 3)]);
    q.verify();
    q.sql("DROP TABLE {q}; DROP COLLATION {q}_ci");
    q.abandon();
}

/// A consumer waiting in the row form gets the row, or an error whose hint says how to go on.
#[test]
fn a_column_that_changes_its_modifier_or_collation_while_a_consumer_waits() {
    let columns =
        "id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, note varchar(10), n numeric(6, 2),
        t timestamptz(3), word text";
    let mut q = Queue::with("altered", columns, &json!({}));
    for change in [
        "note TYPE varchar(5)",
        "note TYPE varchar(20)",
        "note TYPE varchar",
        "n TYPE numeric(8, 2)",
        "n TYPE numeric(8, 3)",
        "t TYPE timestamptz(0)",
        "word TYPE text COLLATE \"C\"",
    ] {
        for take in [
            "SELECT to_jsonb(task) FROM xqueue.take(NULL::{q}, '30s') AS task",
            "SELECT to_jsonb(note || word || n) FROM xqueue.take(NULL::{q}, '30s') AS task ORDER BY word, n, note, t",
            "SELECT to_jsonb((xqueue.take(NULL::{q}, '30s')).word)",
            "SELECT to_jsonb(xqueue.take(NULL::{q}, '30s'))",
        ] {
            let take = take.replace("{q}", &q.name);
            let waiter = Waiter::waiting(&mut q, &take);
            q.sql(&format!(
                "BEGIN; ALTER TABLE {{q}} ALTER {change};
                 INSERT INTO {{q}} (note, n, t, word) VALUES ('abc', 1.5, now(), 'w'); COMMIT"
            ));
            match waiter.join().result {
                Ok(rows) => assert_eq!(rows.len(), 1, "{change}, {take}"),
                Err(error) => {
                    let words = "have changed since this query was planned";
                    let error = db_error(&error);
                    assert_eq!(error.code().code(), "0A000", "{change}, {take}: {error:?}");
                    assert!(error.message().contains(words), "{change}, {take}: {error:?}");
                }
            }
            q.sql(
                "DELETE FROM {q}; ALTER TABLE {q} ALTER note TYPE varchar(10), ALTER n TYPE numeric(6, 2),
                    ALTER t TYPE timestamptz(3), ALTER word TYPE text COLLATE \"default\"",
            );
        }
    }
}

/// The recipe of docs/migrations.md, with a waiting consumer and a consumer that holds a task.
#[test]
fn a_type_is_changed_between_downgrade_and_upgrade() {
    for has_trigger in [false, true] {
        let columns = "id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, payload jsonb, rank smallint NOT NULL DEFAULT 0";
        let options = json!({"fields": {"priority": "rank"}, "features": {"priority": true, "delayed": true, "ttr": "1 hour"}});
        let mut q = Queue::with("altered", columns, &options);
        let name = q.name.clone();
        if has_trigger {
            q.before_each("INSERT OR UPDATE", "RETURN NEW");
        }
        put(&mut q.admin, &name, 1);
        let mut holder = q.client();
        assert_eq!(take_all(&mut holder, &name), [1]);
        let waiter = Waiter::take(&mut q);
        for (column, kind) in [("id", "bigint"), ("rank", "int"), ("status", "varchar(9)")] {
            let alter = format!("ALTER TABLE {name} ALTER COLUMN {column} TYPE {kind}");
            expect_error(&mut q.admin, &alter, "0A000", "");
            let sql = format!(
                "SELECT (xqueue.upgrade('{name}', dry_run => true)->'definition') - '{{queue,key}}'::text[]"
            );
            let options: Value = scalar(&mut q.admin, &sql, &[]);
            q.sql(&format!(
                "BEGIN; SELECT xqueue.downgrade('{name}'); {alter};
                 SELECT xqueue.upgrade('{name}', $options${options}$options$); COMMIT"
            ));
            assert_eq!(scalar::<Value>(&mut q.admin, &sql, &[]), options);
        }
        q.wait_for_consumers(1);
        q.sql("SELECT xqueue.put('{q}', '{\"id\": 3000000000}', priority => 70000)");
        assert_eq!(ids(&waiter.join().result.expect("a task")), [3_000_000_000]);
        assert_eq!(ack(&mut holder, &name, 1).len(), 1);
        wait_until("the waiter's task is back", || q.stats()["tasks"]["ready"] == json!(1));
        q.verify();
        if has_trigger {
            q.sql("DROP FUNCTION {q}_f CASCADE");
        }
    }
}

/// The server refuses to change the type of columns that the triggers read. The recipe in the hint works.
#[test]
fn a_type_that_the_server_refuses_to_alter() {
    let mut q = Queue::with("altered", COLUMNS, &serde_json::from_str(ALL).expect("options"));
    put(&mut q.admin, &q.name, 1);
    let columns = ["id", "status", "owner", "runat", "expires", "priority", "tube"];
    for column in columns {
        let sql = format!("ALTER TABLE {} ADD word text, ALTER {column} TYPE text", q.name);
        let refused = expect_error(&mut q.admin, &sql, "0A000", "trigger");
        let hint = refused.hint().expect("a hint");
        assert!(hint.contains("xqueue.downgrade") && hint.contains(&q.name), "{hint}");
    }
    q.sql(
        "BEGIN;
         CREATE TEMP TABLE kept AS SELECT xqueue.upgrade('public.{q}', dry_run => true)->'definition' AS options;
         SELECT xqueue.downgrade('public.{q}');
         ALTER TABLE {q} ALTER priority TYPE bigint;
         SELECT xqueue.upgrade('public.{q}', (SELECT options FROM kept) - 'queue' - 'key');
         COMMIT",
    );
    q.sql("SELECT xqueue.put('{q}', '{}', priority => 4000000000)");
    assert_eq!(take_all(&mut q.admin, &q.name).len(), 2);
}

#[test]
fn other_refusals_to_alter_a_type_have_no_such_hint() {
    let mut q = Queue::new("altered");
    q.sql(
        "CREATE VIEW {q}_v AS SELECT payload FROM {q}; CREATE TABLE {q}_o (a int, b int);
         CREATE FUNCTION {q}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
         CREATE TRIGGER xqueue_update AFTER UPDATE ON {q}_o FOR EACH ROW WHEN (NEW.a > 0) EXECUTE FUNCTION {q}_f()",
    );
    for (table, column, states) in
        [("{q}", "payload", "0A000"), ("{q}_o", "a", "0A000"), ("{q}_none", "a", "42P01")]
    {
        let sql = format!("ALTER TABLE {} ALTER {column} TYPE text", table.replace("{q}", &q.name));
        let refused = expect_error(&mut q.admin, &sql, states, "");
        assert_eq!(refused.hint(), None);
    }
    q.sql("ALTER TABLE {q}_o ALTER b TYPE text; DROP VIEW {q}_v; DROP TABLE {q}_o; DROP FUNCTION {q}_f");
    q.sql("ALTER TABLE {q} ALTER payload TYPE text");
}
