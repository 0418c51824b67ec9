//! The work of the view of sessions when there are many identified sessions.

use xqueue_tests::*;

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
            let pid: i32 = scalar(c, "SELECT pg_backend_pid()", &[]);
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
