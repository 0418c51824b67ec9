//! The guard of taken tasks: an UPDATE by hand does not change their owner.

use xqueue_tests::*;

/// Creates a queue of three tasks, the first taken by a consumer.
fn taken(options: &Value) -> (Queue, Client) {
    let mut q = Queue::with("guard", COLUMNS, options);
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 3)");
    let mut consumer = q.client();
    assert_eq!(ids(&take(&mut consumer, &q.name, "0", 1)), [1]);
    (q, consumer)
}

/// An ORM's save() of an object that it read before the task was taken.
const STALE: &str = "UPDATE {q} SET status = 'R', owner = NULL, payload = '2' WHERE id = 1";

#[test]
fn a_stale_row_does_not_give_a_task_away() {
    let (mut q, mut consumer) = taken(&json!({}));
    let holder = pid(&mut consumer);
    let error = q.fails(STALE, "55006", &format!("task 1 is taken by {holder}"));
    assert!(error.hint().is_some_and(|hint| hint.contains("xqueue.guard")), "{error:?}");
    assert!(error.detail().is_some_and(|detail| detail.contains(&q.name)), "{error:?}");
    for set in [
        "status = 'D'",
        "status = 'B', owner = NULL",
        "owner = NULL",
        "owner = gen_random_uuid()",
        "status = 'R', id = 77",
    ] {
        q.fails(&format!("UPDATE {{q}} SET {set} WHERE id = 1"), "55006", "is taken by");
    }
    let upsert = "INSERT INTO {q} (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET status = 'R'";
    q.fails(upsert, "55006", "is taken by");
    // One statement for all tasks: no task is changed.
    q.fails("UPDATE {q} SET status = 'B'", "55006", "is taken by");
    q.assert_tasks(&[("ready", 2), ("taken", 1), ("buried", 0)]);
    q.assert_exact();
    assert_eq!(ack(&mut consumer, &q.name, 1).len(), 1, "it is still the consumer's");
}

/// The state machine of the verbs has changes of other tasks, of the holder, and by calls.
#[test]
fn what_is_not_refused() {
    let (mut q, mut consumer) = taken(&json!({"features": {"ttr": true}}));
    // Changes of other columns, also together with an unchanged status and owner.
    q.sql("UPDATE {q} SET payload = '1', status = 'T', owner = owner WHERE id = 1");
    q.sql("UPDATE {q} SET runat = now() + '1 h'::interval WHERE id = 1");
    // Changes that are replicated from another server.
    q.sql(
        "BEGIN; SET LOCAL session_replication_role = replica; \
           UPDATE {q} SET status = 'R', owner = NULL WHERE id = 1; COMMIT",
    );
    // Changes by the worker.
    assert_eq!(ids(&take(&mut consumer, &q.name, "0", 1)), [1]);
    drop(consumer);
    q.wait_for("ready", 3);
    q.assert_exact();
}

#[test]
fn the_feature_and_the_setting_switch_it_off() {
    let (mut q, mut consumer) = taken(&json!({"features": {"guard": false}}));
    assert_eq!(q.upgrade(&json!({}))["features"]["guard"], json!(false));
    q.sql(STALE);
    q.assert_tasks(&[("ready", 3)]);
    assert_eq!(q.upgrade(&json!({"features": {"guard": true}}))["features"]["guard"], json!(true));
    assert_eq!(take(&mut consumer, &q.name, "0", 1).len(), 1);
    q.fails(STALE, "55006", "is taken by");
    q.run(&mut q.client(), &format!("SET xqueue.guard = off; {STALE}"));
    q.assert_tasks(&[("ready", 3)]);
    q.assert_exact();
}

/// An UPDATE in a trigger that fires inside a call is not exempt.
#[test]
fn a_trigger_that_runs_in_a_call() {
    let (mut q, mut consumer) = taken(&json!({}));
    q.sql(
        "CREATE FUNCTION {q}_free() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN UPDATE {q} SET status = ''R'', owner = NULL WHERE id = 1; RETURN NEW; END';
         CREATE TRIGGER free BEFORE INSERT ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_free()",
    );
    q.fails("SELECT xqueue.put('{q}', '{}')", "55006", "task 1 is taken by");
    q.sql("DROP TRIGGER free ON {q}; DROP FUNCTION {q}_free()");
    assert_eq!(ack(&mut consumer, &q.name, 1).len(), 1);
}

/// The task belongs to a session that the connection has joined.
#[test]
fn a_joined_session() {
    let mut q = Queue::with("guard", COLUMNS, &json!({}));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 2)");
    let mut first = q.client();
    let session: String = scalar(&mut first, "SELECT xqueue.identify(grace => '1 min')::text", &[]);
    assert_eq!(take(&mut first, &q.name, "0", 1).len(), 1);
    let gone = pid(&mut first);
    drop(first);
    wait_until("the connection is gone", || !is_connected(&mut q.admin, gone));
    q.fails(STALE, "55006", "task 1 is taken by a session without a connection");
    let mut next = q.client();
    q.run(&mut next, &format!("SELECT xqueue.identify('{session}')"));
    q.run(&mut next, STALE);
    q.assert_tasks(&[("ready", 2)]);
}
