//! Shared memory knows sub-queues without a task in flight: a take needs no check of the table, no matter how many
//! tasks were there. No transaction hides a task from it.

use xqueue_tests::*;

const TAKE_A: &str = "SELECT xqueue.take('{q}', tube => 'a')";

/// Makes a queue in which a task of sub-queue a has been taken and acked.
fn cleared() -> Queue {
    let mut q = Queue::with("clear", COLUMNS, &json!({"features": {"utube": true}}));
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'a'), (4, 'a')");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    q
}

/// A check of the table would read hundreds of dead rows each time.
#[test]
fn beside_an_old_snapshot_a_take_looks_at_no_more_than_before() {
    for stock in [0, 100] {
        let mut q = Queue::with("clear", COLUMNS, &json!({"features": {"utube": true}}));
        let insert = "INSERT INTO {q} (tube) SELECT 'of ' || n % 3 FROM generate_series(1, $) n";
        q.sql(&insert.replace('$', &stock.to_string()));
        q.assert_steady(|q, n| {
            q.sql(&format!("SELECT xqueue.put('{{q}}', '{{}}', tube => 'of {}')", n % 3));
            let [id] = q.takes(1)[..] else { panic!("one was put") };
            q.sql(&format!("SELECT xqueue.ack('{{q}}', {id})"));
        });
    }
}

#[test]
fn a_row_that_is_taken_and_changed_again_is_no_second_one() {
    let mut q = cleared();
    q.sql(
        "BEGIN; UPDATE {q} SET status = 'T', owner = xqueue.identify() WHERE id = 3;
         UPDATE {q} SET payload = '{}' WHERE id = 3;
         UPDATE {q} SET status = 'R', owner = NULL WHERE id = 3;
         UPDATE {q} SET status = 'T', owner = xqueue.identify() WHERE id = 4; COMMIT",
    );
    assert!(q.takes(9).is_empty());
    q.sql("SET CONSTRAINTS ALL IMMEDIATE; DELETE FROM {q} WHERE id = 4");
    assert_eq!(q.takes(9), [2]);
}

#[test]
fn without_the_index_a_take_reads_the_table() {
    let mut q = cleared();
    q.lose_index("in_flight");
    q.sql("UPDATE {q} SET status = 'T', owner = xqueue.identify() WHERE id = 3");
    assert!(q.takes(9).is_empty());
    q.sql("SELECT xqueue.ack('{q}', 3)");
    assert_eq!(q.takes(9), [2]);
    q.upgrade(&json!({}));
}

/// After shared memory has lost track of a sub-queue, a session that acks its task has no claim on it.
#[test]
fn a_subqueue_that_was_lost_sight_of_is_not_clear() {
    let ways = [("", false), ("", true), (", tube => 'a'", false), (", tube => 'a'", true)];
    for (tube, left_by_another) in ways {
        let mut q = cleared();
        let mut other = q.session();
        assert_eq!(q.takes(9), [2]);
        q.sql("ALTER TABLE {q} SET (fillfactor = 90)");
        q.sql("INSERT INTO {q} (id, tube) VALUES (5, 'a')");
        if left_by_another {
            assert!(other.ask(TAKE_A).is_empty());
        }
        assert_eq!(ids(&q.ask(&format!("SELECT xqueue.take('{{q}}', done => 2{tube})"))), [3]);
        assert!(other.takes(9).is_empty());
        assert!(other.ask(TAKE_A).is_empty());
    }
}

#[test]
fn a_session_that_changes_the_table_takes_nothing_unseen() {
    let by_hand = "UPDATE {q} SET status = 'T', owner = xqueue.identify() WHERE id = 3";
    let off = "ALTER TABLE {q} DISABLE TRIGGER xqueue_update";
    let on = "ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_update";
    let mut q = cleared();
    q.sql(&format!("BEGIN; {off}; {by_hand}; {on}"));
    assert!(q.takes(9).is_empty());
    q.sql("COMMIT");
    assert!(q.takes(9).is_empty());
}

/// A user's trigger changes each row again before the extension's trigger reports it.
#[test]
fn a_row_that_a_trigger_changes_again_is_no_second_one() {
    let mut q = cleared();
    q.sql(
        "CREATE FUNCTION {q}_again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             UPDATE {q} SET tube = tube || '!' WHERE id = new.id; RETURN NULL; END $$;
         CREATE TRIGGER again AFTER UPDATE OF status ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_again()",
    );
    for id in [3, 4] {
        q.sql("VACUUM {q}");
        q.sql(&format!("UPDATE {{q}} SET status = 'T', owner = xqueue.identify() WHERE id = {id}"));
        q.sql("UPDATE {q} SET tube = 'b' WHERE status = 'T'");
        q.sql("UPDATE {q} SET status = 'R', owner = NULL WHERE status = 'T'");
    }
    q.sql("DROP TRIGGER again ON {q}; DROP FUNCTION {q}_again()");
    assert_eq!(q.takes(9).len(), 2, "of two sub-queues");
}

/// More sub-queues than a transaction notes: the rest are not reported by name.
#[test]
fn a_rollback_over_very_many_sub_queues_hides_no_task() {
    let mut q = Queue::with("clear", COLUMNS, &json!({"features": {"utube": true}}));
    q.sql("INSERT INTO {q} (tube) SELECT n FROM generate_series(1, 100002) n");
    let last = "SELECT xqueue.take('{q}', tube => '100002')";
    let id = ids(&q.ask(last))[0];
    q.sql(&format!("SELECT xqueue.release('{{q}}', {id})"));
    q.sql("BEGIN; DELETE FROM {q}");
    assert!(q.ask(last).is_empty());
    q.sql("ROLLBACK");
    assert_eq!(ids(&q.ask(last)), [id]);
    q.sql("TRUNCATE {q}");
}
