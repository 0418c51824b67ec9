//! Triggers and indexes of a queue: protected against accidental loss, reported when missing, and recreated by upgrade.

use std::time::{Duration, Instant};

use xqueue_tests::*;

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
    // User indexes are not protected, and other changes of the table are not hindered.
    q.sql("CREATE INDEX own ON {q} (n); DROP INDEX own");
    q.sql("ALTER TABLE {q} ADD COLUMN more text, ALTER COLUMN n TYPE bigint");
    q.upgrade(&json!({"features": {"buried": true}}));
    let buried = q.index("buried");
    q.fails(&format!("DROP INDEX {buried}"), "2BP01", "cannot drop index");
    q.upgrade(&json!({"features": {"buried": false}}));
    // CASCADE drops a trigger too.
    wait_until("all is well", || q.error().is_empty() && exact(&mut q));
    q.sql(&format!("DROP INDEX {taken} CASCADE"));
    wait_until("it is noticed", || q.error().contains("triggers are missing or disabled"));
    assert!(!exact(&mut q));
    q.sql("SELECT xqueue.upgrade('{q}')");
    wait_until("all is well again", || q.error().is_empty() && exact(&mut q));
    q.fails(&format!("DROP INDEX {taken}"), "2BP01", "cannot drop index");
    // A trigger that was replaced does not depend on them any more, as after pg_upgrade.
    q.sql(
        "CREATE OR REPLACE TRIGGER xqueue_insert AFTER INSERT ON {q} FOR EACH ROW
         EXECUTE FUNCTION xqueue_internal.row_changed();
         ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_insert; SELECT xqueue.upgrade('{q}')",
    );
    q.fails(&format!("DROP INDEX {taken}"), "2BP01", "cannot drop index");
}

#[test]
fn an_index_that_was_renamed() {
    let options = json!({"features": {"buried": true}});
    let mut q = Queue::with("lacking", "id bigint PRIMARY KEY", &options);
    let rename = |q: &mut Queue, what: &str| {
        let index = q.index(what);
        q.sql(&format!("ALTER INDEX {index} RENAME TO {{q}}_{what}"));
    };
    rename(&mut q, "ready");
    rename(&mut q, "buried");
    q.upgrade(&json!({"features": {"buried": false, "keep": true}}));
    let left = definitions(&mut q, INDEXES);
    assert!(left.lines().count() == 3 && left.contains("_ready ON"), "{left}");
    q.fails("DROP INDEX {q}_ready", "2BP01", "cannot drop index");
    rename(&mut q, "taken");
    q.sql("SELECT xqueue.downgrade('{q}')");
    let left = definitions(&mut q, INDEXES);
    assert_eq!(left.lines().count(), 1, "{left}");
    q.sql("DROP TABLE {q}");
    q.abandon();
}

#[test]
fn a_lost_index_is_noticed() {
    let mut q = Queue::with("lacking", "id bigint PRIMARY KEY", &json!({}));
    let index = q.index("ready");
    q.lose_index("ready");
    let is_noticed = |q: &mut Queue| q.error().contains(&format!("not valid: index {index}"));
    wait_until("it is noticed", || is_noticed(&mut q));
    assert!(exact(&mut q), "the counters do not need it");
    // The database worker checks no index expressions if a table has too many indexes.
    q.sql(&(0..65).map(|n| format!("CREATE INDEX {{q}}_{n} ON {{q}} (id);")).collect::<String>());
    wait_until("it is not looked for", || q.error().is_empty());
    q.sql(&(0..65).map(|n| format!("DROP INDEX {{q}}_{n};")).collect::<String>());
    wait_until("it is looked for again", || is_noticed(&mut q));
    // An index made by hand is used as well.
    q.sql("CREATE INDEX ON {q} (id) WHERE status = 'R'");
    wait_until("all is well again", || q.error().is_empty());
}

fn fire_always(q: &mut Queue) -> bool {
    let always =
        "SELECT bool_and(tgenabled = 'A') FROM pg_trigger WHERE tgrelid = $1::text::regclass";
    scalar(&mut q.admin, always, &[&q.name])
}

/// Fixture loaders disable and enable triggers like this. The worker does not wait for transactions that write. It
/// tries again within milliseconds, not after the pause of five seconds for queues that lack a trigger.
#[test]
fn triggers_enabled_again_while_others_write() {
    // Other tests could keep the worker busy for as long as that pause.
    alone();
    let mut q = Queue::with("lacking", "id bigint PRIMARY KEY", &json!({}));
    let mut loader = q.client();
    let load = "ALTER TABLE {q} DISABLE TRIGGER ALL; INSERT INTO {q} VALUES (1); ALTER TABLE {q} ENABLE TRIGGER ALL";
    loader.run("BEGIN");
    loader.run(&load.replace("{q}", &q.name));
    let write = format!(
        "WITH new AS (INSERT INTO {} VALUES (2) RETURNING id) SELECT to_jsonb(id) FROM new, pg_sleep(0.4)",
        q.name
    );
    let writer = Waiter::start(q.client(), &write);
    writer.wait_for_lock(&mut q);
    loader.run("COMMIT");
    writer.task();
    let begun = Instant::now();
    wait_until("they fire always", || fire_always(&mut q));
    assert!(begun.elapsed() < Duration::from_secs(4), "after {:?}", begun.elapsed());
    wait_until("the tasks are counted", || exact(&mut q));
    q.assert_tasks(&[("ready", 2)]);
}

/// The key must be unique immediately, and never NULL. The error in the view and the hint of `check` give the repair,
/// and that repair suffices.
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
        // The user's partial and expression indexes do not count as a unique key.
        q.sql("CREATE UNIQUE INDEX ON {q} (a, id) WHERE a > 0; CREATE UNIQUE INDEX ON {q} (a, (id + 1))");
        q.sql(&format!("ALTER TABLE {{q}} {damage}"));
        wait_until("it is noticed", || q.error().contains("the key (a, id) is not unique"));
        let report = q.ask_one("SELECT xqueue.check('{q}')");
        let (hint, start) = (&report["hint"], format!("ALTER TABLE public.{} ", q.name));
        let from = hint.as_str().and_then(|hint| hint.find(&start).map(|at| &hint[at..]));
        let mend = from.and_then(|hint| hint.split(';').next());
        let mend = mend.unwrap_or_else(|| panic!("{damage}: {report}")).to_owned();
        let refused = q.fails("SELECT xqueue.upgrade('{q}')", "42P16", "");
        assert!(refused.hint().is_some_and(|hint| hint.contains(&mend)), "{refused:?}");
        assert_eq!(refused.message().contains("DEFERRABLE"), damage.contains("DEFERRABLE"));
        q.sql(&mend);
        wait_until("all is well", || q.error().is_empty());
        q.sql("SELECT xqueue.put('{q}', '{\"a\": 1, \"id\": 1}'), xqueue.take('{q}')");
        q.sql("SELECT xqueue.release_all('{q}')");
    }
}

#[test]
fn a_table_whose_key_is_deferrable() {
    for (key, mended) in [
        ("PRIMARY KEY DEFERRABLE", "PRIMARY KEY (id)"),
        ("NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED", "UNIQUE (id)"),
    ] {
        let mut q = Queue::table("lacking", &format!("CREATE TABLE {{q}} (id bigint {key})"));
        let refused = q.fails("SELECT xqueue.upgrade('{q}')", "42P16", "DEFERRABLE");
        let hint = refused.hint().expect("a hint").to_owned();
        assert!(hint.ends_with(&format!("ADD {mended};")), "{hint}");
        q.sql(&hint);
        q.sql("SELECT xqueue.upgrade('{q}')");
    }
}

const TRIGGERS: &str =
    "SELECT string_agg(pg_get_triggerdef(oid) || ' ' || tgenabled::text, E'\n' ORDER BY tgname)
    FROM pg_trigger WHERE tgrelid = $1::text::regclass AND NOT tgisinternal";
const INDEXES: &str =
    "SELECT string_agg(pg_get_indexdef(indexrelid), E'\n' ORDER BY indexrelid::regclass::text)
    FROM pg_index WHERE indrelid = $1::text::regclass";

/// Returns the definitions of all triggers, or of all indexes.
fn definitions(q: &mut Queue, of: &str) -> String {
    scalar(&mut q.admin, of, &[&q.name])
}

/// Asserts that `upgrade` reports and repairs a deviation from its own definition. `checks`: `check` reports it too.
#[track_caller]
fn assert_mended(q: &mut Queue, of: &str, wanted: &str, case: &str, words: &str, checks: bool) {
    assert_ne!(definitions(q, of), wanted, "{case}");
    let ddl = q.ask_one("SELECT xqueue.upgrade('{q}', '{}', true)->'ddl'");
    assert!(ddl.to_string().contains(words), "{case}: {ddl}");
    if checks {
        let report = q.ask_one("SELECT xqueue.check('{q}')");
        assert!(report["problems"].to_string().contains(words), "{case}: {report}");
    }
    q.sql("SELECT xqueue.upgrade('{q}')");
    assert_eq!(definitions(q, of), wanted, "{case}");
    q.verify();
}

/// With the TRIGGER privilege a role can replace one of our triggers by another of the same name and function.
#[test]
fn a_trigger_that_only_looks_like_ours() {
    let features = json!({"features": {"delayed": true, "tube": true}});
    let mut q = Queue::with("lacking", "id bigint PRIMARY KEY, payload text", &features);
    let role = Role::create();
    let mut other = role.client();
    q.sql(&format!("GRANT TRIGGER ON {{q}} TO {}", role.name));
    let wanted = definitions(&mut q, TRIGGERS);
    let ours = wanted.split_once("WHEN (").and_then(|(_, rest)| rest.split_once(" EXECUTE"));
    let ours = ours.map(|(condition, _)| condition.trim_end_matches(')')).expect("a condition");
    let ours = format!("{}))", ours.replace("old.", "OLD.").replace("new.", "NEW."));
    let update = |when: &str| format!("AFTER UPDATE ON {{q}} FOR EACH ROW {when}");
    let on = |event: &str, row: &str| format!("{event} ON {{q}} FOR EACH ROW WHEN ({row}.id < 0)");
    let of_payload = "WHEN (record_image_ne(ROW(OLD.payload), ROW(NEW.payload)))";
    for (name, when, argument) in [
        ("xqueue_update", update("WHEN (OLD.id < 0)"), ""),
        ("xqueue_update", update(""), ""),
        ("xqueue_update", update("WHEN (OLD.* IS DISTINCT FROM NEW.*)"), ""),
        ("xqueue_update", update(of_payload), ""),
        ("xqueue_update", update(&format!("WHEN ({})", ours.replace("image_ne", "image_lt"))), ""),
        ("xqueue_update", update(&format!("WHEN ({ours} AND OLD.id < 0)")), ""),
        ("xqueue_update", update(&format!("WHEN ({})", ours.replace("OLD.", "NEW."))), ""),
        ("xqueue_update", update("").replace("UPDATE", "UPDATE OF payload"), ""),
        ("xqueue_update", update("").replace("UPDATE", "UPDATE OR DELETE"), ""),
        ("xqueue_update", update("").replace("FOR", "REFERENCING NEW TABLE AS n FOR"), ""),
        ("xqueue_update", update(&format!("WHEN ({ours})")), "'x'"),
        ("xqueue_insert", on("AFTER INSERT", "NEW"), ""),
        ("xqueue_delete", on("AFTER DELETE", "OLD"), ""),
        ("xqueue_truncate", "AFTER TRUNCATE ON {q} WHEN (false)".into(), ""),
        ("~xqueue_arrive", on("BEFORE INSERT", "NEW"), ""),
    ] {
        let when = when.replace("{q}", &q.name);
        let function = match name {
            "xqueue_truncate" => "truncated",
            "~xqueue_arrive" => "row_arrives",
            _ => "row_changed",
        };
        let case = format!(
            "CREATE OR REPLACE TRIGGER \"{name}\" {when}
             EXECUTE FUNCTION xqueue_internal.{function}({argument})"
        );
        other.run(&case);
        let is_told_of = name != "~xqueue_arrive";
        assert!(!(is_told_of && exact(&mut q)), "{case}");
        q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'b'); UPDATE {q} SET tube = 'b', status = 'T' WHERE id = 1");
        q.sql(&format!("ALTER TABLE {{q}} ENABLE ALWAYS TRIGGER \"{name}\""));
        assert!(!(is_told_of && exact(&mut q)), "{case}");
        let (words, checks) = (name, when.contains(".id < 0"));
        assert_mended(&mut q, TRIGGERS, &wanted, &case, words, checks);
        q.sql("DELETE FROM {q}");
    }
}

/// A column that swaps its name with another one keeps its role, as its triggers and indexes do.
#[test]
fn a_column_that_swaps_its_name_with_another() {
    for (column, features, kind, value) in [
        ("status", json!({"buried": true}), "text DEFAULT 'R'", "substr('BRR', id::int, 1)"),
        ("expires", json!({"ttl": true}), "timestamptz", "'2001-01-01'"),
    ] {
        let options = json!({ "features": features });
        let mut q = Queue::with("lacking", "id bigserial PRIMARY KEY, payload text", &options);
        q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}]')");
        q.sql(&format!("ALTER TABLE {{q}} ADD other {kind}; UPDATE {{q}} SET other = {value}"));
        q.sql(&format!(
            "ALTER TABLE {{q}} RENAME {column} TO x; ALTER TABLE {{q}} RENAME other TO {column}; \
             ALTER TABLE {{q}} RENAME x TO other"
        ));
        if column == "status" {
            q.status_is("other", LETTERS);
        }
        q.sql("SELECT xqueue.put('{q}', '{}')");
        let plan = q.ask_one("SELECT xqueue.upgrade('{q}', '{}', true)");
        assert_eq!(plan["ddl"], json!([]), "{column}");
        assert_eq!(plan["definition"]["fields"][column], "other", "{column}");
        q.verify();
        assert!(exact(&mut q), "{column}");
        if column == "expires" {
            // The worker deletes a task by the renamed column, and no other.
            q.sql("SELECT xqueue.put('{q}', '{}', ttl => '1 millisecond')");
            q.wait_for("total", 4);
        }
        assert_eq!(take_all(&mut q.admin, &q.name).len(), 4, "{column}");
    }
}

/// The right name and columns do not make an index ours.
#[test]
fn an_index_that_only_looks_like_ours() {
    let by_tube = json!({"features": {"tube": true, "buried": true}});
    let by_subqueue = json!({"features": {"utube": true}});
    let columns = "id bigint PRIMARY KEY, payload text";
    let mut queues =
        [by_tube, by_subqueue].map(|options| Queue::with("lacking", columns, &options));
    let hash = "xqueue_internal.subqueue(tube)";
    for (of, index, shape) in [
        (0, "ready", "(id) WHERE status = 'R' AND id > 1000"),
        (0, "ready", "(id DESC) WHERE status = 'R'"),
        (0, "ready", "(id) INCLUDE (tube) WHERE status = 'R'"),
        (0, "ready", "USING hash (id) WHERE status = 'R'"),
        (0, "tube", "(tube COLLATE \"POSIX\", id) WHERE status = 'R'"),
        (0, "taken", "(owner) WHERE status = 'R'"),
        // A unique index would limit each session to one task.
        (0, "taken", "UNIQUE (owner) WHERE status = 'T'"),
        (0, "buried", "(id) WHERE false"),
        (
            1,
            "in_flight",
            "UNIQUE (hash_array_extended(ARRAY[tube], '1'::bigint)) WHERE status = 'T'",
        ),
        (1, "in_flight", &format!("UNIQUE ({hash}) WHERE status = 'T'")),
        (1, "subqueue", &format!("({hash} DESC, id) WHERE status = 'R'")),
    ] {
        let q = &mut queues[of];
        let (wanted, name) = (definitions(q, INDEXES), q.index(index));
        q.lose_index(index);
        let (unique, shape) = match shape.strip_prefix("UNIQUE ") {
            Some(shape) => ("UNIQUE ", shape),
            None => ("", shape),
        };
        let using = if shape.starts_with("USING") { "" } else { "USING btree " };
        let case = format!("CREATE {unique}INDEX {name} ON {{q}} {using}{shape}");
        q.sql(&case);
        // The direct path uses none of them as ours.
        q.sql("INSERT INTO {q} (id) VALUES (2); SELECT xqueue.put('{q}', '{\"id\": 1}')");
        if shape == "(owner) WHERE status = 'R'" {
            let counted = "SELECT to_jsonb(count(*)) FROM {q} WHERE status = 'R' AND owner IS NULL";
            q.sql("SET enable_seqscan = off");
            assert_eq!(q.ask_one(counted), json!(2), "a put writes into an index of users, too");
            q.sql("RESET enable_seqscan");
        }
        assert_eq!(q.takes(1), [1], "{case}");
        q.sql("DELETE FROM {q}");
        assert_mended(q, INDEXES, &wanted, &case, &name, true);
    }
}
