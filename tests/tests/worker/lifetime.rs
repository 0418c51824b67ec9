//! Feature ttl: tasks that are not taken in time are deleted.

use xqueue_tests::{COLUMNS, Database, Queue, Stopped, Waiter, alone, id, ids, json, take};

fn queue(features: &str) -> Queue {
    let features: xqueue_tests::Value = features.parse().expect("features");
    Queue::with("ttl", COLUMNS, &json!({ "features": features }))
}

#[test]
fn no_take_gets_an_expired_task_while_the_worker_does_nothing() {
    alone();
    let database = Database::new("ttl");
    let features = json!({"features": {"ttl": true, "priority": true, "tube": true}});
    let mut q = Queue::make(&database.name, "jobs", COLUMNS, &features);
    q.assert_exact();
    {
        let _stopped = Stopped::worker(&mut q.admin);
        q.sql("SELECT xqueue.put('{q}', '[{}, {}]', ttl => '1 microsecond', tube => 'a')");
        q.sql("SELECT xqueue.put('{q}', '{}', ttl => '0', tube => 'a')");
        q.sql("SELECT xqueue.put('{q}', '{}', ttl => '1 hour', tube => 'a')");
        // Only the living task is returned, although the expired tasks stay in the table.
        assert_eq!(ids(&take(&mut q.admin, "jobs", "0", 10)), [4]);
        for take in [
            "xqueue.take('{q}')",
            "xqueue.take('{q}', count => 10)",
            "xqueue.take('{q}', tube => 'a')",
            "xqueue.take('{q}', '50 milliseconds')",
        ] {
            assert_eq!(q.ask(&format!("SELECT {take}")), [json!(null); 0], "{take}");
        }
        assert_eq!(q.counted()["ready"], json!(3));
        assert_eq!(q.calls("ttl"), 0, "the worker was stopped");
    }
    q.wait_for("ready", 0);
    assert_eq!(q.calls("ttl"), 3);
    q.sql("SELECT xqueue.ack('{q}', 4)");
}

#[test]
fn a_waiting_consumer_gets_the_next_living_task_not_an_expired_one() {
    let mut q = queue(r#"{"ttl": true}"#);
    let waiter = Waiter::take(&mut q);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 1}', ttl => '0')"#);
    q.wait_for("total", 0);
    q.wait_for_consumers(1);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 2}', ttl => '1 hour')"#);
    let (_consumer, task) = waiter.task();
    assert_eq!(id(&task), 2);
}

#[test]
fn thousands_expire_at_once_and_each_is_counted() {
    let mut q = queue(r#"{"ttl": true, "delayed": true}"#);
    q.sql(
        "INSERT INTO {q} (expires) SELECT clock_timestamp() + interval '20 milliseconds' \
         FROM generate_series(1, 5000)",
    );
    q.sql("INSERT INTO {q} (expires) SELECT now() + interval '1 hour' FROM generate_series(1, 10)");
    q.wait_for("ready", 10);
    assert_eq!(q.calls("ttl"), 5000);
}

#[test]
fn a_task_is_deleted_within_milliseconds_of_the_end_of_its_life() {
    // Another test's queue of the same owner can keep the owner's job worker busy.
    alone();
    let mut q = queue(r#"{"ttl": true}"#);
    q.sql(
        "CREATE TABLE {q}_late (late interval); \
         CREATE FUNCTION {q}_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           INSERT INTO public.{q}_late VALUES (clock_timestamp() - OLD.expires); RETURN OLD; END $$; \
         CREATE TRIGGER note BEFORE DELETE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_note()",
    );
    // The worker wakes up once a second anyway, but tasks that end 150 ms apart cannot all coincide with that.
    q.sql(
        "INSERT INTO {q} (expires) SELECT clock_timestamp() + n * interval '150 milliseconds' \
         FROM generate_series(1, 9) n",
    );
    q.wait_for("total", 0);
    let median = "SELECT to_jsonb(extract(epoch FROM percentile_disc(0.5) WITHIN GROUP (ORDER BY late))) FROM {q}_late";
    let (median, earliest) = (
        q.ask_one(median).as_f64().expect("seconds"),
        q.ask_one("SELECT to_jsonb(min(late) >= '0') FROM {q}_late"),
    );
    assert!(median < 0.1, "half of the tasks lived {median} s too long");
    assert_eq!(earliest, json!(true), "none is deleted too early");
    q.sql("DROP TABLE {q}_late; DROP FUNCTION {q}_note CASCADE");
}
