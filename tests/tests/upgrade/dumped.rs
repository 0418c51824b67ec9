//! Dumps without the registry: of the schema alone, as ORMs keep it, or of one table.

use std::process::Command;

use xqueue_tests::*;

/// A database with the extension, and another one, into which dumps of the first are restored.
pub struct Databases {
    from: Database,
    pub to: Database,
}

/// Makes two databases, runs statements in the first, and returns a connection to each. The second is empty.
#[track_caller]
pub fn databases(sql: &str) -> (Databases, Client, Client) {
    let (from, to) = (Database::new("dumped"), Database::empty("dumped"));
    let (mut old, new) = (from.client(), to.client());
    old.run(sql);
    (Databases { from, to }, old, new)
}

impl Databases {
    /// Restores the output of pg_dump with these arguments, and returns the messages of psql.
    #[track_caller]
    pub fn copy(&self, arguments: &[&str]) -> String {
        copy(&self.from, &self.to, arguments)
    }
}

#[track_caller]
fn copy(from: &Database, to: &Database, arguments: &[&str]) -> String {
    let restore = r#"dump=$("$XQUEUE_PGBIN/pg_dump" "${@:2}") &&
        "$XQUEUE_PGBIN/psql" -Xq -v ON_ERROR_STOP=1 "$1" <<<"$dump" >/dev/null"#;
    let mut shell = Command::new("bash");
    shell.args(["-c", restore, "copy", &to.name]).args(arguments).arg(&from.name);
    let done = shell.output().expect("bash runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    said
}

const OPTIONS: &str = r#"{
    "fields": {"status": "state", "priority": "rank", "order": ["at", "url"]},
    "states": {"R": "ready", "T": "taken", "W": "waiting", "B": "buried", "Z": "zombie", "D": "done"},
    "features": {"delayed": true, "buried": true, "ttr": "90 s", "ttl": "2 days", "priority": true, "tube": true,
                 "retry": {"limit": 3, "backoff": "1 s"}, "capacity": 50, "zombie": 5},
    "tube_stats": ["a", "b"]
}"#;

fn upgraded(c: &mut Client, options: &str) -> Value {
    scalar(c, "SELECT xqueue.upgrade('jobs', $1::text::jsonb)", &[&options])
}

fn columns(c: &mut Client) -> Vec<String> {
    let sql = "SELECT array_agg(attname::text ORDER BY attname) FROM pg_attribute
               WHERE attrelid = 'jobs'::regclass AND attnum > 0 AND NOT attisdropped";
    scalar(c, sql, &[])
}

/// Returns the names of the triggers and indexes on the table.
fn attached(c: &mut Client) -> Vec<String> {
    let sql = "SELECT array_agg(name ORDER BY name) FROM (
                   SELECT tgname::text || tgenabled::text FROM pg_trigger WHERE tgrelid = 'jobs'::regclass
                   UNION ALL SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'jobs'::regclass) AS a (name)";
    scalar(c, sql, &[])
}

/// pg_dump makes the unique indexes in the order of their names. Without one of the queues, the registry would name a
/// table that is not there, and its COPY would fail.
#[test]
fn a_dump_without_the_registry_keeps_its_queue() {
    let without = vec!["-T", "mails", "-T", "xqueue.queue"];
    for arguments in [vec!["-s"], vec!["-t", "jobs"], vec!["-s", "-O", "-x"], without] {
        let (both, mut old, mut new) = databases(
            "CREATE TABLE jobs (key uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(), code serial UNIQUE,
                                url text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
             SELECT xqueue.create('mails')",
        );
        let definition = upgraded(&mut old, OPTIONS);
        assert_eq!(definition["key"], json!(["key"]));
        if arguments[0] == "-t" {
            new.run("CREATE EXTENSION xqueue");
        }
        both.copy(&arguments);
        let error = expect_error(&mut new, "SELECT xqueue.take('jobs')", "55000", "");
        assert!(error.hint().is_some_and(|hint| hint.contains("xqueue.upgrade")), "{error:?}");
        assert_eq!(upgraded(&mut new, "{}"), definition, "{arguments:?}");
        assert_eq!(attached(&mut new), attached(&mut old), "{arguments:?}");
        new.run("SELECT xqueue.put('jobs', '{\"url\": \"x\"}', tube => 'b', priority => 7)");
        let task = &values(&mut new, "SELECT xqueue.take('jobs', '10 s', tube => 'b')", &[])[0];
        assert_eq!((&task["state"], &task["rank"]), (&json!("taken"), &json!(7)), "{task}");
        let stats: Value = scalar(&mut new, "SELECT xqueue.stats('jobs')", &[]);
        let (tasks, capacity) = (&stats["tubes"]["b"]["tasks"], &stats["capacity"]);
        assert_eq!((&tasks["taken"], capacity), (&json!(1), &json!(50)), "{stats}");
        let report: Value = scalar(&mut new, "SELECT xqueue.check('jobs')", &[]);
        assert_eq!(report["problems"], json!([]));
        // Downgrade removes everything that upgrade made, and keeps the rest of the table.
        new.run("SELECT xqueue.downgrade('jobs', drop_columns => true)");
        assert_eq!(columns(&mut new), ["at", "code", "key", "url"]);
        assert_eq!(attached(&mut new), ["jobs_code_key", "jobs_key_key"]);
    }
}

/// The indexes keep their names when the table gets another one, and long names are cut.
#[test]
fn indexes_that_are_not_named_after_their_table_are_found() {
    let long = "long_".repeat(12);
    for (made, name) in [("jobs", "tasks"), (long.as_str(), long.as_str())] {
        let fields = r#"{"fields": {"status": "status"}, "features": {"delayed": true}}"#;
        let (both, mut old, mut new) = databases(&format!(
            "CREATE TABLE {made} (id bigint PRIMARY KEY, status text NOT NULL);
             CREATE INDEX xqueue_mine ON {made} (id) WHERE status = 'R';
             SELECT xqueue.upgrade('{made}', '{fields}')"
        ));
        if made != name {
            old.run(&format!("ALTER TABLE {made} RENAME TO {name}"));
        }
        both.copy(&["-s"]);
        new.run(&format!("SELECT xqueue.upgrade('{name}'); SELECT xqueue.downgrade('{name}')"));
        let left = "SELECT array_agg(relname::text) FROM pg_class
                    WHERE relkind = 'i' AND starts_with(relname::text, 'xqueue_')";
        assert_eq!(scalar::<Vec<String>>(&mut new, left, &[]), ["xqueue_mine"], "{name}");
    }
}

#[test]
fn a_column_that_was_renamed_is_found_and_options_of_the_call_go_before_those_of_the_note() {
    let (both, mut old, mut new) = databases("CREATE TABLE jobs (key bigint PRIMARY KEY)");
    upgraded(&mut old, r#"{"features": {"ttr": "90 s", "delayed": true}}"#);
    old.run("ALTER TABLE jobs RENAME COLUMN status TO state");
    let note = "SELECT obj_description(oid) LIKE '%\"status\":\"state\"%' FROM pg_trigger WHERE tgname = 'xqueue_insert'";
    wait_until("the worker has noted it", || scalar(&mut old, note, &[]));
    both.copy(&["-s"]);
    let definition = upgraded(&mut new, r#"{"features": {"ttr": "5 s", "tube": true}}"#);
    assert_eq!(definition["fields"]["status"], "state");
    let features = &definition["features"];
    assert_eq!((&features["ttr"], &features["delayed"]), (&json!(5), &json!(true)));
    // The restored triggers are replaced by those of the new definition.
    let ddl: Value = scalar(&mut new, "SELECT xqueue.upgrade('jobs', '{}', true)->'ddl'", &[]);
    assert_eq!(ddl, json!([]));
    new.run("SELECT xqueue.downgrade('jobs', drop_columns => true)");
    assert_eq!(columns(&mut new), ["key"]);
}

#[test]
fn functions_that_a_dump_leaves_out_are_replaced_by_the_call() {
    let (both, mut old, mut new) = databases(
        "CREATE TABLE jobs (id bigint PRIMARY KEY);
         CREATE FUNCTION log(task jsonb, event text) RETURNS void LANGUAGE sql AS '';
         CREATE FUNCTION choose(count int) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT id FROM public.jobs'",
    );
    let hooks = r#"{"features": {"keep": true, "on_task_change": "log", "pick": "choose"}}"#;
    upgraded(&mut old, hooks);
    new.run("CREATE EXTENSION xqueue");
    both.copy(&["-t", "jobs"]);
    for (hooks, lost) in [("", "log"), (r#""on_task_change": false"#, "choose")] {
        let sql = format!(r#"SELECT xqueue.upgrade('jobs', '{{"features": {{{hooks}}}}}')"#);
        expect_error(&mut new, &sql, "42883", lost);
    }
    let features = r#"{"features": {"on_task_change": false, "pick": false}}"#;
    assert_eq!(upgraded(&mut new, features)["features"]["keep"], json!(true));
}

/// The registry of a whole dump has names as well.
#[test]
fn columns_that_were_renamed_are_found_in_a_whole_dump() {
    let (both, mut old, mut new) = databases(
        "CREATE TABLE jobs (id bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())",
    );
    upgraded(&mut old, r#"{"fields": {"order": "at"}}"#);
    old.run("SELECT xqueue.put('jobs', '[{\"id\": 2}, {\"id\": 1}]'); SELECT xqueue.take('jobs')");
    for column in ["id", "at", "owner"] {
        old.run(&format!("ALTER TABLE jobs RENAME COLUMN {column} TO \"{column} 2\""));
    }
    let known =
        "SELECT definition::text LIKE ALL (ARRAY['%\"id 2\"%', '%\"at 2\"%', '%\"owner 2\"%'])
                 FROM xqueue.queue";
    wait_until("the registry has the names", || scalar(&mut old, known, &[]));
    both.copy(&[]);
    // The owner of a task stays connected to the old database.
    wait_until("the task comes back", || counted(&mut new)["ready"] == json!(2));
    let task = &values(&mut new, "SELECT xqueue.take('jobs')", &[])[0];
    assert_eq!(task["id 2"], json!(2), "{task}");
}

/// The server shows a list of varchar in a form that it reads as another expression.
#[test]
fn indexes_over_states_in_varchar_are_found_in_a_whole_dump() {
    let (both, mut old, mut new) = databases("CREATE DOMAIN state AS varchar(9)");
    let options = r#"{"fields": {"status": "state", "tube": "tube"},
                      "features": {"delayed": true, "ttl": true, "ttr": true, "utube": {"strict": true}}}"#;
    let upgrade =
        |table, run| format!("SELECT xqueue.upgrade('{table}', '{options}', {run})->'ddl'");
    let kinds = ["varchar", "varchar(9)", "state", "varchar COLLATE \"C\""];
    for (table, kind) in ["a", "b", "c", "d"].into_iter().zip(kinds) {
        old.run(&format!(
            "CREATE TABLE {table} (id int PRIMARY KEY, state {kind} NOT NULL DEFAULT 'R', tube text); {}",
            upgrade(table, false)
        ));
    }
    both.copy(&[]);
    for table in ["a", "b", "c", "d"] {
        let report: Value = scalar(&mut new, "SELECT xqueue.check($1::text)", &[&table]);
        assert_eq!(report["problems"], json!([]), "{table}");
        assert_eq!(scalar::<Value>(&mut new, &upgrade(table, true), &[]), json!([]), "{table}");
    }
    // An index over a list of varchar is replaced once.
    new.run(
        "DROP INDEX xqueue_a_due_idx CASCADE; CREATE INDEX xqueue_a_due_idx ON a (runat)
         WHERE state = ANY (ARRAY['T', 'W', 'Z']::varchar[]) AND runat IS NOT NULL",
    );
    let ddl = scalar::<Value>(&mut new, &upgrade("a", true), &[]).to_string();
    assert!(ddl.contains("DROP INDEX public.xqueue_a_due_idx"), "{ddl}");
    new.run(&upgrade("a", false));
    assert_eq!(scalar::<Value>(&mut new, &upgrade("a", true), &[]), json!([]));
}

#[test]
fn a_note_is_read_as_options_of_the_caller() {
    let (both, mut old, mut new) =
        databases("CREATE TABLE jobs (id bigint PRIMARY KEY, payload jsonb)");
    upgraded(&mut old, "{}");
    both.copy(&["-s"]);
    new.run("CREATE TABLE witness ()");
    let cases = [
        (r#"{"features": {"pick": "now(); DROP TABLE witness; --"}}"#, "42883 42601 22023 42602"),
        (r#"{"fields": {"status": "x\"y"}}"#, "42703 42701 42804"),
        (r#"{"features": {"ttl": "1 fortnight"}}"#, "22023 22007"),
        (r#"{"nothing": 1}"#, "22023"),
    ];
    for (options, states) in cases {
        let note = format!(
            r#"{{"options": {options}, "columns": ["payload"], "status_default": false, "key_default": false}}"#
        );
        new.run(&format!("COMMENT ON TRIGGER xqueue_insert ON jobs IS $note${note}$note$"));
        let error = expect_error(&mut new, "SELECT xqueue.upgrade('jobs')", states, "");
        assert!(error.hint().is_some(), "{error:?}");
    }
    // A comment that is no note is ignored, and then the columns have to be named.
    new.run("COMMENT ON TRIGGER xqueue_insert ON jobs IS 'ours'");
    expect_error(&mut new, "SELECT xqueue.upgrade('jobs')", "42701", "");
    upgraded(&mut new, r#"{"fields": {"status": "status", "owner": "owner"}}"#);
    new.run("TABLE witness");
}

/// In a restored table the columns have other numbers, and it can have its old oid by chance.
#[test]
fn a_restored_table_with_its_old_oid_is_read_by_names() {
    let database = Database::new("dumped");
    let mut c = database.client();
    c.run(
        "CREATE TABLE jobs (id uuid PRIMARY KEY, note text, made timestamptz DEFAULT '2020-01-01')",
    );
    upgraded(&mut c, r#"{"features": {"ttl": true}}"#);
    // The columns had other numbers when the row was dumped: `expires` had that of `made`.
    c.run(
        "CREATE TEMPORARY TABLE kept AS SELECT relation, incarnation, jsonb_set(definition,
             '{fields,expires,number}', '3') AS definition FROM xqueue.queue;
         DELETE FROM xqueue.queue;
         INSERT INTO xqueue.queue (relation, incarnation, definition) TABLE kept;
         INSERT INTO jobs (id) VALUES (gen_random_uuid())",
    );
    assert_eq!(values(&mut c, "SELECT xqueue.take('jobs')", &[]).len(), 1);
    upgraded(&mut c, "{}");
    let found = "SELECT (definition->'fields'->'expires'->>'number')::int > 3 AND incarnation = relation FROM xqueue.queue";
    assert!(scalar::<bool>(&mut c, found, &[]));
}

#[test]
fn a_dump_after_a_label_was_renamed() {
    let (both, mut old, mut new) = databases(
        "CREATE TYPE state AS ENUM ('R', 'T', 'W', 'B', 'Z', 'D'); CREATE TYPE place AS ENUM ('a', 'b');
         CREATE TABLE jobs (id bigint PRIMARY KEY, state state, tube place)",
    );
    let options = r#"{"fields": {"status": "state", "tube": "tube"}, "tube_stats": ["a"]}"#;
    upgraded(&mut old, options);
    old.run(
        "ALTER TYPE state RENAME VALUE 'R' TO 'ready'; ALTER TYPE place RENAME VALUE 'a' TO 'c';
         SELECT xqueue.put('jobs', '{\"id\": 1}', tube => 'c')",
    );
    both.copy(&[]);
    for c in [&mut new, &mut old] {
        // Before any upgrade, and after it.
        c.run("ALTER TYPE state RENAME VALUE 'T' TO 'taken'");
        let task = values(c, "SELECT xqueue.take('jobs', '30s')", &[]);
        assert_eq!((&task[0]["state"], &task[0]["tube"]), (&json!("taken"), &json!("c")));
        let definition = upgraded(c, "{}");
        assert_eq!(definition["states"]["R"], json!("ready"));
        assert_eq!(definition["tube_stats"], json!(["c"]));
    }
}

fn counted(c: &mut Client) -> Value {
    scalar(c, "SELECT xqueue.stats('jobs')->'tasks'", &[])
}

/// Returns two databases with the same tables, a queue and an ordinary one. The first has tasks in several states. In
/// the second the columns have other numbers, and there is another queue.
fn migrated() -> (Databases, Client, Client) {
    const TABLES: &str = "CREATE TABLE ordinary (id int PRIMARY KEY);
        ALTER TABLE jobs ADD id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, ADD url text";
    let (from, to) = (Database::new("dumped"), Database::new("dumped"));
    let (mut old, mut new) = (from.client(), to.client());
    let others =
        "CREATE TABLE jobs (gone int); ALTER TABLE jobs DROP gone; SELECT xqueue.create('others')";
    for (c, sql) in [(&mut old, "CREATE TABLE jobs ()"), (&mut new, others)] {
        c.run(&format!("{sql}; {TABLES}"));
        upgraded(c, r#"{"features": {"delayed": true}}"#);
    }
    old.run(
        "INSERT INTO ordinary VALUES (1); SELECT xqueue.put('jobs', '[{\"url\": \"a\"}, {\"url\": \"b\"}]'::jsonb);
         SELECT xqueue.put('jobs', '{\"url\": \"c\"}', '1 hour'); SELECT xqueue.take('jobs')",
    );
    (Databases { from, to }, old, new)
}

#[test]
fn data_alone_into_a_database_that_was_migrated() {
    let (both, mut old, mut new) = migrated();
    new.run("SELECT xqueue.pause('jobs')");
    assert_eq!(both.copy(&["-a"]), "");
    wait_until("what was taken is ready", || counted(&mut new)["ready"] == json!(2));
    assert_eq!(counted(&mut new)["waiting"], json!(1));
    // The queue keeps the pause of the target database.
    assert!(values(&mut new, "SELECT xqueue.take('jobs')", &[]).is_empty());
    new.run("SELECT xqueue.resume('jobs'), xqueue.put('jobs', '{}')");
    assert_eq!(values(&mut new, "SELECT xqueue.take('jobs', count => 9)", &[]).len(), 3);
    let report: Value = scalar(&mut new, "SELECT xqueue.check('jobs')", &[]);
    assert_eq!(report["problems"], json!([]));
    upgraded(&mut new, r#"{"features": {"ttr": 5}}"#);
    // Restores into the source database.
    let others = ["-a", "-T", "jobs", "-T", "ordinary"];
    assert_eq!(copy(&both.from, &both.from, &others), "");
    assert_eq!(values(&mut old, "SELECT xqueue.take('jobs')", &[]).len(), 1);
}

#[test]
fn data_of_a_queue_that_is_another_one_here() {
    let (both, mut old, mut new) = migrated();
    upgraded(&mut new, r#"{"features": {"keep": true}}"#);
    let definition = upgraded(&mut old, "{}");
    let said = both.copy(&["-a"]);
    assert!(said.contains("WARNING") && said.contains("keeps its definition"), "{said}");
    wait_until("what was taken is ready", || counted(&mut new)["ready"] == json!(2));
    let hint = said.split("HINT:").nth(1).and_then(|hint| hint.split("; ").next());
    new.run(hint.expect("a hint"));
    assert_eq!(upgraded(&mut new, "{}"), definition);
}

/// A queue with an unreadable definition does not prevent the restoration of others.
#[test]
fn data_of_a_queue_that_cannot_be_read_here() {
    let (both, mut old, mut new) = migrated();
    let broken = "UPDATE xqueue.queue SET definition = '{}' WHERE relation = 'jobs'::regclass";
    for (c, sql) in [(&mut old, ""), (&mut new, broken)] {
        c.run(&format!("SELECT xqueue.upgrade('ordinary'); {sql}"));
    }
    let said = both.copy(&["-a", "-T", "jobs"]);
    assert!(said.contains("WARNING") && said.contains("\"public.jobs\" cannot be read"), "{said}");
    let error = expect_error(&mut new, "SELECT xqueue.take('jobs')", "XX001", "");
    let hint = error.hint().unwrap_or_default();
    let sql = hint.rsplit(": ").next().expect("a hint");
    new.run(sql);
    assert_eq!(upgraded(&mut new, "{}"), upgraded(&mut old, "{}"));
    assert_eq!(values(&mut new, "SELECT xqueue.take('ordinary')", &[]).len(), 1);
}

/// The docs name the table to leave out if triggers are disabled during the restoration.
#[test]
fn data_alone_with_triggers_disabled() {
    let (both, _old, mut new) = migrated();
    assert_eq!(both.copy(&["-a", "--disable-triggers", "-T", "xqueue.queue"]), "");
    wait_until("all are counted", || {
        let tasks = counted(&mut new);
        (&tasks["ready"], &tasks["waiting"]) == (&json!(2), &json!(1))
    });
}
