//! How much the views read when a database has many queues.

use xqueue_tests::*;

/// The views that have one or more rows for each queue.
const VIEWS: [&str; 8] = [
    "queues",
    "latency",
    "definitions",
    "calls",
    "taken",
    "tasks_in_flight",
    "consumers",
    "producers",
];

/// Creates `count` more queues, each with one ready and one taken task.
fn make(c: &mut Client, from: usize, count: usize) {
    for number in from..from + count {
        c.batch_execute(&format!(
            "CREATE TABLE q{number} (id bigint PRIMARY KEY, payload text);
             SELECT xqueue.upgrade('q{number}', '{{\"features\": {{\"capacity\": 10}}}}');
             INSERT INTO q{number} VALUES (1), (2); SELECT xqueue.take('q{number}')"
        ))
        .unwrap_or_else(|e| panic!("q{number}: {e:?}"));
    }
}

/// Returns the number of pages that a query reads. The connection can be fresh or have read the catalogues before.
fn pages(c: &mut Client, sql: &str) -> i64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) {sql}");
    let plan = &scalar::<Value>(c, &explain, &[])[0]["Plan"];
    ["Shared Hit Blocks", "Shared Read Blocks"]
        .map(|kind| plan[kind].as_i64().unwrap_or(0))
        .iter()
        .sum()
}

/// Pages grow at most linearly with the queues, in a fresh connection and later: eight times the queues, about eight
/// times the pages. Reading a single queue takes the same number of pages as before.
#[test]
fn a_view_reads_each_queue_once() {
    // The commands of others can make a connection forget what it has read.
    alone();
    const FEW: usize = 20;
    const MANY: usize = 160;
    let database = Database::new("many");
    // Holds its tasks until it is dropped.
    let mut owner = database.client();
    let of = |count: usize| {
        let mut all = vec![];
        for view in VIEWS {
            for condition in ["", " WHERE queue = 'q7'::regclass"] {
                let sql = format!("SELECT * FROM xqueue.{view}{condition}");
                let mut c = database.client();
                let is_one = !condition.is_empty();
                let read = [pages(&mut c, &sql), pages(&mut c, &sql), pages(&mut c, &sql)];
                all.push((sql, is_one, read[0], read[2]));
            }
        }
        for sql in ["SELECT xqueue.stats()", "SELECT * FROM xqueue.metric"] {
            let mut c = database.client();
            let read = [pages(&mut c, sql), pages(&mut c, sql), pages(&mut c, sql)];
            all.push((sql.to_owned(), false, read[0], read[2]));
        }
        println!("{count} queues: {all:?}");
        all
    };
    make(&mut owner, 0, FEW);
    let before = of(FEW);
    make(&mut owner, FEW, MANY - FEW);
    owner.batch_execute("VACUUM ANALYZE xqueue.queue").unwrap();
    let after = of(MANY);
    for ((sql, is_one, first, later), (_, _, first_of_many, later_of_many)) in
        before.iter().zip(&after)
    {
        let limit = |pages: i64| if *is_one { 2 * pages + 50 } else { 12 * pages + 100 };
        assert!(*first_of_many <= limit(*first), "{sql}: {first} pages, then {first_of_many}");
        assert!(*later_of_many <= limit(*later), "{sql}: {later} pages, then {later_of_many}");
    }
}

/// The views that show tasks or numbers of each queue.
const SHOWN: [&str; 6] = ["queues", "latency", "definitions", "calls", "taken", "tasks_in_flight"];

/// Asserts which queues each view shows under a condition.
#[track_caller]
fn assert_shown(c: &mut Client, condition: &str, expected: &str) {
    for view in SHOWN {
        let sql = format!(
            "SELECT coalesce(string_agg(DISTINCT queue::text, ' '), '') FROM xqueue.{view} {condition}"
        );
        assert_eq!(scalar::<String>(c, &sql, &[]), expected, "{sql}");
    }
}

/// Asserts that the functions of the views return nothing for a table.
#[track_caller]
fn assert_nothing(c: &mut Client, table: &str) {
    for function in ["condition", "measures", "call_counts", "holders", "in_flight"] {
        let sql = format!("SELECT count(*) FROM xqueue_internal.{function}('{table}')");
        assert_eq!(scalar::<i64>(c, &sql, &[]), 0, "{sql}");
    }
}

/// With a condition on the queue, a view reads that queue only: errors of other queues have no effect. A role sees
/// exactly its visible queues, with and without such a condition.
#[test]
fn a_view_shows_the_queue_that_is_asked_for() {
    let (role, database) = (Role::create(), Database::new("many"));
    let mut c = database.client();
    make(&mut c, 0, 3);
    assert_shown(&mut c, "", "q0 q1 q2");
    assert_shown(&mut c, "WHERE queue = 'q1'::regclass", "q1");
    assert_shown(&mut c, "WHERE queue = 0::regclass", "");
    ["pg_class", "xqueue.queue"].iter().for_each(|table| assert_nothing(&mut c, table));
    c.batch_execute(&format!("GRANT SELECT ON q1 TO {}", role.name)).unwrap();
    let mut other = database.client_as(&role.name);
    assert_shown(&mut other, "", "q1");
    assert_shown(&mut other, "WHERE queue = 'q0'::regclass", "");
    assert_nothing(&mut other, "q0");
    let waiting = "SELECT count(*) FROM xqueue_internal.waiting_consumers('q0')";
    assert_eq!(scalar::<i64>(&mut other, waiting, &[]), 0);
    let shown = "SELECT xqueue_internal.is_shown('q0'), xqueue_internal.is_shown('q1')";
    let row = other.query_one(shown, &[]).unwrap();
    assert_eq!((row.get(0), row.get(1)), (false, true));
}
