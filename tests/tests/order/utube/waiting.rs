//! Consumers that wait for one sub-queue, and find its first task out of reach.

use super::*;

/// Starts a take from one sub-queue. A take that ignores its timeout ends with an error.
fn taking(q: &Queue, mut client: Client, tube: &str, timeout: &str) -> Waiter {
    client.batch_execute("SET statement_timeout = '20s'").unwrap();
    let sql = format!("SELECT xqueue.take('{}', '{timeout}', tube => '{tube}')", q.name);
    Waiter::start(client, &sql)
}

fn assert_in_vain(waiters: impl IntoIterator<Item = Waiter>) {
    for waiter in waiters {
        assert!(waiter.join().result.expect("its timeout").is_empty());
    }
}

#[test]
fn waits_for_locked_tasks_end_at_their_timeouts() {
    let mut q = subqueues();
    let mut locker = q.client();
    locker.batch_execute("BEGIN").unwrap();
    let mut lock_all = |q: &Queue| {
        locker.batch_execute(&format!("SELECT FROM {} FOR UPDATE", q.name)).unwrap();
    };
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a')");
    lock_all(&q);
    assert_in_vain([taking(&q, q.client(), "a", "300 ms")]);
    q.sql("INSERT INTO {q} (id, tube) VALUES (2, 'b')");
    lock_all(&q);
    assert_in_vain(["a", "b"].map(|tube| taking(&q, q.client(), tube, "500 ms")));
}

#[test]
fn waits_for_hidden_tasks_end_at_their_timeouts() {
    let mut q = subqueues();
    let role = Role::create();
    q.sql(&format!(
        "GRANT SELECT, UPDATE, DELETE ON {{q}} TO {}; ALTER TABLE {{q}} ENABLE ROW LEVEL SECURITY;
         CREATE POLICY own ON {{q}} USING (tube <> 'theirs');
         INSERT INTO {{q}} (id, tube) VALUES (1, 'theirs')",
        role.name
    ));
    for tube in ["mine", "theirs"] {
        assert_in_vain([taking(&q, role.client(), tube, "300 ms")]);
    }
    assert_eq!(take_from(&mut q, "theirs"), [1]);
}

/// The worker would wake consumers that wait for a task that is ready.
fn without_worker(q: &mut Queue) -> Stopped {
    q.assert_exact();
    Stopped::worker(&mut q.admin)
}

#[test]
fn the_end_of_a_task_wakes_a_consumer_of_a_sub_queue_that_was_forgotten() {
    alone();
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a')");
    assert_eq!(q.takes(1), [1]);
    q.sql("BEGIN; TRUNCATE {q}; ROLLBACK");
    let _stopped = without_worker(&mut q);
    let waiter = taking(&q, q.client(), "a", "15 s");
    q.wait_for_consumers(1);
    assert!(ids(&q.ask("SELECT xqueue.take('{q}', id => 2)")).is_empty());
    q.sql("SELECT xqueue.ack('{q}', 1)");
    assert_eq!(id(&waiter.task().1), 2);
}

#[test]
fn a_deletion_of_the_first_task_wakes_a_consumer_however_it_ends() {
    alone();
    for (end, next) in [("COMMIT", 2), ("ROLLBACK", 1)] {
        let mut q = subqueues();
        q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a')");
        let _stopped = without_worker(&mut q);
        let mut other = q.client();
        other.batch_execute(&format!("BEGIN; DELETE FROM {} WHERE id = 1", q.name)).unwrap();
        let waiter = taking(&q, q.client(), "a", "15 s");
        q.wait_for_consumers(1);
        other.batch_execute(end).unwrap();
        assert_eq!(id(&waiter.task().1), next, "{end}");
    }
}
