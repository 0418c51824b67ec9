//! CALL xqueue.next: the consumer's loop in one call, which holds no snapshot and no lock while it waits.

use xqueue_tests::*;

/// Runs one turn of the loop; None after the timeout.
#[track_caller]
fn next(c: &mut Client, queue: &str, timeout: &str, done: Option<&Value>) -> Option<Value> {
    let sql = "CALL xqueue.next($1::text, $2::text::interval, task => $3::jsonb)";
    c.query_one(sql, &[&queue, &timeout, &done]).unwrap_or_else(|e| panic!("{e:?}")).get(0)
}

fn call(q: &Queue, timeout: &str) -> String {
    format!("CALL xqueue.next('{}', '{timeout}')", q.name)
}

#[test]
fn the_loop() {
    let mut q = Queue::new("next");
    let name = q.name.clone();
    let all: Vec<i64> = (0..12).map(|n| put(&mut q.admin, &name, n)).collect();
    let mut c = q.client();
    let (mut seen, mut task) = (Vec::new(), None);
    loop {
        task = next(&mut c, &name, "50 milliseconds", task.as_ref());
        let Some(task) = &task else { break };
        seen.push(id(task));
        assert_eq!(status(&mut q.admin, &name, id(task)).as_deref(), Some("T"), "committed");
        let left = 12 - seen.len() as i64 + 1;
        assert_eq!(scalar::<i64>(&mut q.admin, &format!("SELECT count(*) FROM {name}"), &[]), left);
    }
    assert_eq!(seen, all);
    q.assert_tasks(&[("total", 0)]);
    assert_eq!((q.calls("take"), q.calls("ack")), (12, 12));
}

#[test]
fn a_task_that_is_not_mine() {
    let mut q = Queue::new("next");
    let name = q.name.clone();
    let mut other = q.client();
    put(&mut other, &name, 1);
    let theirs = take(&mut other, &name, "0", 1).remove(0);
    put(&mut other, &name, 2);
    let mine = pid(&mut q.admin);
    let words =
        format!("task {} is taken by {}, not by you ({mine})", id(&theirs), pid(&mut other));
    let sql = format!("CALL xqueue.next('{name}', '1s', task => '{theirs}')");
    expect_error(&mut q.admin, &sql, "55006", &words);
    q.assert_tasks(&[("taken", 1), ("ready", 1)]);
    expect_error(
        &mut q.admin,
        &format!("CALL xqueue.next('{name}', '1s', task => '{{\"id\": 77777}}')"),
        "P0002",
        "task 77777 was not found",
    );
    expect_error(
        &mut q.admin,
        &format!("CALL xqueue.next('{name}', '1s', task => '{{}}')"),
        "22004 22023 42703",
        "",
    );
    q.assert_tasks(&[("taken", 1), ("ready", 1)]);
}

#[test]
fn it_is_woken_by_a_put() {
    let mut q = Queue::new("next");
    let name = q.name.clone();
    let sql = format!("CALL xqueue.next('{name}')");
    let waiter = Waiter::waiting(&mut q, &sql);
    let id = put(&mut q.admin, &name, 1);
    let (mut client, task) = waiter.task();
    assert_eq!(xqueue_tests::id(&task), id);
    assert_eq!(status(&mut q.admin, &name, id).as_deref(), Some("T"), "committed");
    assert_eq!(ack(&mut client, &name, id).len(), 1);
}

#[test]
fn it_holds_no_snapshot_and_no_lock_while_it_waits() {
    let mut q = Queue::new("next");
    let name = q.name.clone();
    // The call first acks a task, so that it has something to hold.
    put(&mut q.admin, &name, 1);
    let mut c = q.client();
    let task = next(&mut c, &name, "1s", None).unwrap();
    let waiter = Waiter::start(c, &format!("CALL xqueue.next('{name}', '30s', task => '{task}')"));
    q.wait_for_consumers(1);
    assert_eq!(status(&mut q.admin, &name, id(&task)), None, "the ack is committed already");
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
    let mut q = Queue::new("next");
    let name = q.name.clone();
    put(&mut q.admin, &name, 1);
    let mut c = q.client();
    let task = next(&mut c, &name, "1s", None).unwrap();
    let waiter = Waiter::start(c, &format!("CALL xqueue.next('{name}', '30s', task => '{task}')"));
    q.wait_for_consumers(1);
    waiter.cancel(&mut q.admin);
    let (mut c, error) = waiter.error();
    assert_eq!(error.code().code(), "57014");
    q.wait_for_consumers(0);
    q.assert_tasks(&[("total", 0)]);
    put(&mut q.admin, &name, 2);
    assert_eq!(next(&mut c, &name, "10s", None).unwrap()["payload"], json!({"n": 2}));
}

#[test]
fn its_wake_up_goes_on_when_its_client_dies() {
    let mut q = Queue::new("next");
    let sql = call(&q, "30s");
    let first = Waiter::waiting(&mut q, &sql);
    let second = Waiter::waiting(&mut q, &sql);
    q.sql(&format!(
        "BEGIN; SELECT pg_terminate_backend({}); SELECT xqueue.put('{{q}}', '{{}}'); COMMIT",
        first.pid
    ));
    // If the first consumer got a task before it ended, the task is ready again when its connection closes.
    drop(first.join());
    second.task();
}

#[test]
fn the_row_form_at_the_top() {
    let mut q = Queue::new("next");
    let name = q.name.clone();
    let id = put(&mut q.admin, &name, 1);
    let messages = q.admin.simple_query(&format!("CALL xqueue.next(NULL::{name}, '1s')")).unwrap();
    let row = messages.iter().find_map(|m| match m {
        postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    assert!(row.unwrap().starts_with(&format!("({id},")));
    assert_eq!(status(&mut q.admin, &name, id).as_deref(), Some("T"));
}

#[test]
fn dropped_while_it_waits() {
    let mut q = Queue::new("next");
    let sql = call(&q, "30s");
    let waiter = Waiter::waiting(&mut q, &sql);
    q.sql("SET lock_timeout = '10s'; DROP TABLE {q}");
    q.abandon();
    assert_eq!(waiter.error().1.code().code(), "42P01");
}
