//! How much the views read when a database has many queues or sessions.

use xqueue_tests::*;

/// The views that show tasks or numbers of each queue.
const SHOWN: [&str; 6] = ["queues", "latency", "definitions", "calls", "taken", "tasks_in_flight"];
/// The views that have rows while somebody waits.
const WAITING: [&str; 2] = ["consumers", "producers"];

/// Creates `count` more queues, each with one ready and one taken task.
fn make(c: &mut Client, from: usize, count: usize) {
    for number in from..from + count {
        c.run(&format!(
            "CREATE TABLE q{number} (id bigint PRIMARY KEY, payload text);
             SELECT xqueue.upgrade('q{number}', '{{\"features\": {{\"capacity\": 10}}}}');
             INSERT INTO q{number} VALUES (1), (2); SELECT xqueue.take('q{number}')"
        ));
    }
}

/// Returns the number of pages that a query reads. The connection can be fresh or have read the catalogues before.
fn pages(c: &mut Client, sql: &str) -> i64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) {sql}");
    let plan = &scalar::<Value>(c, &explain, &[])[0]["Plan"];
    let of = |kind: &str| plan[kind].as_i64().unwrap_or(0);
    of("Shared Hit Blocks") + of("Shared Read Blocks")
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
    let views = SHOWN.into_iter().chain(WAITING);
    let each: Vec<_> = views.map(|view| format!("SELECT * FROM xqueue.{view}")).collect();
    let one = each.clone().into_iter().map(|sql| (sql + " WHERE queue = 'q7'::regclass", true));
    let more = ["SELECT xqueue.stats()", "SELECT * FROM xqueue.metric"].map(str::to_owned);
    let queries = each.into_iter().chain(more).map(|sql| (sql, false)).chain(one);
    let queries: Vec<(String, bool)> = queries.collect();
    let read = || -> Vec<[i64; 2]> {
        let of_query = |(sql, _): &(String, bool)| {
            let mut c = database.client();
            let [first, _, later] = [(); 3].map(|()| pages(&mut c, sql));
            [first, later]
        };
        queries.iter().map(of_query).collect()
    };
    make(&mut owner, 0, FEW);
    let before = read();
    make(&mut owner, FEW, MANY - FEW);
    owner.run("VACUUM ANALYZE xqueue.queue");
    let after = read();
    for (((sql, is_one), before), after) in queries.iter().zip(before).zip(after) {
        println!("{sql}: {before:?} pages, then {after:?}");
        for (few, many) in before.into_iter().zip(after) {
            let limit = if *is_one { 2 * few + 50 } else { 12 * few + 100 };
            assert!(many <= limit, "{sql}: {few} pages, then {many}");
        }
    }
}

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
    c.run(&format!("GRANT SELECT ON q1 TO {}", role.name));
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

/// Returns the number of rows that the nodes of a plan have read.
fn rows_read(plan: &Value) -> i64 {
    let number = |name: &str| plan[name].as_f64().unwrap_or(0.0);
    let own = number("Actual Rows")
        + number("Rows Removed by Filter")
        + number("Rows Removed by Join Filter");
    let below: i64 = plan["Plans"].as_array().into_iter().flatten().map(rows_read).sum();
    (own * number("Actual Loops")) as i64 + below
}

/// The view's work grows at most linearly: eight times the sessions cost about eight times the work.
#[test]
fn the_view_of_sessions_reads_each_session_and_each_connection_once() {
    const FEW: usize = 5;
    const MANY: usize = 40;
    let database = Database::new("sessions");
    let mut admin = database.client();
    let mut attached = vec![];
    let mut read = |count: usize| {
        attached.resize_with(count, || {
            let mut c = database.client();
            let session: String =
                scalar(&mut c, "SELECT xqueue.identify(grace => '1 minute')::text", &[]);
            (session, c)
        });
        admin.run("ANALYZE xqueue.session");
        for (session, c) in &mut attached {
            let pid = pid(c);
            let sql = "SELECT pids = ARRAY[$1::integer] FROM xqueue.sessions WHERE session = $2::text::uuid";
            assert!(scalar::<bool>(&mut admin, sql, &[&pid, &*session]));
        }
        let sql = "EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) SELECT * FROM xqueue.sessions";
        rows_read(&scalar::<Value>(&mut admin, sql, &[])[0]["Plan"])
    };
    let few = read(FEW);
    let many = read(MANY);
    println!("{few} rows, then {many}");
    assert!(many <= 10 * few, "{few} rows, then {many}");
}
