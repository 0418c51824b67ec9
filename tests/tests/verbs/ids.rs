//! Feature id: the source of new tasks' keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xqueue_tests::{Queue, Role, id, json, wait_until};

const PLAIN: &str = "id bigint PRIMARY KEY, payload jsonb";

fn queue(columns: &str, id: &str) -> Queue {
    Queue::with("ids", columns, &json!({"features": {"id": id}}))
}

fn assert_rising(keys: &[i64]) {
    let falls = keys.windows(2).find(|pair| pair[0] >= pair[1]);
    assert!(falls.is_none(), "{falls:?} in that order");
}

#[test]
fn keys_of_time64_never_come_twice_and_rise_in_each_of_many_connections() {
    const CONNECTIONS: usize = 8;
    const PUTS: usize = 500;
    let q = queue(PLAIN, "time64");
    let producers = [(); CONNECTIONS].map(|()| {
        let mut session = q.session();
        std::thread::spawn(move || {
            let mut put = || id(&session.ask_one("SELECT xqueue.put('{q}', '{}')"));
            (0..PUTS).map(|_| put()).collect::<Vec<i64>>()
        })
    });
    let mut all = Vec::new();
    for producer in producers {
        let keys = producer.join().expect("the producer did not panic");
        assert_rising(&keys);
        all.extend(keys);
    }
    all.sort_unstable();
    assert_rising(&all);
    assert_eq!(all.len(), CONNECTIONS * PUTS);
}

#[test]
fn uuids_are_in_the_order_of_arrival() {
    for column in ["uuid", "text"] {
        let mut q = queue(&format!("id {column} PRIMARY KEY, payload jsonb"), "uuid");
        // Keys of separate calls, and keys of one statement that are made within one tick of the clock.
        for n in 0..200 {
            q.sql(&format!(r#"SELECT xqueue.put('{{q}}', '{{"payload": {{"n": {n}}}}}')"#));
        }
        q.sql(
            "INSERT INTO {q} (payload) SELECT jsonb_build_object('n', n) FROM generate_series(200, 999) AS n",
        );
        let taken = q.ask("SELECT t->'payload'->'n' FROM xqueue.take('{q}', count => 1000) AS t");
        let numbers: Vec<i64> = taken.iter().map(|n| n.as_i64().expect("a number")).collect();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>(), "{column}");
    }
}

#[test]
fn a_uuid_of_version_7_is_the_clock_and_random() {
    let mut q = queue("id uuid PRIMARY KEY, payload jsonb", "uuid");
    let milliseconds = "('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint";
    let sql = format!(
        "SELECT jsonb_build_array(substr(id::text, 15, 1), left(substr(id::text, 20), 1), \
         abs({milliseconds} - extract(epoch FROM clock_timestamp()) * 1000) < 60000) \
         FROM (SELECT xqueue.uuidv7() AS id) made"
    );
    let made = q.ask_one(&sql);
    assert_eq!((&made[0], &made[2]), (&json!("7"), &json!(true)));
    assert!(["8", "9", "a", "b"].contains(&made[1].as_str().expect("a digit")), "{made}");
    let random = "SELECT to_jsonb(count(DISTINCT right(xqueue.uuidv7()::text, 12))) FROM generate_series(1, 1000)";
    assert_eq!(q.ask_one(random), json!(1000));
}

#[test]
fn a_switch_of_keys_under_load_loses_no_task() {
    let mut q = queue(PLAIN, "time64");
    let done = Arc::new(AtomicBool::new(false));
    let producers = [(); 3].map(|()| {
        let (mut session, done) = (q.session(), done.clone());
        std::thread::spawn(move || {
            let mut put = 0;
            while !done.load(Ordering::Relaxed) {
                put += session.ask("SELECT xqueue.put('{q}', '{}')").len() as i64;
            }
            put
        })
    });
    for id in ["auto_increment", "time64", "auto_increment", "time64"] {
        let before = q.calls("put");
        wait_until("some were put", || q.calls("put") > before + 50);
        q.upgrade(&json!({"features": {"id": id}}));
    }
    done.store(true, Ordering::Relaxed);
    let put: i64 = producers.into_iter().map(|p| p.join().expect("no put failed")).sum();
    q.assert_tasks(&[("ready", put)]);
}

/// Only producers can make a key, because it reveals when the last task was put. They need no other rights.
#[test]
fn whoever_may_put_makes_keys_of_time64() {
    let mut q = queue(PLAIN, "time64");
    let (role, mut c) = (Role::create(), q.session());
    c.admin = role.client();
    c.fails("SELECT xqueue.time64('{q}')", "42501", "permission denied");
    q.sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {{q}} TO {}", role.name));
    assert!(c.ask_one("SELECT to_jsonb(xqueue.time64('{q}'))").as_i64() > Some(0));
    assert_eq!(c.ask("SELECT xqueue.put('{q}', '{}')").len(), 1);
}
