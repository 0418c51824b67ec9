//! Feature ttl: tasks that are not taken in time are deleted.

use std::io::Write;

use xqueue_tests::{
    COLUMNS, Database, Queue, Stopped, Waiter, alone, ask, id, ids, json, put, refused, take,
    take_all,
};

/// Has a tolerance of one minute, because `expires` was computed a moment earlier.
const IN_AN_HOUR: &str = "expires - now() BETWEEN '59 minutes' AND '61 minutes'";

fn queue(features: &str) -> Queue {
    let features: xqueue_tests::Value = features.parse().expect("features");
    Queue::with("ttl", COLUMNS, &json!({ "features": features }))
}

#[test]
fn a_default_is_given_by_put_insert_and_copy_unless_the_task_has_its_own() {
    let mut q = queue(r#"{"ttl": "1 hour", "delayed": true}"#);
    let name = q.name.clone();
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 1}')"#);
    q.sql(r#"SELECT xqueue.put('{q}', '[{"id": 2}, {"id": 3, "payload": 1}]')"#);
    q.sql(r#"SELECT xqueue.put(jsonb_populate_record(NULL::{q}, '{"id": 4}'))"#);
    q.sql("INSERT INTO {q} (id) VALUES (5)");
    let mut copy = q.admin.copy_in(&format!("COPY {name} (id) FROM stdin")).expect("COPY begins");
    copy.write_all(b"6\n").expect("COPY takes a line");
    copy.finish().expect("COPY ends");
    for id in 1..=6 {
        assert!(q.holds(id, IN_AN_HOUR), "task {id}");
    }
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 7}', ttl => '1 day')"#);
    q.sql("INSERT INTO {q} (id, expires) VALUES (8, now() + interval '1 day')");
    for id in 7..=8 {
        assert!(q.holds(id, "expires - now() > '23 hours'"), "task {id}");
    }
}

#[test]
fn with_a_delay_the_time_to_live_counts_from_its_end() {
    let mut q = queue(r#"{"ttl": "1 hour", "delayed": true}"#);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 1}', delay => '1 day', ttl => '2 hours')"#);
    assert!(q.holds(1, "expires - runat BETWEEN '2 hours' AND '2 hours 1 second'"));
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 2}', delay => '1 day')"#);
    assert!(q.holds(2, "expires - runat BETWEEN '1 hour' AND '1 hour 1 second'"));
    q.sql("INSERT INTO {q} (id, runat) VALUES (3, now() + interval '1 day')");
    assert!(q.holds(3, "status = 'W' AND expires = runat + interval '1 hour'"));
}

#[test]
fn a_release_with_delay_puts_the_end_off_and_one_with_ttl_sets_it_anew() {
    let mut q = queue(r#"{"ttl": "1 hour", "delayed": true}"#);
    put(&mut q.admin, &q.name, 1);
    q.sql("CREATE TEMP TABLE before AS SELECT * FROM {q}");
    for (release, end) in [
        ("'{q}', 1", "expires = (SELECT expires FROM before)"),
        ("'{q}', 1, delay => '1 day'", "expires = (SELECT expires FROM before) + interval '1 day'"),
        ("'{q}', 1, ttl => '3 hours'", "expires - now() BETWEEN '179 minutes' AND '181 minutes'"),
        (
            "'{q}', 1, delay => '1 day', ttl => '2 hours'",
            "expires - runat BETWEEN '119 minutes' AND '121 minutes'",
        ),
    ] {
        q.sql("UPDATE {q} SET status = 'R', runat = NULL");
        assert_eq!(take_all(&mut q.admin, &q.name), [1]);
        q.sql(&format!("SELECT xqueue.release({release})"));
        assert!(q.holds(1, end), "after release({release})");
    }
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

#[test]
fn the_end_of_life_can_be_a_column_that_the_table_has() {
    let columns = format!("{COLUMNS}, valid_until timestamptz");
    let options = json!({"fields": {"expires": "valid_until"}, "features": {"ttl": "1 hour"}});
    let mut q = Queue::with("ttl", &columns, &options);
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 1}')"#);
    assert!(q.holds(1, "valid_until > now() + interval '59 minutes'"));
    q.sql("UPDATE {q} SET valid_until = now()");
    q.wait_for("total", 0);
    // A column of the table itself is not used unless it is named.
    let mut own = Queue::with("ttl", &format!("{COLUMNS}, expires timestamptz"), &json!({}));
    own.fails(r#"SELECT xqueue.upgrade('{q}', '{"features": {"ttl": true}}')"#, "42701", "expires");
}

#[test]
fn times_to_live_are_refused_where_they_make_no_sense() {
    let mut q = queue(r#"{"ttl": true, "delayed": true, "buried": true}"#);
    put(&mut q.admin, &q.name, 1);
    take_all(&mut q.admin, &q.name);
    refused(
        &mut q,
        &[
            ("SELECT xqueue.put('{q}', '{}', ttl => '-1 second')", "22023", "ttl"),
            ("SELECT xqueue.release('{q}', 1, ttl => '-1 second')", "22023", "ttl"),
            ("SELECT xqueue.bury('{q}', 1, ttl => '-1 day')", "22023", "ttl"),
            (r#"SELECT xqueue.put('{q}', '{"expires": "2030-01-01"}')"#, "22023", "expires"),
            (r#"SELECT xqueue.release('{q}', 1, '{"expires": null}')"#, "22023", "expires"),
            (r#"SELECT xqueue.upgrade('{q}', '{"features": {"ttl": -1}}')"#, "22023", "-1"),
            (
                r#"SELECT xqueue.upgrade('{q}', '{"features": {"ttl": "soon"}}')"#,
                "22023 22007",
                "soon",
            ),
        ],
    );
}

#[test]
fn switched_off_no_task_expires_any_more_and_the_options_are_refused() {
    let mut q = queue(r#"{"ttl": true, "buried": true}"#);
    q.sql("SELECT xqueue.put('{q}', '{}', ttl => '1 hour')");
    let mut consumer = q.client();
    assert_eq!(take_all(&mut consumer, &q.name), [1]);
    q.upgrade(&json!({"features": {"ttl": false}}));
    for call in [
        "xqueue.put('{q}', '{}', ttl => '1 hour')",
        "xqueue.release('{q}', 1, ttl => '1 hour')",
        "xqueue.bury('{q}', 1, ttl => '1 hour')",
    ] {
        q.fails(&format!("SELECT {call}"), "0A000", "feature ttl is not enabled");
    }
    // Values from the time of the old features do not apply again under the new ones.
    q.upgrade(&json!({"features": {"ttl": true}}));
    assert!(q.holds(1, "expires IS NULL"));
    assert_eq!(ids(&ask(&mut consumer, &q.name, "SELECT xqueue.ack('{q}', 1)")), [1]);
}
