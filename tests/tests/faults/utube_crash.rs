//! Sub-queues after a server restart, when shared memory is empty, and with less shared memory than they need.

use std::collections::BTreeMap;

use crate::ends::{After, after_each_end, cases};
use xqueue_tests::*;

fn queue() -> Queue {
    Queue::with("utube_crash", COLUMNS, &json!({"features": {"utube": true}}))
}

/// Takes and acks all tasks, `count` at a time, and returns the order in each sub-queue.
fn served(c: &mut Client, queue: &str, count: i32) -> BTreeMap<String, Vec<i64>> {
    let mut served: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    loop {
        let tasks = take(c, queue, "0", count);
        if tasks.is_empty() {
            return served;
        }
        for task in tasks {
            ack(c, queue, id(&task));
            served.entry(task["tube"].to_string()).or_default().push(id(&task));
        }
    }
}

#[test]
fn sub_queues_are_found_again_after_each_end_of_the_server() {
    after_each_end(cases![sub_queues_are_in_order, the_most_urgent_comes_first]);
}

fn sub_queues_are_in_order(q: &mut Queue, how: &str) -> After {
    let is_strict = matches!(how, "SIGKILL" | "fast");
    let utube = if is_strict { json!({"strict": true}) } else { json!(true) };
    q.upgrade(&json!({"features": {"utube": utube, "buried": true}}));
    q.sql("INSERT INTO {q} (tube) SELECT i % 250 FROM generate_series(1, 1000) i");
    q.sql("INSERT INTO {q} (tube, status) SELECT i, 'B' FROM generate_series(1, 10) i");
    q.sql("SELECT xqueue.put('{q}', '{\"id\": -1, \"tube\": \"7\"}', delay => '1 hour')");
    let mut c = q.client();
    assert_eq!(take(&mut c, &q.name, "0", 50).len(), 50);
    c.batch_execute("BEGIN").unwrap();
    assert_eq!(take(&mut c, &q.name, "0", 50).len(), 50);
    Box::new(move |q: &mut Queue| {
        drop(c);
        q.wait_for("taken", 0);
        // Two simultaneous consumers both get a task.
        let (mut a, mut b) = (q.client(), q.client());
        a.batch_execute("BEGIN").unwrap();
        assert_eq!(take(&mut a, &q.name, "0", 1).len(), 1);
        assert_eq!(take(&mut b, &q.name, "0", 1).len(), 1);
        a.batch_execute("ROLLBACK").unwrap();
        b.batch_execute("DISCARD ALL").unwrap();
        q.wait_for("taken", 0);
        q.verify();
        let served = served(&mut a, &q.name, 40);
        let waits = i64::from(is_strict);
        assert_eq!(served.len() as i64, 250 - waits, "one waits behind a task with a delay");
        for (tube, tasks) in served {
            assert!(tasks.is_sorted() && tasks.len() == 4, "{tube} was served as {tasks:?}");
        }
        q.assert_tasks(&[("ready", 4 * waits), ("waiting", 1), ("buried", 10)]);
    })
}

/// Shared memory is empty, but the first take finds the most urgent task.
fn the_most_urgent_comes_first(q: &mut Queue, _: &str) -> After {
    q.upgrade(&json!({"features": {"utube": true, "priority": true}}));
    q.sql("INSERT INTO {q} (id, tube, priority) SELECT i, i % 777, i * 7919 % 1000 FROM generate_series(1, 1554) i");
    Box::new(move |q: &mut Queue| {
        let priorities: Vec<i64> = (0..20)
            .flat_map(|_| take(&mut q.admin, &q.name, "0", 2))
            .map(|task| task["priority"].as_i64().unwrap())
            .collect();
        let least = "SELECT to_jsonb(array_agg(priority)) FROM (SELECT min(priority) AS priority FROM {q} \
                     GROUP BY tube ORDER BY 1 LIMIT 40) AS head";
        assert_eq!(json!(priorities), q.ask_one(least));
    })
}

#[test]
fn more_sub_queues_than_there_is_room_for_are_all_served() {
    let server = Server::alone();
    let _little = server.with_options("-c xqueue.max_subqueues=10");
    let (mut q, mut other) = (queue(), queue());
    let name = q.name.clone();
    other.sql("INSERT INTO {q} (tube) SELECT i FROM generate_series(1, 20) i");
    q.sql("INSERT INTO {q} (tube) SELECT i % 300 FROM generate_series(1, 900) i");
    q.verify();
    // A waiting consumer is woken even if shared memory has no slot for the sub-queue.
    let mut empty = queue();
    let waiter = Waiter::take(&mut empty);
    empty.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a')");
    drop((waiter.task(), empty));
    let served = std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..4)
            .map(|number| {
                let (mut c, name) = (q.client(), &name);
                scope.spawn(move || served(&mut c, name, 1 + 5 * number))
            })
            .collect();
        let all = consumers.into_iter().map(|consumer| consumer.join().expect("a consumer"));
        all.flatten().map(|(_, tasks)| tasks.len()).sum::<usize>()
    });
    // A consumer that finds no task ends while each of the others still holds a task, so some tasks are left.
    let mut c = q.client();
    let rest = self::served(&mut c, &name, 10);
    assert_eq!(served + rest.values().map(Vec::len).sum::<usize>(), 900);
    let name = other.name.clone();
    assert_eq!(take(&mut c, &name, "0", 5).len(), 5);
    drop(c);
    // A take of one sub-queue fails when there is no room.
    let mut q = queue();
    q.sql("INSERT INTO {q} (tube) SELECT i FROM generate_series(1, 1000) i");
    q.sql("BEGIN");
    let take = "SELECT xqueue.take('{q}', tube => i::text) FROM generate_series(1, 1000) i";
    let error = q.fails(take, "53400", "more sub-queues in use than there is room for");
    assert!(error.hint().is_some_and(|hint| hint.contains("xqueue.max_subqueues")));
    q.sql("ROLLBACK");
    assert_eq!(q.ask("SELECT xqueue.take('{q}', tube => '7')").len(), 1);
}
