//! Tables that cannot become queues, and bad options: a clear error with SQLSTATE and hint, and no change.

use xqueue_tests::*;

#[test]
fn queues_that_are_none() {
    let mut q = Queue::table(
        "bad",
        "CREATE VIEW {q}_view AS SELECT 1 AS id; CREATE TABLE {q}_plain (id int PRIMARY KEY);
         CREATE TABLE {q}_parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
         CREATE SEQUENCE {q}_seq; CREATE MATERIALIZED VIEW {q}_mat AS SELECT 1 AS id",
    );
    for call in [
        "upgrade('{t}')",
        "take('{t}')",
        "put('{t}', '{}')",
        "ack('{t}', 1)",
        "check('{t}')",
        "downgrade('{t}')",
        "drop('{t}')",
    ] {
        for (table, states) in [
            ("no_such_table_at_all", "42P01"),
            ("{q}_view", "42809 55000"),
            ("{q}_mat", "42809 55000"),
            ("{q}_seq", "42809 55000"),
            ("{q}_parted", "42809 55000"),
            ("pg_catalog.pg_class", "42809 42501 55000"),
            ("xqueue.queue", "42809 42501 55000"),
            ("", "42P01 42602 22023"),
            ("a.b.c.d.e", "42601 42602 42P01 0A000 22023"),
            ("\"unclosed", "42602 42601 22023 42P01"),
            ("{q}_plain", "55000"),
        ] {
            if !(call.starts_with("upgrade") && table == "{q}_plain") {
                q.fails(&format!("SELECT xqueue.{}", call.replace("{t}", table)), states, "");
            }
        }
    }
    q.abandon();
}

/// Cases that the errors in pg_regress lack.
#[test]
fn options() {
    let mut q = Queue::with("bad", COLUMNS, &json!({}));
    for (options, states) in [
        (r#"{"features": null}"#, "22023 22004"),
        (r#"{"fields": {"status": 5}}"#, "22023"),
        (r#"{"fields": {"owner": "status"}}"#, "42804 22023 55000"),
        (r#"{"fields": {"status": "ctid"}}"#, "42804 22023 42703 42701 55000"),
        (r#"{"states": {"R": true}}"#, "22023"),
        (r#"{"existing": "T"}"#, "22023"),
        (r#"[1, 2]"#, "22023"),
        (r#""delayed""#, "22023"),
        ("null", "22023 22004"),
        ("5", "22023"),
        ("no json", "22P02"),
        (&format!("{}{}", "[".repeat(5000), "]".repeat(5000)), "22023 54001"),
    ] {
        refused(&mut q, &[(&format!("SELECT xqueue.upgrade('{{q}}', '{options}')"), states, "")]);
        let create = format!("SELECT xqueue.create('bad_created', '{options}')");
        refused(&mut q, &[(&create, &format!("{states} 42703 42804"), "")]);
    }
    assert!(scalar::<bool>(&mut q.admin, "SELECT to_regclass('bad_created') IS NULL", &[]));
}

#[test]
fn columns_of_the_wrong_kind() {
    const STATUS: &str = r#"{"fields": {"status": "status"}}"#;
    const RUNAT: &str = r#"{"fields": {"runat": "runat"}, "features": {"delayed": true}}"#;
    const NOWHERE: &str = r#"{"fields": {"status": "nowhere to be found"}, "existing": "Q"}"#;
    let mut q = Queue::adopt(&database(), &unique("bad_columns"));
    for (columns, options, states) in [
        ("status int", STATUS, "22023"),
        ("status timestamptz", STATUS, "42804"),
        ("status text[]", STATUS, "42804"),
        ("status text GENERATED ALWAYS AS ('R') STORED", STATUS, "42804 428C9 55000 22023"),
        // Without being named, the column stays the user's and is not adopted.
        ("status text", "{}", "42701 42804 22023 55000"),
        ("runat text", RUNAT, "42804 22023"),
        ("n int", NOWHERE, "22023 42703"),
    ] {
        q.sql(&format!("CREATE TABLE {{q}} (id int PRIMARY KEY, {columns})"));
        q.fails(&format!("SELECT xqueue.upgrade('{{q}}', '{options}')"), states, "");
        q.sql("DROP TABLE {q}");
    }
    q.abandon();
}
