//! An administrator's calls that other sessions notice: restart and snatch. pg_regress tests their results.

use xqueue_tests::{COLUMNS, Queue, Waiter, expect_error, id, ids, json};

#[test]
fn a_restart_wakes_a_waiting_consumer() {
    let mut q = Queue::with("kept", COLUMNS, &json!({"features": {"keep": true}}));
    q.sql("INSERT INTO {q} DEFAULT VALUES; SELECT xqueue.take('{q}'); SELECT xqueue.ack('{q}', 1)");
    let waiter = Waiter::take(&mut q);
    q.sql("SELECT xqueue.restart('{q}', 1)");
    let (_client, task) = waiter.task();
    assert_eq!(id(&task), 1);
}

#[test]
fn a_snatched_task_is_refused_to_its_former_session() {
    let mut q = Queue::new("kept");
    q.sql("INSERT INTO {q} DEFAULT VALUES");
    let mut former = q.session();
    assert_eq!(former.takes(1), [1]);
    let waiter = Waiter::take(&mut q);
    assert_eq!(ids(&q.ask("SELECT xqueue.snatch('{q}', 1)")), [1]);
    let (mut next, task) = waiter.task();
    assert_eq!(id(&task), 1);
    former.fails("SELECT xqueue.ack('{q}', 1)", "55006", "task 1 is taken by");
    q.sql("SELECT xqueue.snatch('{q}', 1, delay => '1 hour')");
    assert!(q.holds(1, "status = 'W'"));
    let ack = format!("SELECT xqueue.ack('{}', 1)", q.name);
    expect_error(&mut next, &ack, "55000", "task 1 is not taken by anybody");
    q.fails("SELECT xqueue.snatch('{q}', 1)", "55000", "task 1 is not taken by anybody");
    q.fails("SELECT xqueue.snatch('{q}', 2)", "P0002", "task 2 was not found");
    assert_eq!(q.calls("snatch"), 2);
}
