//! Errors tell clients the cause, without a location in the library's code.

use xqueue_tests::*;

/// pgrx would add a backtrace of this library to the DETAIL of errors.
#[test]
fn no_error_has_a_backtrace() {
    let cluster = Cluster::with_environment("", &[("RUST_BACKTRACE", "1")]);
    let mut c = cluster.client();
    c.run("CREATE TABLE jobs (id int PRIMARY KEY, n int CHECK (n > 0)); SELECT xqueue.upgrade('jobs')");
    for (sql, state) in [
        ("SELECT xqueue.take('no_such_table')", "42P01"),
        ("SELECT xqueue.peek('jobs', 'seven')", "22P02"),
        (r#"SELECT xqueue.put('jobs', '{"id": 1, "n": 0}')"#, "23514"),
        ("SELECT xqueue.ack('jobs', 1)", "P0002"),
    ] {
        let error = expect_error(&mut c, sql, state, "");
        let detail = error.detail().unwrap_or_default();
        assert!(!detail.contains("backtrace") && !detail.contains(".rs:"), "{sql}: {detail}");
    }
    assert!(!cluster.log().contains("backtrace"));
}
