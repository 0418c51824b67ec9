//! Puts of tasks whose keys exist, while others put, take and delete these tasks.

use rand::Rng;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::thread;
use xqueue_tests::*;

const COLUMNS: &str = "id bigint PRIMARY KEY, payload jsonb";

fn put(c: &mut Client, name: &str, id: i64, what: &str) -> Vec<Value> {
    let sql = "SELECT xqueue.put($1, jsonb_build_object('id', $2::bigint), on_conflict => $3)";
    values(c, sql, &[&name, &id, &what])
}

#[test]
fn a_put_waits_for_one_of_the_same_key_to_end() {
    for (end, there) in [("COMMIT", true), ("ROLLBACK", false)] {
        for what in ["nothing", "update"] {
            let mut q = Queue::with("conflict", COLUMNS, &json!({}));
            let name = q.name.clone();
            let (mut first, mut second) = (q.client(), q.client());
            let waiting = pid(&mut second);
            first.batch_execute("BEGIN").unwrap();
            let sql = format!("SELECT xqueue.put('{name}', '{{\"id\": 1, \"payload\": 1}}')");
            assert_eq!(values(&mut first, &sql, &[]).len(), 1);
            let other = {
                let name = name.clone();
                thread::spawn(move || put(&mut second, &name, 1, what))
            };
            wait_until("the put waits", || {
                scalar(
                    &mut q.admin,
                    "SELECT COALESCE(wait_event_type = 'Lock', false) FROM pg_stat_activity WHERE pid = $1",
                    &[&waiting],
                )
            });
            first.batch_execute(end).unwrap();
            let got = other.join().unwrap();
            assert_eq!(ids(&got), [1]);
            assert_eq!(got[0]["payload"], if there { json!(1) } else { Value::Null });
            assert_eq!(q.calls("put"), 1);
            q.assert_exact();
        }
    }
}

/// Every put returns a task, although others change and delete tasks with these keys.
#[test]
fn every_put_gets_its_task() {
    let seed = seed();
    for options in [json!({}), json!({"features": {"capacity": 1000, "retry": true}})] {
        let mut q = Queue::with("conflict", COLUMNS, &options);
        let worker = |number: u64, config: postgres::Config, name: String| {
            thread::spawn(move || {
                let mut c = config.connect(postgres::NoTls).unwrap();
                let mut random = StdRng::seed_from_u64(seed ^ number);
                for _ in 0..300 {
                    let id = random.random_range(1..=5);
                    match random.random_range(0..4) {
                        0 => {
                            for task in take(&mut c, &name, "0", 2) {
                                ack(&mut c, &name, xqueue_tests::id(&task));
                            }
                        }
                        1 => assert_eq!(ids(&put(&mut c, &name, id, "update")), [id]),
                        _ => assert_eq!(ids(&put(&mut c, &name, id, "nothing")), [id]),
                    }
                }
            })
        };
        let workers: Vec<_> =
            (0..6).map(|number| worker(number, q.config(), q.name.clone())).collect();
        for worker in workers {
            worker.join().unwrap();
        }
        q.assert_exact();
        let left = q.ask_one("SELECT to_jsonb(count(*)) FROM {q}").as_i64().unwrap();
        assert_eq!(q.calls("put"), left + q.calls("ack"));
    }
}

/// A fixed snapshot does not show the conflicting task: the server reports a serialization failure.
#[test]
fn in_repeatable_read() {
    let mut q = Queue::with("conflict", COLUMNS, &json!({}));
    let name = q.name.clone();
    let mut c = q.client();
    c.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 1}')");
    let sql = format!("SELECT xqueue.put('{name}', '{{\"id\": 1}}', on_conflict => 'nothing')");
    expect_error(&mut c, &sql, "40001", "could not serialize access");
    c.batch_execute("ROLLBACK").unwrap();
    assert_eq!(ids(&put(&mut c, &name, 1, "nothing")), [1]);
}
