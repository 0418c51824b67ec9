//! Ages, quantiles and rates of the time that tasks are ready and taken, on every path.

use xqueue_tests::*;

/// Returns columns of the view of queues.
fn shown(q: &mut Queue, columns: &str) -> Value {
    let columns = format!("jsonb_build_array({columns})");
    q.ask_one(&format!("SELECT {columns} FROM xqueue.queues WHERE queue = '{{q}}'::regclass"))
}

/// Returns how long the oldest task has been ready, in seconds.
fn oldest(q: &mut Queue) -> Option<f64> {
    shown(q, "extract(epoch FROM oldest_ready)")[0].as_f64()
}

#[track_caller]
fn wait_for_age(q: &mut Queue, seconds: f64) {
    wait_until("the oldest task is older", || oldest(q).is_some_and(|age| age > seconds));
}

/// Returns the numbers of tasks taken and acked, with the medians in seconds.
fn latency(q: &mut Queue) -> Value {
    q.ask_one(
        "SELECT jsonb_build_array(taken, extract(epoch FROM wait_p50), acked, extract(epoch FROM work_p50))
         FROM xqueue.latency WHERE queue = '{q}'::regclass",
    )
}

#[test]
fn the_oldest_task_has_an_age() {
    let mut q = Queue::new("latency");
    assert_eq!(oldest(&mut q), None, "there is none");
    q.sql("SELECT xqueue.put('{q}', '[{}, {}]')");
    wait_for_age(&mut q, 0.2);
    let first = q.ask_one("SELECT xqueue.take('{q}')");
    wait_for_age(&mut q, 0.2);
    // A released task comes first again, but is not the oldest.
    q.sql(&format!("SELECT xqueue.release('{{q}}', {})", id(&first)));
    let age = oldest(&mut q);
    assert!(age.is_some_and(|age| age > 0.2), "{age:?}");
    assert_eq!(latency(&mut q)[0], 1);
    q.sql("SELECT xqueue.take('{q}', count => 2)");
    assert_eq!(oldest(&mut q), None, "all are taken");
}

#[test]
fn of_each_priority_the_first_is_looked_at() {
    let mut q = Queue::with("latency", COLUMNS, &json!({"features": {"priority": true}}));
    q.sql("SELECT xqueue.put('{q}', '{}', priority => 9)");
    wait_for_age(&mut q, 0.3);
    // Enough takes for the marks of the priorities to exist.
    for _ in 0..enough_takes() {
        q.sql("SELECT xqueue.put('{q}', '{}', priority => 1); SELECT xqueue.ack('{q}', (xqueue.take('{q}')->>'id')::bigint)");
    }
    q.sql("SELECT xqueue.put('{q}', '{}', priority => 1)");
    assert!(oldest(&mut q).is_some_and(|age| age > 0.3), "the one of priority 9");
}

#[test]
fn a_subqueue_that_nobody_serves_has_an_age() {
    for features in [json!({"utube": true}), json!({"utube": true, "priority": true})] {
        let mut q = Queue::with("latency", COLUMNS, &json!({"features": features}));
        q.sql("SELECT xqueue.put('{q}', '{}', tube => 'a')");
        wait_for_age(&mut q, 0.1);
    }
}

#[test]
fn waits_and_works_are_measured_by_every_path() {
    let repeatable_read = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    for (begin, tasks, commit) in [("", 1, ""), (repeatable_read, 1, "COMMIT"), ("", 100, "")] {
        let mut q = Queue::new("latency");
        let mut c = q.client();
        q.sql(&format!(
            "SELECT xqueue.put('{{q}}', jsonb_agg('{{}}'::jsonb)) FROM generate_series(1, {tasks})"
        ));
        wait_for_age(&mut q, 0.1);
        q.run(&mut c, &format!("{begin}; SELECT xqueue.take('{{q}}', count => {tasks}); {commit}"));
        let process = pid(&mut c);
        wait_until("it has been taken for long enough", || {
            let sql = "SELECT bool_and(clock_timestamp() - state_change > '100 ms') FROM pg_stat_activity WHERE pid = $1";
            scalar(&mut q.admin, sql, &[&process])
        });
        let keys = "(SELECT jsonb_agg(id) FROM {q})";
        q.run(&mut c, &format!("{begin}; SELECT xqueue.ack('{{q}}', {keys}); {commit}"));
        let measured = latency(&mut q);
        assert_eq!((&measured[0], &measured[2]), (&json!(tasks), &json!(tasks)), "{begin} {tasks}");
        assert!(measured[1].as_f64() >= Some(0.1), "{begin} {tasks}: {measured}");
    }
}

#[test]
fn by_hand_and_through_a_trigger_of_the_owner() {
    let mut q = Queue::new("latency");
    let mut c = q.client();
    q.before_each("UPDATE", "RETURN NEW");
    q.sql("SELECT xqueue.put('{q}', '[{}, {}]')");
    wait_for_age(&mut q, 0.1);
    q.run(&mut c, "SELECT xqueue.ack('{q}', (xqueue.take('{q}')->>'id')::bigint)");
    q.run(&mut c, "UPDATE {q} SET status = 'T', owner = xqueue.identify()");
    let measured = latency(&mut q);
    assert_eq!((&measured[0], &measured[2]), (&json!(2), &json!(1)), "{measured}");
    assert!(measured[1].as_f64() >= Some(0.1), "{measured}");
    q.mend();
}

#[test]
fn what_is_rolled_back_was_not_taken() {
    let mut q = Queue::new("latency");
    q.sql("SELECT xqueue.put('{q}', jsonb_agg('{}'::jsonb)) FROM generate_series(1, 50)");
    for count in [1, 50] {
        let take = format!("SELECT xqueue.take('{{q}}', count => {count})");
        q.sql(&format!("BEGIN; {take}; ROLLBACK"));
        q.sql(&format!("BEGIN; SAVEPOINT s; {take}; ROLLBACK TO s; COMMIT"));
    }
    assert_eq!(latency(&mut q)[0], 0);
}

#[test]
fn causes_of_failed_attempts_are_counted_apart() {
    let features = json!({"retry": {"limit": 10}, "buried": true, "ttr": "50 ms"});
    let mut q = Queue::with("latency", COLUMNS, &json!({ "features": features }));
    let take = "(xqueue.take('{q}', '10 s')->>'id')::bigint";
    q.sql("SELECT xqueue.put('{q}', '{}')");
    q.sql(&format!("SELECT xqueue.release('{{q}}', {take}, failed => false)"));
    q.sql(&format!("SELECT xqueue.release('{{q}}', {take}, delay => '0')"));
    q.sql("SELECT xqueue.take('{q}', '10 s')");
    wait_until("its time is over", || q.calls("ttr") == 1);
    drop(q.ask_one("SELECT xqueue.take('{q}', '10 s', ttr => '1 h')"));
    q.sql("SELECT xqueue.give_back('{q}')");
    q.sql("SELECT xqueue.take('{q}', '10 s', ttr => '1 h')");
    q.sql("SELECT xqueue.bury('{q}', id) FROM {q}");
    let causes = q.ask_one(
        "SELECT jsonb_object_agg(labels->>'cause', value) FROM xqueue.metric
         WHERE name = 'xqueue_failed_attempts_total' AND labels->>'queue' = '{q}'",
    );
    assert_eq!(causes, json!({"release": 1, "ttr": 1, "bury": 1, "session": 0}));
    assert_eq!(q.calls("give_back"), 2);
}
