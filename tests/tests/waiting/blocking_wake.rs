//! Events that wake a waiting take, and events that do not.

use xqueue_tests::*;

/// Starts a waiter, runs `action`, and asserts that the waiter gets the only task.
#[track_caller]
fn woken_by(q: &mut Queue, action: impl FnOnce(&mut Queue)) -> Value {
    let waiter = Waiter::take(q);
    action(q);
    let (mut client, task) = waiter.task();
    assert_eq!(task["status"], json!("T"), "{task}");
    assert_eq!(status(&mut q.admin, &q.name, id(&task)).as_deref(), Some("T"));
    assert_eq!(ids(&ack(&mut client, &q.name, id(&task))), [id(&task)]);
    task
}

/// Asserts that the waiter still sleeps after an event that could have woken it.
#[track_caller]
fn still_waiting(q: &mut Queue, waiter: &Waiter) {
    wait_until("it waits on", || is_waiting(&mut q.admin, waiter.pid) || waiter.finished());
    assert!(!waiter.finished(), "it was served, or failed");
}

#[test]
fn put() {
    let mut q = Queue::new("wake");
    let task = woken_by(&mut q, |q| {
        xqueue_tests::put(&mut q.admin, &q.name, 7);
    });
    assert_eq!(task["payload"], json!({"n": 7}));
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn put_only_when_it_commits() {
    let mut q = Queue::new("wake");
    let waiter = Waiter::take(&mut q);
    q.sql("BEGIN; SELECT xqueue.put('{q}', '{}')");
    still_waiting(&mut q, &waiter);
    q.sql("COMMIT");
    assert_eq!(waiter.task().1["status"], json!("T"));
}

#[test]
fn plain_insert() {
    let mut q = Queue::new("wake");
    woken_by(&mut q, |q| q.sql("INSERT INTO {q} (payload) VALUES ('1')"));
}

#[test]
fn copy() {
    let mut q = Queue::new("wake");
    woken_by(&mut q, |q| {
        let mut copy = q.admin.copy_in(&format!("COPY {} (payload) FROM STDIN", q.name)).unwrap();
        std::io::Write::write_all(&mut copy, b"{\"n\": 1}\n").unwrap();
        copy.finish().unwrap();
    });
}

#[test]
fn release_by_another_session() {
    let mut q = Queue::new("wake");
    let mut holder = q.client();
    let id = xqueue_tests::put(&mut holder, &q.name, 1);
    assert_eq!(take_all(&mut holder, &q.name), [id]);
    woken_by(&mut q, |q| assert_eq!(release(&mut holder, &q.name, id).len(), 1));
}

#[test]
fn update_by_hand_from_each_state() {
    let mut q = Queue::new("wake");
    for state in ["B", "W", "D", "Z"] {
        q.sql(&format!(
            "INSERT INTO {{q}} (status, runat) VALUES ('{state}', now() + interval '1 hour')"
        ));
        woken_by(&mut q, |q| q.sql("UPDATE {q} SET status = 'R', runat = NULL"));
    }
}

#[test]
fn promotion_of_a_delayed_task() {
    let mut q = Queue::new("wake");
    woken_by(&mut q, |q| q.sql("SELECT xqueue.put('{q}', '{}', '100 milliseconds')"));
}

#[test]
fn rollback_of_anothers_take() {
    let mut q = Queue::new("wake");
    let mut other = q.client();
    xqueue_tests::put(&mut other, &q.name, 1);
    other.batch_execute("BEGIN").unwrap();
    assert_eq!(take_all(&mut other, &q.name).len(), 1);
    woken_by(&mut q, |_| other.batch_execute("ROLLBACK").unwrap());
}

#[test]
fn rollback_to_savepoint_of_anothers_take() {
    let mut q = Queue::new("wake");
    let mut other = q.client();
    xqueue_tests::put(&mut other, &q.name, 1);
    other.batch_execute("BEGIN; SAVEPOINT a; SAVEPOINT b").unwrap();
    assert_eq!(take_all(&mut other, &q.name).len(), 1);
    other.batch_execute("RELEASE b").unwrap();
    woken_by(&mut q, |_| other.batch_execute("ROLLBACK TO a").unwrap());
    other.batch_execute("COMMIT").unwrap();
}

#[test]
fn exception_block_around_anothers_take() {
    let mut q = Queue::new("wake");
    let (name, gate) = (q.name.clone(), pid(&mut q.admin));
    xqueue_tests::put(&mut q.admin, &name, 1);
    q.sql(&format!("SELECT pg_advisory_lock({gate})"));
    let other = Waiter::start(
        q.client(),
        &format!(
            "DO $$ BEGIN PERFORM xqueue.take('{name}'); PERFORM pg_advisory_lock({gate}); RAISE 'no';
             EXCEPTION WHEN raise_exception THEN PERFORM pg_advisory_lock({gate} + 1000000000); END $$"
        ),
    );
    q.sql(&format!("SELECT pg_advisory_lock({gate} + 1000000000)"));
    wait_until("the other has taken it", || {
        let sql = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)";
        scalar(&mut q.admin, sql, &[&other.pid])
    });
    // The other session leaves the block, and is still in its transaction when the waiter gets its task.
    woken_by(&mut q, |q| q.sql(&format!("SELECT pg_advisory_unlock({gate})")));
    assert!(!other.finished());
    q.sql("SELECT pg_advisory_unlock_all()");
    other.join().result.unwrap();
}

#[test]
fn end_of_a_session_inside_its_transaction() {
    let mut q = Queue::new("wake");
    let mut other = q.client();
    xqueue_tests::put(&mut other, &q.name, 1);
    other.batch_execute("BEGIN").unwrap();
    assert_eq!(take_all(&mut other, &q.name).len(), 1);
    woken_by(&mut q, |_| drop(other));
}

#[test]
fn end_of_the_session_that_holds_the_task() {
    let mut q = Queue::new("wake");
    let mut other = q.client();
    xqueue_tests::put(&mut other, &q.name, 1);
    assert_eq!(take_all(&mut other, &q.name).len(), 1);
    woken_by(&mut q, |_| drop(other));
}

#[test]
fn commit_prepared_of_a_put() {
    let mut q = Queue::new("wake");
    let gid = q.name.clone();
    let waiter = Waiter::take(&mut q);
    q.sql(&format!("BEGIN; SELECT xqueue.put('{{q}}', '{{}}'); PREPARE TRANSACTION '{gid}'"));
    still_waiting(&mut q, &waiter);
    q.sql(&format!("COMMIT PREPARED '{gid}'"));
    waiter.task();
}

#[test]
fn rollback_prepared_of_a_put_gives_nothing() {
    let mut q = Queue::new("wake");
    let gid = q.name.clone();
    let waiter = Waiter::take(&mut q);
    q.sql(&format!("BEGIN; SELECT xqueue.put('{{q}}', '{{}}'); PREPARE TRANSACTION '{gid}'"));
    q.sql(&format!("ROLLBACK PREPARED '{gid}'"));
    still_waiting(&mut q, &waiter);
    let id = xqueue_tests::put(&mut q.admin, &q.name, 2);
    assert_eq!(xqueue_tests::id(&waiter.task().1), id);
}

#[test]
fn rolled_back_puts_give_nothing() {
    let mut q = Queue::new("wake");
    let waiter = Waiter::take(&mut q);
    q.sql("BEGIN; SELECT xqueue.put('{q}', '{}'); ROLLBACK");
    q.sql("BEGIN; SAVEPOINT s; SELECT xqueue.put('{q}', '{}'); ROLLBACK TO s; COMMIT");
    still_waiting(&mut q, &waiter);
    let id = xqueue_tests::put(&mut q.admin, &q.name, 2);
    assert_eq!(xqueue_tests::id(&waiter.task().1), id);
}

#[test]
fn another_queue_does_not() {
    let (mut q, mut other) = (Queue::new("wake"), Queue::new("other"));
    let (waiter, served) = (Waiter::take(&mut q), Waiter::take(&mut other));
    other.sql("SELECT xqueue.put('{q}', '[{}, {}, {}]')");
    served.task();
    still_waiting(&mut q, &waiter);
    q.sql("INSERT INTO {q} DEFAULT VALUES");
    waiter.task();
}

/// A take skips a locked row. When the lock is released and the row is still ready, a consumer must get it.
#[test]
fn rollback_of_a_delete_by_hand() {
    let mut q = Queue::new("wake");
    let mut other = q.client();
    xqueue_tests::put(&mut other, &q.name, 1);
    other.batch_execute(&format!("BEGIN; DELETE FROM {}", q.name)).unwrap();
    woken_by(&mut q, |_| other.batch_execute("ROLLBACK").unwrap());
}

#[test]
fn rollback_of_an_update_by_hand() {
    let mut q = Queue::new("wake");
    let mut other = q.client();
    xqueue_tests::put(&mut other, &q.name, 1);
    other.batch_execute(&format!("BEGIN; UPDATE {} SET status = 'B'", q.name)).unwrap();
    woken_by(&mut q, |_| other.batch_execute("ROLLBACK").unwrap());
}

#[test]
fn commit_of_an_update_that_leaves_it_ready() {
    let mut q = Queue::new("wake");
    let mut other = q.client();
    xqueue_tests::put(&mut other, &q.name, 1);
    other.batch_execute(&format!("BEGIN; UPDATE {} SET payload = '2'", q.name)).unwrap();
    let task = woken_by(&mut q, |_| other.batch_execute("COMMIT").unwrap());
    assert_eq!(task["payload"], json!(2));
}

#[test]
fn end_of_a_lock_by_hand() {
    let mut q = Queue::new("wake");
    let mut other = q.client();
    xqueue_tests::put(&mut other, &q.name, 1);
    other.batch_execute(&format!("BEGIN; SELECT FROM {} FOR UPDATE", q.name)).unwrap();
    woken_by(&mut q, |_| other.batch_execute("COMMIT").unwrap());
}

#[test]
fn a_wait_inside_a_block_a_function_or_a_savepoint() {
    let mut q = Queue::new("wake");
    let name = q.name.clone();
    q.sql(&format!(
        "CREATE FUNCTION {name}_f() RETURNS jsonb LANGUAGE plpgsql AS $$ DECLARE t jsonb;
         BEGIN BEGIN SELECT xqueue.take('{name}', '30s') INTO t; RETURN t;
         EXCEPTION WHEN division_by_zero THEN RETURN NULL; END; END $$"
    ));
    let mut c = q.client();
    c.batch_execute("BEGIN; SAVEPOINT a").unwrap();
    let waiter = Waiter::start(c, &format!("SELECT {name}_f()"));
    q.wait_for_consumers(1);
    xqueue_tests::put(&mut q.admin, &name, 1);
    let (mut c, task) = waiter.task();
    c.batch_execute("ROLLBACK").unwrap();
    assert_eq!(status(&mut c, &name, id(&task)).as_deref(), Some("R"));
    q.sql(&format!("DROP FUNCTION {name}_f()"));
}
