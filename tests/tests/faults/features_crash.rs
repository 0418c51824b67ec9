//! Features across restarts of the server.

use xqueue_tests::{COLUMNS, Queue, Server, ids, json, put, take_all};

#[test]
fn a_restart_of_the_server_leaves_the_end_of_life_as_it_is() {
    let server = Server::alone();
    let features = json!({"features": {"ttl": "1 hour", "delayed": true}});
    let mut q = Queue::with("ttl", COLUMNS, &features);
    put(&mut q.admin, &q.name, 1);
    put(&mut q.admin, &q.name, 2);
    q.sql("SELECT xqueue.put('{q}', '{}', delay => '1 hour')");
    q.sql("SELECT xqueue.take('{q}')");
    let lives = "SELECT jsonb_agg(expires ORDER BY id) FROM {q}";
    let before = q.ask_one(lives);
    server.restart("immediate");
    q.reconnect();
    q.wait_for("ready", 2);
    assert_eq!(q.ask_one(lives), before);
    // A restart does not keep an expired task alive either.
    q.sql("UPDATE {q} SET expires = now() + interval '10 milliseconds'");
    server.restart("fast");
    q.reconnect();
    q.wait_for("total", 0);
    assert!(take_all(&mut q.admin, &q.name).is_empty());
}

#[test]
fn keys_of_time64_rise_over_a_restart_also_from_a_key_in_the_future() {
    let server = Server::alone();
    let columns = "id bigint PRIMARY KEY, payload jsonb";
    let mut q = Queue::with("ids", columns, &json!({"features": {"id": "time64"}}));
    // A key made by hand, an hour ahead of the clock. time64 learns it from the table after a restart.
    q.sql("INSERT INTO {q} SELECT (extract(epoch FROM now()) * 1e6)::bigint + 3600000000");
    let mut greatest = q.ask_one("SELECT to_jsonb(max(id)) FROM {q}").as_i64().expect("a key");
    for mode in ["fast", "immediate"] {
        server.restart(mode);
        q.reconnect();
        for key in ids(&q.ask("SELECT xqueue.put('{q}', '[{}, {}]')")) {
            assert!(key > greatest, "{key} after {greatest}, {mode}");
            greatest = key;
        }
    }
}

/// Producers can choose any key, also the greatest bigint, after which no key is left.
#[test]
fn keys_that_no_clock_has_made_do_not_lead_time64_astray() {
    const EXACT_IN_JSON: i64 = 1 << 53;
    let server = Server::alone();
    let columns = "id bigint PRIMARY KEY, payload jsonb";
    let mut q = Queue::with("ids", columns, &json!({"features": {"id": "time64"}}));
    let hand_made = [i64::MIN, EXACT_IN_JSON, 1 << 62, i64::MAX - 1, i64::MAX];
    for key in hand_made {
        q.sql(&format!("SELECT xqueue.put('{{q}}', '{{\"id\": {key}}}')"));
    }
    let mut last = ids(&q.ask("SELECT xqueue.put('{q}', '{}')"))[0];
    for mode in ["fast", "immediate"] {
        server.restart(mode);
        q.reconnect();
        for key in ids(&q.ask("SELECT xqueue.put('{q}', '[{}, {}]')")) {
            assert!(key > last && key < EXACT_IN_JSON, "{key} after {last}, {mode}");
            last = key;
        }
        q.sql("SELECT xqueue.downgrade('{q}', true); SELECT xqueue.upgrade('{q}', '{\"features\": {\"id\": \"time64\"}}')");
    }
    for key in hand_made {
        assert!(q.ask_one(&format!("SELECT xqueue.stats('{{q}}', {key})"))["age"].is_number());
    }
}

#[test]
fn tubes_are_counted_anew_after_a_crash() {
    let server = Server::alone();
    let mut q = Queue::with("tube", COLUMNS, &json!({"tube_stats": ["a", "b"]}));
    q.sql("INSERT INTO {q} (tube) SELECT (ARRAY['a', 'b', 'c'])[n % 3 + 1] FROM generate_series(1, 30) n");
    q.sql("SELECT xqueue.take('{q}', tube => 'a')");
    server.restart("immediate");
    q.reconnect();
    q.wait_for("taken", 0);
    q.assert_exact();
    let stats = q.stats();
    for tube in ["a", "b"] {
        let tasks = &stats["tubes"][tube]["tasks"];
        assert_eq!((&tasks["ready"], &tasks["total"]), (&json!(10), &json!(10)), "{stats}");
    }
}

#[test]
fn attempts_of_tasks_that_a_crash_gave_back_are_limited_too() {
    let server = Server::alone();
    let mut q = Queue::with("retry", COLUMNS, &json!({"features": {"retry": {"limit": 1}}}));
    q.sql("SELECT xqueue.put('{q}', '[{}, {}]')");
    q.sql("SELECT xqueue.take('{q}')");
    server.restart("immediate");
    q.reconnect();
    q.wait_for("buried", 1);
    assert!(q.holds(1, "reason = 'session was lost after attempt 1, the limit is 1'"));
    q.assert_tasks(&[("ready", 1), ("buried", 1)]);
}
