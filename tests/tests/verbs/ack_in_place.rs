//! An ack first reads the row version that its session wrote when it took the task. This location is a hint: it can be
//! stale. The state machine acks tasks that were changed, released, or taken by others since, or whose take was rolled
//! back.

use xqueue_tests::*;

fn try_ack(q: &mut Queue, id: i64) -> Result<i64, String> {
    let sql = format!("SELECT id FROM xqueue.ack(NULL::{}, $1::bigint)", q.name);
    q.admin.query_one(&sql, &[&id]).map(|row| row.get(0)).map_err(|error| code(&error).to_owned())
}

/// Statements between the take and the ack of the first of three tasks, the answer of the ack, and the number of ready
/// tasks afterwards.
const CASES: [(&str, Result<i64, &str>, i64); 6] = [
    // The row is elsewhere by now.
    ("VACUUM FULL {q}", Ok(1), 2),
    ("DELETE FROM {q} WHERE id = 3; VACUUM {q}; INSERT INTO {q} (id) VALUES (4)", Ok(1), 2),
    ("ALTER TABLE {q} ADD note text DEFAULT clock_timestamp()::text", Ok(1), 2),
    ("BEGIN; UPDATE {q} SET payload = '1' WHERE id = 1; ROLLBACK", Ok(1), 2),
    // The task is no longer this session's.
    ("TRUNCATE {q}; INSERT INTO {q} (id) VALUES (7), (1)", Err("55000"), 2),
    // Another task gets the row's location.
    (
        "DELETE FROM {q} WHERE id = 1; VACUUM {q}; INSERT INTO {q} (id) VALUES (4), (5), (6)",
        Err("P0002"),
        5,
    ),
];

#[test]
fn an_ack_finds_its_task_wherever_it_is() {
    for (sql, expected, ready) in CASES {
        let mut q = Queue::with("in_place", COLUMNS, &json!({}));
        q.sql("INSERT INTO {q} (id) SELECT generate_series(1, 3)");
        assert_eq!(q.takes(1), [1]);
        sql.split("; ").for_each(|statement| q.sql(statement));
        assert_eq!(try_ack(&mut q, 1), expected.map_err(str::to_owned), "{sql}");
        q.assert_tasks(&[("ready", ready), ("taken", 0)]);
    }
}

/// Tasks with equal keys in two queues, and more tasks than a session remembers locations for.
#[test]
fn each_of_many_tasks_of_two_queues() {
    let mut queues = [(); 2].map(|()| Queue::with("in_place", COLUMNS, &json!({})));
    let mut c = queues[0].client();
    for q in &mut queues {
        q.sql("INSERT INTO {q} (id) SELECT generate_series(1, 100)");
        (1..=100).for_each(|id| assert_eq!(ids(&take(&mut c, &q.name, "0", 1)), [id]));
    }
    for id in (1..=100).rev() {
        queues.iter().for_each(|q| assert_eq!(ack(&mut c, &q.name, id).len(), 1));
    }
    queues.iter_mut().for_each(|q| q.assert_tasks(&[("total", 0)]));
}

/// The two greatest keys share a position.
#[test]
fn the_greatest_keys_are_told_apart() {
    let columns = "id uuid PRIMARY KEY, payload jsonb";
    let mut q = Queue::with("in_place", columns, &json!({}));
    let [first, last] =
        ["fffe", "ffff"].map(|end| format!("ffffffff-ffff-ffff-ffff-ffffffff{end}"));
    q.sql(&format!("INSERT INTO {{q}} (id) VALUES ('{first}'), ('{last}')"));
    let ack = |q: &mut Queue, key: &str| {
        let sql = format!("SELECT id::text FROM xqueue.ack(NULL::{}, '{key}'::uuid)", q.name);
        let acked = q.admin.query_one(&sql, &[]).map(|row| row.get::<_, String>(0));
        acked.map_err(|e| code(&e).to_owned())
    };
    q.sql("SELECT xqueue.take('{q}')");
    assert_eq!(ack(&mut q, &last), Err("55000".to_owned()));
    q.sql("SELECT xqueue.take('{q}')");
    assert_eq!(ack(&mut q, &last), Ok(last));
    assert_eq!(ack(&mut q, &first), Ok(first));
    q.assert_tasks(&[("total", 0)]);
}
