//! Monitors never wait for a lock. Another session can lock the table of a queue, an index, the TOAST table's index or
//! a sequence: each monitor still returns, and shows the queue as busy.

use xqueue_tests::*;

/// Queries that succeed under any lock. The queries of all views succeed, too.
const LOOKS: &[&str] = &[
    "SELECT xqueue.stats()",
    "SELECT xqueue.stats('{q}')",
    "SELECT xqueue.metrics()",
    "SELECT xqueue.state()",
    "SELECT xqueue.check('{q}')",
    "SELECT xqueue.check(NULL::{q})",
];

/// Queries that succeed, or fail because the queue is busy.
const REFUSED: &[&str] = &[
    "SELECT xqueue.stats('{q}', '1')",
    "SELECT xqueue.upgrade('{q}', '{}', true)",
    r#"SELECT xqueue.upgrade('{q}', '{"features": {"buried": false}, "convert": {"B": "R"}}', true)"#,
];

/// Statements of the other session, and whether they get in a monitor's way.
fn locks(q: &mut Queue) -> Vec<(String, bool)> {
    let sql = "SELECT 'ALTER INDEX ' || indexrelid::regclass || ' SET TABLESPACE pg_default' \
               FROM pg_index WHERE indrelid = $1::text::regclass";
    let indexes = q.admin.query(sql, &[&q.name]).unwrap();
    assert!(indexes.len() > 3, "{indexes:?}");
    let mut locks: Vec<(String, bool)> = indexes.iter().map(|index| (index.get(0), true)).collect();
    let toast: String = scalar(
        &mut q.admin,
        "SELECT indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON i.indrelid = c.reltoastrelid \
         WHERE c.oid = $1::text::regclass",
        &[&q.name],
    );
    locks.extend([
        (format!("REINDEX INDEX {toast}"), true),
        ("LOCK TABLE {q} IN ACCESS EXCLUSIVE MODE".to_string(), true),
        ("ALTER TABLE {q} ALTER id SET DEFAULT 1".to_string(), true),
        ("ALTER SEQUENCE {q}_id_seq RESTART WITH 100".to_string(), false),
        ("SELECT xqueue.check('{q}')".to_string(), false),
    ]);
    locks
}

/// Returns true if the query succeeds, false if it fails because the queue is busy. The server cancels a query that
/// waits.
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
    let (mut holder, mut known) = (q.client(), q.client());
    let views = "SELECT array_agg('SELECT * FROM xqueue.' || viewname) FROM pg_views WHERE schemaname = 'xqueue'";
    let views: Vec<String> = scalar(&mut q.admin, views, &[]);
    known.batch_execute("SET statement_timeout = '20s'").unwrap();
    for (lock, is_in_the_way) in locks(&mut q) {
        let lock = lock.replace("{q}", &q.name);
        // One connection has used the queue before, the other has not.
        let mut fresh = q.client();
        fresh.batch_execute("SET statement_timeout = '20s'").unwrap();
        holder.batch_execute(&format!("BEGIN; {lock}")).unwrap();
        for c in [&mut known, &mut fresh] {
            for sql in LOOKS.iter().copied().chain(views.iter().map(String::as_str)) {
                assert!(shows(c, &q, sql), "{lock}: {sql}");
            }
            for sql in REFUSED {
                assert_ne!(shows(c, &q, sql), is_in_the_way, "{lock}: {sql}");
            }
            let error = error_shown(c, &q);
            let is_busy = error.as_ref().is_some_and(|error| error.starts_with("busy"));
            assert_eq!(is_busy, is_in_the_way, "{lock}: {error:?}");
            let check: Value = scalar(c, "SELECT xqueue.check($1)", &[&q.name]);
            let problem = check["problems"][0].as_str().unwrap_or_default();
            assert_eq!(problem.starts_with("busy"), is_in_the_way, "{lock}: {check}");
        }
        holder.batch_execute("ROLLBACK").unwrap();
        assert_eq!(error_shown(&mut known, &q), None, "{lock}");
    }
    q.assert_exact();
}
