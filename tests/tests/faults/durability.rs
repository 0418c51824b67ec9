//! Which commits wait for the standby. A standby that never answers makes the waiting ones visible.

use xqueue_tests::*;

/// Only sessions that ask for it wait at commit: the worker and the tests' own sessions do not.
const SETTINGS: &str = "synchronous_standby_names = 'nobody'\nsynchronous_commit = local\n";

fn queue(cluster: &Cluster, options: &Value) -> Queue {
    let mut queue = Queue::make_at(cluster.config(), &unique("durable"), COLUMNS, options);
    queue.sql("INSERT INTO {q} SELECT FROM generate_series(1, 100)");
    queue.sql("CREATE TABLE {q}_results (id bigint)");
    queue
}

/// Returns a session whose commits wait for the standby. It reads the tasks first: a read can set hint bits, and with
/// checksums that writes WAL for which a commit would wait.
fn careful(queue: &Queue) -> Client {
    let mut client = queue.client();
    let first = format!("BEGIN; SELECT FROM xqueue.take('{}'); ROLLBACK", queue.name);
    client.batch_execute(&first).expect("a take, undone");
    client.batch_execute("SET synchronous_commit = on").expect("the setting");
    client
}

/// Runs statements that must not wait: the wait would never end.
#[track_caller]
fn returns(client: &mut Client, queue: &Queue, sql: &str) {
    let sql = sql.replace("{q}", &queue.name);
    client.batch_execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let setting: String = scalar(client, "SHOW synchronous_commit", &[]);
    assert_eq!(setting, "on", "after {sql}");
}

/// Runs statements whose commit has to wait, then cancels the wait.
#[track_caller]
fn waits(mut client: Client, queue: &mut Queue, sql: &str) -> Client {
    let (sql, pid) = (sql.replace("{q}", &queue.name), pid(&mut client));
    let text = sql.clone();
    let thread = std::thread::spawn(move || {
        let result = client.batch_execute(&text);
        (client, result)
    });
    let waiting =
        "SELECT wait_event IS NOT DISTINCT FROM 'SyncRep' FROM pg_stat_activity WHERE pid = $1";
    wait_until(&format!("{sql} waits"), || {
        assert!(!thread.is_finished(), "did not wait: {sql}");
        scalar(&mut queue.admin, waiting, &[&pid])
    });
    let _sent: bool = scalar(&mut queue.admin, "SELECT pg_cancel_backend($1)", &[&pid]);
    let (client, result) = thread.join().expect("the thread");
    result.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    client
}

#[test]
fn only_a_take_alone_is_not_waited_for() {
    let cluster = Cluster::new(SETTINGS);
    let mut q = queue(&cluster, &json!({}));
    let mut c = careful(&q);
    for alone in [
        "SELECT FROM xqueue.take('{q}')",
        "SELECT FROM xqueue.take(NULL::{q})",
        "SELECT FROM xqueue.take('{q}', '1s')",
        "BEGIN; SELECT FROM xqueue.take('{q}'); SELECT count(*) FROM {q}; SELECT FROM xqueue.take('{q}'); COMMIT",
        "BEGIN; SAVEPOINT a; SELECT FROM xqueue.take('{q}'); RELEASE a; COMMIT",
        "CALL xqueue.next('{q}', '0')",
    ] {
        returns(&mut c, &q, alone);
    }
    for more in [
        "SELECT FROM xqueue.put('{q}', '{}')",
        "INSERT INTO {q} DEFAULT VALUES",
        "WITH taken AS (SELECT * FROM xqueue.take(NULL::{q})) INSERT INTO {q}_results SELECT id FROM taken",
        "BEGIN; SELECT FROM xqueue.take('{q}'); INSERT INTO {q}_results VALUES (1); COMMIT",
        "BEGIN; INSERT INTO {q}_results VALUES (1); SELECT FROM xqueue.take('{q}'); COMMIT",
        "BEGIN; SELECT FROM xqueue.take('{q}'); INSERT INTO {q}_results VALUES (1); \
         SELECT FROM xqueue.take('{q}'); COMMIT",
        "BEGIN; SELECT FROM xqueue.take('{q}'); SELECT FROM xqueue.put('{q}', '{}'); COMMIT",
        "SELECT xqueue.ack(NULL::{q}, id) FROM {q} WHERE owner = xqueue.identify() LIMIT 1",
        "SELECT xqueue.take(NULL::{q}, done => id) FROM {q} WHERE owner = xqueue.identify() LIMIT 1",
        "UPDATE {q} SET status = 'R', owner = NULL WHERE owner = xqueue.identify()",
    ] {
        c = waits(c, &mut q, more);
    }
    // A rolled back take has no effect on later commits.
    returns(&mut c, &q, "BEGIN; SELECT FROM xqueue.take('{q}'); ROLLBACK");
    drop(waits(c, &mut q, "INSERT INTO {q}_results VALUES (1)"));
    q.wait_for("taken", 0);
}

/// Otherwise any role could make the commits of all others wait for the disk, and make the worker scan for the tasks of
/// their sessions.
#[test]
fn a_refused_identify_changes_nothing_for_the_session() {
    let cluster = Cluster::new(SETTINGS);
    let mut q = queue(&cluster, &json!({}));
    q.sql("CREATE ROLE stranger LOGIN");
    let mut stranger = open(cluster.config().user("stranger"));
    let mut c = careful(&q);
    let session: String = scalar(&mut c, "SELECT xqueue.identify()::text", &[]);
    for call in ["", ", local => true", ", grace => '1 hour'"] {
        let sql = format!("SELECT xqueue.identify('{session}'{call})");
        expect_error(&mut stranger, &sql, "42501", "permission denied for session");
        returns(&mut c, &q, "SELECT FROM xqueue.take('{q}')");
    }
    drop(c);
    q.wait_for("taken", 0);
}

#[test]
fn what_is_to_outlast_a_crash_is_waited_for() {
    let cluster = Cluster::new(SETTINGS);
    let retry = json!({"features": {"retry": {"limit": 3}}});
    for (options, own) in [
        // The number of attempts has to survive.
        (retry, ""),
        // A check constraint can write.
        (json!({}), "ALTER TABLE {q} ADD CHECK (lo_create(0) > 0) NOT VALID"),
    ] {
        let mut q = queue(&cluster, &options);
        q.sql(own);
        let c = careful(&q);
        drop(waits(c, &mut q, "SELECT FROM xqueue.take(NULL::{q})"));
        q.wait_for("taken", 0);
    }
    // Tasks of an identified session have to survive, taken by any of its connections.
    let mut q = queue(&cluster, &json!({}));
    let mut c = careful(&q);
    returns(&mut c, &q, "SELECT FROM xqueue.take('{q}')");
    let c = waits(c, &mut q, "SELECT xqueue.identify(grace => '1 hour')");
    drop(waits(c, &mut q, "SELECT FROM xqueue.take('{q}')"));
    let mut c = careful(&q);
    let session: String = scalar(&mut c, "SELECT xqueue.identify()::text", &[]);
    q.sql(&format!("SELECT xqueue.identify('{session}')"));
    let c = waits(c, &mut q, "SELECT FROM xqueue.take('{q}')");
    let mut joined = careful(&q);
    joined.batch_execute("SET synchronous_commit = local").expect("the setting");
    joined.batch_execute(&format!("SELECT xqueue.identify('{session}')")).expect("the session");
    joined.batch_execute("SET synchronous_commit = on").expect("the setting");
    drop(waits(joined, &mut q, "SELECT FROM xqueue.take('{q}')"));
    drop(c);
    // Tasks have to survive that were taken for a session that the connection has left since.
    let mut q = queue(&cluster, &json!({}));
    let mut keeper = q.client();
    let joined: String =
        scalar(&mut keeper, "SELECT xqueue.identify(grace => '1 hour')::text", &[]);
    let mut c = careful(&q);
    let own: String = scalar(&mut c, "SELECT xqueue.identify()::text", &[]);
    for leaving in [
        format!(
            "SELECT xqueue.identify('{joined}'); BEGIN; SELECT FROM xqueue.take('{{q}}'); \
             SELECT xqueue.identify('{own}'); COMMIT"
        ),
        format!(
            "BEGIN; SELECT FROM xqueue.take('{{q}}'); SELECT xqueue.identify('{joined}'); COMMIT"
        ),
    ] {
        c = waits(c, &mut q, &leaving);
    }
    drop(c);
    q.wait_for("taken", 1);
    // The cast of a user's type to json can write.
    let mut q = queue(&cluster, &json!({}));
    q.sql(
        "CREATE TYPE {q}_mood AS ENUM ('good'); \
         CREATE FUNCTION {q}_json({q}_mood) RETURNS json LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO public.{q}_results VALUES (0); RETURN to_json($1::text); END'; \
         CREATE CAST ({q}_mood AS json) WITH FUNCTION {q}_json({q}_mood); \
         ALTER TABLE {q} ADD mood {q}_mood DEFAULT 'good'",
    );
    let mut c = careful(&q);
    returns(&mut c, &q, "SELECT FROM xqueue.take(NULL::{q})");
    drop(waits(c, &mut q, "SELECT FROM xqueue.take('{q}')"));
    q.wait_for("taken", 0);
}

/// The commit of a take waits for what a trigger has done, except for times that it sets in the task's row.
#[test]
fn triggers_that_only_set_times_are_not_waited_for() {
    let cluster = Cluster::new(SETTINGS);
    for (timing, action, waits_for_it) in [
        ("BEFORE", "NEW.updated_at := clock_timestamp()", false),
        ("AFTER", "NULL", false),
        ("BEFORE", "NEW.tried := OLD.tried + 1", true),
        ("BEFORE", "NEW.updated_at := now(); NEW.note := 'taken'", true),
        ("BEFORE", "INSERT INTO public.{q}_results VALUES (NEW.id)", true),
        ("AFTER", "INSERT INTO public.{q}_results VALUES (NEW.id)", true),
    ] {
        let mut q = queue(&cluster, &json!({}));
        q.sql("ALTER TABLE {q} ADD updated_at timestamptz, ADD tried int DEFAULT 0, ADD note text");
        q.sql(&format!(
            "CREATE FUNCTION {{q}}_acts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {action}; RETURN NEW; END $$;
             CREATE TRIGGER acts {timing} UPDATE ON {{q}} FOR EACH ROW EXECUTE FUNCTION {{q}}_acts()"
        ));
        let mut c = careful(&q);
        for take in ["SELECT FROM xqueue.take('{q}')", "SELECT FROM xqueue.take('{q}', count => 3)"]
        {
            if waits_for_it {
                c = waits(c, &mut q, take);
            } else {
                returns(&mut c, &q, take);
            }
        }
        drop(c);
        q.wait_for("taken", 0);
    }
}
