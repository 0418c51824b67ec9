//! A streaming standby: allowed and refused calls, and sessions that go on after its promotion. The cases of `ends`
//! also try a promotion. The checker promotes a synchronous standby under load, again and again, and counts lost tasks.

use std::collections::BTreeSet;

use crate::ends::fail_over;
use xqueue_tests::*;

/// Calls that only read, or only write into shared memory.
const ALLOWED: &str = r#"xqueue.state() | xqueue.identify() | xqueue.uuidv7() | xqueue.metrics() | xqueue.check('jobs')
    xqueue.peek('jobs', 1) | xqueue.tasks_by_state('jobs', 'ready')
    xqueue.stats('jobs') | xqueue.stats('jobs', 1) | xqueue.stats() | xqueue.stats_reset()
    xqueue.upgrade('jobs') | xqueue.upgrade('jobs', '{"features": {"ttl": true}}', dry_run => true)
    xqueue_internal.buried('jobs', 1) | xqueue_internal.is_shown('jobs') | xqueue_internal.condition('jobs')
    xqueue_internal.call_counts('jobs') | xqueue_internal.holders('jobs') | xqueue_internal.in_flight('jobs')
    xqueue_internal.waiting_consumers('jobs') | xqueue_internal.waiting_producers('jobs')
    xqueue_internal.session_connections() | xqueue_internal.database_workers() | xqueue_internal.metric_rows()
    xqueue_internal.measures('jobs') | xqueue_internal.subqueue('a'::text)"#;

const REFUSED: &str = r#"xqueue.put('jobs', '{}') | xqueue.put(NULL::jobs, '{}') | xqueue.put_wait('jobs', '{}')
    xqueue.take('jobs') | xqueue.take('jobs', '1 hour') | xqueue.take(NULL::jobs) | xqueue.time64('jobs')
    xqueue.next('jobs') | xqueue.next(NULL::jobs) | xqueue.wait('jobs', 1) | xqueue.touch('jobs', 1, '1s')
    xqueue.ack('jobs', 1) | xqueue.release('jobs', 1) | xqueue.bury('jobs', 1) | xqueue.dig('jobs', 1)
    xqueue.plow('jobs') | xqueue.kick('jobs', 1) | xqueue.switch('jobs', 2, 'B') | xqueue.snatch('jobs', 1)
    xqueue.restart('jobs', 1) | xqueue.delete('jobs', 1) | xqueue.truncate('jobs') | xqueue.release_all('jobs')
    xqueue.give_back('jobs') | xqueue.pause('jobs') | xqueue.resume('jobs') | xqueue.identify(grace => '1 min')
    xqueue.create('made') | xqueue.upgrade('jobs', '{"features": {"ttl": true}}')
    xqueue.downgrade('jobs') | xqueue.drop('jobs')"#;

fn calls(list: &str) -> impl Iterator<Item = &str> {
    list.split(['|', '\n']).map(str::trim)
}

#[test]
fn a_standby_can_be_read_and_refuses_to_write() {
    let (primary, standby) = Cluster::with_standby();
    let mut q = Queue::make_at(primary.config(), "jobs", COLUMNS, &json!({}));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 3)");
    let mut holder = q.client();
    take(&mut holder, "jobs", "0", 1);
    q.sql("SELECT xqueue.create('passing', temporary => true)");
    // A queue that cannot be described any more hides no other queue.
    let tubes = r#"{"fields": {"tube": "tube"}, "features": {"tube": true}, "tube_stats": ["a"]}"#;
    q.sql(&format!("CREATE TABLE changed (id int PRIMARY KEY, tube text); SELECT xqueue.upgrade('changed', '{tubes}')"));
    q.sql("ALTER TABLE changed DROP tube CASCADE, ADD tube uuid");
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
    for call in calls(ALLOWED) {
        c.run(&format!("SELECT {call}"));
    }
    for call in calls(REFUSED) {
        let is_procedure =
            ["xqueue.next(", "xqueue.put_wait("].iter().any(|it| call.starts_with(it));
        let verb = if is_procedure { "CALL" } else { "SELECT" };
        let error = expect_error(&mut c, &format!("{verb} {call}"), "25006", "");
        assert!(error.hint().is_some(), "{call}: {error:?}");
    }
    let errors = standby.log().lines().filter(|line| line.contains("ERROR: ")).count();
    assert_eq!(errors, calls(REFUSED).count(), "nobody else has failed");
    standby.assert_quiet();

    let function = |call: &str| {
        let name = call.split('.').nth(1).and_then(|call| call.split('(').next());
        name.expect("a function is called").to_owned()
    };
    let called: BTreeSet<String> = calls(ALLOWED).chain(calls(REFUSED)).map(function).collect();
    let all = "SELECT array_agg(DISTINCT proname::text) FROM pg_proc \
               WHERE pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace) AND prorettype <> 'trigger'::regtype";
    let all: Vec<String> = scalar(&mut c, all, &[]);
    assert_eq!(called, all.into_iter().collect(), "every function was called");

    // A session notices a pause, and goes on after the promotion. The task in flight is ready again.
    let paused = "SELECT xqueue.stats('jobs')->>'paused_until'";
    assert_eq!(scalar::<Option<String>>(&mut c, paused, &[]), None);
    q.sql("SELECT xqueue.pause('{q}')");
    standby.catch_up(&primary);
    assert_eq!(scalar::<Option<String>>(&mut c, paused, &[]).as_deref(), Some("infinity"));
    fail_over(&primary, &standby);
    q.move_to(standby.config());
    q.wait_for("ready", 3);
    assert!(take_all(&mut c, "jobs").is_empty());
    q.sql("SELECT xqueue.resume('{q}')");
    assert_eq!(take_all(&mut c, "jobs").len(), 3);
}
