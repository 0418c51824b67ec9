//! The time zones of sessions and of queues, for times in columns without a time zone.

use super::{KINDS, Times, times};
use xqueue_tests::{Queue, json};

/// Makes a queue with times of the type timestamp, which are in UTC.
fn utc(by_statements: bool) -> Times {
    let kind = KINDS.into_iter().find(|(column, ..)| *column == "timestamp").expect("a kind");
    times(kind, by_statements)
}

#[test]
fn a_clock_change_of_the_session_moves_no_time() {
    for by_statements in [false, true] {
        let mut t = utc(by_statements);
        t.q.sql("SET TimeZone = 'Europe/Berlin'");
        t.q.sql(
            "INSERT INTO {q} (id, run_at, ends) VALUES (1, '2035-10-28 00:30', '2035-10-28 00:30'), \
             (2, '2035-10-28 01:30', '2035-03-25 00:30')",
        );
        let mut left = |id| t.call(&format!("stats('{{q}}', {id})"))["time_left"].as_f64();
        let apart = left(2).zip(left(1)).map(|(later, earlier)| later - earlier);
        assert!(apart.is_some_and(|apart| (3590.0..3610.0).contains(&apart)), "{apart:?}");
        for (id, end) in [(1, "2035-10-29T01:30:00"), (2, "2035-03-26T01:30:00")] {
            t.call(&format!("restart('{{q}}', {id}, delay => '0')"));
            t.q.wait_for("ready", 1);
            t.call(&format!("take('{{q}}', id => {id})"));
            t.call(&format!("touch('{{q}}', {id}, '1 hour')"));
            t.call(&format!("release('{{q}}', {id}, delay => '1 day')"));
            let found = t.q.ask_one(&format!("SELECT to_jsonb(ends) FROM {{q}} WHERE id = {id}"));
            assert_eq!(found, json!(end));
        }
    }
}

#[test]
fn a_time_zone_is_named_checked_and_changed() {
    let mut q = Queue::table("zone", "CREATE TABLE {q} (id int PRIMARY KEY, run_at timestamp)");
    let options = r#"{"fields": {"runat": "run_at"}, "features": {"delayed": true}}"#;
    let upgraded = q.ask_one(&format!("SELECT xqueue.upgrade('{{q}}', '{options}')"));
    assert_eq!(upgraded["time_zone"], "UTC");
    for name in ["Mars/Base", "", "it's", "Europe/Berlin\u{1}", "CET"] {
        let upgrade = format!(
            "SELECT xqueue.upgrade('{{q}}', jsonb_build_object('time_zone', '{}'::text))",
            name.replace('\'', "''")
        );
        let error = q.fails(&upgrade, "22023", "has no zone with the full name");
        assert!(error.hint().is_some_and(|hint| hint.contains("pg_timezone_names")), "{error:?}");
    }
    q.sql("INSERT INTO {q} VALUES (1, now() AT TIME ZONE 'UTC' + interval '2 hours')");
    q.assert_tasks(&[("waiting", 1)]);
    // Its clocks show that time already.
    q.upgrade(&json!({"time_zone": "Asia/Kathmandu"}));
    q.wait_for("ready", 1);
    q.verify();
}

/// In the hour that the clocks of a zone repeat, a task can start an hour late, but never early.
#[test]
fn clocks_that_are_set_back_or_forward_lose_no_task() {
    for by_statements in [false, true] {
        let mut t = utc(by_statements);
        t.q.upgrade(&json!({"time_zone": "Europe/Berlin"}));
        // The first day has 02:30 twice, the second day has it never.
        t.q.sql(
            "INSERT INTO {q} (id, run_at) VALUES (1, '2035-10-28 01:30'), (2, '2035-10-28 02:30'), \
             (3, '2035-03-25 02:30'), (4, '2035-03-25 03:30')",
        );
        let mut left = |id| t.call(&format!("stats('{{q}}', {id})"))["time_left"].as_f64();
        let mut apart = |later, earlier| {
            let apart = left(later).zip(left(earlier)).map(|(later, earlier)| later - earlier);
            apart.expect("two starts").round() as i64
        };
        assert_eq!((apart(2, 1), apart(4, 3)), (7200, 0));
        t.call("restart('{q}', 2, delay => '0')");
        t.call("take('{q}', id => 2, ttr => '1 hour')");
        t.is_status(2, "T");
        t.q.verify();
    }
}
