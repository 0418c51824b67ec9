//! Monitors never wait for a lock. Another session can lock the table of a queue, an index, the TOAST table's index or
//! a sequence: each monitor still returns, and shows the queue as busy.

use xqueue_tests::*;

/// Queries that succeed under any lock. The queries of all views succeed, too.
const LOOKS: [&str; 6] = [
    "SELECT xqueue.stats()",
    "SELECT xqueue.stats('{q}')",
    "SELECT xqueue.metrics()",
    "SELECT xqueue.state()",
    "SELECT xqueue.check('{q}')",
    "SELECT xqueue.check(NULL::{q})",
];

/// Queries that succeed, or fail because the queue is busy.
const REFUSED: [&str; 3] = [
    "SELECT xqueue.stats('{q}', '1')",
    "SELECT xqueue.upgrade('{q}', '{}', true)",
    r#"SELECT xqueue.upgrade('{q}', '{"features": {"buried": false}, "convert": {"B": "R"}}', true)"#,
];

/// Statements of the other session, and whether they get in a monitor's way.
fn locks(q: &mut Queue) -> Vec<(String, bool)> {
    let indexes =
        "SELECT to_jsonb(indexrelid::regclass::text) FROM pg_index WHERE indrelid = '{q}'::regclass
                   OR indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = '{q}'::regclass)";
    let indexes = q.ask(indexes);
    assert!(indexes.len() > 4, "{indexes:?}");
    let lock = |index: &Value| match index.as_str().expect("a name") {
        toast if toast.starts_with("pg_toast") => (format!("REINDEX INDEX {toast}"), true),
        index => (format!("ALTER INDEX {index} SET TABLESPACE pg_default"), true),
    };
    let others = [
        ("LOCK TABLE {q} IN ACCESS EXCLUSIVE MODE", true),
        ("ALTER TABLE {q} ALTER id SET DEFAULT 1", true),
        ("ALTER SEQUENCE {q}_id_seq RESTART WITH 100", false),
        ("SELECT xqueue.check('{q}')", false),
    ];
    let others = others.map(|(lock, is_in_the_way)| (lock.to_owned(), is_in_the_way));
    indexes.iter().map(lock).chain(others).collect()
}

/// Opens a connection whose queries the server cancels if they wait.
fn hasty(q: &Queue) -> Client {
    let mut c = q.client();
    c.run("SET statement_timeout = '20s'");
    c
}

/// Returns true if the query succeeds, false if it fails because the queue is busy.
#[track_caller]
fn shows(c: &mut Client, q: &Queue, sql: &str) -> bool {
    match c.query(&sql.replace("{q}", &q.name), &[]) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(code(&error), "55P03", "{sql}: {error:?}");
            false
        }
    }
}

fn error_shown(c: &mut Client, q: &Queue) -> Option<String> {
    let sql = "SELECT error FROM xqueue.queues WHERE queue = $1::text::regclass";
    c.query_one(sql, &[&q.name]).unwrap().get(0)
}

#[test]
fn a_monitor_waits_for_no_lock() {
    let columns = "id bigint DEFAULT 1 PRIMARY KEY, payload jsonb";
    let database = Database::new("busy");
    let options = json!({"features": {"delayed": true, "buried": true, "utube": true, "ttr": 60}});
    let mut q = Queue::make(&database.name, &unique("busy"), columns, &options);
    q.sql("ALTER TABLE {q} ALTER tube SET STORAGE EXTERNAL; CREATE SEQUENCE {q}_id_seq OWNED BY {q}.id");
    // A value that is stored in the TOAST table.
    q.sql("INSERT INTO {q} (id, tube) SELECT n, repeat(md5(n::text), 100) FROM generate_series(1, 4) n");
    q.sql("SELECT xqueue.take('{q}', '0')");
    let (mut holder, mut known) = (q.client(), hasty(&q));
    let views = every_function::views(&mut q.admin);
    for (lock, is_in_the_way) in locks(&mut q) {
        // One connection has used the queue before, the other has not.
        let mut fresh = hasty(&q);
        q.run(&mut holder, &format!("BEGIN; {lock}"));
        for c in [&mut known, &mut fresh] {
            for sql in LOOKS.into_iter().chain(views.iter().map(String::as_str)) {
                assert!(shows(c, &q, sql), "{lock}: {sql}");
            }
            for sql in REFUSED {
                assert_ne!(shows(c, &q, sql), is_in_the_way, "{lock}: {sql}");
            }
            let error = error_shown(c, &q);
            let is_busy = error.as_ref().is_some_and(|error| error.starts_with("busy"));
            assert_eq!(is_busy, is_in_the_way, "{lock}: {error:?}");
            let metric = "SELECT value = 1 FROM xqueue.metric WHERE name = 'xqueue_error'";
            assert_eq!(scalar::<bool>(c, metric, &[]), is_in_the_way, "{lock}");
            let check: Value = scalar(c, "SELECT xqueue.check($1)", &[&q.name]);
            let problem = check["problems"][0].as_str().unwrap_or_default();
            assert_eq!(problem.starts_with("busy"), is_in_the_way, "{lock}: {check}");
        }
        holder.run("ROLLBACK");
        assert_eq!(error_shown(&mut known, &q), None, "{lock}");
    }
    q.assert_exact();
}
