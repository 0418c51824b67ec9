//! What an administrator asks of the queues, and of the server that they are on.

use xqueue_tests::{Client, Database, Queue, expect_error, scalar, try_sql, unique, wait_until};

fn state(c: &mut Client) -> String {
    scalar(c, "SELECT xqueue.state()", &[])
}

#[test]
fn the_state_before_and_after_the_extension_is_there() {
    let database = Database::empty("state");
    let mut c = database.client();
    c.batch_execute("BEGIN; CREATE EXTENSION xqueue").unwrap();
    // The worker that came to look at the new database leaves first.
    wait_until("nobody has asked for a worker", || state(&mut c) == "INIT");
    c.batch_execute("COMMIT").unwrap();
    wait_until("the worker runs", || state(&mut c) == "RUNNING");
}

#[test]
fn a_worker_that_cannot_read_the_list_of_queues_is_starting() {
    let database = Database::new("state");
    let (mut c, mut blocker) = (database.client(), database.client());
    wait_until("the worker runs", || state(&mut c) == "RUNNING");
    blocker.batch_execute("BEGIN; LOCK TABLE xqueue.queue IN ACCESS EXCLUSIVE MODE").unwrap();
    let worker = "FROM pg_stat_activity WHERE backend_type = 'xqueue worker' AND datname = current_database()";
    let first: i32 = scalar(&mut c, &format!("SELECT pid {worker}"), &[]);
    let _sent: bool = scalar(&mut c, "SELECT pg_terminate_backend($1)", &[&first]);
    wait_until("another worker is there", || {
        let pid: Option<i32> = scalar(&mut c, &format!("SELECT max(pid) {worker}"), &[]);
        pid.is_some_and(|pid| pid != first)
    });
    assert_eq!(state(&mut c), "STARTUP");
    blocker.batch_execute("ROLLBACK").unwrap();
    wait_until("it runs", || state(&mut c) == "RUNNING");
}

#[test]
fn a_database_that_somebody_needs_for_himself() {
    let mut database = Database::new("state");
    let mut c = database.client();
    wait_until("the worker runs", || state(&mut c) == "RUNNING");
    let (mut other, copy) = (xqueue_tests::connect(), unique("copy"));
    let sql = format!("CREATE DATABASE {copy} TEMPLATE {}", database.name);
    // It waits for some seconds until nobody else is there, then gives up.
    let command = std::thread::spawn(move || try_sql(&mut other, &sql));
    wait_until("the worker has to leave", || state(&mut c) == "ENDING");
    let outcome = command.join().expect("the command ends");
    assert!(outcome.is_err(), "a database in use is not copied");
    wait_until("the worker is back", || state(&mut c) == "RUNNING");
    database.sql(&format!("DROP DATABASE IF EXISTS {copy}"));
}

#[test]
fn whoever_may_only_read_is_told_so() {
    let mut q = Queue::new("reader");
    q.sql("SELECT xqueue.put('{q}', '[{}, {}]')");
    q.sql("SELECT xqueue.take('{q}')");
    let name = q.name.clone();
    let mut reader = q.client();
    reader.batch_execute("SET default_transaction_read_only = on").unwrap();
    for call in [
        "put('{q}', '{}')",
        "take('{q}')",
        "take('{q}', '1s')",
        "ack('{q}', 1)",
        "release('{q}', 1)",
        "delete('{q}', 1)",
        "snatch('{q}', 1)",
        "truncate('{q}')",
        "drop('{q}')",
        "downgrade('{q}')",
        "upgrade('{q}', '{\"features\": {\"buried\": true}}')",
        "create('{q}_2')",
    ] {
        let call = format!("SELECT xqueue.{}", call.replace("{q}", &name));
        let error = expect_error(&mut reader, &call, "25006", "this transaction is read-only");
        assert!(error.hint().is_some(), "{call}");
    }
    expect_error(&mut reader, &format!("CALL xqueue.next('{name}')"), "25006", "read-only");
    for call in
        ["peek('{q}', 1)", "stats('{q}')", "check('{q}')", "upgrade('{q}')", "wait('{q}', 3)"]
    {
        let call = format!("SELECT xqueue.{}", call.replace("{q}", &name));
        reader.batch_execute(&call).unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
}
