//! Code of a user that takes in the middle of a statement, when rows have changed and their triggers have not fired yet.
//! The statement can still fail or be rolled back: nothing that the take sees must outlast it.

use xqueue_tests::*;

/// Makes a queue whose tasks belong to customers, and go with them. The deletion of a customer takes tasks.
fn with_customers(features: &Value) -> Queue {
    let columns = "id bigint PRIMARY KEY, customer int";
    let mut q = Queue::with("mid_statement", columns, &json!({ "features": features }));
    q.sql(
        "CREATE TABLE {q}_customers (id int PRIMARY KEY); INSERT INTO {q}_customers VALUES (1), (2);
         ALTER TABLE {q} ADD FOREIGN KEY (customer) REFERENCES {q}_customers ON DELETE CASCADE;
         CREATE FUNCTION {q}_takes() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM xqueue.take('{q}', count => 1000); RETURN NULL; END $$;
         CREATE TRIGGER takes AFTER DELETE ON {q}_customers FOR EACH ROW EXECUTE FUNCTION {q}_takes()",
    );
    q
}

/// Makes a function that takes from all sub-queues, and fails at one task.
fn taking(q: &mut Queue, fails_at: i64) {
    q.sql(&format!(
        "CREATE FUNCTION {{q}}_take(id bigint) RETURNS bigint LANGUAGE plpgsql AS
             $$ BEGIN
                 IF id = {fails_at} THEN RAISE 'no more'; END IF;
                 PERFORM xqueue.take('{{q}}', count => 1000);
                 RETURN id;
             END $$"
    ));
}

/// The transaction that is rolled back does not report the tasks that it brings back.
const FORGET_SUBQUEUES: &str = "BEGIN; TRUNCATE {q}; ROLLBACK";

fn queue(features: &Value) -> Queue {
    Queue::with("mid_statement", COLUMNS, &json!({ "features": features }))
}

#[test]
fn a_mark_is_not_raised_over_tasks_that_a_cascade_deletes() {
    let mut q = with_customers(&json!({}));
    q.sql("INSERT INTO {q} SELECT n, 1 + n / 6 FROM generate_series(1, 7) n");
    q.assert_exact();
    q.sql("BEGIN; DELETE FROM {q}_customers WHERE id = 1; ROLLBACK");
    assert_eq!(q.takes(9), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_task_in_flight_is_known_after_a_cascade_that_has_deleted_the_one_before() {
    let mut q = with_customers(&json!({"utube": true}));
    q.sql("INSERT INTO {q} (id, customer, tube) VALUES (1, 1, 'a'), (2, 2, 'a'), (3, 2, 'a')");
    assert_eq!(q.takes(1), [1]);
    q.sql(FORGET_SUBQUEUES);
    let mut other = q.session();
    other.sql("DELETE FROM {q}_customers WHERE id = 1");
    let before = other.counted()["taken"].as_i64().expect("a number");
    let now = q.takes(9).len() as i64;
    assert_eq!(before + now, 1, "{before} of the cascade, {now} after it");
}

/// Shared memory has forgotten the sub-queue, or knows that it has no task in flight.
#[test]
fn a_subqueue_stays_known_if_its_deletion_is_rolled_back() {
    for is_clear in [false, true] {
        let mut q = queue(&json!({"utube": true}));
        q.sql("INSERT INTO {q} (id, tube) VALUES (0, 'a'), (1, 'a'), (2, 'b'), (3, 'b')");
        taking(&mut q, -1);
        q.sql("SELECT xqueue.take('{q}', tube => 'a')");
        q.sql("SELECT xqueue.ack('{q}', 0)");
        if !is_clear {
            q.sql(FORGET_SUBQUEUES);
        }
        q.sql("BEGIN; DELETE FROM {q} WHERE tube = 'a' RETURNING {q}_take(id); ROLLBACK");
        let mut taken = q.takes(9);
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    }
}

#[test]
fn a_subqueue_stays_known_if_a_statement_that_takes_by_hand_fails() {
    let mut q = queue(&json!({"utube": true}));
    q.sql("INSERT INTO {q} (id, tube) SELECT n, chr(97 + n % 8) FROM generate_series(0, 15) n");
    q.sql(FORGET_SUBQUEUES);
    // The take completes the list of sub-queues; those of the others are not known to be free.
    let [first] = q.takes(1)[..] else { panic!("one task") };
    let mut ids = (0..8).filter(|id| *id != first);
    let (one, end) = (ids.next().unwrap_or_default(), ids.next_back().unwrap_or_default());
    taking(&mut q, end + 8);
    let by_hand = format!("UPDATE {{q}} SET status = 'T' WHERE id IN ({one}, {})", end + 8);
    q.fails(&format!("{by_hand} RETURNING {{q}}_take(id)"), "P0001", "no more");
    let mut taken = q.takes(20);
    taken.push(first);
    taken.sort_unstable();
    assert_eq!(taken, (0..8).collect::<Vec<_>>());
}

/// Makes a trigger that runs a statement when a task is taken.
fn when_taken(q: &mut Queue, id: i64, statement: &str) {
    q.sql(&format!(
        "CREATE FUNCTION {{q}}_also() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN {statement}; RETURN NULL; END $$;
         CREATE TRIGGER also AFTER UPDATE ON {{q}} FOR EACH ROW
             WHEN (NEW.id = {id} AND NEW.status = 'T') EXECUTE FUNCTION {{q}}_also()"
    ));
}

/// The take leaves sub-queue b, whose first task is locked, and takes from a. A trigger takes from b meanwhile.
#[test]
fn a_claim_under_which_a_trigger_has_taken_a_task_is_kept() {
    let mut q = queue(&json!({"utube": true, "priority": true}));
    when_taken(&mut q, 3, "PERFORM xqueue.take('{q}', id => 2)");
    q.sql("INSERT INTO {q} (id, tube, priority) VALUES (1, 'b', 1), (2, 'b', 1), (3, 'a', 2)");
    let (mut locker, mut other) = (q.session(), q.session());
    locker.sql("BEGIN; SELECT FROM {q} WHERE id = 1 FOR UPDATE");
    other.sql("BEGIN");
    assert_eq!(other.takes(1), [3]);
    locker.sql("ROLLBACK");
    assert!(q.takes(9).is_empty());
    other.sql("COMMIT");
    assert!(q.takes(9).is_empty());
}

const ALSO: &str = "UPDATE {q} SET status = 'T', owner = NEW.owner WHERE status = 'R' AND id =";

/// A task that a trigger takes by hand meanwhile does not belong to the take.
#[test]
fn a_task_that_a_trigger_takes_is_seen() {
    let mut q = queue(&json!({"utube": true}));
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (5, 'b'), (6, 'b'), (7, 'b')");
    // Both sub-queues are known to have no task in flight.
    assert_eq!(q.takes(9), [1, 5]);
    q.sql("SELECT xqueue.ack('{q}', ARRAY[1, 5])");
    when_taken(&mut q, 2, &format!("{ALSO} 7"));
    assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => 'a')")), [2]);
    q.sql("DROP TRIGGER also ON {q}; DROP FUNCTION {q}_also()");
    assert!(q.takes(9).is_empty(), "7 is in flight");
}

/// An open cursor keeps the take from giving a sub-queue back in which it found another task taken.
#[test]
fn a_trigger_of_a_take_is_refused_a_task_of_a_busy_sub_queue() {
    let mut q = queue(&json!({"utube": true, "priority": true}));
    when_taken(&mut q, 3, &format!("{ALSO} 2"));
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'b')");
    let mut other = q.session();
    assert_eq!(other.takes(9), [1]);
    let puts =
        "INSERT INTO {q} (id, tube) VALUES (2, 'b'); INSERT INTO {q} (id, tube) VALUES (3, 'a')";
    q.sql(&format!("{FORGET_SUBQUEUES}; {puts}"));
    q.sql("BEGIN; SELECT txid_current(); DECLARE c CURSOR FOR SELECT FROM {q}; FETCH c");
    q.fails("SELECT xqueue.take('{q}')", "23505", "another task of its sub-queue is taken");
    q.sql("ROLLBACK; DROP TRIGGER also ON {q}");
    assert_eq!(q.takes(9), [3]);
}

/// A trigger moves the tasks that are taken to a later place. A rollback brings them back to where they were.
#[test]
fn a_subqueue_finds_its_tasks_after_a_trigger_has_moved_those_taken() {
    for by_statements in [false, true] {
        for (column, options) in [
            ("updated_at", json!({"fields": {"order": "updated_at"}, "features": {"utube": true}})),
            ("id", json!({"features": {"utube": true}})),
        ] {
            let columns = "id bigint PRIMARY KEY, updated_at bigint NOT NULL";
            let mut q = Queue::with("moved", columns, &options);
            let later = format!("NEW.{column} := NEW.{column} + 100");
            q.before_each(
                "UPDATE",
                &format!("IF NEW.status = 'T' THEN {later}; END IF; RETURN NEW"),
            );
            q.sql("INSERT INTO {q} (id, updated_at, tube) SELECT n, n, 'a' FROM generate_series(1, 4) n");
            q.sql(&format!("SET xqueue.direct_path = {}", !by_statements));
            let taken = |n: i64| if column == "id" { n + 100 } else { n };
            q.sql("BEGIN; SELECT FROM xqueue.take(NULL::{q}); ROLLBACK");
            q.verify();
            for n in 1..=4 {
                assert_eq!(q.takes(9), [taken(n)], "{column} {by_statements}");
                q.sql(&format!("SELECT xqueue.ack('{{q}}', {}::bigint)", taken(n)));
            }
        }
    }
}

#[test]
fn a_subqueue_keeps_its_level_if_a_trigger_moves_the_task_taken_to_another() {
    let mut q = queue(&json!({"utube": true, "priority": true}));
    q.before_each("UPDATE", "IF NEW.status = 'T' THEN NEW.tube := 'b'; END IF; RETURN NEW");
    q.sql("INSERT INTO {q} (id, priority, tube) VALUES (1, -1, 'a'), (2, 1, 'c'), (3, 5, 'a')");
    q.sql("BEGIN; SELECT FROM xqueue.take(NULL::{q}); ROLLBACK");
    q.verify();
    assert_eq!(q.takes(1), [1]);
}
