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

#[test]
fn a_new_task() {
    let mut q = Queue::new("wake");
    for sql in [
        r#"SELECT xqueue.put('{q}', '{"payload": 7}')"#,
        "INSERT INTO {q} (payload) VALUES ('7')",
        "COPY {q} (payload) FROM PROGRAM 'echo 7'",
        r#"SELECT xqueue.put('{q}', '{"payload": 7}', '100 milliseconds')"#,
    ] {
        println!("{sql}");
        let task = woken_by(&mut q, |q| q.sql(sql));
        assert_eq!(task["payload"], json!(7));
        q.assert_tasks(&[("total", 0)]);
    }
}

/// Another session holds the only task and then lets it go, by its end if no statement is given. waiting.spec has a
/// release and a rollback.
#[test]
fn a_task_that_another_session_lets_go() {
    for (holds, lets_go) in [
        ("SELECT xqueue.take('{q}')", ""),
        ("BEGIN; SELECT xqueue.take('{q}')", ""),
        ("BEGIN; SAVEPOINT a; SAVEPOINT b; SELECT xqueue.take('{q}'); RELEASE b", "ROLLBACK TO a"),
        // A take skips a locked row.
        ("BEGIN; DELETE FROM {q}", "ROLLBACK"),
        ("BEGIN; UPDATE {q} SET status = 'B'", "ROLLBACK"),
        ("BEGIN; UPDATE {q} SET payload = '2'", "COMMIT"),
        ("BEGIN; SELECT FROM {q} FOR UPDATE", "COMMIT"),
    ] {
        println!("{holds}; {lets_go}");
        let mut q = Queue::new("wake");
        let mut other = q.client();
        put(&mut other, &q.name, 1);
        holds.split("; ").for_each(|sql| q.run(&mut other, sql));
        let task = woken_by(&mut q, |q| match lets_go {
            "" => drop(other),
            sql => q.run(&mut other, sql),
        });
        assert_eq!(task["payload"] == json!(2), holds.contains("payload"));
    }
}

#[test]
fn update_by_hand_from_each_state() {
    let mut q = Queue::new("wake");
    for state in ["B", "W", "D", "Z"] {
        q.sql(&format!("INSERT INTO {{q}} (status, runat) VALUES ('{state}', 'infinity')"));
        woken_by(&mut q, |q| q.sql("UPDATE {q} SET status = 'R', runat = NULL"));
    }
}

#[test]
fn a_wait_inside_a_block_a_function_or_a_savepoint() {
    let mut q = Queue::new("wake");
    q.sql(
        "CREATE FUNCTION {q}_f() RETURNS jsonb LANGUAGE plpgsql AS $$ DECLARE t jsonb;
         BEGIN BEGIN SELECT xqueue.take('{q}', '30s') INTO t; RETURN t;
         EXCEPTION WHEN division_by_zero THEN RETURN NULL; END; END $$",
    );
    let mut c = q.client();
    c.run("BEGIN; SAVEPOINT a");
    let waiter = Waiter::waiting_in(&mut q, c, "SELECT {q}_f()");
    put(&mut q.admin, &q.name, 1);
    let (mut c, task) = waiter.task();
    c.run("ROLLBACK");
    assert_eq!(status(&mut c, &q.name, id(&task)).as_deref(), Some("R"));
    q.sql("DROP FUNCTION {q}_f()");
}

/// A check of prepared transactions that comes earlier finds this one still open.
#[test]
fn commit_prepared_of_a_resume() {
    let mut q = Queue::new("wake");
    put(&mut q.admin, &q.name, 1);
    q.sql("SELECT xqueue.pause('{q}')");
    let waiter = Waiter::take(&mut q);
    q.sql("BEGIN; SELECT xqueue.resume('{q}'); PREPARE TRANSACTION '{q}'");
    let mut other = Queue::new("wake");
    other.sql("BEGIN; SELECT xqueue.put('{q}', '{}'); PREPARE TRANSACTION '{q}'");
    other.sql("COMMIT PREPARED '{q}'");
    other.assert_exact();
    wait_until("it waits on", || is_waiting(&mut q.admin, waiter.pid) || waiter.finished());
    assert!(!waiter.finished(), "it was served, or failed");
    q.sql("COMMIT PREPARED '{q}'");
    waiter.task();
}

#[test]
fn commit_prepared_of_a_greater_capacity() {
    for capacity in [json!(5), json!(false)] {
        let mut q = Queue::limited("wake", 1, 1);
        let producer = Waiter::put(&mut q, &json!({}));
        q.sql("BEGIN");
        q.upgrade(&json!({"features": {"capacity": capacity}}));
        q.sql("PREPARE TRANSACTION '{q}'");
        q.sql("COMMIT PREPARED '{q}'");
        assert_eq!(producer.tasks().len(), 1, "{capacity}");
    }
}
