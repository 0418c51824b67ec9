//! Tasks of sub-queues that are taken by hand. The claims in shared memory are the only guard of "one task in flight",
//! so a change by hand claims the sub-queue like a take. The isolation tester has a take beside a change by hand.

use xqueue_tests::*;

const IN_FLIGHT: &str = "another task of its sub-queue is taken";

fn queue() -> Queue {
    let mut q = Queue::with("by_hand", COLUMNS, &json!({"features": {"utube": true}}));
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'a'), (4, 'b'), (5, 'b')");
    q
}

fn by_hand(id: i64) -> String {
    format!("UPDATE {{q}} SET status = 'T', owner = xqueue.identify() WHERE id = {id}")
}

#[test]
fn every_way_to_take_a_second_task_by_hand_is_refused() {
    let mut q = queue();
    assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => 'a')")), [1]);
    for sql in [
        &by_hand(2),
        "INSERT INTO {q} (id, tube, status, owner) VALUES (8, 'a', 'T', xqueue.identify())",
        "INSERT INTO {q} (id, tube) VALUES (2, 'a') ON CONFLICT (id) DO UPDATE SET status = 'T', owner = xqueue.identify()",
        "MERGE INTO {q} AS t USING (VALUES (2)) AS s (id) ON t.id = s.id
         WHEN MATCHED THEN UPDATE SET status = 'T', owner = xqueue.identify()",
        "COPY {q} (id, tube, status) FROM PROGRAM 'printf \"8\\ta\\tT\\n\"'",
        "UPDATE {q} SET tube = 'a', status = 'T', owner = xqueue.identify() WHERE id = 4",
        "UPDATE {q} SET status = 'T', owner = xqueue.identify() WHERE id IN (4, 5)",
    ] {
        let error = q.fails(sql, "23505", IN_FLIGHT);
        assert!(error.hint().is_some_and(|hint| hint.contains("settled")), "{error:?}");
    }
    q.sql("SELECT xqueue.ack('{q}', 1)");
    q.sql(&by_hand(3));
    assert_eq!(q.takes(9), [4]);
    q.sql("SELECT xqueue.ack('{q}', 3)");
    assert_eq!(q.takes(9), [2]);
}

#[test]
fn a_rolled_back_savepoint_gives_its_claim_back() {
    let mut q = queue();
    let mut other = q.session();
    q.sql(&format!("BEGIN; SAVEPOINT s; {}", by_hand(3)));
    q.fails(&by_hand(2), "23505", IN_FLIGHT);
    q.sql("ROLLBACK TO s");
    assert_eq!(other.takes(9).len(), 2);
    q.fails(&by_hand(2), "23505", IN_FLIGHT);
    q.sql("ROLLBACK");
    other.sql("SELECT xqueue.release('{q}', 1)");
    q.sql(&format!(
        "BEGIN; {}; UPDATE {{q}} SET status = 'R', owner = NULL WHERE id = 3; {}; COMMIT",
        by_hand(3),
        by_hand(2)
    ));
    assert!(other.takes(9).is_empty());
}

/// The transaction that settles a task can take the next one by hand, even in the same statement.
#[test]
fn the_next_task_is_taken_when_the_one_before_is_settled() {
    let mut q = queue();
    assert_eq!(q.takes(1), [1]);
    q.sql(&format!("BEGIN; SELECT xqueue.ack('{{q}}', 1); {}", by_hand(2)));
    q.fails(&by_hand(3), "23505", IN_FLIGHT);
    q.sql("ROLLBACK");
    q.sql(&format!("BEGIN; SELECT xqueue.ack('{{q}}', 1); {}; COMMIT", by_hand(2)));
    q.fails(&by_hand(3), "23505", IN_FLIGHT);
    q.sql("UPDATE {q} SET tube = 'c' WHERE id = 2");
    assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => 'a')")), [3]);
    q.sql("INSERT INTO {q} (id, tube) VALUES (6, 'c')");
    assert!(q.ask("SELECT xqueue.take('{q}', tube => 'c')").is_empty());
    q.fails("UPDATE {q} SET tube = 'c' WHERE id = 3", "23505", IN_FLIGHT);
}

#[test]
fn a_take_by_hand_cannot_be_prepared() {
    let mut q = queue();
    let prepare = format!("PREPARE TRANSACTION '{}'", q.name);
    for sql in [&by_hand(3), "INSERT INTO {q} (id, tube, status) VALUES (8, 'c', 'T')"] {
        q.sql(&format!("BEGIN; {sql}"));
        q.fails(&prepare, "0A000", "has taken tasks");
    }
    assert_eq!(q.takes(9), [1, 4]);
    // The prepared transaction can settle a task, or undo its own take.
    q.sql(&format!("BEGIN; SELECT xqueue.ack('{{q}}', 1); INSERT INTO {{q}} (id, tube, status) VALUES (9, 'c', 'T');
                    DELETE FROM {{q}} WHERE id = 9; {prepare}"));
    q.fails(&by_hand(2), "23505", IN_FLIGHT);
    assert!(q.takes(9).is_empty());
    q.sql(&format!("COMMIT PREPARED '{}'", q.name));
    wait_until("the task behind it is taken", || q.takes(9) == [2]);
}

/// Triggers that are off report nothing: two tasks of a sub-queue can then be in flight.
#[test]
fn two_tasks_in_flight_block_their_sub_queue_until_both_are_settled() {
    for is_known in [false, true] {
        let mut q = queue();
        if is_known {
            assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => 'a')")), [1]);
            q.sql("SELECT xqueue.release('{q}', 1)");
        }
        q.sql("ALTER TABLE {q} DISABLE TRIGGER xqueue_update");
        q.sql("UPDATE {q} SET status = 'T', owner = xqueue.identify() WHERE id IN (2, 3)");
        q.sql("ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_update");
        let problems = q.ask_one("SELECT xqueue.check('{q}')->'problems'");
        assert!(problems.to_string().contains("2 tasks of one sub-queue are taken"), "{problems}");
        q.fails(&by_hand(1), "23505", IN_FLIGHT);
        assert!(q.ask("SELECT xqueue.take('{q}', id => 1)").is_empty());
        assert_eq!(q.takes(9), [4]);
        q.sql("SELECT xqueue.ack('{q}', 2)");
        assert!(q.takes(9).is_empty());
        q.fails(&by_hand(1), "23505", IN_FLIGHT);
        q.sql("SELECT xqueue.ack('{q}', 3)");
        assert_eq!(q.takes(9), [1]);
    }
}

#[test]
fn a_truncated_sub_queue_is_free() {
    let mut q = queue();
    assert_eq!(q.takes(9), [1, 4]);
    q.sql("TRUNCATE {q}; INSERT INTO {q} (id, tube, status, owner) VALUES (6, 'a', 'T', xqueue.identify())");
    q.sql("INSERT INTO {q} (id, tube) VALUES (7, 'a'), (8, 'b')");
    assert_eq!(q.takes(9), [8]);
    q.sql("BEGIN; TRUNCATE {q}; INSERT INTO {q} (id, tube, status) VALUES (9, 'b', 'T'); ROLLBACK");
    q.fails(&by_hand(7), "23505", IN_FLIGHT);
    assert!(q.takes(9).is_empty(), "6 and 8 are in flight");
}

/// A role does not see the task in flight.
#[test]
fn a_hidden_task_in_flight_blocks_its_sub_queue_and_no_other() {
    let mut q = queue();
    let role = Role::create();
    q.sql(&format!("GRANT SELECT, UPDATE, DELETE ON {{q}} TO {}", role.name));
    q.sql("ALTER TABLE {q} ENABLE ROW LEVEL SECURITY; CREATE POLICY rest ON {q} USING (id <> 1)");
    q.sql(&by_hand(1));
    // From here on shared memory does not know that the sub-queue has a task in flight.
    q.upgrade(&json!({"features": {"delayed": true}}));
    let mut consumer = q.session();
    consumer.admin = role.client();
    let sql = "UPDATE {q} SET status = 'T' WHERE id = 2";
    consumer.fails(sql, "23505", IN_FLIGHT);
    assert!(consumer.ask("SELECT xqueue.take('{q}', id => 2)").is_empty());
    assert_eq!(consumer.takes(9), [4]);
    q.sql("UPDATE {q} SET status = 'R', owner = NULL WHERE id = 1");
    consumer.sql(sql);
}

/// The snapshot of a transaction in repeatable read is older than the task in flight.
#[test]
fn an_old_snapshot_hides_no_task_in_flight() {
    let mut q = queue();
    let mut old = q.session();
    old.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    q.sql("INSERT INTO {q} (id, tube) VALUES (0, 'a')");
    assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => 'a')")), [0]);
    q.upgrade(&json!({"features": {"delayed": true}}));
    assert!(old.ask("SELECT xqueue.take('{q}', tube => 'a')").is_empty());
    assert!(old.ask("SELECT xqueue.take('{q}', id => 1)").is_empty());
    old.fails(&by_hand(2), "23505", IN_FLIGHT);
    drop(old);
    q.sql("SELECT xqueue.ack('{q}', 0)");
    assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => 'a')")), [1]);
}

/// It has no shared memory of before, like a server after a restart, and reads the index of taken tasks.
#[test]
fn tasks_in_flight_are_known_on_a_new_primary() {
    let (primary, standby) = Cluster::with_standby();
    let options = json!({"features": {"utube": true}});
    let mut q = Queue::make_at(primary.config(), "jobs", COLUMNS, &options);
    q.sql("INSERT INTO {q} (id, tube) SELECT n, n % 2 FROM generate_series(1, 6) n");
    let session = q.ask_one("SELECT to_jsonb(xqueue.identify(grace => '1 hour'))");
    assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => '1')")), [1]);
    let check = |q: &mut Queue| {
        q.sql(&format!("SELECT xqueue.identify('{}')", session.as_str().expect("a uuid")));
        q.fails(&by_hand(3), "23505", IN_FLIGHT);
        assert!(q.ask("SELECT xqueue.take('{q}', tube => '1')").is_empty());
        assert!(q.ask("SELECT xqueue.take('{q}', id => 5)").is_empty());
    };
    check(&mut q);
    standby.catch_up(&primary);
    primary.kill();
    standby.promote();
    standby.wait_running();
    q.move_to(standby.config());
    check(&mut q);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    q.sql(&by_hand(3));
    assert_eq!(q.takes(9), [2]);
}
