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

/// Unique at once, and never NULL: the error in the view and the hint of `check` say how, and it is enough to do that.
#[test]
fn a_key_that_is_lost() {
    for damage in [
        "DROP CONSTRAINT {q}_pkey",
        "DROP CONSTRAINT {q}_pkey, ADD UNIQUE (a, id), ALTER a DROP NOT NULL",
        "DROP CONSTRAINT {q}_pkey, ADD CONSTRAINT {q}_pkey PRIMARY KEY (a, id) DEFERRABLE INITIALLY DEFERRED",
        "DROP CONSTRAINT {q}_pkey, ADD CONSTRAINT {q}_pkey PRIMARY KEY (a, id) DEFERRABLE",
    ] {
        let columns = "a bigint, id bigint, PRIMARY KEY (a, id)";
        let mut q = Queue::with("lacking", columns, &json!({}));
        let name = q.name.clone();
        // The indexes of the user's own are not looked at for that.
        q.sql("CREATE UNIQUE INDEX ON {q} (a, id) WHERE a > 0; CREATE UNIQUE INDEX ON {q} (a, (id + 1))");
        q.sql(&format!("ALTER TABLE {{q}} {damage}"));
        wait_until("it is noticed", || error(&mut q).contains("the key (a, id) is not unique"));
        let report: Value = scalar(&mut q.admin, "SELECT xqueue.check($1::text)", &[&name]);
        let (hint, start) = (&report["hint"], format!("ALTER TABLE public.{name} "));
        let from = hint.as_str().and_then(|hint| hint.find(&start).map(|at| &hint[at..]));
        let mend = from.and_then(|hint| hint.split(';').next());
        let mend = mend.unwrap_or_else(|| panic!("{damage}: {report}")).to_owned();
        let upgrade = format!("SELECT xqueue.upgrade('{name}')");
        let refused = expect_error(&mut q.admin, &upgrade, "42P16", "");
        assert!(refused.hint().is_some_and(|hint| hint.contains(&mend)), "{refused:?}");
        assert_eq!(refused.message().contains("DEFERRABLE"), damage.contains("DEFERRABLE"));
        q.sql(&mend);
        wait_until("all is well", || error(&mut q).is_empty());
        q.sql("SELECT xqueue.put('{q}', '{\"a\": 1, \"id\": 1}'), xqueue.take('{q}')");
        q.sql("SELECT xqueue.release_all('{q}')");
    }
}

#[test]
fn a_table_whose_key_is_deferrable() {
    let mut q = Queue::adopt(&database(), &unique("lacking"));
    for (key, mended) in [
        ("PRIMARY KEY DEFERRABLE", "PRIMARY KEY (id)"),
        ("NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED", "UNIQUE (id)"),
    ] {
        q.sql(&format!("CREATE TABLE {{q}} (id bigint {key})"));
        let upgrade = format!("SELECT xqueue.upgrade('{}')", q.name);
        let refused = expect_error(&mut q.admin, &upgrade, "42P16", "DEFERRABLE");
        let hint = refused.hint().expect("a hint").to_owned();
        assert!(hint.ends_with(&format!("ADD {mended};")), "{hint}");
        q.sql(&hint);
        q.sql(&upgrade);
        q.verify();
        q.sql("DROP TABLE {q}");
    }
    q.abandon();
}
