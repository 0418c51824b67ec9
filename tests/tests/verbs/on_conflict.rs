//! Puts of tasks whose keys exist, while others put, take and delete these tasks.

use rand::Rng;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::thread;
use xqueue_tests::*;

const COLUMNS: &str = "id bigint PRIMARY KEY, payload jsonb";

const PUT: &str = r#"SELECT xqueue.put('{q}', '{"id": 1}', on_conflict => 'nothing')"#;

fn put(c: &mut Client, name: &str, id: i64, what: &str) -> Vec<Value> {
    let sql = "SELECT xqueue.put($1, jsonb_build_object('id', $2::bigint), on_conflict => $3)";
    values(c, sql, &[&name, &id, &what])
}

#[test]
fn a_put_waits_for_one_of_the_same_key_to_end() {
    for (end, there) in [("COMMIT", true), ("ROLLBACK", false)] {
        for what in ["nothing", "update"] {
            let mut q = Queue::with("conflict", COLUMNS, &json!({}));
            let mut first = q.session();
            first.sql(r#"BEGIN; SELECT xqueue.put('{q}', '{"id": 1, "payload": 1}')"#);
            let put = PUT.replace("nothing", what).replace("{q}", &q.name);
            let second = Waiter::start(q.client(), &put);
            second.wait_for_lock(&mut q);
            first.sql(end);
            let (_second, task) = second.task();
            assert_eq!(task["payload"], if there { json!(1) } else { Value::Null });
            assert_eq!(q.calls("put"), 1);
        }
    }
}

/// Every put returns a task, although others change and delete tasks with these keys.
#[test]
fn every_put_gets_its_task() {
    let seed = seed();
    for options in [json!({}), json!({"features": {"capacity": 1000, "retry": true}})] {
        let mut q = Queue::with("conflict", COLUMNS, &options);
        let workers = [0_u64, 1, 2, 3, 4, 5].map(|number| {
            let (mut c, name) = (q.client(), q.name.clone());
            thread::spawn(move || {
                let mut random = StdRng::seed_from_u64(seed ^ number);
                for _ in 0..300 {
                    let id = random.random_range(1..=5);
                    match random.random_range(0..4) {
                        0 => ids(&take(&mut c, &name, "0", 2))
                            .iter()
                            .for_each(|id| drop(ack(&mut c, &name, *id))),
                        1 => assert_eq!(ids(&put(&mut c, &name, id, "update")), [id]),
                        _ => assert_eq!(ids(&put(&mut c, &name, id, "nothing")), [id]),
                    }
                }
            })
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        q.assert_exact();
        let left = q.ask_one("SELECT to_jsonb(count(*)) FROM {q}").as_i64().unwrap();
        assert_eq!(q.calls("put"), left + q.calls("ack"));
    }
}

/// A fixed snapshot does not show the conflicting task: the server reports a serialization failure.
#[test]
fn in_repeatable_read() {
    let mut q = Queue::with("conflict", COLUMNS, &json!({}));
    let mut old = q.session();
    old.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    q.sql(PUT);
    old.fails(PUT, "40001", "could not serialize access");
    old.sql("ROLLBACK");
    assert_eq!(ids(&old.ask(PUT)), [1]);
}

/// With a capacity, a task that is there needs no room.
#[test]
fn a_key_is_found_as_its_column_rounds_it() {
    for (kind, key) in [
        ("numeric(10, 2)", json!(1.004)),
        ("timestamptz(0)", json!("2026-01-01 00:00:00.4+00")),
        ("varchar(2)", json!("ab  ")),
        ("numeric(10, 2)[]", json!([1.004])),
    ] {
        let options = json!({"features": {"capacity": 1}});
        let mut q = Queue::with("rounded", &format!("id {kind} PRIMARY KEY"), &options);
        let task = json!({ "id": key });
        let put = format!("SELECT xqueue.put('{{q}}', '{task}', on_conflict => 'nothing')->'id'");
        assert_eq!(q.ask_one(&put), q.ask_one(&put), "{kind}");
        if !key.is_array() {
            q.fails(&format!("SELECT xqueue.delete('{{q}}', '{task}'::jsonb)"), "P0002", "");
        }
    }
}
