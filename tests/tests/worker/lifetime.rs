//! Features ttl, ttr and retry: tasks that are not taken in time are deleted, tasks that are taken for too long come
//! back, and attempts are counted.

use xqueue_tests::*;

#[test]
fn times_that_pass_while_the_worker_does_nothing() {
    alone();
    let database = Database::new("ttl");
    let features = json!({"ttl": true, "ttr": "20 milliseconds", "priority": true, "tube": true});
    let mut q = Queue::make(&database.name, "jobs", COLUMNS, &json!({ "features": features }));
    q.assert_exact();
    {
        let _stopped = Stopped::worker(&mut q.admin);
        q.sql("SELECT xqueue.put('{q}', '[{}, {}]', ttl => '1 microsecond', tube => 'a')");
        q.sql("SELECT xqueue.put('{q}', '{}', ttl => '0', tube => 'a')");
        q.sql("SELECT xqueue.put('{q}', '{}', ttl => '1 hour', tube => 'a')");
        // Only the living task is returned, although the expired tasks stay in the table.
        assert_eq!(q.takes(10), [4]);
        for take in [
            "xqueue.take('{q}')",
            "xqueue.take('{q}', count => 10)",
            "xqueue.take('{q}', tube => 'a')",
            "xqueue.take('{q}', '50 milliseconds')",
        ] {
            assert_eq!(q.ask(&format!("SELECT {take}")), [json!(null); 0], "{take}");
        }
        assert_eq!(q.counted()["ready"], json!(3));
        wait_until("the time to run is over", || q.holds(4, "runat < clock_timestamp()"));
        assert!(take_all(&mut q.client(), "jobs").is_empty(), "one lease at a time");
        assert_eq!(ids(&q.ask("SELECT xqueue.ack('{q}', 4)")), [4], "the lease is still theirs");
        assert_eq!(q.calls("ttl"), 0, "the worker was stopped");
    }
    q.wait_for("total", 0);
    assert_eq!((q.calls("ttl"), q.calls("ttr")), (3, 0));
}

#[test]
fn a_waiting_consumer_gets_the_next_living_task_not_an_expired_one() {
    let mut q = Queue::with("ttl", COLUMNS, &json!({"features": {"ttl": true}}));
    let waiter = Waiter::take(&mut q);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 1}', ttl => '0')"#);
    q.wait_for("total", 0);
    q.wait_for_consumers(1);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 2}', ttl => '1 hour')"#);
    let (_consumer, task) = waiter.task();
    assert_eq!(id(&task), 2);
}

#[test]
fn a_task_is_deleted_within_milliseconds_of_the_end_of_its_life() {
    // Another test's queue of the same owner can keep the owner's job worker busy.
    alone();
    let mut q = Queue::with("ttl", COLUMNS, &json!({"features": {"ttl": true}}));
    q.sql("CREATE TABLE {q}_late (late interval)");
    let note = "INSERT INTO public.{q}_late VALUES (clock_timestamp() - OLD.expires); RETURN OLD";
    q.before_each("DELETE", note);
    // The worker wakes up once a second anyway, but tasks that end 150 ms apart cannot all coincide with that.
    q.sql(
        "INSERT INTO {q} (expires) SELECT clock_timestamp() + n * interval '150 milliseconds' \
         FROM generate_series(1, 9) n",
    );
    q.wait_for("total", 0);
    let late = "SELECT to_jsonb(extract(epoch FROM late)) FROM {q}_late ORDER BY late";
    let late: Vec<f64> = q.ask(late).iter().map(|late| late.as_f64().expect("seconds")).collect();
    assert!(late[0] >= 0.0, "none is deleted too early: {late:?}");
    assert!(late[4] < 0.1, "half of the tasks lived too long: {late:?}");
    q.mend();
    q.sql("DROP TABLE {q}_late");
    assert_eq!(q.calls("ttl"), 9);
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
