//! Sessions that are opened or joined for one transaction, or in a transaction that is rolled back.

use super::*;

/// Pools in transaction mode need an identity for each transaction, on any connection.
#[test]
fn for_one_transaction() {
    let mut q = Queue::new("session");
    let (mut first, mut second) = (q.client(), q.client());
    let id = put(&mut q.admin, &q.name, 1);
    first.run("BEGIN");
    let session = open_local(&mut first);
    assert_eq!(open_local(&mut first), session, "the same all through");
    first.run("SELECT xqueue.identify(grace => '2 hours', local => true)");
    let has_longer =
        "SELECT grace = '2 hours' FROM xqueue.sessions WHERE session = xqueue.identify()";
    assert!(scalar::<bool>(&mut first, has_longer, &[]));
    assert_eq!(identity(&mut first), session);
    take_all(&mut first, &q.name);
    first.run("COMMIT");
    assert_ne!(identity(&mut first), session);
    let words = format!("task {id} is taken by session {session}, not by you");
    fails_to_ack(&mut first, &q.name, id, "55006", &words);
    let join = join_local(&session);
    second.run(&format!("BEGIN; {join}; ROLLBACK; BEGIN; {join}"));
    assert_eq!(ack(&mut second, &q.name, id).len(), 1);
    second.run("ROLLBACK");
    assert!(is_taken(&mut q.admin, &q.name, id));
    let both = format!("SELECT a FROM ({join} AS s OFFSET 0) AS i, xqueue.ack('{{q}}', {id}) AS a");
    assert_eq!(ask(&mut second, &q.name, &both).len(), 1, "in one statement");
}

/// A long transaction that uses a session holds up neither connections that join it nor the worker.
#[test]
fn a_long_transaction_blocks_no_other() {
    let (mut q, c, session, id) = taken_with("1 hour");
    leave(&mut q, c, &session);
    shorten_lease(&mut q, &session);
    let (mut first, mut second) = (q.client(), q.client());
    first.run("BEGIN");
    join(&mut first, &session);
    second.run("SET statement_timeout = '10s'");
    join(&mut second, &session);
    assert_eq!(ack(&mut second, &q.name, id).len(), 1);
    let mut third = q.client();
    put(&mut third, &q.name, 2);
    take_all(&mut third, &q.name);
    drop(third);
    q.wait_for("ready", 1);
    first.run("ROLLBACK");
    wait_until("the worker gets at it", || is_attached(&mut q.admin, &session));
}

/// A rollback undoes the opening, so the tasks come back when the connection ends.
#[test]
fn an_opening_that_is_rolled_back() {
    let mut q = Queue::new("session");
    let mut c = q.client();
    put(&mut c, &q.name, 1);
    take_all(&mut c, &q.name);
    c.run("BEGIN; SELECT xqueue.identify(grace => '1 hour'); ROLLBACK");
    let session = identity(&mut c);
    assert!(shown(&mut q.admin, &session).is_none());
    drop(c);
    q.wait_for("ready", 1);
}

/// Begins a transaction in a session with this grace period, and waits until the session's lease has expired.
fn begin_beyond_the_lease(c: &mut Client, grace: &str) -> String {
    let open = format!("SELECT xqueue.identify(grace => '{grace}', local => true)::text");
    let session = loop {
        let session: String = scalar(c, &open, &[]);
        let join = format!("BEGIN; {}", join_local(&session));
        let Err(error) = try_sql(c, &join) else { break session };
        // Its grace expired in between.
        assert_eq!(code(&error), "42704", "{error:?}");
        c.run("ROLLBACK");
    };
    let over = format!(
        "SELECT lease < clock_timestamp() FROM xqueue.sessions WHERE session = '{session}'"
    );
    wait_until("its lease is over", || scalar(c, &over, &[]));
    session
}

/// While a transaction keeps a session beyond its lease, the transaction can name it again, and others can join it.
#[test]
fn a_session_in_use_beyond_its_lease() {
    let mut q = Queue::new("session");
    let (mut c, mut other) = (q.client(), q.client());
    let id = put(&mut q.admin, &q.name, 1);
    let session = begin_beyond_the_lease(&mut c, "60 ms");
    assert_eq!(take_all(&mut c, &q.name), [id]);
    let again = "SELECT xqueue.identify(local => true)::text";
    assert_eq!(scalar::<String>(&mut c, again, &[]), session, "it opens no other");
    c.run(&join_local(&session));
    // The renewal is not committed: for others the lease is still over.
    other.run(&join_local(&session));
    assert_eq!(ack(&mut c, &q.name, id).len(), 1);
    c.run("COMMIT");
    wait_until("it is over", || shown(&mut q.admin, &session).is_none());
}

/// Its grace begins at the end of the transaction, so the next transaction can join it immediately.
#[test]
fn the_next_transaction_after_one_longer_than_the_grace() {
    let mut c = connect();
    // The worker can be busy for longer than the call waits for it.
    let is_joined = (0..5).any(|_| {
        let session = begin_beyond_the_lease(&mut c, "400 ms");
        c.run("COMMIT");
        try_sql(&mut c, &join_local(&session)).is_ok()
    });
    assert!(is_joined, "the grace has begun");
}

#[test]
fn the_own_session_while_another_is_joined_for_the_transaction() {
    let mut q = Queue::new("session");
    let (mut c, mut other) = (q.client(), q.client());
    let (mine, session) = (identity(&mut c), open(&mut other, "1 hour"));
    c.run(&format!("BEGIN; {}", join_local(&session)));
    let sql = "SELECT xqueue.identify($1::text::uuid, '2 hours')::text";
    assert_eq!(scalar::<String>(&mut c, sql, &[&mine]), mine);
    c.run("COMMIT");
    assert_eq!(shown(&mut q.admin, &session).unwrap()["grace"], "01:00:00");
    assert_eq!(shown(&mut q.admin, &mine).unwrap()["grace"], "02:00:00");
    let sql = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT xqueue.identify('{session}')");
    expect_error(&mut c, &sql, "0A000", "repeatable read");
}
