//! Identified sessions survive each kind of server end.

use xqueue_tests::*;

fn open(c: &mut Client, grace: &str) -> String {
    scalar(c, "SELECT xqueue.identify(grace => $1::text::interval)::text", &[&grace])
}

/// Lets three sessions hold a task each: one with a long grace, one with a short grace, and an unidentified one. After
/// `end` the first session still holds its task.
fn after(end: impl FnOnce(&Server, &mut Queue)) {
    let server = Server::alone();
    let mut q = Queue::new("lasting");
    let ids: Vec<i64> = (0..3).map(|n| put(&mut q.admin, &q.name, n)).collect();
    let mut clients = [q.client(), q.client(), q.client()];
    let session = open(&mut clients[0], "1 hour");
    open(&mut clients[1], "10 ms");
    for c in &mut clients {
        take(c, &q.name, "0", 1);
    }
    let sql = "SELECT count(*) FROM xqueue.sessions WHERE lease = 'infinity'";
    wait_until("the worker knows", || scalar::<i64>(&mut q.admin, sql, &[]) == 2);
    end(&server, &mut q);
    q.reconnect();
    q.wait_for("ready", 2);
    assert_eq!(status(&mut q.admin, &q.name, ids[0]).as_deref(), Some("T"));
    let mut c = q.client();
    let sql = "SELECT xqueue.identify($1::text::uuid)::text";
    assert_eq!(scalar::<String>(&mut c, sql, &[&session]), session);
    assert_eq!(ack(&mut c, &q.name, ids[0]).len(), 1);
    let sql = "SELECT xqueue.identify(grace => '0')";
    c.batch_execute(sql).unwrap();
}

#[test]
fn a_restart() {
    after(|server, _| server.restart("fast"));
}

#[test]
fn an_immediate_stop() {
    after(|server, _| server.restart("immediate"));
}

#[test]
fn sigkill_of_a_backend() {
    after(|server, q| server.kill_backend(pid(&mut q.admin)));
}
