//! Feature utube: a sub-queue has at most one task in flight, its tasks are taken in order, and the sub-queues take
//! turns. pg_regress and the isolation tester hold the cases of one and two sessions. utube_steps and utube_random are
//! random.

mod order;
mod waiting;

use xqueue_tests::*;

fn queue(features: &Value) -> Queue {
    Queue::with("utube", COLUMNS, &json!({ "features": features }))
}

fn subqueues() -> Queue {
    queue(&json!({"utube": true, "delayed": true, "buried": true}))
}

fn take_from(q: &mut Queue, tube: &str) -> Vec<i64> {
    ids(&q.ask(&format!("SELECT xqueue.take('{{q}}', tube => '{tube}')")))
}

#[test]
fn one_waiting_consumer_is_woken_for_each_sub_queue() {
    let mut q = subqueues();
    let waiters: Vec<Waiter> = (0..3).map(|_| Waiter::take(&mut q)).collect();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'b')");
    q.wait_for_consumers(1);
    let (done, waiting): (Vec<_>, Vec<_>) = {
        wait_until("two are served", || waiters.iter().filter(|w| w.finished()).count() == 2);
        waiters.into_iter().partition(Waiter::finished)
    };
    let mut clients: Vec<(Client, Value)> = done.into_iter().map(Waiter::task).collect();
    clients.sort_by_key(|(_, task)| id(task));
    assert_eq!(clients.iter().map(|(_, task)| id(task)).collect::<Vec<_>>(), [1, 3]);
    ack(&mut clients[0].0, &q.name, 1);
    let last = waiting.into_iter().next().expect("one is left");
    assert_eq!(id(&last.task().1), 2);
}

#[test]
fn a_prepared_put_is_found_when_it_is_committed() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a')");
    q.sql("BEGIN; INSERT INTO {q} (id, tube) VALUES (2, 'b'), (0, 'a'); PREPARE TRANSACTION '{q}'");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    let (b, a) = (Waiter::take(&mut q), Waiter::take(&mut q));
    q.sql("COMMIT PREPARED '{q}'");
    let mut tasks = [b.task(), a.task()].map(|(client, task)| (id(&task), client));
    tasks.sort_by_key(|(task, _)| *task);
    assert_eq!(tasks.iter().map(|(task, _)| *task).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn a_prepared_ack_frees_its_sub_queue_when_it_is_resolved() {
    for (end, next) in [("COMMIT", 2), ("ROLLBACK", 1)] {
        let mut q = subqueues();
        q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a')");
        assert_eq!(q.takes(9), [1]);
        q.sql("BEGIN; SELECT xqueue.ack('{q}', 1); PREPARE TRANSACTION '{q}'");
        assert!(q.session().takes(9).is_empty());
        let waiter = Waiter::take(&mut q);
        q.sql(&format!("{end} PREPARED '{{q}}'"));
        if end == "ROLLBACK" {
            q.sql("SELECT xqueue.release('{q}', 1)");
        }
        assert_eq!(id(&waiter.task().1), next, "{end}");
    }
}

#[test]
fn a_repeatable_read_takes_what_it_sees() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'b')");
    let mut old = q.session();
    old.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    q.sql("INSERT INTO {q} (id, tube) VALUES (3, 'c')");
    assert_eq!(old.takes(9), [1, 2]);
    old.sql("COMMIT");
    assert_eq!(q.takes(9), [3], "what it could not see is still known");
}

#[test]
fn a_given_task_is_taken_out_of_its_turn_but_never_beside_another() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'a'), (4, 'b')");
    let named = |q: &mut Queue, id: i64| {
        let taken = q.ask(&format!("SELECT xqueue.take('{{q}}', id => {id})"));
        !taken.is_empty()
    };
    assert!(named(&mut q, 2));
    assert!(!named(&mut q, 1) && !named(&mut q, 3));
    assert_eq!(q.takes(9), [4]);
    q.sql("SELECT xqueue.ack('{q}', 2)");
    let mut other = q.session();
    other.sql("BEGIN");
    assert_eq!(other.takes(9), [1]);
    assert!(!named(&mut q, 3), "its sub-queue is claimed");
    other.sql("ROLLBACK");
    q.sql("BEGIN");
    assert!(named(&mut q, 3));
    assert!(other.takes(9).is_empty());
    q.sql("ROLLBACK");
    assert_eq!(other.takes(9), [1]);
    assert!(!named(&mut q, 7), "there is no such task");
}
