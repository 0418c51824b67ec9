//! Sessions get or lose tasks by plain SQL, their own or another session's, also while no trigger reports it.

use super::*;

fn own_session(c: &mut Client) -> String {
    scalar(c, "SELECT xqueue.identify()::text", &[])
}

#[test]
fn by_hand_in_its_own_name_and_with_another_key() {
    let (mut q, mut c) = filled(json!({}), 4);
    let session = own_session(&mut c);
    run(
        &mut c,
        &q,
        &format!(
            "UPDATE {{q}} SET status = 'T', owner = '{session}' WHERE id IN (1, 2);
             UPDATE {{q}} SET id = 7000 WHERE id = 2;
             INSERT INTO {{q}} (id, status, owner) VALUES (8000, 'T', '{session}')"
        ),
    );
    ends(&mut q, c, 5);
}

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
        run(&mut c, &q, "SELECT xqueue.take('{q}')");
        run(&mut c, &q, "SELECT xqueue.release('{q}', 1)");
        if index == 3 {
            run(&mut c, &q, "SELECT xqueue.take('{q}')");
        }
        let session = own_session(&mut c);
        q.sql("SET xqueue.guard = off");
        q.sql(&sql.replace("{session}", &session));
        // It acks a task that it has not noted, and goes on.
        if index == 1 {
            run(&mut c, &q, "SELECT xqueue.ack('{q}', 9); SELECT xqueue.take('{q}')");
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

/// Ends one connection, then another. The worker has handled the first when this returns.
fn ends_before(q: &mut Queue, mut c: Client, later: Client) {
    let ended = pid(&mut c);
    drop(c);
    let is_gone = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)";
    wait_until("the connection is gone", || scalar(&mut q.admin, is_gone, &[&ended]));
    drop(later);
}

/// Gives tasks to a session by another session's transaction, which commits after the end of the first. With `prepare`,
/// that transaction is prepared before the end.
fn given_beyond_its_end(prepare: &str, commit: &str) {
    let (_database, mut q, mut c) = alone(2);
    let session = own_session(&mut c);
    let (mut hand, mut later) = (q.client(), q.client());
    run(&mut later, &q, "SELECT xqueue.take('{q}', id => 2)");
    let give = format!("BEGIN; UPDATE {{q}} SET status = 'T', owner = '{session}' WHERE id = 1");
    run(&mut hand, &q, &give);
    run(&mut hand, &q, prepare);
    ends_before(&mut q, c, later);
    let is_back = format!("SELECT status = 'R' FROM {} WHERE id = 2", q.name);
    wait_until("the other task is back", || scalar(&mut q.admin, &is_back, &[]));
    run(&mut hand, &q, commit);
    q.wait_for("ready", 2);
}

#[test]
fn given_before_its_end_and_committed_after_it() {
    given_beyond_its_end("", "COMMIT");
}

#[test]
fn given_before_its_end_and_prepared() {
    let name = unique("held");
    let (prepare, commit) = ("PREPARE TRANSACTION", "COMMIT PREPARED");
    given_beyond_its_end(&format!("{prepare} '{name}'"), &format!("{commit} '{name}'"));
}

/// After its first scan the worker checks only sessions that are reported to it.
#[test]
fn given_before_its_end() {
    let (_database, mut q, mut c) = alone(1);
    let is_round = "SELECT xqueue.state() = 'RUNNING'";
    wait_until("the worker has been round", || scalar(&mut q.admin, is_round, &[]));
    run(&mut c, &q, "SELECT FROM xqueue.take(NULL::{q}) AS t, xqueue.release(t)");
    let session = own_session(&mut c);
    q.sql(&format!("UPDATE {{q}} SET status = 'T', owner = '{session}' WHERE id = 1"));
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
    let give = |session: &str, id: i64| {
        format!("UPDATE {{q}} SET status = 'T', owner = '{session}' WHERE id = {id}")
    };
    q.sql(&give(&session, 1));
    q.sql(&give(never, 2));
    q.wait_for("ready", 3);
}

/// The worker is already releasing the task, and waits for a transaction that changes its key.
#[test]
fn another_key_after_its_end() {
    let (_database, mut q, mut c) = alone(2);
    let (mut hand, mut later) = (q.client(), q.client());
    run(&mut c, &q, "SELECT xqueue.take('{q}')");
    run(&mut later, &q, "SELECT xqueue.take('{q}')");
    run(&mut hand, &q, "BEGIN; SELECT FROM {q} WHERE id = 1 FOR UPDATE");
    ends_before(&mut q, c, later);
    q.wait_for("ready", 1);
    run(&mut hand, &q, "UPDATE {q} SET id = 7000 WHERE id = 1; COMMIT");
    q.wait_for("ready", 2);
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
        run(&mut c, &q, "SELECT FROM xqueue.take(NULL::{q}) AS t, xqueue.release(t)");
        let session = own_session(&mut c);
        q.sql(OFF);
        run(&mut c, &q, &own.replace("{session}", &session));
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
        run(&mut c, &q, "SELECT xqueue.take('{q}')");
        if !is_later {
            q.sql(off);
        }
        let session = own_session(&mut c);
        q.sql(&format!("UPDATE {{q}} SET status = 'T', owner = '{session}' WHERE id = 2"));
        drop(c);
        let mut is_ready = |id| status(&mut q.admin, &q.name, id).as_deref() == Some("R");
        wait_until("all tasks are back", || is_ready(1) && is_ready(2));
        q.abandon();
        q.sql("DROP TABLE {q}");
    }
}

#[test]
fn prepared_by_hand() {
    let (mut q, mut c) = filled(json!({}), 2);
    let session = own_session(&mut c);
    let name = unique("held");
    run(
        &mut c,
        &q,
        &format!(
            "BEGIN; UPDATE {{q}} SET status = 'T', owner = '{session}' WHERE id = 1;
             PREPARE TRANSACTION '{name}'"
        ),
    );
    run(&mut c, &q, &format!("COMMIT PREPARED '{name}'"));
    wait_until("the counters are exact", || q.stats()["exact"] == true);
    ends(&mut q, c, 2);
}

/// The triggers of a statement report its changes only at its end, after the ack inside it.
#[test]
fn acked_by_the_statement_that_takes_it() {
    let (mut q, mut c) = filled(json!({}), 3);
    (0..2).for_each(|_| run(&mut c, &q, "SELECT xqueue.take('{q}')"));
    let session = own_session(&mut c);
    run(
        &mut c,
        &q,
        &format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ;
             UPDATE {{q}} SET status = 'T', owner = '{session}' WHERE id = 3 
             RETURNING (SELECT count(*) FROM xqueue.ack('{{q}}', 3));
             COMMIT; SELECT xqueue.ack('{{q}}', 1)"
        ),
    );
    ends(&mut q, c, 1);
}
