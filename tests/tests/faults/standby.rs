//! A streaming standby: allowed and refused calls.

use std::collections::BTreeSet;

use xqueue_tests::*;

/// Calls that only read, or only write into shared memory.
const ALLOWED: [&str; 26] = [
    "SELECT xqueue.state()",
    "SELECT xqueue.peek('jobs', 1)",
    "SELECT xqueue.tasks_by_state('jobs', 'ready')",
    "SELECT xqueue_internal.buried('jobs', 1)",
    "SELECT xqueue.stats('jobs')",
    "SELECT xqueue.stats('jobs', 1)",
    "SELECT xqueue.stats()",
    "SELECT xqueue.stats_reset()",
    "SELECT xqueue.metrics()",
    "SELECT xqueue.check('jobs')",
    "SELECT xqueue.identify()",
    "SELECT xqueue.upgrade('jobs')",
    "SELECT xqueue.upgrade('jobs', '{\"features\": {\"ttl\": true}}', dry_run => true)",
    "SELECT xqueue_internal.is_shown('jobs')",
    "SELECT xqueue_internal.condition('jobs')",
    "SELECT xqueue_internal.call_counts('jobs')",
    "SELECT xqueue_internal.holders('jobs')",
    "SELECT xqueue_internal.session_connections()",
    "SELECT xqueue_internal.waiting_consumers('jobs')",
    "SELECT xqueue_internal.waiting_producers('jobs')",
    "SELECT xqueue_internal.in_flight('jobs')",
    "SELECT xqueue_internal.measures('jobs')",
    "SELECT xqueue_internal.metric_rows()",
    "SELECT xqueue_internal.database_workers()",
    "SELECT xqueue.uuidv7()",
    "SELECT xqueue_internal.subqueue('a'::text)",
];

const REFUSED: [&str; 31] = [
    "SELECT xqueue.put('jobs', '{}')",
    "SELECT xqueue.put(NULL::jobs, '{}')",
    "CALL xqueue.put_wait('jobs', '{}')",
    "SELECT xqueue.time64('jobs')",
    "SELECT xqueue.take('jobs')",
    "SELECT xqueue.take('jobs', '1 hour')",
    "SELECT xqueue.take(NULL::jobs)",
    "CALL xqueue.next('jobs')",
    "CALL xqueue.next(NULL::jobs)",
    "SELECT xqueue.wait('jobs', 1)",
    "SELECT xqueue.ack('jobs', 1)",
    "SELECT xqueue.release('jobs', 1)",
    "SELECT xqueue.bury('jobs', 1)",
    "SELECT xqueue.touch('jobs', 1, '1s')",
    "SELECT xqueue.dig('jobs', 1)",
    "SELECT xqueue.plow('jobs')",
    "SELECT xqueue.kick('jobs', 1)",
    "SELECT xqueue.switch('jobs', 2, 'B')",
    "SELECT xqueue.snatch('jobs', 1)",
    "SELECT xqueue.restart('jobs', 1)",
    "SELECT xqueue.delete('jobs', 1)",
    "SELECT xqueue.truncate('jobs')",
    "SELECT xqueue.release_all('jobs')",
    "SELECT xqueue.give_back('jobs')",
    "SELECT xqueue.pause('jobs')",
    "SELECT xqueue.resume('jobs')",
    "SELECT xqueue.identify(grace => '1 min')",
    "SELECT xqueue.upgrade('jobs', '{\"features\": {\"ttl\": true}}')",
    "SELECT xqueue.create('made')",
    "SELECT xqueue.downgrade('jobs')",
    "SELECT xqueue.drop('jobs')",
];

#[test]
fn a_standby_can_be_read_and_refuses_to_write() {
    let (primary, standby) = Cluster::with_standby();
    let mut q = Queue::make_at(primary.config(), "jobs", COLUMNS, &json!({}));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 3)");
    let mut holder = q.client();
    take(&mut holder, "jobs", "0", 1);
    q.sql("SELECT xqueue.create('passing', temporary => true)");
    standby.catch_up(&primary);
    let mut c = standby.client();

    assert_eq!(scalar::<String>(&mut c, "SELECT xqueue.state()", &[]), "WAITING");
    assert_eq!(values(&mut c, "SELECT xqueue.peek('jobs', 1)", &[])[0]["status"], json!("T"));
    let report: Value = scalar(&mut c, "SELECT xqueue.check('jobs')", &[]);
    assert_eq!(report["ok"], json!(true), "{report}");
    let taken = "SELECT array_agg((queue::text, pid, tasks)::text) FROM xqueue.taken";
    let owner = pid(&mut holder);
    assert_eq!(scalar::<Vec<String>>(&mut c, taken, &[]), [format!("(jobs,{owner},1)")]);
    let queues = "SELECT count(*) FROM xqueue.stats() s WHERE s->'exact' = 'false'";
    assert_eq!(scalar::<i64>(&mut c, queues, &[]), 2, "nothing is counted here");
    assert_eq!(scalar::<i64>(&mut c, "SELECT count(*) FROM xqueue.consumers", &[]), 0);
    assert_ne!(scalar::<i64>(&mut c, "SELECT count(*) FROM xqueue.settings", &[]), 0);
    for sql in ALLOWED {
        try_sql(&mut c, sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
    for sql in REFUSED {
        let error = expect_error(&mut c, sql, "25006", "");
        assert!(error.hint().is_some(), "{sql}: {error:?}");
    }
    let errors = standby.log().lines().filter(|line| line.contains("ERROR: ")).count();
    assert_eq!(errors, REFUSED.len(), "nobody else has failed");
    standby.assert_quiet();

    let function = |sql: &&str| {
        let name = sql.split('.').nth(1).and_then(|call| call.split('(').next());
        name.expect("a function is called").to_owned()
    };
    let called: BTreeSet<String> = ALLOWED.iter().chain(&REFUSED).map(function).collect();
    let all = "SELECT array_agg(DISTINCT proname::text) FROM pg_proc \
               WHERE pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace) AND prorettype <> 'trigger'::regtype";
    let all: Vec<String> = scalar(&mut c, all, &[]);
    assert_eq!(called, all.into_iter().collect(), "every function was called");
}
