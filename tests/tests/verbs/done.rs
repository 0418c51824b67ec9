//! Acks in batches, and an ack and a take in one call: take(done => …), CALL next with arrays.

use xqueue_tests::*;

fn filled(features: &Value, tasks: i64) -> Queue {
    let mut q = Queue::with("done", COLUMNS, features);
    q.sql(&format!("INSERT INTO {{q}} (id) SELECT generate_series(1, {tasks})"));
    q
}

fn take_done(q: &mut Queue, count: i32, done: &str) -> Vec<i64> {
    let sql = format!("SELECT xqueue.take('{{q}}', '10s', {count}, done => {done})");
    ids(&q.ask(&sql))
}

#[test]
fn ack_and_take_in_one_call() {
    let mut q = filled(&json!({}), 5);
    assert_eq!(take_done(&mut q, 1, "NULL::bigint"), [1]);
    assert_eq!(take_done(&mut q, 1, "1"), [2]);
    assert_eq!(take_done(&mut q, 2, "'2'"), [3, 4]);
    assert_eq!(take_done(&mut q, 2, "ARRAY[4, 3]"), [5]);
    q.assert_tasks(&[("total", 1), ("taken", 1)]);
    assert_eq!((q.calls("take"), q.calls("ack")), (5, 4));
    // The call does not wait for a task, which would delay the commit of the ack.
    assert_eq!(take_done(&mut q, 1, "'{5}'"), [0; 0]);
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn with_nothing_done_it_waits() {
    let mut q = filled(&json!({}), 0);
    let sql = format!("SELECT xqueue.take('{}', '30s', done => '{{}}'::bigint[])", q.name);
    let waiter = Waiter::waiting(&mut q, &sql);
    let id = put(&mut q.admin, &q.name, 1);
    assert_eq!(waiter.task().1["id"], id);
}

#[test]
fn what_is_not_mine_is_not_done_and_nothing_is_taken() {
    let mut q = filled(&json!({}), 3);
    assert_eq!(take_done(&mut q, 1, "NULL::bigint"), [1]);
    for (done, states, words) in [
        ("2", "55000", "task 2 is not taken by anybody"),
        ("ARRAY[1, 2]", "55000", "task 2 is not taken by anybody"),
        ("ARRAY[1, 7]", "P0002", "task 7 was not found"),
        ("ARRAY[1, 1]", "P0002", "task 1 was not found"),
        ("ARRAY[1, NULL]", "22004", "id"),
        ("'x'", "22P02", "x"),
    ] {
        q.fails(&format!("SELECT xqueue.take('{{q}}', done => {done})"), states, words);
        q.assert_tasks(&[("taken", 1), ("ready", 2)]);
    }
}

/// A batch is one statement, and still the error names the task that stops it.
#[test]
fn batches_are_all_or_nothing() {
    let mut q = filled(&json!({"features": {"buried": true, "delayed": true}}), 300);
    let taken = q.ask("SELECT xqueue.take('{q}', count => 200)");
    assert_eq!(taken.len(), 200);
    for call in ["ack", "release", "bury"] {
        let sql = format!("SELECT xqueue.{call}('{{q}}', ARRAY[5, 6, 250, 7])");
        q.fails(&sql, "55000", "task 250 is not taken by anybody");
        let sql = format!("SELECT xqueue.{call}('{{q}}', ARRAY[5, 6, 5])");
        q.fails(&sql, "P0002 55000", "task 5 ");
        q.assert_tasks(&[("taken", 200), ("ready", 100)]);
    }
    let all = |verb: &str, from: i64, upto: i64| {
        format!("SELECT xqueue.{verb}('{{q}}', ARRAY(SELECT generate_series({from}, {upto})))")
    };
    assert_eq!(q.ask(&all("ack", 1, 100)).len(), 100);
    assert_eq!(q.ask(&all("release", 101, 150)).len(), 50);
    assert_eq!(q.ask(&all("bury", 151, 200)).len(), 50);
    assert_eq!(q.ask(&all("dig", 151, 160)).len(), 10);
    q.assert_tasks(&[("taken", 0), ("ready", 160), ("buried", 40), ("total", 200)]);
    let calls = ["ack", "release", "bury", "kick"].map(|call| q.calls(call));
    assert_eq!(calls, [100, 50, 50, 10]);
    assert!(q.ask("SELECT xqueue.delete('{q}', '{}'::bigint[])").is_empty());
}

#[test]
fn next_in_batches() {
    let mut q = filled(&json!({}), 250);
    let sql = "CALL xqueue.next($1::text, '0', task => $2::jsonb, count => 100)";
    let mut batch: Option<Value> = None;
    for expected in [100, 100, 50] {
        batch = scalar(&mut q.admin, sql, &[&q.name, &batch]);
        let tasks = batch.as_ref().and_then(Value::as_array).expect("an array");
        assert_eq!(tasks.len(), expected);
        assert!(tasks.iter().all(|task| task["status"] == "T"));
        q.assert_tasks(&[("taken", expected as i64)]);
    }
    batch = scalar(&mut q.admin, sql, &[&q.name, &batch]);
    assert_eq!(batch, None);
    q.assert_tasks(&[("total", 0)]);
    assert_eq!((q.calls("take"), q.calls("ack")), (250, 250));
    q.fails("CALL xqueue.next('{q}', '0', count => 0)", "22023", "count must be at least 1");
}
