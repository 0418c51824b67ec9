//! Paused queues: takes return no task, everything else works.

use xqueue_tests::*;

fn paused_until(q: &mut Queue) -> Value {
    q.ask_one("SELECT coalesce(to_jsonb(paused_until), 'null') FROM xqueue.definitions WHERE queue = '{q}'::regclass")
}

#[test]
fn with_a_duration_it_ends_by_itself_without_the_worker() {
    alone();
    let database = Database::new("pause");
    let mut q = Queue::new_in(&database.name, "pause");
    let name = q.name.clone();
    let waiters = [Waiter::take(&mut q), Waiter::take(&mut q), Waiter::take(&mut q)];
    let worker = Stopped::worker(&mut q.admin);
    q.sql("SELECT xqueue.pause('{q}', '600 ms')");
    assert!(q.stats()["paused_until"].as_f64().is_some_and(|until| until > 1e9));
    put(&mut q.admin, &name, 1);
    put(&mut q.admin, &name, 2);
    // A consumer that arrives meanwhile waits behind the others.
    let late = Waiter::start(q.client(), &format!("SELECT xqueue.take('{name}', '30s')"));
    let [first, second, third] = waiters;
    let mut kept = vec![first.task(), second.task()];
    let mut taken: Vec<i64> = kept.iter().map(|(_, task)| id(task)).collect();
    taken.sort_unstable();
    assert_eq!(taken, [1, 2], "first come, first served");
    wait_until("the third waits on", || is_waiting(&mut q.admin, third.pid));
    assert_eq!(q.stats().get("paused_until"), None);
    put(&mut q.admin, &name, 3);
    kept.push(third.task());
    put(&mut q.admin, &name, 4);
    kept.push(late.task());
    drop(worker);
}

#[test]
fn a_later_pause_takes_the_place_of_an_earlier_one() {
    let mut q = Queue::new("pause");
    q.sql("SELECT xqueue.pause('{q}', '1 day')");
    let waiter = Waiter::take(&mut q);
    put(&mut q.admin, &q.name, 1);
    q.sql("SELECT xqueue.pause('{q}')");
    assert_eq!(paused_until(&mut q), "infinity");
    q.sql("SELECT xqueue.pause('{q}', '100 ms')");
    let _kept = waiter.task();
    q.sql("SELECT xqueue.pause('{q}', '0')");
    assert_eq!(paused_until(&mut q), Value::Null);
    // PostgreSQL's calendar ends later than 64 bits of microseconds since 1970.
    q.sql("SELECT xqueue.pause('{q}', '292230 years')");
    let until = q.stats()["paused_until"].clone();
    assert!(until.as_f64().is_some_and(|until| until > 9e12), "{until}");
    q.sql("SELECT xqueue.resume('{q}')");
}

#[test]
fn a_pause_is_part_of_its_transaction() {
    let mut q = Queue::new("pause");
    put(&mut q.admin, &q.name, 1);
    q.sql("BEGIN; SAVEPOINT a; SELECT xqueue.pause('{q}')");
    assert!(q.takes(1).is_empty(), "by itself it is seen at once");
    q.sql("ROLLBACK TO a; COMMIT");
    assert_eq!(q.takes(1), [1]);
    // A later upgrade keeps the pause.
    q.sql("SELECT xqueue.pause('{q}')");
    q.upgrade(&json!({"features": {"buried": true}}));
    assert_eq!(paused_until(&mut q), "infinity");
    q.sql("SELECT xqueue.downgrade('{q}')");
    q.upgrade(&json!({"fields": {"status": "status", "owner": "owner", "runat": "runat"}}));
    assert_eq!(paused_until(&mut q), Value::Null);
}

/// The statements of a transaction do not see a queue that is newer than its snapshot, so they cannot change its entry.
#[test]
fn a_queue_that_is_newer_than_the_snapshot() {
    let mut old = Queue::new("pause");
    old.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    let q = Queue::new("pause");
    for call in ["pause('{}')", "resume('{}')", "downgrade('{}', true)"] {
        old.sql("SAVEPOINT a");
        let call = format!("SELECT xqueue.{}", call.replace("{}", &q.name));
        old.fails(&call, "40001", "made by a concurrent transaction");
        old.sql("ROLLBACK TO a");
    }
    old.sql("ROLLBACK");
}
