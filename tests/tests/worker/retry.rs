//! Feature retry: attempts are counted, the next attempt waits, and after the last one the task is buried.

use xqueue_tests::{
    COLUMNS, Client, Queue, Reads, ask, ask_one, expect_error, ids, json, pid, put, refused,
    status, take_all, wait_until,
};

fn queue(features: &str) -> Queue {
    let features: xqueue_tests::Value = features.parse().expect("features");
    Queue::with("retry", COLUMNS, &json!({ "features": features }))
}

fn take(c: &mut Client, q: &str) -> i64 {
    let task = ask_one(c, q, "SELECT xqueue.take('{q}')");
    task["attempts"].as_i64().expect("attempts are counted")
}

/// Releases task 1 and returns the seconds that it has to wait.
fn wait_after_release(q: &mut Queue) -> f64 {
    q.sql("UPDATE {q} SET status = 'R', runat = NULL");
    take(&mut q.admin, &q.name);
    // now() is the start of the statement, a moment before the release.
    let sql = "SELECT to_jsonb(extract(epoch FROM (t->>'runat')::timestamptz - now())) \
               FROM xqueue.release('{q}', 1) AS t";
    q.ask_one(sql).as_f64().expect("it waits")
}

fn assert_waits(q: &mut Queue, expected: &[f64]) {
    for (attempt, seconds) in expected.iter().enumerate() {
        let waits = wait_after_release(q);
        let near = (*seconds..*seconds + 10.0).contains(&waits);
        assert!(near, "after attempt {}: {waits} s, not {seconds}", attempt + 1);
    }
}

#[test]
fn a_release_with_a_delay_of_zero_does_not_wait_for_the_next_attempt() {
    let mut q = queue(r#"{"retry": {"limit": 2, "backoff": "1 hour"}}"#);
    put(&mut q.admin, &q.name, 1);
    let mut c = q.client();
    take(&mut c, &q.name);
    ask(&mut c, &q.name, "SELECT xqueue.release('{q}', 1, delay => '0')");
    assert!(q.holds(1, "status = 'R' AND runat IS NULL"));
    take(&mut c, &q.name);
    ask(&mut c, &q.name, "SELECT xqueue.release('{q}', 1, delay => '0')");
    assert!(q.holds(1, "status = 'B'"), "the limit holds all the same");
}

/// The attempts column has a domain type, so a take leaves the increment to a statement. Such a take still scans no
/// other tasks.
#[test]
fn attempts_of_a_domain_are_counted_without_a_walk() {
    let mut q = Queue::new("retry_domain");
    let name = q.name.clone();
    q.sql("CREATE DOMAIN tries_{q} AS int CHECK (VALUE < 100)");
    q.sql("ALTER TABLE {q} ADD tries tries_{q} NOT NULL DEFAULT 0");
    q.upgrade(&json!({ "fields": { "attempts": "tries" }, "features": { "retry": true } }));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 2000)");
    let mut c = q.client();
    let take = format!("SELECT FROM xqueue.take(NULL::{name})");
    let read: i64 = (0..5).map(|_| Reads::of(&mut c, &name, &take, "COMMIT").entries).sum();
    let taken = "SELECT to_jsonb(count(*)) FROM {q} WHERE status = 'T' AND tries = 1";
    assert_eq!(q.ask_one(taken), json!(5));
    assert!((5..100).contains(&read), "{read} entries were read by 5 takes");
    q.sql("ALTER TABLE {q} ALTER tries TYPE int");
    q.sql("DROP DOMAIN tries_{q}");
}

#[test]
fn attempts_are_counted_at_each_take_and_only_there() {
    let mut q = queue(r#"{"retry": true}"#);
    put(&mut q.admin, &q.name, 1);
    for attempt in 1..=3 {
        assert!(q.holds(1, &format!("attempts = {}", attempt - 1)));
        assert_eq!(take(&mut q.admin, &q.name), attempt);
        q.sql("SELECT xqueue.release('{q}', 1)");
        assert!(q.holds(1, "status = 'R'"), "without backoff it is ready at once");
    }
    // A take that is rolled back does not count as an attempt.
    q.sql("BEGIN; SELECT xqueue.take('{q}'); ROLLBACK");
    assert!(q.holds(1, "attempts = 3"));
    refused(
        &mut q,
        &[
            (r#"SELECT xqueue.put('{q}', '{"attempts": 7}')"#, "22023", "attempts"),
            (r#"SELECT xqueue.put('{q}', '{"reason": "none"}')"#, "22023 42703", "reason"),
        ],
    );
}

#[test]
fn waits_grow_by_the_factor_up_to_the_longest() {
    for (retry, attempts, expected) in [
        (
            r#"{"backoff": 100, "factor": 3, "max": 2000}"#,
            0,
            &[100.0, 300.0, 900.0, 2000.0, 2000.0][..],
        ),
        // By default the factor is two, and the longest wait is an hour.
        (r#"{"backoff": "10 minutes"}"#, 0, &[600.0, 1200.0, 2400.0, 3600.0, 3600.0]),
        (r#"{"backoff": 100, "factor": 1000, "max": "1 day"}"#, 2147483000, &[86400.0, 86400.0]),
    ] {
        let mut q = queue(&format!(r#"{{"retry": {retry}}}"#));
        put(&mut q.admin, &q.name, 1);
        q.sql(&format!("UPDATE {{q}} SET attempts = {attempts}"));
        assert_waits(&mut q, expected);
    }
}

#[test]
fn waits_begin_anew_with_each_round_of_tries() {
    let mut q = queue(r#"{"retry": {"limit": 3, "backoff": 100, "factor": 2}}"#);
    put(&mut q.admin, &q.name, 1);
    assert_waits(&mut q, &[100.0, 200.0]);
    q.sql("UPDATE {q} SET status = 'R', runat = NULL");
    take(&mut q.admin, &q.name);
    q.sql("SELECT xqueue.release('{q}', 1)");
    assert!(q.holds(1, "status = 'B' AND runat IS NULL"));
    q.sql("SELECT xqueue.dig('{q}', 1)");
    assert_waits(&mut q, &[100.0, 200.0]);
}

#[test]
fn a_delay_of_the_users_goes_before_the_backoff() {
    let mut q = queue(r#"{"delayed": true, "retry": {"backoff": 100}}"#);
    put(&mut q.admin, &q.name, 1);
    take(&mut q.admin, &q.name);
    q.sql("SELECT xqueue.release('{q}', 1, delay => '1 day')");
    assert!(q.holds(1, "status = 'W' AND runat - now() > '23 hours'"));
    q.sql("SELECT xqueue.restart('{q}', 1)");
    take(&mut q.admin, &q.name);
    q.sql("SELECT xqueue.snatch('{q}', 1)");
    assert!(q.holds(1, "status = 'R' AND runat IS NULL"), "a task snatched has not failed");
}

#[test]
fn a_task_between_attempts_comes_back_by_itself() {
    let mut q = queue(r#"{"retry": {"backoff": 0.05}}"#);
    put(&mut q.admin, &q.name, 1);
    take(&mut q.admin, &q.name);
    let released = q.ask_one("SELECT xqueue.release('{q}', 1)");
    assert_eq!(released["status"], json!("W"));
    let again = q.ask_one("SELECT xqueue.take('{q}', '30 seconds')");
    assert_eq!((&again["id"], &again["attempts"]), (&json!(1), &json!(2)));
    assert_eq!(q.calls("delay"), 1);
}

#[test]
fn past_the_limit_a_released_task_is_buried_with_the_reason() {
    let mut q = queue(r#"{"retry": {"limit": 2}}"#);
    put(&mut q.admin, &q.name, 1);
    take(&mut q.admin, &q.name);
    let back = q.ask_one("SELECT xqueue.release('{q}', 1)");
    assert_eq!((&back["status"], &back["reason"]), (&json!("R"), &json!(null)));
    take(&mut q.admin, &q.name);
    let back = q.ask_one("SELECT xqueue.release('{q}', 1)");
    let reason = json!("released after attempt 2, the limit is 2");
    assert_eq!(
        (&back["status"], &back["reason"], &back["owner"]),
        (&json!("B"), &reason, &json!(null))
    );
    assert!(take_all(&mut q.admin, &q.name).is_empty());
    q.assert_tasks(&[("buried", 1)]);
}

#[test]
fn past_the_limit_a_task_whose_time_to_run_was_over_is_buried_with_the_reason() {
    let mut q = queue(r#"{"retry": {"limit": 1}, "ttr": "20 milliseconds"}"#);
    put(&mut q.admin, &q.name, 1);
    take(&mut q.admin, &q.name);
    q.wait_for("buried", 1);
    assert!(q.holds(
        1,
        "reason = 'time to run was over after attempt 1, the limit is 1' AND runat IS NULL"
    ));
    let e = q.fails("SELECT xqueue.ack('{q}', 1)", "55000", "task 1 is not taken by anybody");
    assert!(e.hint().is_some());
}

#[test]
fn past_the_limit_a_task_whose_session_was_lost_is_buried_with_the_reason() {
    let mut q = queue(r#"{"retry": {"limit": 2}}"#);
    put(&mut q.admin, &q.name, 1);
    for (attempt, state) in [(1, "ready"), (2, "buried")] {
        let mut consumer = q.client();
        assert_eq!(take(&mut consumer, &q.name), attempt);
        let backend = pid(&mut consumer);
        q.sql(&format!("SELECT pg_terminate_backend({backend})"));
        q.wait_for(state, 1);
    }
    assert!(q.holds(1, "reason = 'session was lost after attempt 2, the limit is 2'"));
    assert_eq!(q.calls("session"), 2);
}

#[test]
fn an_ack_for_an_attempt_that_is_over_fails_also_in_the_session_that_has_it_again() {
    let mut q = queue(r#"{"retry": true}"#);
    put(&mut q.admin, &q.name, 1);
    assert_eq!(take(&mut q.admin, &q.name), 1);
    q.sql("SELECT xqueue.release('{q}', 1)");
    assert_eq!(take(&mut q.admin, &q.name), 2);
    let stale = "SELECT xqueue.ack('{q}', 1, attempt => 1)";
    q.fails(stale, "55000", "task 1 is in attempt 2, not 1");
    q.fails("SELECT xqueue.ack('{q}', 1, attempt => 3)", "55000", "task 1 is in attempt 2, not 3");
    q.fails("SELECT xqueue.ack(NULL::{q}, 1, attempt => 1)", "55000", "in attempt 2, not 1");
    assert_eq!(status(&mut q.admin, &q.name, 1).as_deref(), Some("T"));
    assert_eq!(ids(&q.ask("SELECT xqueue.ack('{q}', 1, attempt => 2)")), [1]);
}

#[test]
fn an_ack_for_an_attempt_that_is_over_fails_in_the_former_owner_session() {
    let mut q = queue(r#"{"retry": true, "ttr": true}"#);
    let name = q.name.clone();
    put(&mut q.admin, &name, 1);
    let mut slow = q.client();
    ask(&mut slow, &name, "SELECT xqueue.take('{q}', ttr => '20 milliseconds')");
    wait_until("it is back", || status(&mut q.admin, &name, 1).as_deref() == Some("R"));
    let stale = format!("SELECT xqueue.ack('{name}', 1, attempt => 1)");
    expect_error(&mut slow, &stale, "55000", "task 1 is not taken by anybody");
    assert_eq!(take(&mut q.admin, &name), 2);
    expect_error(&mut slow, &stale, "55006", "task 1 is taken by");
    assert_eq!(ids(&q.ask("SELECT xqueue.ack('{q}', 1, attempt => 2)")), [1]);
}

#[test]
fn options_of_retry_that_make_no_sense_are_refused_by_name() {
    let mut q = queue(r#"{"buried": true}"#);
    put(&mut q.admin, &q.name, 1);
    take_all(&mut q.admin, &q.name);
    q.fails("SELECT xqueue.ack('{q}', 1, attempt => 1)", "0A000", "feature retry is not enabled");
    let upgrade =
        |features: &str| format!(r#"SELECT xqueue.upgrade('{{q}}', '{{"features": {features}}}')"#);
    refused(
        &mut q,
        &[
            (&upgrade(r#"{"retry": {"limit": 0}}"#), "22023", "limit"),
            (&upgrade(r#"{"retry": {"limit": -1}}"#), "22023", ""),
            (&upgrade(r#"{"retry": {"factor": 0.5}}"#), "22023", "factor"),
            (&upgrade(r#"{"retry": {"backoff": -1}}"#), "22023", "-1"),
            (&upgrade(r#"{"retry": {"tries": 3}}"#), "22023", "tries"),
            (&upgrade(r#"{"retry": 3}"#), "22023", "3"),
            (&upgrade(r#"{"retry": {"limit": 3}, "buried": false}"#), "22023", "buried"),
        ],
    );
}
