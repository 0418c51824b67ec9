//! The tasks of a session come back when its connection ends, by whichever path the session took them. The worker reads
//! the tasks that the session has noted. If the session may have taken others too, the worker scans all taken tasks.

mod by_hand;

use xqueue_tests::*;

/// Exceeds the size of a large batch.
const MANY: i64 = 700;

/// Creates a queue with `tasks` ready tasks, and opens a connection.
fn filled(features: Value, tasks: i64) -> (Queue, Client) {
    let mut q = Queue::with("held", COLUMNS, &json!({ "features": features }));
    q.sql(&format!("INSERT INTO {{q}} (id) SELECT generate_series(1, {tasks})"));
    let c = q.client();
    (q, c)
}

fn own_session(c: &mut Client) -> String {
    scalar(c, "SELECT xqueue.identify()::text", &[])
}

/// Ends the connection and waits until `ready` tasks are ready. Before the end the session knows its tasks, or knows
/// that its notes are incomplete.
#[track_caller]
fn ends(q: &mut Queue, mut c: Client, ready: i64) {
    let report: Value = scalar(&mut c, "SELECT xqueue.check($1::text)", &[&q.name]);
    assert_eq!(report["ok"], true, "{report}");
    drop(c);
    q.wait_for("ready", ready);
    q.wait_for("taken", 0);
}

/// The number of tasks of a queue, and the statements of a session. Then the session holds the second number of tasks;
/// after its end the third number is ready.
const SESSIONS: [([i64; 3], &str); 10] = [
    // Taken and acked in one transaction.
    (
        [20, 1, 11],
        r#"SELECT xqueue.upgrade('{q}', '{"features": {"ttr": 600}}'); BEGIN;
        SELECT count(*) FROM xqueue.take(NULL::{q}, count => 5) AS t, xqueue.ack(t);
        WITH mine AS MATERIALIZED (
            SELECT array_agg(id) AS ids FROM xqueue.take(NULL::{q}, count => 5))
        SELECT count(*) FROM mine, xqueue.ack('{q}', mine.ids[2:]); COMMIT"#,
    ),
    // Tasks that are only counted, not noted, are replaced by others without a change of the count.
    (
        [9, 2, 7],
        "SELECT xqueue.take('{q}'); SELECT xqueue.take('{q}');
        SELECT xqueue.take('{q}', '0', 2, done => ARRAY[1, 2]::bigint[])",
    ),
    (
        [9, 1, 8],
        "SELECT xqueue.take('{q}');
        BEGIN ISOLATION LEVEL REPEATABLE READ;
        SELECT xqueue.ack('{q}', 1); SELECT xqueue.take('{q}'); COMMIT",
    ),
    (
        [310, 256, 266],
        r#"SELECT xqueue.upgrade('{q}', '{"features": {"ttr": 600}}');
        BEGIN; SELECT xqueue.take('{q}', '0', 300); SELECT xqueue.ack('{q}', 1); COMMIT;
        SELECT xqueue.ack('{q}', id) FROM generate_series(257, 299) AS id"#,
    ),
    // The triggers of a statement report its changes only at its end, after the take or the ack inside it.
    (
        [1, 1, 1],
        "SELECT xqueue.take('{q}');
        WITH back AS (UPDATE {q} SET status = 'R', owner = NULL WHERE id = 1 RETURNING id)
        SELECT xqueue.take('{q}', id => back.id) FROM back",
    ),
    (
        [3, 1, 1],
        "SELECT xqueue.take('{q}', count => 2); BEGIN ISOLATION LEVEL REPEATABLE READ;
        UPDATE {q} SET status = 'T', owner = '{session}' WHERE id = 3
        RETURNING (SELECT count(*) FROM xqueue.ack('{q}', 3)); COMMIT; SELECT xqueue.ack('{q}', 1)",
    ),
    // Sub-queues.
    (
        [0, 3, 32],
        r#"SELECT xqueue.upgrade('{q}', '{"features": {"utube": true}}');
        INSERT INTO {q} (tube) SELECT i % 4 FROM generate_series(1, 40) i;
        SELECT count(*) FROM xqueue.take(NULL::{q}, count => 4) AS t, xqueue.ack(t);
        SELECT count(*) FROM xqueue.take(NULL::{q}, count => 4) AS t, xqueue.ack(t);
        SELECT count(*) FROM xqueue.take(NULL::{q}, count => 3)"#,
    ),
    // By hand, also with another key, or in a prepared transaction.
    (
        [4, 3, 5],
        "UPDATE {q} SET status = 'T', owner = '{session}' WHERE id IN (1, 2);
        UPDATE {q} SET id = 7000 WHERE id = 2;
        INSERT INTO {q} (id, status, owner) VALUES (8000, 'T', '{session}')",
    ),
    (
        [2, 1, 2],
        "BEGIN; UPDATE {q} SET status = 'T', owner = '{session}' WHERE id = 1;
        PREPARE TRANSACTION '{q}'; COMMIT PREPARED '{q}'",
    ),
    (
        [3, 1, 1],
        "SELECT xqueue.take('{q}', count => 2);
        SELECT xqueue.take('{q}', done => ARRAY[1, 2])",
    ),
];

#[test]
fn tasks_come_back_whatever_the_session_did() {
    for ([tasks, held, ready], statements) in SESSIONS {
        println!("{statements}");
        let (mut q, mut c) = filled(json!({}), tasks);
        let session = statements.contains("{session}").then(|| own_session(&mut c));
        for sql in statements.split(';') {
            q.run(&mut c, &sql.replace("{session}", session.as_deref().unwrap_or_default()));
        }
        q.assert_tasks(&[("taken", held)]);
        ends(&mut q, c, ready);
    }
}

#[test]
fn by_next() {
    let (mut q, mut c) = filled(json!({}), 5);
    let mut task: Option<Value> = None;
    for _ in 0..3 {
        let sql = "CALL xqueue.next($1::text, '0', task => $2::jsonb)";
        task = c.query_one(sql, &[&q.name, &task]).unwrap().get(0);
    }
    ends(&mut q, c, 3);
}

#[test]
fn in_batches_and_more_than_are_noted() {
    for features in [json!({}), json!({"ttr": 600}), json!({"tube": true})] {
        let (mut q, mut c) = filled(features, 3 * MANY);
        let first = ids(&take(&mut c, &q.name, "0", MANY as i32));
        let second = ids(&take(&mut c, &q.name, "0", MANY as i32));
        // Acks some tasks one by one and the rest in one call.
        first[..50].iter().for_each(|id| drop(ack(&mut c, &q.name, *id)));
        let rest: Vec<i64> =
            first[50..].iter().chain(&second[..MANY as usize - 1]).copied().collect();
        let sql = format!("SELECT count(a) FROM xqueue.ack('{}', $1::bigint[]) AS a", q.name);
        assert_eq!(scalar::<i64>(&mut c, &sql, &[&rest]), 2 * MANY - 51);
        ends(&mut q, c, MANY + 1);
        // The session has noted exactly one task.
        let mut c = q.client();
        let batch = ids(&take(&mut c, &q.name, "0", MANY as i32));
        assert_eq!(scalar::<i64>(&mut c, &sql, &[&batch]), MANY);
        take(&mut c, &q.name, "0", 1);
        ends(&mut q, c, 1);
    }
}

/// Another session truncates the queue, or downgrades and upgrades it.
#[test]
fn after_another_session_has_changed_the_queue() {
    let upgraded = r#"BEGIN; SELECT xqueue.downgrade('{q}');
        SELECT xqueue.upgrade('{q}', '{"fields": {"status": "status", "owner": "owner"}}'); COMMIT"#;
    for change in [upgraded, "TRUNCATE {q}; INSERT INTO {q} (id) VALUES (1), (2), (3)"] {
        let (mut q, mut c) = filled(json!({}), 3);
        q.run(&mut c, "SELECT xqueue.take('{q}')");
        q.sql(change);
        q.run(&mut c, "SELECT xqueue.take('{q}')");
        ends(&mut q, c, 3);
    }
}

/// Another connection joins its session, or it joins the session of the other one.
#[test]
fn in_a_session_of_two_connections() {
    for opens in [true, false] {
        let (mut q, mut c) = filled(json!({}), 3);
        q.run(&mut c, "SELECT xqueue.take('{q}')");
        let mut other = q.client();
        let (opener, joiner) = if opens { (&mut c, &mut other) } else { (&mut other, &mut c) };
        let session: String = scalar(opener, "SELECT xqueue.identify(grace => '50 ms')::text", &[]);
        let join = format!("SELECT xqueue.identify('{session}'); SELECT xqueue.take('{{q}}')");
        q.run(joiner, &join);
        let (first, last) = if opens { (other, c) } else { (c, other) };
        drop(first);
        q.wait_for("ready", if opens { 1 } else { 2 });
        ends(&mut q, last, 3);
    }
}

/// Keys without positions, and the greatest uuid and the one before it.
#[test]
fn with_keys_of_other_types() {
    let acked = "SELECT FROM xqueue.take(NULL::{q}) AS t, xqueue.ack(t)";
    for (key, tasks) in [
        ("id text PRIMARY KEY", "generate_series(1, 9)::text"),
        ("id int, part int DEFAULT 1, PRIMARY KEY (id, part)", "generate_series(1, 9)"),
        (
            "id uuid PRIMARY KEY",
            "('ffffffff-ffff-ffff-ffff-fffffffffff' || to_hex(generate_series(7, 15)))::uuid",
        ),
    ] {
        let mut q = Queue::with("held", key, &json!({}));
        q.sql(&format!("INSERT INTO {{q}} (id) SELECT {tasks}"));
        let mut c = q.client();
        q.run(&mut c, "SELECT count(*) FROM xqueue.take(NULL::{q}, count => 3)");
        q.run(&mut c, acked);
        ends(&mut q, c, 8);
        let mut c = q.client();
        q.run(&mut c, "SELECT count(*) FROM xqueue.take(NULL::{q}, count => 8)");
        q.run(
            &mut c,
            "SELECT xqueue.ack(t) FROM (SELECT t FROM {q} AS t ORDER BY id DESC LIMIT 1) AS x",
        );
        ends(&mut q, c, 7);
    }
}

#[test]
fn of_many_queues() {
    let mut queues: Vec<Queue> = (0..12).map(|_| filled(json!({}), 2).0).collect();
    let mut c = queues[0].client();
    for ack in [", xqueue.ack(t)", ""] {
        c.run("BEGIN");
        for q in &queues {
            q.run(&mut c, &format!("SELECT FROM xqueue.take(NULL::{{q}}) AS t{ack}"));
        }
        c.run("COMMIT");
    }
    drop(c);
    queues.iter_mut().for_each(|q| q.wait_for("ready", 1));
}

/// A prepared transaction gives a session a task while the triggers are off.
#[test]
fn tasks_given_unreported_by_a_prepared_transaction_come_back() {
    let (mut q, mut consumer) = filled(json!({}), 1);
    let own = own_session(&mut consumer);
    q.run(&mut consumer, "SELECT xqueue.take('{q}')");
    q.run(&mut consumer, "SELECT xqueue.release('{q}', 1)");
    q.sql(&format!(
        "BEGIN; ALTER TABLE {{q}} DISABLE TRIGGER xqueue_update;
         UPDATE {{q}} SET status = 'T', owner = '{own}';
         ALTER TABLE {{q}} ENABLE ALWAYS TRIGGER xqueue_update;
         PREPARE TRANSACTION '{{q}}'"
    ));
    q.sql("COMMIT PREPARED '{q}'");
    q.assert_tasks(&[("taken", 1)]);
    drop(consumer);
    q.wait_for("ready", 1);
}
