//! Sessions get or lose tasks by plain SQL, their own or another session's, also while no trigger reports it.

use super::*;

#[test]
fn in_its_name_by_the_hand_of_another() {
    let by_hand = [
        "UPDATE {q} SET status = 'T', owner = '{session}' WHERE id = 1",
        "INSERT INTO {q} (id, status, owner) VALUES (9, 'T', '{session}')",
        "UPDATE {q} SET status = 'T', owner = gen_random_uuid() WHERE id = 1;
         UPDATE {q} SET owner = '{session}' WHERE id = 1",
        "UPDATE {q} SET id = 7000 WHERE status = 'T'",
    ];
    for (index, sql) in by_hand.into_iter().enumerate() {
        let (mut q, mut c) = filled(json!({}), 3);
        q.run(&mut c, "SELECT xqueue.take('{q}')");
        q.run(&mut c, "SELECT xqueue.release('{q}', 1)");
        if index == 3 {
            q.run(&mut c, "SELECT xqueue.take('{q}')");
        }
        let session = own_session(&mut c);
        q.sql("SET xqueue.guard = off");
        q.sql(&sql.replace("{session}", &session));
        // It acks a task that it has not noted, and goes on.
        if index == 1 {
            q.run(&mut c, "SELECT xqueue.ack('{q}', 9); SELECT xqueue.take('{q}')");
        }
        ends(&mut q, c, 3);
    }
}

/// Creates a queue in its own database, in which nothing else makes the worker scan all taken tasks.
fn alone(tasks: i64) -> (Database, Queue, Client) {
    let database = Database::new("held");
    let mut q = Queue::new_in(&database.name, "held");
    q.sql(&format!("INSERT INTO {{q}} (id) SELECT generate_series(1, {tasks})"));
    let c = q.client();
    (database, q, c)
}

fn give(session: &str, id: i64) -> String {
    format!("UPDATE {{q}} SET status = 'T', owner = '{session}' WHERE id = {id}")
}

/// Ends one connection, then another. The worker has handled the first when this returns.
fn ends_before(q: &mut Queue, mut c: Client, later: Client) {
    let ended = pid(&mut c);
    drop(c);
    wait_until("the connection is gone", || !is_connected(&mut q.admin, ended));
    drop(later);
}

/// Another session's transaction gives the session a task before its end, and is committed after it.
#[test]
fn given_before_its_end_and_committed_after_it() {
    for (prepare, commit) in
        [("", "COMMIT"), ("PREPARE TRANSACTION '{q}'", "COMMIT PREPARED '{q}'")]
    {
        let (_database, mut q, mut c) = alone(2);
        let session = own_session(&mut c);
        let (mut hand, mut later) = (q.client(), q.client());
        q.run(&mut later, "SELECT xqueue.take('{q}', id => 2)");
        q.run(&mut hand, &format!("BEGIN; {}", give(&session, 1)));
        q.run(&mut hand, prepare);
        ends_before(&mut q, c, later);
        wait_until("the other task is back", || q.holds(2, "status = 'R'"));
        q.run(&mut hand, commit);
        q.wait_for("ready", 2);
    }
}

/// After its first scan the worker checks only sessions that are reported to it.
#[test]
fn given_before_its_end() {
    let (_database, mut q, mut c) = alone(1);
    let is_round = "SELECT xqueue.state() = 'RUNNING'";
    wait_until("the worker has been round", || scalar(&mut q.admin, is_round, &[]));
    q.run(&mut c, "SELECT FROM xqueue.take(NULL::{q}) AS t, xqueue.release(t)");
    let session = own_session(&mut c);
    q.sql(&give(&session, 1));
    drop(c);
    q.wait_for("ready", 1);
}

/// Gives tasks by hand to a session that has ended, and to a session that never existed.
#[test]
fn given_after_its_end() {
    let (_database, mut q, mut c) = alone(3);
    let session = own_session(&mut c);
    let (never, later) = ("00000000-0000-8000-8000-000000000001", q.client());
    ends_before(&mut q, c, later);
    q.sql(&give(&session, 1));
    q.sql(&give(never, 2));
    q.wait_for("ready", 3);
}

/// The worker is already releasing the task, and waits for a transaction that changes its key.
#[test]
fn another_key_after_its_end() {
    let (_database, mut q, mut c) = alone(2);
    let (mut hand, mut later) = (q.client(), q.client());
    q.run(&mut c, "SELECT xqueue.take('{q}')");
    q.run(&mut later, "SELECT xqueue.take('{q}')");
    q.run(&mut hand, "BEGIN; SELECT FROM {q} WHERE id = 1 FOR UPDATE");
    ends_before(&mut q, c, later);
    q.wait_for("ready", 1);
    // It still promotes other tasks.
    q.sql(r#"SELECT xqueue.put('{q}', '{"id": 3}', '20 milliseconds')"#);
    q.wait_for("ready", 2);
    q.run(&mut hand, "UPDATE {q} SET id = 7000 WHERE id = 1; COMMIT");
    q.wait_for("ready", 3);
}

const ON: &str = "ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_update";
const OFF: &str = "ALTER TABLE {q} DISABLE TRIGGER xqueue_update";

#[test]
fn while_triggers_were_off() {
    let hand = "UPDATE {q} SET status = 'T', owner = '{session}' WHERE id = 1";
    // Statements of the session itself, and of another session, while the triggers are off.
    let (take, in_one) =
        ("SELECT xqueue.take('{q}')", format!("BEGIN; {OFF}; {hand}; {ON}; COMMIT"));
    for (own, other) in [(hand, ""), (take, ""), ("", hand), ("", &in_one), (&in_one, "")] {
        let (mut q, mut c) = filled(json!({}), 3);
        q.run(&mut c, "SELECT FROM xqueue.take(NULL::{q}) AS t, xqueue.release(t)");
        let session = own_session(&mut c);
        q.sql(OFF);
        q.run(&mut c, &own.replace("{session}", &session));
        q.sql(&other.replace("{session}", &session));
        q.sql(ON);
        wait_until("the counters are exact", || q.stats()["exact"] == true);
        ends(&mut q, c, 3);
    }
}

#[test]
fn with_triggers_that_are_off_when_it_ends() {
    for (off, is_later) in [(OFF, false), (OFF, true), ("DROP TRIGGER xqueue_update ON {q}", false)]
    {
        let (mut q, mut c) = filled(json!({}), 3);
        if is_later {
            q.sql(off);
            // From now on nothing counts changes by hand.
            wait_until("the counters are not exact", || q.stats()["exact"] == false);
        }
        q.run(&mut c, "SELECT xqueue.take('{q}')");
        if !is_later {
            q.sql(off);
        }
        let session = own_session(&mut c);
        q.sql(&give(&session, 2));
        drop(c);
        q.wait_for("ready", 3);
        q.abandon();
        q.sql("DROP TABLE {q}");
    }
}
