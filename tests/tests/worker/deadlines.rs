//! Feature ttr: a task that is taken for too long comes back.

use xqueue_tests::{
    COLUMNS, Database, Queue, Stopped, Waiter, alone, ask, expect_error, id, ids, json, pid, put,
    refused, status, take_all, wait_until,
};

fn queue(features: &str) -> Queue {
    let features: xqueue_tests::Value = features.parse().expect("features");
    Queue::with("ttr", COLUMNS, &json!({ "features": features }))
}

#[test]
fn the_time_of_the_take_goes_before_that_of_the_task_before_the_default() {
    let mut q = queue(r#"{"ttr": "1 hour"}"#);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 1}')"#);
    q.sql(r#"SELECT xqueue.put('{q}', '[{"id": 2}, {"id": 3}]', ttr => '2 hours')"#);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 4, "ttr": "3 hours"}')"#);
    q.sql("SELECT xqueue.take('{q}', count => 2)");
    q.sql("SELECT xqueue.take('{q}', ttr => '5 hours')");
    q.sql("SELECT * FROM xqueue.take(NULL::{q})");
    for (id, hours) in [(1, 1), (2, 2), (3, 5), (4, 3)] {
        let near = format!(
            "runat - clock_timestamp() BETWEEN '{hours} hours'::interval - interval '1 minute' \
             AND '{hours} hours'"
        );
        assert!(q.holds(id, &near), "task {id} has {hours} hours");
    }
}

#[test]
fn an_overdue_task_goes_to_the_next_and_its_former_session_gets_the_reason() {
    let mut q = queue(r#"{"ttr": "50 milliseconds", "buried": true}"#);
    let name = q.name.clone();
    put(&mut q.admin, &name, 1);
    let mut slow = q.client();
    assert_eq!(take_all(&mut slow, &name), [1]);
    q.wait_for("ready", 1);
    for call in
        ["ack('{q}', 1)", "release('{q}', 1)", "bury('{q}', 1)", "touch('{q}', 1, '1 hour')"]
    {
        let sql = format!("SELECT xqueue.{call}").replace("{q}", &name);
        expect_error(&mut slow, &sql, "55000", "task 1 is not taken by anybody");
    }
    let mut next = q.client();
    assert_eq!(ids(&ask(&mut next, &name, "SELECT xqueue.take('{q}', ttr => '1 hour')")), [1]);
    let (by, not) = (pid(&mut next), pid(&mut slow));
    let words = format!("task 1 is taken by {by}, not by you ({not})");
    expect_error(&mut slow, &format!("SELECT xqueue.ack('{name}', 1)"), "55006", &words);
    assert_eq!(ids(&ask(&mut next, &name, "SELECT xqueue.ack('{q}', 1)")), [1]);
    assert_eq!((q.calls("ttr"), q.calls("ack")), (1, 1));
}

#[test]
fn an_overdue_task_wakes_a_waiting_consumer() {
    let mut q = queue(r#"{"ttr": true}"#);
    put(&mut q.admin, &q.name, 1);
    let mut slow = q.client();
    ask(&mut slow, &q.name, "SELECT xqueue.take('{q}', ttr => '1 second')");
    let waiter = Waiter::take(&mut q);
    let (_next, task) = waiter.task();
    assert_eq!(id(&task), 1);
}

#[test]
fn a_deadline_that_passes_while_the_worker_does_nothing_leaves_the_task_taken() {
    alone();
    let database = Database::new("ttr");
    let features = json!({"features": {"ttr": "20 milliseconds"}});
    let mut q = Queue::make(&database.name, "jobs", COLUMNS, &features);
    q.assert_exact();
    put(&mut q.admin, "jobs", 1);
    {
        let _stopped = Stopped::worker(&mut q.admin);
        assert_eq!(take_all(&mut q.admin, "jobs"), [1]);
        wait_until("the time to run is over", || q.holds(1, "runat < clock_timestamp()"));
        let mut other = q.client();
        assert!(take_all(&mut other, "jobs").is_empty(), "one lease at a time");
        assert_eq!(ids(&q.ask("SELECT xqueue.ack('{q}', 1)")), [1], "the lease is still theirs");
    }
    q.assert_tasks(&[("total", 0)]);
    assert_eq!(q.calls("ttr"), 0);
}

#[test]
fn a_touch_puts_deadline_and_end_of_life_off_by_as_much() {
    let mut q = queue(r#"{"ttr": "1 hour", "ttl": "2 hours"}"#);
    put(&mut q.admin, &q.name, 1);
    take_all(&mut q.admin, &q.name);
    q.sql("CREATE TEMP TABLE before AS SELECT * FROM {q}");
    let touched = q.ask("SELECT xqueue.touch('{q}', 1, '30 minutes')");
    assert_eq!(ids(&touched), [1]);
    let off = "(runat, expires) = (SELECT runat + interval '30 minutes', expires + interval '30 minutes' FROM before)";
    assert!(q.holds(1, off));
    assert_eq!(q.calls("touch"), 1);
    // Also in the row form.
    q.sql("SELECT xqueue.touch(t, increment => '30 minutes') FROM {q} t");
    let off = "(runat, expires) = (SELECT runat + interval '1 hour', expires + interval '1 hour' FROM before)";
    assert!(q.holds(1, off));
}

#[test]
fn a_touched_task_is_left_with_its_owner_past_the_old_deadline() {
    let mut q = queue(r#"{"ttr": "1 second"}"#);
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 2)");
    assert_eq!(take_all(&mut q.admin, &q.name), [1, 2]);
    q.sql("SELECT xqueue.touch('{q}', 1, '1 hour')");
    wait_until("the other comes back", || status(&mut q.admin, &q.name, 2).as_deref() == Some("R"));
    assert_eq!(status(&mut q.admin, &q.name, 1).as_deref(), Some("T"));
    q.sql("SELECT xqueue.ack('{q}', 1)");
}

#[test]
fn touches_and_times_that_make_no_sense_are_refused() {
    let mut q = queue(r#"{"ttr": "1 hour", "keep": true, "delayed": true}"#);
    let name = q.name.clone();
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 4)");
    assert_eq!(take_all(&mut q.admin, &name), [1, 2, 3, 4]);
    q.sql("SELECT xqueue.ack('{q}', 2)");
    q.sql("SELECT xqueue.release('{q}', 3)");
    q.sql("SELECT xqueue.release('{q}', 4, delay => '1 day')");
    let mut other = q.client();
    let untaken = "is not taken by anybody";
    refused(
        &mut q,
        &[
            ("SELECT xqueue.touch('{q}', 1, '-1 second')", "22023", "increment"),
            ("SELECT xqueue.touch('{q}', ARRAY[1, 2], '1 second')", "55000", untaken),
            ("SELECT xqueue.touch('{q}', 3, '1 second')", "55000", untaken),
            ("SELECT xqueue.touch('{q}', 4, '1 second')", "55000", untaken),
            ("SELECT xqueue.touch('{q}', 5, '1 second')", "P0002", "task 5 was not found"),
            ("SELECT xqueue.take('{q}', ttr => '-1 second')", "22023", "ttr"),
            ("SELECT xqueue.put('{q}', '{}', ttr => '-1 second')", "22023", "ttr"),
            (r#"SELECT xqueue.put('{q}', '{"ttr": "1 h"}', ttr => '1 hour')"#, "22023", "ttr"),
        ],
    );
    expect_error(
        &mut other,
        &format!("SELECT xqueue.touch('{name}', 1, '1 second')"),
        "55006",
        "task 1 is taken by",
    );
    q.upgrade(&json!({"features": {"ttr": false}}));
    refused(
        &mut q,
        &[
            ("SELECT xqueue.touch('{q}', 1, '1 second')", "0A000", "feature ttr is not enabled"),
            ("SELECT xqueue.take('{q}', ttr => '1 second')", "0A000", "feature ttr is not enabled"),
            ("SELECT xqueue.put('{q}', '{}', ttr => '1 second')", "0A000", "ttr is not enabled"),
        ],
    );
}

#[test]
fn a_deadline_moved_by_hand_is_kept() {
    let mut q = queue(r#"{"ttr": "1 day"}"#);
    put(&mut q.admin, &q.name, 1);
    take_all(&mut q.admin, &q.name);
    q.sql("UPDATE {q} SET runat = now() + interval '30 milliseconds'");
    q.wait_for("ready", 1);
    assert_eq!(q.calls("ttr"), 1);
}
