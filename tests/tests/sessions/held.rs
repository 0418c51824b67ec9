//! The tasks of a session come back when its connection ends, by whichever path the session took them. The worker reads
//! the tasks that the session has noted. If the session may have taken others too, the worker scans all taken tasks.

mod by_hand;

use xqueue_tests::*;

/// Exceeds the size of a large batch.
const MANY: i64 = 700;

fn queue(features: Value) -> Queue {
    Queue::with("held", COLUMNS, &json!({ "features": features }))
}

/// Creates a queue with `tasks` ready tasks, and opens a connection.
fn filled(features: Value, tasks: i64) -> (Queue, Client) {
    let mut q = queue(features);
    q.sql(&format!("INSERT INTO {{q}} (id) SELECT generate_series(1, {tasks})"));
    let c = q.client();
    (q, c)
}

fn run(c: &mut Client, q: &Queue, sql: &str) {
    let sql = sql.replace("{q}", &q.name);
    c.batch_execute(&sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
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

#[test]
fn tasks_in_hand_beside_many_that_were_acked() {
    let (mut q, mut c) = filled(json!({}), 100);
    for _ in 0..20 {
        let taken = ids(&take(&mut c, &q.name, "0", 1));
        ack(&mut c, &q.name, taken[0]);
    }
    take(&mut c, &q.name, "0", 1);
    ends(&mut q, c, 80);
}

#[test]
fn none_is_left_by_a_session_that_has_acked_all() {
    let (mut q, mut c) = filled(json!({}), 3);
    run(&mut c, &q, "SELECT count(*) FROM xqueue.take(NULL::{q}, count => 3) AS t, xqueue.ack(t)");
    ends(&mut q, c, 0);
}

#[test]
fn by_done_and_next() {
    let (mut q, mut c) = filled(json!({}), 10);
    for done in ["NULL::bigint", "1", "2", "ARRAY[3]"] {
        run(&mut c, &q, &format!("SELECT xqueue.take('{{q}}', done => {done})"));
    }
    ends(&mut q, c, 7);
    let mut c = q.client();
    let mut task: Option<Value> = None;
    for _ in 0..3 {
        let sql = "CALL xqueue.next($1::text, '0', task => $2::jsonb)";
        task = c.query_one(sql, &[&q.name, &task]).unwrap().get(0);
    }
    ends(&mut q, c, 5);
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

#[test]
fn taken_and_acked_in_one_transaction() {
    let (mut q, mut c) = filled(json!({"ttr": 600}), 40);
    for _ in 0..3 {
        run(
            &mut c,
            &q,
            "BEGIN;
             SELECT count(*) FROM xqueue.take(NULL::{q}, count => 5) AS t, xqueue.ack(t);
             WITH mine AS MATERIALIZED (SELECT array_agg(id) AS ids FROM xqueue.take(NULL::{q}, count => 5))
             SELECT count(*) FROM mine, xqueue.ack('{q}', mine.ids[2:]);
             COMMIT",
        );
    }
    ends(&mut q, c, 13);
}

#[test]
fn some_of_a_few_that_were_taken_at_once() {
    for features in [json!({}), json!({"ttr": 600}), json!({"retry": true})] {
        let (mut q, mut c) = filled(features, 60);
        for _ in 0..3 {
            let taken = ids(&take(&mut c, &q.name, "0", 16));
            taken[..6].iter().for_each(|id| drop(ack(&mut c, &q.name, *id)));
            let sql = format!("SELECT xqueue.ack('{{q}}', ARRAY{:?}::bigint[])", &taken[6..14]);
            run(&mut c, &q, &sql);
        }
        ends(&mut q, c, 18);
    }
}

/// Tasks that are only counted, not noted, can be replaced by others without a change of the count.
#[test]
fn others_in_their_stead() {
    let fixed = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT xqueue.ack('{q}', 1); SELECT xqueue.take('{q}'); COMMIT";
    let (two, three) = ("SELECT xqueue.take('{q}', '0', 2", "SELECT xqueue.take('{q}', '0', 300)");
    let both = format!("{two}, done => ARRAY[1, 2]::bigint[])");
    let rest: String = (257..300).map(|id| format!("SELECT xqueue.ack('{{q}}', {id});")).collect();
    for (features, before, then) in [
        (json!({}), vec!["SELECT xqueue.take('{q}')"; 2], both.as_str()),
        (json!({}), vec!["SELECT xqueue.take('{q}')"], fixed),
        (
            json!({}),
            vec!["SELECT xqueue.take('{q}')", &format!("{two})")],
            "SELECT xqueue.ack('{q}', '{1, 2}')",
        ),
        (
            json!({"ttr": 600}),
            vec!["BEGIN", three, "SELECT xqueue.ack('{q}', 1)", "COMMIT"],
            rest.as_str(),
        ),
    ] {
        let (mut q, mut c) = filled(features, 310);
        before.iter().for_each(|sql| run(&mut c, &q, sql));
        run(&mut c, &q, then);
        let left = scalar(&mut q.admin, &format!("SELECT count(*) FROM {}", q.name), &[]);
        ends(&mut q, c, left);
    }
}

/// The triggers of a statement report its changes only at its end, after the take inside it.
#[test]
fn taken_again_by_the_statement_that_gives_it_back() {
    let (mut q, mut c) = filled(json!({}), 1);
    run(&mut c, &q, "SELECT xqueue.take('{q}')");
    run(
        &mut c,
        &q,
        "WITH back AS (UPDATE {q} SET status = 'R', owner = NULL WHERE id = 1 RETURNING id)
         SELECT xqueue.take('{q}', id => back.id) FROM back",
    );
    assert_eq!(status(&mut q.admin, &q.name, 1).as_deref(), Some("T"));
    ends(&mut q, c, 1);
}

#[test]
fn what_is_undone_is_not_noted_and_what_stays_is() {
    let (mut q, mut c) = filled(json!({}), 10);
    run(
        &mut c,
        &q,
        "BEGIN;
         SELECT xqueue.take('{q}'); SAVEPOINT a;
         SELECT xqueue.take('{q}'); SAVEPOINT b;
         SELECT xqueue.ack('{q}', 1); SELECT xqueue.take('{q}');
         ROLLBACK TO b; SELECT xqueue.release('{q}', 2); RELEASE a;
         COMMIT;
         BEGIN; SELECT xqueue.take('{q}'); SELECT xqueue.ack('{q}', 1); ROLLBACK;",
    );
    assert_eq!(status(&mut q.admin, &q.name, 1).as_deref(), Some("T"));
    ends(&mut q, c, 10);
}

#[test]
fn a_task_that_was_given_back_by_the_worker_and_taken_again() {
    let (mut q, mut c) = filled(json!({"ttr": "30 ms"}), 1);
    for _ in 0..3 {
        assert_eq!(ids(&take(&mut c, &q.name, "0", 1)), [1]);
        q.wait_for("ready", 1);
    }
    run(&mut c, &q, "SELECT xqueue.take('{q}', ttr => '1 hour')");
    ends(&mut q, c, 1);
}

#[test]
fn after_the_queue_was_made_anew() {
    let (mut q, mut c) = filled(json!({}), 3);
    run(&mut c, &q, "SELECT xqueue.take('{q}')");
    let anew = r#"{"fields": {"status": "status", "owner": "owner"}}"#;
    q.sql(&format!(
        "BEGIN; SELECT xqueue.downgrade('{{q}}'); SELECT xqueue.upgrade('{{q}}', '{anew}'); COMMIT"
    ));
    run(&mut c, &q, "SELECT xqueue.take('{q}')");
    ends(&mut q, c, 3);
}

#[test]
fn beside_a_truncate() {
    let (mut q, mut c) = filled(json!({}), 3);
    run(&mut c, &q, "SELECT xqueue.take('{q}')");
    q.sql("TRUNCATE {q}");
    run(&mut c, &q, "INSERT INTO {q} (id) VALUES (1), (2); SELECT xqueue.take('{q}')");
    run(
        &mut c,
        &q,
        "BEGIN; TRUNCATE {q}; INSERT INTO {q} (id) VALUES (1), (2); SELECT xqueue.take('{q}'); COMMIT",
    );
    ends(&mut q, c, 2);
}

#[test]
fn in_a_session_that_others_have_joined() {
    let (mut q, mut c) = filled(json!({}), 3);
    run(&mut c, &q, "SELECT xqueue.take('{q}')");
    let session: String = scalar(&mut c, "SELECT xqueue.identify(grace => '50 ms')::text", &[]);
    let mut other = q.client();
    let join = "SELECT xqueue.identify($1::text::uuid)::text";
    assert_eq!(scalar::<String>(&mut other, join, &[&session]), session);
    run(&mut other, &q, "SELECT xqueue.take('{q}')");
    drop(other);
    ends(&mut q, c, 3);
}

#[test]
fn its_own_beside_a_session_that_it_has_joined() {
    let (mut q, mut c) = filled(json!({}), 3);
    run(&mut c, &q, "SELECT xqueue.take('{q}')");
    let mut other = q.client();
    let session: String = scalar(&mut other, "SELECT xqueue.identify(grace => '50 ms')::text", &[]);
    scalar::<String>(&mut c, "SELECT xqueue.identify($1::text::uuid)::text", &[&session]);
    run(&mut c, &q, "SELECT xqueue.take('{q}')");
    drop(c);
    q.wait_for("ready", 2);
    drop(other);
    q.wait_for("ready", 3);
}

#[test]
fn discard_all_ends_a_session_and_begins_another() {
    let (mut q, mut c) = filled(json!({}), 3);
    for _ in 0..3 {
        run(&mut c, &q, "SELECT xqueue.take('{q}')");
        run(&mut c, &q, "DISCARD ALL");
        q.wait_for("ready", 3);
    }
    run(&mut c, &q, "SELECT xqueue.take('{q}')");
    ends(&mut q, c, 3);
}

#[test]
fn with_keys_that_have_no_places() {
    for key in ["id text PRIMARY KEY", "id int, part int DEFAULT 1, PRIMARY KEY (id, part)"] {
        let mut q = Queue::with("held", key, &json!({}));
        q.sql("INSERT INTO {q} (id) SELECT generate_series(1, 9)");
        let mut c = q.client();
        run(&mut c, &q, "SELECT count(*) FROM xqueue.take(NULL::{q}, count => 3)");
        let acked = "SELECT FROM xqueue.take(NULL::{q}) AS t, xqueue.ack(t)";
        run(&mut c, &q, acked);
        ends(&mut q, c, 8);
        let mut c = q.client();
        run(&mut c, &q, acked);
        run(&mut c, &q, "SELECT xqueue.take(NULL::{q})");
        ends(&mut q, c, 7);
    }
}

#[test]
fn the_last_of_all_uuids_and_the_one_before() {
    let mut q = Queue::with("held", "id uuid PRIMARY KEY", &json!({}));
    let last = "ffffffff-ffff-ffff-ffff-fffffffffff";
    q.sql(&format!("INSERT INTO {{q}} (id) VALUES ('{last}e'), ('{last}f')"));
    let mut c = q.client();
    run(&mut c, &q, "SELECT count(*) FROM xqueue.take(NULL::{q}, count => 2)");
    run(&mut c, &q, &format!("SELECT xqueue.ack('{{q}}', '{last}f'::uuid)"));
    ends(&mut q, c, 1);
}

#[test]
fn of_many_queues() {
    let mut queues: Vec<Queue> = (0..12).map(|_| filled(json!({}), 2).0).collect();
    let mut c = queues[0].client();
    for round in 0..2 {
        run(&mut c, &queues[0], "BEGIN");
        for q in &queues {
            let ack = if round == 0 { ", xqueue.ack(t)" } else { "" };
            run(&mut c, q, &format!("SELECT FROM xqueue.take(NULL::{{q}}) AS t{ack}"));
        }
        run(&mut c, &queues[0], "COMMIT");
    }
    drop(c);
    queues.iter_mut().for_each(|q| q.wait_for("ready", 1));
}

#[test]
fn of_sub_queues() {
    let mut q = queue(json!({"utube": true}));
    q.sql("INSERT INTO {q} (tube) SELECT i % 4 FROM generate_series(1, 40) i");
    let mut c = q.client();
    for _ in 0..8 {
        run(&mut c, &q, "SELECT FROM xqueue.take(NULL::{q}) AS t, xqueue.ack(t)");
    }
    run(&mut c, &q, "SELECT count(*) FROM xqueue.take(NULL::{q}, count => 3)");
    ends(&mut q, c, 32);
}

/// A prepared transaction gives a session a task while the triggers are off.
#[test]
fn tasks_given_unreported_by_a_prepared_transaction_come_back() {
    let mut q = queue(json!({}));
    q.sql("INSERT INTO {q} (id) VALUES (1)");
    let (mut consumer, mut other) = (q.client(), q.client());
    let name = q.name.clone();
    take(&mut consumer, &name, "0", 1);
    let own: String = scalar(&mut other, &format!("SELECT owner::text FROM {name}"), &[]);
    consumer.batch_execute(&format!("SELECT xqueue.release('{name}', 1)")).unwrap();
    let give = format!(
        "BEGIN; ALTER TABLE {name} DISABLE TRIGGER xqueue_update;
         UPDATE {name} SET status = 'T', owner = '{own}';
         ALTER TABLE {name} ENABLE ALWAYS TRIGGER xqueue_update;
         PREPARE TRANSACTION '{name}'"
    );
    other.batch_execute(&give).unwrap();
    other.batch_execute(&format!("COMMIT PREPARED '{name}'")).unwrap();
    wait_until("the counters are exact", || q.stats()["exact"] == json!(true));
    q.wait_for("taken", 1);
    drop(consumer);
    q.wait_for("ready", 1);
}
