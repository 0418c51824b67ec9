//! `if_held` of ack, release, bury and touch: a task that this session has lost gives no row instead of an error. The
//! state machine tries it with tasks in all states, in batches and with savepoints.

use xqueue_tests::*;

/// Makes a queue with tasks 1 to `tasks`, of which this session takes `taken`.
fn filled(options: &Value, tasks: i64, taken: i32) -> Queue {
    let mut q = Queue::with("held", COLUMNS, options);
    q.sql(&format!("INSERT INTO {{q}} (id) SELECT generate_series(1, {tasks})"));
    assert_eq!(q.takes(taken).len(), taken as usize);
    q
}

fn features() -> Value {
    json!({"features": {"buried": true, "delayed": true, "ttr": "1 hour", "retry": {}}})
}

/// Acks tasks with `if_held` and returns their ids in order.
fn acked(q: &mut Queue, tasks: &str) -> Vec<i64> {
    let mut acked = ids(&q.ask(&format!("SELECT xqueue.ack('{{q}}', {tasks}, if_held => true)")));
    acked.sort_unstable();
    acked
}

/// The direct path acks the tasks before the first lost one, a statement the others.
#[test]
fn an_ack_on_the_direct_path() {
    let mut q = filled(&json!({}), 300, 200);
    let mut other = q.session();
    q.sql("SELECT xqueue.release('{q}', 100)");
    assert_eq!(other.ask("SELECT xqueue.take('{q}', id => 100)").len(), 1);
    for direct in ["on", "off"] {
        q.sql(&format!("SET xqueue.direct_path = {direct}; BEGIN"));
        let all = "ARRAY(SELECT generate_series(1, 301))";
        let expected: Vec<i64> = (1..=200).filter(|id| *id != 100).collect();
        assert_eq!(acked(&mut q, all), expected, "{direct}");
        assert_eq!(acked(&mut q, all), [0; 0]);
        q.sql("ROLLBACK; RESET xqueue.direct_path");
    }
    // A task that is named twice is acked once.
    assert_eq!(acked(&mut q, "ARRAY[7, 7]"), [7]);
    q.assert_tasks(&[("total", 299), ("taken", 199)]);
}

#[test]
fn a_row_gives_its_key() {
    let mut q = filled(&features(), 2, 1);
    let sql = "SELECT to_jsonb(t) FROM {q} AS j, LATERAL xqueue.release(j, if_held => true) AS t";
    assert_eq!(ids(&q.ask(sql)), [1]);
    assert!(q.ask(sql).is_empty());
}

#[test]
fn other_errors_stay() {
    let mut q = filled(&features(), 2, 2);
    for (call, state, words) in [
        ("ack('{q}', 'x', if_held => true)", "22P02", "x"),
        ("ack('{q}', NULL::bigint, if_held => true)", "22004", "id"),
        ("ack('{q}', 9, update => '{\"payload\": 1}', if_held => true)", "0A000", "cannot update"),
        ("release('{q}', 9, update => '{\"nothing\": 1}', if_held => true)", "42703", "nothing"),
        ("release('no_queue', 9, if_held => true)", "42P01", "no_queue"),
    ] {
        q.fails(&format!("SELECT xqueue.{call}"), state, words);
    }
    let role = Role::create();
    let call = format!("SELECT xqueue.release('{}', 9, if_held => true)", q.name);
    expect_error(&mut role.client(), &call, "42501", "permission denied");
    // A trigger keeps the task, which is still held.
    q.sql(
        "CREATE FUNCTION pg_temp.keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER keep BEFORE UPDATE OR DELETE ON {q} FOR EACH ROW WHEN (OLD.id = 1) EXECUTE FUNCTION pg_temp.keep()",
    );
    let touch = ("touch", "increment => '1 min', ");
    for (verb, given) in [("ack", ""), ("release", ""), ("bury", ""), touch] {
        q.fails(
            &format!("SELECT xqueue.{verb}('{{q}}', ARRAY[9, 1], {given}if_held => true)"),
            "55000",
            "task 1 was left unchanged",
        );
    }
    q.sql("DROP TRIGGER keep ON {q}");
    q.assert_tasks(&[("taken", 2)]);
}
