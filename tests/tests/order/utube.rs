//! Feature utube: a sub-queue has at most one task in flight, its tasks are taken in order, and the sub-queues take
//! turns.

mod order;
mod waiting;

use xqueue_tests::*;

fn queue(options: &str) -> Queue {
    let options: Value = options.parse().expect("options");
    Queue::with("utube", COLUMNS, &options)
}

fn subqueues() -> Queue {
    queue(r#"{"features": {"utube": true, "delayed": true, "buried": true}}"#)
}

fn strict_subqueues() -> Queue {
    queue(r#"{"features": {"utube": {"strict": true}, "delayed": true, "buried": true}}"#)
}

fn take_from(q: &mut Queue, tube: &str) -> Vec<i64> {
    ids(&q.ask(&format!("SELECT xqueue.take('{{q}}', tube => '{tube}')")))
}

#[test]
fn a_sub_queue_gives_its_next_task_when_the_one_before_is_settled() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'a'), (4, 'b'), (5, NULL), (6, NULL)");
    assert_eq!(q.takes(9), [1, 4, 5]);
    assert!(q.takes(9).is_empty());
    q.sql("SELECT xqueue.ack('{q}', 1)");
    assert_eq!(q.takes(9), [2]);
    q.sql("SELECT xqueue.release('{q}', 2)");
    assert_eq!(q.takes(9), [2], "a released task keeps its place");
    q.sql("SELECT xqueue.bury('{q}', 2)");
    assert_eq!(q.takes(9), [3], "a buried task blocks nobody");
    q.sql("SELECT xqueue.kick('{q}', 1)");
    assert!(q.takes(9).is_empty());
    q.sql("SELECT xqueue.ack('{q}', 3); SELECT xqueue.ack('{q}', 5)");
    assert_eq!(q.takes(9), [2, 6], "those without a label are one sub-queue");
}

#[test]
fn one_sub_queue_can_be_asked_for() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, 'b')");
    assert_eq!(take_from(&mut q, "b"), [2]);
    assert!(take_from(&mut q, "b").is_empty());
    assert!(take_from(&mut q, "c").is_empty());
    let sql = format!("SELECT xqueue.take('{}', '30 s', tube => 'b')", q.name);
    let waiter = Waiter::waiting(&mut q, &sql);
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    q.sql("SELECT xqueue.ack('{q}', 2)");
    let (_consumer, task) = waiter.task();
    assert_eq!(id(&task), 4);
    assert_eq!(q.takes(9), [3]);
}

#[test]
fn a_take_that_is_rolled_back_is_as_if_it_had_never_been() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'b'), (3, 'a')");
    q.sql("BEGIN; SELECT xqueue.take('{q}', count => 2); ROLLBACK");
    q.sql("BEGIN; SAVEPOINT s; SELECT xqueue.take('{q}'); ROLLBACK TO s; SAVEPOINT t");
    assert_eq!(q.takes(1), [1], "its turn is not over");
    q.sql("ROLLBACK TO t; COMMIT");
    let mut c = q.client();
    c.batch_execute("BEGIN").unwrap();
    assert_eq!(ids(&take(&mut c, &q.name, "0", 1)), [1]);
    assert_eq!(q.takes(9), [2]);
    let waiter = Waiter::take(&mut q);
    c.batch_execute("ROLLBACK").unwrap();
    assert_eq!(id(&waiter.task().1), 1, "who waits is woken");
}

#[test]
fn one_transaction_may_go_through_a_sub_queue() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) SELECT i, 'a' FROM generate_series(1, 5) i");
    q.sql("BEGIN");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    assert_eq!(q.takes(9), [2]);
    q.sql("COMMIT; BEGIN; SELECT xqueue.ack('{q}', 2)");
    assert_eq!(q.takes(9), [3]);
    q.sql("SAVEPOINT n; INSERT INTO {q} (id, tube) VALUES (9, 'new')");
    assert_eq!(q.takes(9), [9], "what it has put itself");
    q.sql("ROLLBACK TO n");
    q.sql("SAVEPOINT s; SELECT xqueue.ack('{q}', 3)");
    assert_eq!(take_from(&mut q, "a"), [4]);
    assert!(q.takes(9).is_empty());
    q.sql("ROLLBACK TO s; COMMIT");
    let (name, mut other) = (q.name.clone(), q.client());
    assert!(take_all(&mut other, &name).is_empty(), "3 is in flight");
    q.sql("BEGIN; SELECT xqueue.ack('{q}', 3)");
    assert_eq!(q.takes(9), [4]);
    q.sql("ROLLBACK");
    assert!(take_all(&mut other, &name).is_empty(), "3 is in flight again");
    q.sql("SELECT xqueue.ack('{q}', 3)");
    assert_eq!(take_all(&mut other, &name), [4]);
}

#[test]
fn what_a_transaction_undoes_is_not_passed_over_later() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) SELECT i, 'a' FROM generate_series(10, 20) i");
    // Takes do not see the tasks that their own transaction deleted; the rollback restores them.
    q.sql("BEGIN; DELETE FROM {q} WHERE id < 15");
    assert_eq!(q.takes(1), [15]);
    q.sql("SELECT xqueue.ack('{q}', 15); ROLLBACK");
    assert_eq!(q.takes(1), [10]);
    q.sql("SELECT xqueue.ack('{q}', 10)");
    q.sql("BEGIN; SAVEPOINT s; DELETE FROM {q} WHERE id = 11");
    assert_eq!(q.takes(1), [12]);
    q.sql("ROLLBACK TO s; COMMIT");
    assert_eq!(q.takes(1), [11]);
    // A task with a smaller key is put, by hand and by a change of the key.
    q.sql("SELECT xqueue.ack('{q}', 11); INSERT INTO {q} (id, tube) VALUES (5, 'a')");
    assert_eq!(q.takes(1), [5]);
    q.sql("SELECT xqueue.ack('{q}', 5); UPDATE {q} SET id = 4 WHERE id = 20");
    assert_eq!(q.takes(1), [4]);
    q.sql("SELECT xqueue.ack('{q}', 4)");
    q.sql("BEGIN; INSERT INTO {q} (id, tube) VALUES (3, 'a')");
    assert_eq!(q.takes(1), [3]);
    q.sql("ROLLBACK");
    assert_eq!(q.takes(1), [12]);
    q.sql("SELECT xqueue.ack('{q}', 12)");
    q.sql("BEGIN; UPDATE {q} SET id = 99 WHERE id = 13");
    assert_eq!(q.takes(1), [14]);
    q.sql("ROLLBACK");
    q.sql("BEGIN; TRUNCATE {q}");
    assert!(q.takes(1).is_empty());
    q.sql("INSERT INTO {q} (id, tube) VALUES (50, 'a')");
    assert_eq!(q.takes(1), [50]);
    q.sql("ROLLBACK");
    q.verify();
    assert_eq!(q.takes(1), [13]);
}

#[test]
fn a_locked_first_task_is_waited_for_and_the_others_are_served() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'b')");
    let mut c = q.client();
    c.batch_execute(&format!("BEGIN; SELECT FROM {} WHERE id = 1 FOR UPDATE", q.name)).unwrap();
    assert_eq!(q.takes(9), [3]);
    assert!(q.takes(9).is_empty(), "2 does not pass 1");
    let waiter = Waiter::take(&mut q);
    c.batch_execute("COMMIT").unwrap();
    assert_eq!(id(&waiter.task().1), 1);
}

#[test]
fn changes_by_hand_are_noticed() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'b')");
    q.sql("UPDATE {q} SET status = 'T', owner = xqueue.identify() WHERE id = 3");
    assert_eq!(q.takes(9), [1]);
    q.sql("UPDATE {q} SET status = 'R', owner = NULL WHERE id = 3");
    assert_eq!(q.takes(9), [3]);
    q.sql("UPDATE {q} SET tube = 'c' WHERE id = 2");
    assert_eq!(q.takes(9), [2], "moved to another sub-queue");
    q.sql("DELETE FROM {q} WHERE id = 1");
    q.sql("INSERT INTO {q} (id, tube) VALUES (4, 'a')");
    assert_eq!(q.takes(9), [4]);
    q.fails(
        "UPDATE {q} SET tube = 'a' WHERE id = 3",
        "23505",
        "another task of its sub-queue is taken",
    );
    q.sql("TRUNCATE {q}; INSERT INTO {q} (id, tube) VALUES (5, 'a'), (6, 'c'), (7, 'c')");
    assert_eq!(q.takes(9).len(), 2);
    q.sql("COPY {q} (id, tube) FROM PROGRAM 'printf \"8\\td\\n9\\td\\n\"'");
    assert_eq!(q.takes(9), [8]);
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
    let transaction = unique("utube");
    q.sql("BEGIN");
    q.sql("INSERT INTO {q} (id, tube) VALUES (2, 'b'), (0, 'a')");
    q.sql(&format!("PREPARE TRANSACTION '{transaction}'"));
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    let (b, a) = (Waiter::take(&mut q), Waiter::take(&mut q));
    q.sql(&format!("COMMIT PREPARED '{transaction}'"));
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
        let transaction = unique("utube");
        q.sql("BEGIN");
        q.sql("SELECT xqueue.ack('{q}', 1)");
        q.sql(&format!("PREPARE TRANSACTION '{transaction}'"));
        let (name, mut other) = (q.name.clone(), q.client());
        assert!(take_all(&mut other, &name).is_empty());
        let waiter = Waiter::take(&mut q);
        q.sql(&format!("{end} PREPARED '{transaction}'"));
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
    let (name, mut c) = (q.name.clone(), q.client());
    c.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
    q.sql("INSERT INTO {q} (id, tube) VALUES (3, 'c')");
    assert_eq!(take_all(&mut c, &name), [1, 2]);
    c.batch_execute("COMMIT").unwrap();
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
    let (name, mut other) = (q.name.clone(), q.client());
    other.batch_execute("BEGIN").unwrap();
    assert_eq!(ids(&take(&mut other, &name, "0", 9)), [1]);
    assert!(!named(&mut q, 3), "its sub-queue is claimed");
    other.batch_execute("ROLLBACK").unwrap();
    q.sql("BEGIN");
    assert!(named(&mut q, 3));
    assert!(take_all(&mut other, &name).is_empty());
    q.sql("ROLLBACK");
    assert_eq!(take_all(&mut other, &name), [1]);
    assert!(!named(&mut q, 7), "there is no such task");
}

#[test]
fn a_paused_queue_gives_nothing_and_goes_on_where_it_was() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'b')");
    assert_eq!(q.takes(1), [1]);
    q.sql("SELECT xqueue.pause('{q}')");
    assert!(q.takes(9).is_empty());
    let waiter = Waiter::take(&mut q);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    q.sql("SELECT xqueue.resume('{q}')");
    let (_consumer, task) = waiter.task();
    let mut rest = q.takes(9);
    rest.push(id(&task));
    rest.sort_unstable();
    assert_eq!(rest, [2, 3]);
}
