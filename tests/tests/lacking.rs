//! Triggers and indexes that a queue has lost: hard to lose, seen at once, made anew.

use xqueue_tests::*;

fn error(q: &mut Queue) -> String {
    let name = q.name.clone();
    scalar(
        &mut q.admin,
        "SELECT COALESCE(error, '') FROM xqueue.queues WHERE queue = $1::text::regclass",
        &[&name],
    )
}

fn exact(q: &mut Queue) -> bool {
    q.stats()["exact"] == json!(true)
}

#[test]
fn an_index_is_not_dropped_in_passing() {
    let mut q = Queue::with("lacking", "id bigint PRIMARY KEY, n int", &json!({}));
    let (ready, taken) = (q.index("ready"), q.index("taken"));
    q.fails(&format!("DROP INDEX {ready}"), "2BP01", "cannot drop index");
    q.sql(&format!("REINDEX INDEX CONCURRENTLY {ready}"));
    q.fails(&format!("DROP INDEX {ready}"), "2BP01", "cannot drop index");
    // Those of the user's own are not bound, nor does any of this hinder other changes.
    q.sql("CREATE INDEX own ON {q} (n); DROP INDEX own");
    q.sql("ALTER TABLE {q} ADD COLUMN more text, ALTER COLUMN n TYPE bigint");
    q.upgrade(&json!({"features": {"buried": true}}));
    let buried = q.index("buried");
    q.fails(&format!("DROP INDEX {buried}"), "2BP01", "cannot drop index");
    q.upgrade(&json!({"features": {"buried": false}}));
    // With CASCADE a trigger goes too.
    wait_until("all is well", || error(&mut q).is_empty() && exact(&mut q));
    q.sql(&format!("DROP INDEX {taken} CASCADE"));
    wait_until("it is noticed", || error(&mut q).contains("triggers are missing or disabled"));
    assert!(!exact(&mut q));
    q.sql("SELECT xqueue.upgrade('{q}')");
    wait_until("all is well again", || error(&mut q).is_empty() && exact(&mut q));
    q.fails(&format!("DROP INDEX {taken}"), "2BP01", "cannot drop index");
    q.sql("SELECT xqueue.downgrade('{q}'); DROP TABLE {q}");
    q.abandon();
}

#[test]
fn a_lost_index_is_noticed() {
    let mut q = Queue::with("lacking", "id bigint PRIMARY KEY", &json!({}));
    let index = q.index("ready");
    q.lose_index("ready");
    wait_until("it is noticed", || error(&mut q).contains(&format!("not valid: index {index}")));
    assert!(exact(&mut q), "the counters do not need it");
    // One made by hand serves as well.
    q.sql("CREATE INDEX ON {q} (id) WHERE status = 'R'");
    wait_until("all is well again", || error(&mut q).is_empty());
}

/// As libraries do that load fixtures.
#[test]
fn triggers_disabled_and_enabled_again() {
    let mut q = Queue::with("lacking", "id bigint PRIMARY KEY", &json!({}));
    let name = q.name.clone();
    q.sql("ALTER TABLE {q} DISABLE TRIGGER ALL");
    q.sql("INSERT INTO {q} VALUES (1), (2)");
    wait_until("it is noticed", || error(&mut q).contains("triggers are missing or disabled"));
    assert!(!exact(&mut q));
    q.sql("ALTER TABLE {q} ENABLE TRIGGER ALL");
    let always =
        "SELECT bool_and(tgenabled = 'A') FROM pg_trigger WHERE tgrelid = $1::text::regclass";
    wait_until("they fire always", || scalar(&mut q.admin, always, &[&name]));
    wait_until("the tasks are counted", || error(&mut q).is_empty() && exact(&mut q));
    q.assert_tasks(&[("ready", 2)]);
}
