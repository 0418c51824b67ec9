//! Prepared serializable transactions: their predicate locks outlive them while overlapping transactions are open. The
//! counters and the capacity do not wait for overlapping transactions.

use xqueue_tests::*;

/// Opens a serializable transaction that overlaps with the transaction prepared next.
fn overlapping(q: &Queue) -> Client {
    let mut other = q.client();
    let begin = format!("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM {}", q.name);
    other.batch_execute(&begin).expect("a serializable transaction");
    other
}

/// Puts a task in a serializable transaction that has read the table, and prepares it.
fn prepare_put(q: &mut Queue) -> String {
    let gid = q.name.clone();
    q.sql(&format!(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM {{q}};
         SELECT xqueue.put('{{q}}', '{{}}'); PREPARE TRANSACTION '{gid}'"
    ));
    assert_eq!(q.stats()["exact"], json!(false));
    gid
}

/// Asserts that a predicate lock of an ended transaction still exists.
#[track_caller]
fn assert_predicate_lock_stays(q: &mut Queue) {
    let stays = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = $1::text::regclass AND pid IS NULL \
                 AND mode = 'SIReadLock')";
    assert!(scalar::<bool>(&mut q.admin, stays, &[&q.name]));
}

#[test]
fn rolled_back() {
    let mut q = Queue::new("serializable");
    let other = overlapping(&q);
    let gid = prepare_put(&mut q);
    q.sql(&format!("ROLLBACK PREPARED '{gid}'"));
    q.assert_tasks(&[("total", 0)]);
    drop(other);
}

#[test]
fn committed_and_the_room_is_free_again() {
    let mut q = Queue::limited("serializable", 3, 1);
    let other = overlapping(&q);
    let gid = prepare_put(&mut q);
    q.sql(&format!("COMMIT PREPARED '{gid}'"));
    q.assert_tasks(&[("total", 2)]);
    assert_predicate_lock_stays(&mut q);
    assert_eq!(q.puts(1), 1, "2 tasks, and room for 3");
    assert_eq!(q.puts(1), 0);
    q.drain(1);
    assert_eq!(q.puts(1), 1);
    drop(other);
}

#[test]
fn a_prepared_transaction_that_has_only_read() {
    let mut q = Queue::new("serializable");
    let gid = q.name.clone();
    q.sql("SELECT xqueue.put('{q}', '{}')");
    q.sql(&format!(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM {{q}}; SELECT FROM {{q}} FOR KEY SHARE;
         PREPARE TRANSACTION '{gid}_reads'"
    ));
    prepare_put(&mut q);
    q.sql(&format!("COMMIT PREPARED '{gid}'"));
    q.assert_tasks(&[("ready", 2), ("total", 2)]);
    q.sql(&format!("COMMIT PREPARED '{gid}_reads'"));
}

#[test]
fn one_of_two_that_have_changed_the_table() {
    let mut q = Queue::new("serializable");
    let gid = q.name.clone();
    q.sql(&format!("BEGIN; SELECT xqueue.put('{{q}}', '{{}}'); PREPARE TRANSACTION '{gid}_first'"));
    prepare_put(&mut q);
    q.sql(&format!("COMMIT PREPARED '{gid}'"));
    q.wait_for("ready", 1);
    assert_eq!(q.stats()["exact"], json!(false));
    q.sql(&format!("COMMIT PREPARED '{gid}_first'"));
    q.assert_tasks(&[("ready", 2), ("total", 2)]);
}
