//! `create` by several sessions at once, and of a queue with a long name.

use std::sync::Barrier;
use xqueue_tests::*;

#[test]
fn sessions_create_the_same_queue() {
    for _ in 0..5 {
        let mut q = Queue::adopt(&database(), &unique("created"));
        let (barrier, clients) = (Barrier::new(6), [(); 6].map(|()| q.client()));
        std::thread::scope(|scope| {
            for mut c in clients {
                let (q, barrier) = (&q.name, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    c.run(&format!("SELECT xqueue.create('{q}', if_not_exists => true)"));
                });
            }
        });
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        assert_eq!(q.takes(2), [1]);
    }
}

#[test]
fn a_queue_is_created_in_any_schema_and_not_dropped_while_it_is_in_use() {
    let schema = format!("\"My {}\"", unique("schema"));
    let mut q = Queue::adopt(&database(), &format!("{schema}.{}", "n".repeat(63)));
    q.sql(&format!("CREATE SCHEMA {schema}"));
    for options in ["'{}'", "'{}', if_not_exists => true"] {
        let definition = q.ask_one(&format!("SELECT xqueue.create('{{q}}', {options})"));
        assert_eq!(definition["queue"], q.name, "{options}");
    }
    q.fails("SELECT xqueue.create('{q}')", "42P07", "already exists");
    let assert_in_use = |q: &mut Queue, by: &str| {
        let error = q.fails("SELECT xqueue.drop('{q}')", "55006", "in use");
        assert_eq!(error.detail(), Some(by));
        assert!(error.hint().is_some(), "{error:?}");
    };
    q.sql("SELECT xqueue.put('{q}', '{}')");
    assert_eq!(q.takes(9), [1]);
    assert_in_use(&mut q, "1 tasks are taken, 0 consumers wait.");
    q.sql("SELECT xqueue.ack('{q}', 1)");
    let waiter = Waiter::take(&mut q);
    assert_in_use(&mut q, "0 tasks are taken, 1 consumers wait.");
    waiter.cancel(&mut q.admin);
    assert!(waiter.join().result.is_err());
    q.sql("SELECT xqueue.put('{q}', '{}')");
    q.sql(&format!("SELECT xqueue.drop('{{q}}'); DROP SCHEMA {schema}"));
    q.abandon();
}
