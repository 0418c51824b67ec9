//! Defaults of columns: the ones that `upgrade` sets are reported when they were changed, and set again; those of users
//! stay.

use crate::dumped::databases;
use xqueue_tests::*;

/// Returns the default or the identity of a column.
fn default_of(q: &mut Queue, column: &str) -> String {
    let sql = "SELECT concat(pg_get_expr(d.adbin, d.adrelid), a.attidentity)
               FROM pg_attribute a LEFT JOIN pg_attrdef d ON (adrelid, adnum) = (attrelid, attnum)
               WHERE attrelid = $1::text::regclass AND attname = $2::text";
    scalar(&mut q.admin, sql, &[&q.name, &column])
}

fn ddl(q: &mut Queue) -> Value {
    q.ask_one("SELECT xqueue.upgrade('{q}', '{}', true)->'ddl'")
}

/// Returns the problems and the hint of `check`.
fn report(q: &mut Queue) -> (String, Value) {
    let report = q.ask_one("SELECT xqueue.check('{q}')");
    (report["problems"].to_string(), report["hint"].clone())
}

/// Changes a default of ours, and asserts that `check` reports it and that `upgrade` sets it again.
#[track_caller]
fn assert_set_again(q: &mut Queue, column: &str, change: &str) {
    let wanted = default_of(q, column);
    assert_eq!(ddl(q), json!([]), "{column} is {wanted}");
    q.sql(&format!("ALTER TABLE {{q}} {}", change.replace("{c}", &format!("ALTER {column}"))));
    assert_ne!(default_of(q, column), wanted, "{change}");
    let (problems, hint) = report(q);
    assert!(problems.contains(&format!("ALTER COLUMN {column} ")), "{change}: {problems}");
    assert!(hint.to_string().contains("SELECT xqueue.upgrade("), "{change}: {hint}");
    q.sql("SELECT xqueue.upgrade('{q}')");
    assert_eq!(default_of(q, column), wanted, "{change}");
    q.verify();
}

/// Asserts that a default of the user's is neither reported nor changed.
#[track_caller]
fn assert_kept(q: &mut Queue, column: &str) {
    let wanted = default_of(q, column);
    assert_eq!(report(q), ("[]".into(), Value::Null), "{column} is {wanted}");
    q.sql("SELECT xqueue.upgrade('{q}')");
    assert_eq!(default_of(q, column), wanted);
}

const FEATURES: &str = r#"{"features": {"buried": true, "delayed": true, "priority": true, "tube": true, "retry": {"limit": 3}}}"#;

#[test]
fn a_default_of_ours_that_was_changed() {
    let options: Value = FEATURES.parse().expect("options");
    let mut q = Queue::with("defaults", "id bigint PRIMARY KEY", &options);
    assert_set_again(&mut q, "status", "{c} SET DEFAULT 'B'");
    assert_set_again(&mut q, "status", "{c} SET DEFAULT 'R' || ''");
    assert_set_again(&mut q, "status", "{c} DROP DEFAULT");
    assert_set_again(&mut q, "attempts", "{c} SET DEFAULT 2");
    assert_set_again(&mut q, "attempts", "{c} DROP DEFAULT");
    assert_set_again(&mut q, "priority", "{c} DROP DEFAULT");
    // Columns that are kept belong to the table, and so do their defaults.
    q.sql("SELECT xqueue.downgrade('{q}')");
    assert_eq!(default_of(&mut q, "status"), "'R'::text");
    q.sql("DROP TABLE {q}");
    q.abandon();
}

/// A dump has the same defaults, as the server shows them; an older server has another function for UUIDs. With
/// `quote_all_identifiers` the server shows every name in quotes.
#[test]
fn a_default_of_ours_that_is_written_otherwise() {
    for (columns, id, default) in [
        ("id uuid PRIMARY KEY", "uuid", "xqueue.uuidv7()"),
        ("id text PRIMARY KEY", "uuid", "xqueue.uuidv7()::text"),
        ("id bigint PRIMARY KEY", "time64", "xqueue.time64('{q}'::regclass)"),
    ] {
        let mut q = Queue::with("defaults", columns, &json!({"features": {"id": id}}));
        q.sql("SET quote_all_identifiers = on");
        assert_eq!(ddl(&mut q), json!([]), "{default}");
        q.sql("RESET quote_all_identifiers");
        q.sql(&format!(
            "ALTER TABLE {{q}} ALTER status SET DEFAULT ('R'::text), ALTER id SET DEFAULT {default}"
        ));
        assert_eq!((report(&mut q).0, ddl(&mut q)), ("[]".into(), json!([])), "{default}");
    }
}

/// The server shows a literal without E, so that a backslash in it is not doubled.
#[test]
fn a_default_of_ours_with_a_backslash() {
    let mut q = Queue::adopt(&database(), &format!("\"{}\\x\"", unique("defaults")));
    q.sql("CREATE TABLE {q} (id bigint PRIMARY KEY)");
    q.upgrade(&json!({"states": {"R": "r\\'"}, "features": {"id": "time64"}}));
    for conforming in ["on", "off"] {
        q.sql(&format!("SET standard_conforming_strings = {conforming}"));
        let ddl: Value =
            scalar(&mut q.admin, "SELECT xqueue.upgrade($1::text, '{}', true)->'ddl'", &[&q.name]);
        let report: Value = scalar(&mut q.admin, "SELECT xqueue.check($1::text)", &[&q.name]);
        assert_eq!((&ddl, &report["problems"]), (&json!([]), &json!([])), "{conforming}");
    }
    q.sql("RESET standard_conforming_strings; DROP TABLE {q}");
    q.abandon();
}

#[test]
fn the_default_of_a_key() {
    for (columns, id, change) in [
        ("id uuid PRIMARY KEY", "uuid", "{c} SET DEFAULT gen_random_uuid()"),
        ("id text PRIMARY KEY", "uuid", "{c} SET DEFAULT 'x'"),
        ("id bigint PRIMARY KEY", "time64", "{c} SET DEFAULT 1"),
        ("id bigint PRIMARY KEY", "auto_increment", "{c} DROP IDENTITY, {c} SET DEFAULT 1"),
    ] {
        let mut q = Queue::with("defaults", columns, &json!({"features": {"id": id}}));
        assert_set_again(&mut q, "id", change);
        q.sql("SELECT xqueue.put('{q}', '[{}, {}]')");
        q.verify();
    }
}

/// A new identity would give the keys of tasks that are gone a second time.
#[test]
fn the_identity_of_a_key_in_a_dump_of_one_table() {
    let (both, mut old, mut new) = databases(
        r#"CREATE TABLE jobs (id bigint PRIMARY KEY);
           SELECT xqueue.upgrade('jobs', '{"features": {"id": "auto_increment"}}')"#,
    );
    old.run("SELECT xqueue.put('jobs', '[{}, {}, {}]'); DELETE FROM jobs");
    new.run("CREATE EXTENSION xqueue");
    both.copy(&["-t", "jobs"]);
    new.run("SELECT xqueue.upgrade('jobs')");
    assert_eq!(values(&mut new, "SELECT xqueue.put('jobs', '{}')", &[])[0]["id"], json!(4));
    // It is still the queue's, and not the table's own.
    new.run("SELECT xqueue.downgrade('jobs')");
    expect_error(&mut new, "INSERT INTO jobs DEFAULT VALUES", "23502", "");
}

#[test]
fn a_default_of_a_column_of_the_users() {
    let types = ["\"char\"", "char(1)", "varchar(10)", "text", "{q}_state"];
    for (at, kind) in types.into_iter().enumerate() {
        let mut q = Queue::adopt(&database(), &unique("defaults"));
        q.sql("CREATE TYPE {q}_state AS ENUM ('R', 'T', 'W', 'B', 'Z', 'D')");
        q.sql(&format!("CREATE TABLE {{q}} (id bigserial PRIMARY KEY, status {kind} NOT NULL)"));
        q.upgrade(&json!({"fields": {"status": "status"}, "features": {"buried": true}}));
        assert_set_again(&mut q, "status", "{c} SET DEFAULT 'B'");
        assert_set_again(&mut q, "status", "{c} DROP DEFAULT");
        q.sql("SELECT xqueue.downgrade('{q}')");
        assert_eq!(default_of(&mut q, "status"), "", "{kind}: it had none");
        // Some tables have one of their own.
        if at % 2 == 0 {
            q.sql("ALTER TABLE {q} ALTER status SET DEFAULT 'B'");
            let fields = json!({"status": "status", "owner": "owner"});
            q.upgrade(&json!({"fields": fields, "features": {"buried": true}}));
            assert_kept(&mut q, "status");
        }
        q.sql("DROP TABLE {q}; DROP TYPE {q}_state");
        q.abandon();
    }
}

/// A task gives these values, so that the table can give others where the task gives none.
#[test]
fn a_default_for_what_tasks_give() {
    let options: Value = FEATURES.parse().expect("options");
    let mut q = Queue::with("defaults", "id bigint PRIMARY KEY, payload text", &options);
    q.sql("ALTER TABLE {q} ALTER priority SET DEFAULT 7, ALTER tube SET DEFAULT 'one', ALTER payload SET DEFAULT 'x'");
    for column in ["priority", "tube", "payload"] {
        assert_kept(&mut q, column);
    }
    q.sql("ALTER TABLE {q} ALTER priority DROP NOT NULL, ALTER priority DROP DEFAULT");
    assert_kept(&mut q, "priority");
}

#[test]
fn the_defaults_of_a_table_that_inherits() {
    let mut q = Queue::table(
        "defaults",
        "CREATE TABLE {q} (id bigint PRIMARY KEY, state text); CREATE TABLE {q}_heir () INHERITS ({q});
         ALTER TABLE {q}_heir ALTER id SET DEFAULT 7, ALTER state SET DEFAULT 'archived'",
    );
    let mut heir = q.session();
    heir.name += "_heir";
    let mut defaults = || ["id", "state", "status"].map(|column| default_of(&mut heir, column));
    q.sql("ALTER TABLE {q}_heir ADD status text");
    let were = defaults();
    q.upgrade(&json!({"fields": {"status": "state"}, "features": {"id": "time64"}}));
    assert_eq!(defaults(), were);
    q.sql("SELECT xqueue.downgrade('{q}', drop_columns => true)");
    assert_eq!(defaults(), were);
    q.sql("ALTER TABLE {q}_heir DROP status");
    // The table inherits the added column, with its default for new rows.
    q.upgrade(&json!({"existing": "D", "features": {"id": "time64"}}));
    q.upgrade(&json!({"features": {"id": false}}));
    assert_eq!(defaults(), [were[0].as_str(), &were[1], "'R'::text"]);
}
