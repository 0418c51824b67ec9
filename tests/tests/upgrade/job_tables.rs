//! The job tables of ten frameworks: their columns and types, upgraded without altering a column. The framework's
//! INSERT is a put. Start times hold, also those of jobs from before.

use xqueue_tests::{LETTERS, Queue, Value, json};

struct JobTable {
    name: &'static str,
    create: &'static str,
    options: &'static str,
    /// The framework's INSERT of a job that starts at an instant, `{at}`.
    insert: &'static str,
    /// Columns that a put needs; empty if a column that the queue owns has no default, which rules `put` out.
    put: &'static str,
}

const JOB_TABLES: [JobTable; 10] = [
    JobTable {
        name: "delayed_job",
        create: "CREATE TABLE {q} (id bigserial PRIMARY KEY, priority integer NOT NULL DEFAULT 0, \
                 attempts integer NOT NULL DEFAULT 0, handler text NOT NULL, last_error text, run_at timestamp(6), \
                 locked_at timestamp(6), failed_at timestamp(6), locked_by varchar, queue varchar, \
                 created_at timestamp(6), updated_at timestamp(6))",
        options: r#"{"fields": {"owner": "locked_by", "runat": "run_at", "attempts": "attempts", "reason": "last_error",
                     "priority": "priority", "tube": "queue"},
                     "features": {"delayed": true, "priority": true, "tube": true, "retry": {"limit": 25}}}"#,
        insert: "(handler, queue, run_at) VALUES ('--- job', 'mail', {at} AT TIME ZONE 'UTC')",
        put: r#"{"handler": "--- job"}"#,
    },
    JobTable {
        name: "good_job",
        create: "CREATE TABLE {q} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), queue_name text, priority integer, \
                 serialized_params jsonb, scheduled_at timestamp(6), performed_at timestamp(6), \
                 finished_at timestamp(6), error text, created_at timestamp(6) NOT NULL, \
                 updated_at timestamp(6) NOT NULL, active_job_id uuid, concurrency_key text, executions_count integer, \
                 job_class text, locked_by_id uuid, locked_at timestamp(6))",
        options: r#"{"fields": {"owner": "locked_by_id", "runat": "scheduled_at", "attempts": "executions_count",
                     "reason": "error", "priority": "priority", "tube": "queue_name"},
                     "features": {"delayed": true, "priority": true, "tube": true, "retry": true}}"#,
        insert: "(job_class, queue_name, scheduled_at, created_at, updated_at) \
                 VALUES ('Mail', 'mail', {at} AT TIME ZONE 'UTC', now(), now())",
        put: r#"{"job_class": "Mail", "created_at": "2026-01-01", "updated_at": "2026-01-01"}"#,
    },
    JobTable {
        name: "solid_queue",
        create: "CREATE TABLE {q} (id bigserial PRIMARY KEY, queue_name varchar NOT NULL, class_name varchar NOT NULL, \
                 arguments text, priority integer NOT NULL DEFAULT 0, active_job_id varchar, \
                 scheduled_at timestamp(6), finished_at timestamp(6), concurrency_key varchar, \
                 created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL)",
        options: r#"{"fields": {"runat": "scheduled_at", "priority": "priority", "tube": "queue_name"},
                     "features": {"delayed": true, "priority": true, "tube": true}}"#,
        insert: "(class_name, queue_name, scheduled_at, created_at, updated_at) \
                 VALUES ('Mail', 'mail', {at} AT TIME ZONE 'UTC', now(), now())",
        put: r#"{"class_name": "Mail", "queue_name": "mail", "created_at": "2026-01-01", "updated_at": "2026-01-01"}"#,
    },
    JobTable {
        name: "que",
        create: "CREATE TABLE {q} (priority smallint NOT NULL DEFAULT 100, run_at timestamptz NOT NULL DEFAULT now(), \
                 id bigserial PRIMARY KEY, job_class text NOT NULL, error_count integer NOT NULL DEFAULT 0, \
                 last_error_message text, queue text NOT NULL DEFAULT 'default', last_error_backtrace text, \
                 finished_at timestamptz, expired_at timestamptz, args jsonb NOT NULL DEFAULT '[]', \
                 data jsonb NOT NULL DEFAULT '{}')",
        options: r#"{"fields": {"runat": "run_at", "attempts": "error_count", "reason": "last_error_message",
                     "priority": "priority", "tube": "queue"},
                     "features": {"delayed": true, "priority": true, "tube": true, "retry": {"backoff": 3}}}"#,
        insert: "(job_class, run_at) VALUES ('Mail', {at})",
        put: r#"{"job_class": "Mail"}"#,
    },
    JobTable {
        name: "laravel",
        create: "CREATE TABLE {q} (id bigserial PRIMARY KEY, queue varchar(255) NOT NULL, payload text NOT NULL, \
                 attempts smallint NOT NULL, reserved_at integer, available_at integer NOT NULL, \
                 created_at integer NOT NULL)",
        options: r#"{"fields": {"runat": "available_at", "attempts": "attempts", "tube": "queue"},
                     "features": {"delayed": true, "tube": true, "retry": {"limit": 3}}}"#,
        insert: "(queue, payload, attempts, available_at, created_at) \
                 VALUES ('default', '{}', 0, floor(extract(epoch FROM {at})), floor(extract(epoch FROM now())))",
        put: "",
    },
    JobTable {
        name: "oban",
        create: "CREATE TYPE {q}_state AS ENUM ('available', 'scheduled', 'executing', 'retryable', 'completed', \
                 'discarded', 'cancelled'); \
                 CREATE TABLE {q} (id bigserial PRIMARY KEY, state {q}_state NOT NULL DEFAULT 'available', \
                 queue text NOT NULL DEFAULT 'default', worker text NOT NULL, args jsonb NOT NULL DEFAULT '{}', \
                 errors jsonb[] NOT NULL DEFAULT '{}', attempt integer NOT NULL DEFAULT 0, \
                 max_attempts integer NOT NULL DEFAULT 20, \
                 inserted_at timestamp NOT NULL DEFAULT timezone('UTC', now()), \
                 scheduled_at timestamp NOT NULL DEFAULT timezone('UTC', now()), attempted_at timestamp, \
                 completed_at timestamp, attempted_by text[], discarded_at timestamp, \
                 priority integer NOT NULL DEFAULT 0, cancelled_at timestamp, \
                 CHECK (attempt BETWEEN 0 AND max_attempts))",
        options: r#"{"fields": {"status": "state", "runat": "scheduled_at", "attempts": "attempt", "priority": "priority",
                     "tube": "queue"},
                     "states": {"R": "available", "T": "executing", "W": "scheduled", "B": "discarded", "Z": "cancelled",
                                "D": "completed"},
                     "features": {"delayed": true, "keep": true, "priority": true, "tube": true, "retry": {"limit": 20}}}"#,
        insert: "(worker, scheduled_at, state) VALUES ('Mail', {at} AT TIME ZONE 'UTC', \
                 CASE WHEN {at} > now() THEN 'scheduled' ELSE 'available' END::{q}_state)",
        put: r#"{"worker": "Mail"}"#,
    },
    JobTable {
        name: "river",
        create: "CREATE TYPE {q}_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'pending', \
                 'retryable', 'running', 'scheduled'); \
                 CREATE TABLE {q} (id bigserial PRIMARY KEY, state {q}_state NOT NULL DEFAULT 'available', \
                 attempt smallint NOT NULL DEFAULT 0, max_attempts smallint NOT NULL, attempted_at timestamptz, \
                 created_at timestamptz NOT NULL DEFAULT now(), finalized_at timestamptz, \
                 scheduled_at timestamptz NOT NULL DEFAULT now(), priority smallint NOT NULL DEFAULT 1, \
                 args jsonb NOT NULL, attempted_by text[], errors jsonb[], kind text NOT NULL, \
                 queue text NOT NULL DEFAULT 'default', \
                 CHECK ((finalized_at IS NULL) = (state NOT IN ('cancelled', 'completed', 'discarded'))))",
        options: r#"{"fields": {"status": "state", "runat": "scheduled_at", "attempts": "attempt", "priority": "priority",
                     "tube": "queue"},
                     "states": {"R": "available", "T": "running", "W": "scheduled", "B": "pending", "Z": "retryable",
                                "D": "completed"},
                     "features": {"delayed": true, "priority": true, "tube": true, "retry": {"limit": 25}}}"#,
        insert: "(kind, args, max_attempts, scheduled_at, state) VALUES ('mail', '{}', 25, {at}, \
                 CASE WHEN {at} > now() THEN 'scheduled' ELSE 'available' END::{q}_state)",
        put: r#"{"kind": "mail", "args": {}, "max_attempts": 25}"#,
    },
    JobTable {
        name: "graphile_worker",
        create: "CREATE TABLE {q} (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, job_queue_id integer, \
                 task_id integer NOT NULL, payload json NOT NULL DEFAULT '{}', priority smallint NOT NULL DEFAULT 0, \
                 run_at timestamptz NOT NULL DEFAULT now(), attempts smallint NOT NULL DEFAULT 0, \
                 max_attempts smallint NOT NULL DEFAULT 25, last_error text, \
                 created_at timestamptz NOT NULL DEFAULT now(), key text, locked_at timestamptz, locked_by text, \
                 revision integer NOT NULL DEFAULT 0, \
                 is_available boolean NOT NULL GENERATED ALWAYS AS (locked_at IS NULL AND attempts < max_attempts) STORED)",
        options: r#"{"fields": {"owner": "locked_by", "runat": "run_at", "attempts": "attempts", "reason": "last_error",
                     "priority": "priority"},
                     "features": {"delayed": true, "priority": true, "retry": {"limit": 25}}}"#,
        insert: "(task_id, run_at) VALUES (1, {at})",
        put: r#"{"task_id": 1}"#,
    },
    JobTable {
        name: "procrastinate",
        create: "CREATE TYPE {q}_state AS ENUM ('todo', 'doing', 'succeeded', 'failed', 'cancelled', 'aborting', \
                 'aborted'); \
                 CREATE TABLE {q} (id bigserial PRIMARY KEY, queue_name varchar(128) NOT NULL, \
                 task_name varchar(128) NOT NULL, priority integer NOT NULL DEFAULT 0, lock text, queueing_lock text, \
                 args jsonb NOT NULL DEFAULT '{}', status {q}_state NOT NULL DEFAULT 'todo', scheduled_at timestamptz, \
                 attempts integer NOT NULL DEFAULT 0, abort_requested boolean NOT NULL DEFAULT false, \
                 worker_id bigint)",
        options: r#"{"fields": {"status": "status", "runat": "scheduled_at", "attempts": "attempts", "tube": "queue_name"},
                     "states": {"R": "todo", "T": "doing", "W": "aborting", "B": "failed", "Z": "cancelled",
                                "D": "succeeded"},
                     "features": {"delayed": true, "keep": true, "tube": true, "retry": {"limit": 3}}}"#,
        insert: "(queue_name, task_name, scheduled_at) VALUES ('default', 'mail', {at})",
        put: r#"{"queue_name": "default", "task_name": "mail"}"#,
    },
    JobTable {
        name: "django",
        create: "CREATE TABLE {q} (id bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, \
                 state smallint NOT NULL CHECK (state >= 0), run_at timestamptz NOT NULL, payload jsonb NOT NULL, \
                 locked_by varchar(64))",
        options: r#"{"fields": {"status": "state", "owner": "locked_by", "runat": "run_at"},
                     "states": {"R": 0, "T": 1, "W": 2, "B": 3, "Z": 4, "D": 5},
                     "features": {"delayed": true, "keep": true, "buried": true}}"#,
        insert: "(state, payload, run_at) VALUES (0, '{}', {at})",
        put: r#"{"payload": {}}"#,
    },
];

/// Returns the columns that the table has now, with their types.
fn columns(q: &mut Queue) -> Vec<Value> {
    q.ask(
        "SELECT to_jsonb(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull, attgenerated, attidentity)) \
         FROM pg_attribute WHERE attrelid = '{q}'::regclass AND attnum > 0 ORDER BY attnum",
    )
}

fn insert(q: &mut Queue, table: &JobTable, at: &str) {
    q.sql(&format!("INSERT INTO {{q}} {}", table.insert.replace("{at}", &format!("({at})"))));
}

/// Returns the column of the status, and its values.
fn status(options: &Value) -> (&str, [String; 6]) {
    let shown = |letter: &str| match &options["states"][letter] {
        Value::Null => letter.to_owned(),
        Value::String(label) => label.clone(),
        number => number.to_string(),
    };
    (options["fields"]["status"].as_str().unwrap_or("status"), LETTERS.map(shown))
}

fn runs_as_a_queue(table: &JobTable) {
    let options: Value = table.options.parse().expect("options");
    let mut q = Queue::table(table.name, "SET TimeZone = 'Asia/Tokyo'");
    q.sql(table.create);
    insert(&mut q, table, "now()");
    insert(&mut q, table, "now() + interval '1 hour'");
    let before = columns(&mut q);
    q.upgrade(&options);
    let (column, values) = status(&options);
    q.status_is(column, values.each_ref().map(String::as_str));
    assert_eq!(columns(&mut q)[..before.len()], before, "no column of {} changes", table.name);
    q.assert_tasks(&[("ready", 1), ("waiting", 1)]);
    q.sql("DELETE FROM {q}");
    insert(&mut q, table, "now()");
    insert(&mut q, table, "now() + interval '1 hour'");
    q.assert_tasks(&[("ready", 1), ("waiting", 1)]);
    insert(&mut q, table, "now() + interval '5 seconds'");
    q.assert_tasks(&[("ready", 1), ("waiting", 2)]);
    q.wait_for("ready", 2);
    assert_eq!(q.calls("put"), 3, "{}", table.name);
    let task = |task: &Value| format!("'{}'::jsonb", json!({"id": task["id"]}));
    let first = q.ask_one("SELECT xqueue.take('{q}')");
    q.ask_one(&format!("SELECT xqueue.release('{{q}}', {}, delay => '1 hour')", task(&first)));
    q.assert_tasks(&[("ready", 1), ("taken", 0), ("waiting", 2)]);
    let second = q.ask_one("SELECT xqueue.take('{q}')");
    q.ask_one(&format!("SELECT xqueue.ack('{{q}}', {})", task(&second)));
    q.assert_tasks(&[("ready", 0), ("waiting", 2)]);
    if !table.put.is_empty() {
        q.ask_one(&format!("SELECT xqueue.put('{{q}}', '{}')", table.put));
        q.assert_tasks(&[("ready", 1)]);
    }
}

#[test]
fn job_tables_of_frameworks_become_queues_as_they_are() {
    std::thread::scope(|scope| {
        for table in &JOB_TABLES {
            scope.spawn(move || runs_as_a_queue(table));
        }
    });
}
