//! CALL xqueue.next: the consumer's loop in one call, which holds no snapshot and no lock while it waits.

use xqueue_tests::*;

/// Makes a queue, and a consumer whose next call acks the task that it has taken. Returns that call, too.
fn with_a_task() -> (Queue, Client, Value, String) {
    let mut q = Queue::new("next");
    put(&mut q.admin, &q.name, 1);
    let mut c = q.client();
    let task = ask_one(&mut c, &q.name, "CALL xqueue.next('{q}', '1s')");
    let call = format!("CALL xqueue.next('{}', '30s', task => '{task}')", q.name);
    (q, c, task, call)
}

/// Starts a call that waits.
fn waiting(q: &mut Queue) -> Waiter {
    let call = format!("CALL xqueue.next('{}', '30s')", q.name);
    Waiter::waiting(q, &call)
}

#[test]
fn it_holds_no_snapshot_and_no_lock_while_it_waits() {
    // The call first acks a task, so that it has something to hold.
    let (mut q, c, task, call) = with_a_task();
    let waiter = Waiter::start(c, &call);
    q.wait_for_consumers(1);
    assert_eq!(status(&mut q.admin, &q.name, id(&task)), None, "the ack is committed already");
    wait_until("it holds nothing", || {
        let sql = "SELECT backend_xmin IS NULL AND backend_xid IS NULL AND NOT EXISTS
                   (SELECT FROM pg_locks l WHERE l.pid = a.pid AND locktype IN ('relation', 'tuple', 'transactionid', 'object'))
                   FROM pg_stat_activity a WHERE pid = $1";
        assert!(!waiter.finished());
        scalar(&mut q.admin, sql, &[&waiter.pid])
    });
    // Dead rows can be removed meanwhile, and DDL does not wait.
    q.sql("SET lock_timeout = '10s'; BEGIN; LOCK TABLE {q} IN ACCESS EXCLUSIVE MODE; COMMIT");
    q.sql("INSERT INTO {q} DEFAULT VALUES");
    waiter.task();
}

#[test]
fn a_wait_that_is_cancelled_keeps_the_ack() {
    let (mut q, c, _task, call) = with_a_task();
    let waiter = Waiter::start(c, &call);
    q.wait_for_consumers(1);
    waiter.cancel(&mut q.admin);
    let (mut c, error) = waiter.error();
    assert_eq!(error.code().code(), "57014");
    q.wait_for_consumers(0);
    q.assert_tasks(&[("total", 0)]);
    put(&mut q.admin, &q.name, 2);
    let next = ask_one(&mut c, &q.name, "CALL xqueue.next('{q}', '10s')");
    assert_eq!(next["payload"], json!({"n": 2}));
}

#[test]
fn its_wake_up_goes_on_when_its_client_dies() {
    let mut q = Queue::new("next");
    let (first, second) = (waiting(&mut q), waiting(&mut q));
    q.sql(&format!(
        "BEGIN; SELECT pg_terminate_backend({}); SELECT xqueue.put('{{q}}', '{{}}'); COMMIT",
        first.pid
    ));
    // If the first consumer got a task before it ended, the task is ready again when its connection closes.
    drop(first.join());
    second.task();
}

#[test]
fn dropped_while_it_waits() {
    let mut q = Queue::new("next");
    let waiter = waiting(&mut q);
    q.sql("SET lock_timeout = '10s'; DROP TABLE {q}");
    q.abandon();
    assert_eq!(waiter.error().1.code().code(), "42P01");
}
