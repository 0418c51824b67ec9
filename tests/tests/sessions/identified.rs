//! Identified sessions: connections share a session, and it outlives them for exactly its grace period.

mod ended;
mod transactions;

use postgres::error::DbError;
use xqueue_tests::*;

const UNKNOWN: &str = "does not exist, or not any more";
/// Opens a session for one transaction.
const OPEN_LOCAL: &str = "SELECT xqueue.identify(grace => '1 hour', local => true)::text";

/// Opens a session with this grace period.
fn open(c: &mut Client, grace: &str) -> String {
    let sql = "SELECT xqueue.identify(grace => $1::text::interval)::text";
    scalar(c, sql, &[&grace])
}

fn open_local(c: &mut Client) -> String {
    scalar(c, OPEN_LOCAL, &[])
}

/// Returns SQL that joins a session for one transaction.
fn join_local(session: &str) -> String {
    format!("SELECT xqueue.identify('{session}', local => true)")
}

fn identity(c: &mut Client) -> String {
    scalar(c, "SELECT xqueue.identify()::text", &[])
}

fn join(c: &mut Client, session: &str) {
    let sql = "SELECT xqueue.identify($1::text::uuid)::text";
    assert_eq!(scalar::<String>(c, sql, &[&session]), session);
}

/// Returns the session's row in the view, or None.
fn shown(c: &mut Client, session: &str) -> Option<Value> {
    let sql = "SELECT to_jsonb(s) FROM xqueue.sessions s WHERE session = $1::text::uuid";
    values(c, sql, &[&session]).pop()
}

fn is_attached(c: &mut Client, session: &str) -> bool {
    shown(c, session).is_some_and(|s| s["lease"] == "infinity")
}

/// Lets the lease of a session that is in no connection end sooner, so that the next use renews it.
fn shorten_lease(q: &mut Queue, session: &str) {
    q.sql(&format!(
        "UPDATE xqueue.session SET lease = clock_timestamp() + '10 min' WHERE uuid = '{session}'"
    ));
}

#[track_caller]
fn fails_to_ack(c: &mut Client, queue: &str, id: i64, state: &str, words: &str) -> DbError {
    expect_error(c, &format!("SELECT xqueue.ack('{queue}', {id})"), state, words)
}

fn is_taken(c: &mut Client, queue: &str, id: i64) -> bool {
    status(c, queue, id).as_deref() == Some("T")
}

/// Ends a connection, and waits until its session's grace period has begun.
fn leave(q: &mut Queue, c: Client, session: &str) {
    wait_until("the worker knows of the connection", || is_attached(&mut q.admin, session));
    drop(c);
    wait_until("the grace period has begun", || {
        shown(&mut q.admin, session).is_none_or(|s| s["lease"] != "infinity")
    });
}

/// Creates a queue with one task, taken by a session with this grace period.
fn taken_with(grace: &str) -> (Queue, Client, String, i64) {
    let q = Queue::new("session");
    let mut c = q.client();
    let session = open(&mut c, grace);
    let id = put(&mut c, &q.name, 1);
    take_all(&mut c, &q.name);
    (q, c, session, id)
}

#[test]
fn a_client_that_comes_back_in_time_acks_what_it_had_taken() {
    let (mut q, c, session, id) = taken_with("1 hour");
    leave(&mut q, c, &session);
    assert!(is_taken(&mut q.admin, &q.name, id));
    let words = format!("task {id} is taken by session {session}, not by you");
    fails_to_ack(&mut q.admin, &q.name, id, "55006", &words);
    let taken = "SELECT to_jsonb(t) FROM xqueue.taken t WHERE queue = $1::text::regclass";
    assert_eq!(values(&mut q.admin, taken, &[&q.name])[0]["pid"], Value::Null);
    let stats = q.ask_one(&format!("SELECT xqueue.stats('{{q}}', {id})"));
    assert_eq!((&stats["session"], stats.get("pid")), (&json!(session), None));
    let mut c = q.client();
    join(&mut c, &session);
    assert_eq!(identity(&mut c), session);
    assert_eq!(values(&mut q.admin, taken, &[&q.name])[0]["pid"], pid(&mut c));
    wait_until("the lease is endless again", || is_attached(&mut q.admin, &session));
    assert_eq!(shown(&mut q.admin, &session).unwrap()["pids"], json!([pid(&mut c)]));
    assert_eq!(ack(&mut c, &q.name, id).len(), 1);
    // Each connection in a session can change its grace period.
    put(&mut c, &q.name, 2);
    take_all(&mut c, &q.name);
    assert_eq!(open(&mut c, "2 hours"), session);
    assert_eq!(shown(&mut q.admin, &session).unwrap()["grace"], "02:00:00");
    assert_eq!(open(&mut c, "0"), session);
    drop(c);
    q.wait_for("ready", 1);
}

#[test]
fn after_its_grace_the_tasks_are_ready_and_it_cannot_be_joined() {
    let (mut q, c, session, id) = taken_with("50 ms");
    leave(&mut q, c, &session);
    q.wait_for("ready", 1);
    assert_eq!(q.calls("session"), 1);
    assert!(shown(&mut q.admin, &session).is_none());
    let sql = format!("SELECT xqueue.identify('{session}')");
    expect_error(&mut q.admin, &sql, "42704", UNKNOWN);
    let mut c = q.client();
    assert_ne!(identity(&mut c), session, "an error leaves the connection as it was");
    fails_to_ack(&mut c, &q.name, id, "55000", "is not taken by anybody");
}

#[test]
fn unknown_and_malformed_sessions_are_refused() {
    let mut c = connect();
    let mine = identity(&mut c);
    let unknown = "SELECT xqueue.identify('00000000-0000-0000-0000-000000000000')";
    expect_error(&mut c, unknown, "42704", UNKNOWN);
    expect_error(&mut c, "SELECT xqueue.identify('nonsense')", "22P02", "nonsense");
    expect_error(&mut c, "SELECT xqueue.identify(grace => '-1 s')", "22023", "grace");
    expect_error(&mut c, "SELECT xqueue.identify(local => true)", "22023", "grace");
    expect_error(&mut c, "SELECT xqueue.identify(local => NULL)", "22004", "local");
    assert_eq!(identity(&mut c), mine);
}

/// Without a grace period, a session lives as long as a connection is in it. A connection stays in the session that it has
/// joined, even if it rolls that transaction back, or fails to join another session.
#[test]
fn connections_share_a_session_while_one_is_there() {
    for end in ["COMMIT", "ROLLBACK"] {
        let mut q = Queue::new("session");
        let (mut first, mut second) = (q.client(), q.client());
        let session = identity(&mut first);
        second.run("BEGIN");
        join(&mut second, &session);
        second.run(end);
        let ids: Vec<i64> = (0..4).map(|n| put(&mut q.admin, &q.name, n)).collect();
        take(&mut first, &q.name, "0", 2);
        take(&mut second, &q.name, "0", 2);
        assert_eq!(ack(&mut second, &q.name, ids[0]).len(), 1);
        assert_eq!(ack(&mut first, &q.name, ids[2]).len(), 1);
        drop(first);
        let connections =
            "SELECT count(*) FROM xqueue_internal.session_connections() c WHERE c->>'session' = $1";
        wait_until("the first has left", || {
            scalar::<i64>(&mut q.admin, connections, &[&session]) == 1
        });
        let unknown = "SELECT xqueue.identify('00000000-0000-0000-0000-000000000000')";
        (0..20).for_each(|_| drop(expect_error(&mut second, unknown, "42704", UNKNOWN)));
        assert_eq!(identity(&mut second), session, "joining is no part of the transaction");
        assert_eq!(ack(&mut second, &q.name, ids[1]).len(), 1);
        assert!(is_taken(&mut q.admin, &q.name, ids[3]));
        drop(second);
        q.wait_for("ready", 1);
        wait_until("it is over", || shown(&mut q.admin, &session).is_none());
    }
}

/// A task taken before the connection joined another session still belongs to the connection's own session. The
/// connection can ack it after going back.
#[test]
fn back_into_the_own_session() {
    let q = Queue::new("session");
    let (mut c, mut other) = (q.client(), q.client());
    let (mine, session) = (identity(&mut c), open(&mut other, "1 hour"));
    let id = put(&mut c, &q.name, 1);
    take_all(&mut c, &q.name);
    join(&mut c, &session);
    let words = format!(
        "task {id} is taken by session {mine} of this connection ({}), not by session {session}, for which it acts",
        pid(&mut c)
    );
    let error = fails_to_ack(&mut c, &q.name, id, "55006", &words);
    assert!(error.hint().is_some_and(|hint| hint.contains(&mine)), "{error:?}");
    // The reverse: tasks of the joined session after going back, also while a third session is joined for one
    // transaction.
    let id_of_session = put(&mut c, &q.name, 2);
    assert_eq!(take_all(&mut c, &q.name), [id_of_session]);
    join(&mut c, &mine);
    let words = format!("task {id_of_session} is taken by session {session}, not by you");
    let by_pid = format!("task {id_of_session} is taken by {}, not by you", pid(&mut other));
    let error = fails_to_ack(&mut c, &q.name, id_of_session, "55006", "is taken by");
    assert!([words, by_pid].iter().any(|words| error.message().contains(words)), "{error:?}");
    c.run(&format!("BEGIN; {}", join_local(&session)));
    let error = fails_to_ack(&mut c, &q.name, id, "55006", "of this connection");
    assert!(error.hint().is_some_and(|hint| hint.contains("end of the transaction")), "{error:?}");
    c.run("ROLLBACK");
    assert_eq!(ack(&mut other, &q.name, id_of_session).len(), 1);
    assert_eq!(ack(&mut c, &q.name, id).len(), 1);
}

#[test]
fn discard_all_leaves_it() {
    let (mut q, mut c, session, id) = taken_with("1 hour");
    wait_until("it is known", || is_attached(&mut q.admin, &session));
    c.run("DISCARD PLANS; DISCARD SEQUENCES; DISCARD TEMP; RESET ALL");
    assert_eq!(identity(&mut c), session, "other commands do not");
    c.run("DISCARD ALL");
    wait_until("its grace has begun", || !is_attached(&mut q.admin, &session));
    assert_ne!(identity(&mut c), session);
    assert!(is_taken(&mut q.admin, &q.name, id));
    join(&mut c, &session);
    assert_eq!(ack(&mut c, &q.name, id).len(), 1);
}

/// rights/limits.rs has the grace that identified sessions get from the setting.
#[test]
fn the_setting_gives_no_time_of_grace_to_other_sessions() {
    let mut q = Queue::new("session");
    let mut silent = q.client();
    silent.run("SET xqueue.session_grace = '1 h'");
    put(&mut q.admin, &q.name, 1);
    take(&mut silent, &q.name, "0", 1);
    drop(silent);
    q.wait_for("ready", 1);
}

/// Use extends the lease of a session without connections, but not every call writes it.
#[test]
fn use_renews_the_lease() {
    let mut q = Queue::new("session");
    let mut c = q.client();
    let session = open_local(&mut c);
    let lease = |q: &mut Queue| shown(&mut q.admin, &session).unwrap()["lease"].clone();
    let first = lease(&mut q);
    c.run(&join_local(&session));
    assert_eq!(lease(&mut q), first);
    shorten_lease(&mut q, &session);
    c.run(&join_local(&session));
    let is_renewed = "SELECT lease > clock_timestamp() + '1 hour' FROM xqueue.sessions WHERE session = $1::text::uuid";
    wait_until("it is renewed", || scalar(&mut q.admin, is_renewed, &[&session]));
}

/// Two connections that set a grace period wait neither for each other nor for the worker, and the worker does not
/// wait for them.
#[test]
fn giving_grace_side_by_side() {
    let (q, c, session, _) = taken_with("1 hour");
    let grace = format!(
        "SET statement_timeout = '10s'; BEGIN; \
         SELECT xqueue.identify('{session}', grace => '2 hours', local => true)"
    );
    let mut clients = [q.client(), q.client()];
    clients.iter_mut().for_each(|client| q.run(client, &grace));
    clients.iter_mut().for_each(|client| q.run(client, "COMMIT"));
    drop(c);
    q.run(&mut q.client(), &format!("SELECT xqueue.identify('{session}', grace => '0')"));
}

/// DISCARD ALL has ended the session that took the task, but the worker has not given the task back yet.
#[test]
fn a_task_of_an_earlier_session_of_the_connection() {
    let mut q = Queue::new("session");
    let mut c = q.client();
    let id = put(&mut c, &q.name, 1);
    take_all(&mut c, &q.name);
    q.sql("BEGIN; SELECT FROM {q} FOR UPDATE");
    c.run("DISCARD ALL");
    let words = format!("task {id} is taken by an earlier session of this connection");
    fails_to_ack(&mut c, &q.name, id, "55006", &words);
    q.sql("ROLLBACK");
    q.wait_for("ready", 1);
}

/// Tasks stay with the session that took them. On a join, a warning names the session left behind and says that it can
/// still hold tasks.
#[test]
fn joining_another_session_warns_of_the_tasks_left_behind() {
    let mut q = Queue::new("session");
    let session = open(&mut q.admin, "1 hour");
    let (mut c, warnings) = Heard::open(q.config());
    let mine = identity(&mut c);
    let warned = |c: &mut Client, sql: &str| {
        c.run(sql);
        warnings.take()
    };
    let join_it = format!("SELECT xqueue.identify('{session}')");
    let go_back = format!("SELECT xqueue.identify('{mine}')");
    assert!(warned(&mut c, &format!("{join_it}; {go_back}")).is_empty(), "it holds nothing");
    let ids: Vec<i64> = (0..3).map(|n| put(&mut q.admin, &q.name, n)).collect();
    take(&mut c, &q.name, "0", 1);
    let takes_two = format!("BEGIN; SELECT xqueue.take('{}', count => 2)", q.name);
    for (sql, count) in [
        (join_it.clone(), "1 taken task"),
        (format!("{takes_two}; {join_it}; ROLLBACK"), "3 taken tasks"),
    ] {
        let warned = warned(&mut c, &format!("{sql}; {join_it}; {go_back}"));
        assert_eq!(warned.len(), 1, "once: {warned:?}");
        assert_eq!(warned[0].code().code(), "01000");
        assert!(warned[0].message().contains(count), "{warned:?}");
        assert!(warned[0].hint().is_some_and(|hint| hint.contains(&mine)), "{warned:?}");
    }
    let local = format!("BEGIN; {}; COMMIT", join_local(&session));
    assert!(warned(&mut c, &local).is_empty(), "it comes back by itself");
    assert_eq!(ack(&mut c, &q.name, ids[0]).len(), 1);
    assert!(warned(&mut c, &join_it).is_empty(), "it holds nothing any more");
    q.sql("SELECT xqueue.identify(grace => '0')");
}

/// Another transaction holds the row of the session. The change waits briefly for it. Then a warning says that nothing has changed.
#[test]
fn a_grace_that_another_transaction_prevents() {
    let mut q = Queue::new("session");
    let (mut c, warnings) = Heard::open(q.config());
    let session = open(&mut c, "1 hour");
    q.sql(&format!("BEGIN; SELECT FROM xqueue.session WHERE uuid = '{session}' FOR UPDATE"));
    assert_eq!(open(&mut c, "2 hours"), session);
    let warned = warnings.take();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!(warned[0].code().code(), "01000");
    assert!(warned[0].message().contains(&session), "{warned:?}");
    assert!(warned[0].hint().is_some_and(|hint| hint.contains("again")), "{warned:?}");
    q.sql("ROLLBACK");
    assert_eq!(shown(&mut q.admin, &session).unwrap()["grace"], "01:00:00");
    assert_eq!(open(&mut c, "2 hours"), session);
    assert_eq!(warnings.take().len(), 0);
    assert_eq!(shown(&mut q.admin, &session).unwrap()["grace"], "02:00:00");
    open(&mut c, "0");
}
