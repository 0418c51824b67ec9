//! A worker that is missing, or does not work, is seen.

use std::process::Command;
use xqueue_tests::*;

fn state(c: &mut Client) -> String {
    scalar(c, "SELECT xqueue.state()", &[])
}

fn error(c: &mut Client) -> String {
    scalar(c, "SELECT COALESCE(max(error), '') FROM xqueue.queues", &[])
}

#[test]
fn a_database_without_a_place_for_its_worker() {
    // As many as the first database needs.
    let server = Cluster::new("max_worker_processes = 4\n");
    server.wait_running();
    let mut first = server.client();
    first.batch_execute("CREATE DATABASE second").unwrap();
    let mut config = server.config();
    let mut second = open(config.dbname("second"));
    second.batch_execute("CREATE EXTENSION xqueue; SELECT xqueue.create('jobs')").unwrap();
    wait_until("there is no worker", || state(&mut second) == "NO_WORKER");
    assert!(error(&mut second).contains("raise max_worker_processes"));
    assert_eq!(error(&mut first), "");
    let seen =
        values(&mut first, "SELECT to_jsonb(w) FROM xqueue.workers w ORDER BY database", &[]);
    assert_eq!((&seen[0]["state"], &seen[0]["error"]), (&json!("RUNNING"), &Value::Null));
    assert_eq!((&seen[1]["database"], &seen[1]["pid"]), (&json!("second"), &Value::Null));
    assert!(seen[1]["error"].as_str().is_some_and(|error| error.contains("there is no worker")));
    let said = "WARNING:  xqueue: no background worker for database \"second\"";
    wait_until("the log names the database", || server.log().contains(said));
    first.batch_execute("DROP EXTENSION xqueue").unwrap();
    wait_until("the place of the other is taken", || state(&mut second) == "RUNNING");
    assert_eq!(error(&mut second), "");
}

#[test]
fn a_worker_that_is_stopped() {
    let database = Database::new("workers");
    let mut c = database.client();
    wait_until("the worker runs", || state(&mut c) == "RUNNING");
    c.batch_execute("SELECT xqueue.create('jobs', '{\"features\": {\"delayed\": true}}')").unwrap();
    let own = "FROM xqueue.workers WHERE database = current_database()";
    let worker: i32 = scalar(&mut c, &format!("SELECT pid {own}"), &[]);
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &worker.to_string()]).status();
        assert!(sent.expect("kill").success());
    };
    signal("-STOP");
    c.batch_execute("SELECT xqueue.put('jobs', '{}', delay => '10 ms')").unwrap();
    let is_late: bool = scalar(&mut c, &format!("SELECT lag < '10 s' {own}"), &[]);
    assert!(is_late, "it is not late at once");
    wait_until("it is noticed", || state(&mut c) == "STALLED");
    assert!(error(&mut c).contains(&format!("the worker ({worker}) does not come round")));
    let lag: bool =
        scalar(&mut c, &format!("SELECT lag >= '10 s' AND error IS NOT NULL {own}"), &[]);
    assert!(lag);
    signal("-CONT");
    wait_until("it goes on", || state(&mut c) == "RUNNING");
    assert_eq!(error(&mut c), "");
    wait_until("the task is ready", || scalar(&mut c, "SELECT ready = 1 FROM xqueue.queues", &[]));
    let rounds: bool =
        scalar(&mut c, &format!("SELECT lag < '10 s' AND last_round > started {own}"), &[]);
    assert!(rounds);
}
