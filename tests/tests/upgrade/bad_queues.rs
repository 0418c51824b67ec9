//! Tables that cannot become queues, and bad options: a clear error with SQLSTATE and hint, and no change.

use xqueue_tests::*;

#[test]
fn queues_that_are_none() {
    let (mut q, _other) = sample();
    let role = unique("bad");
    q.sql(&format!(
        "CREATE VIEW {role}_view AS SELECT 1 AS id; CREATE TABLE {role}_plain (id int PRIMARY KEY);
         CREATE TABLE {role}_parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
         CREATE SEQUENCE {role}_seq; CREATE TABLE {role}_nokey (id int); CREATE MATERIALIZED VIEW {role}_mat AS SELECT 1 AS id;
         CREATE TEMP TABLE {role}_temp (id int PRIMARY KEY);
         CREATE TABLE {role}_unique (id int UNIQUE DEFERRABLE INITIALLY DEFERRED);
         CREATE TABLE {role}_partial (id int); CREATE UNIQUE INDEX ON {role}_partial (id) WHERE id > 0;
         CREATE TABLE {role}_expr (id int); CREATE UNIQUE INDEX ON {role}_expr ((id + 1))"
    ));
    let sql = |f: &str| f.replace("{p}", &role);
    for call in [
        "upgrade('{t}')",
        "take('{t}')",
        "put('{t}', '{}')",
        "ack('{t}', 1)",
        "release('{t}', 1)",
        "peek('{t}', 1)",
        "stats('{t}')",
        "check('{t}')",
        "downgrade('{t}')",
        "drop('{t}')",
    ] {
        let call = |table: &str| sql(&format!("SELECT xqueue.{}", call.replace("{t}", table)));
        refused(
            &mut q,
            &[
                (&call("no_such_table_at_all"), "42P01", "no_such_table_at_all"),
                (&call("no_such_schema.t"), "42P01 3F000", "no_such_schema"),
                (&call("{p}_view"), "42809 55000", ""),
                (&call("{p}_mat"), "42809 55000", ""),
                (&call("{p}_seq"), "42809 55000", ""),
                (&call("{p}_parted"), "42809 55000", ""),
                (&call("pg_catalog.pg_class"), "42809 42501 55000", ""),
                (&call("xqueue.queue"), "42809 42501 55000", ""),
                (&call(""), "42P01 42602 22023", ""),
                (&call("a.b.c.d.e"), "42601 42602 42P01 0A000 22023", ""),
                (&call("\"unclosed"), "42602 42601 22023 42P01", ""),
            ],
        );
        if !call("x").contains("upgrade") {
            let plain = sql("{p}_plain\" is not a queue");
            refused(&mut q, &[(&call("{p}_plain"), "55000", &plain)]);
        }
    }
    for (table, states) in [
        ("{p}_temp", "42809"),
        ("{p}_nokey", "42P16"),
        ("{p}_unique", "42P16"),
        ("{p}_partial", "42P16"),
        ("{p}_expr", "42P16"),
    ] {
        let call = sql(&format!("SELECT xqueue.upgrade('{table}')"));
        refused(&mut q, &[(&call, states, "")]);
    }
    let regclass = format!("SELECT xqueue.take('{}'::regclass)", q.name);
    refused(
        &mut q,
        &[
            (&regclass, "42804", ""),
            ("SELECT xqueue.upgrade(1)", "42804", ""),
            ("SELECT xqueue.take(1.5)", "42804", ""),
        ],
    );
    q.sql(&sql("DROP MATERIALIZED VIEW {p}_mat; DROP VIEW {p}_view; DROP TABLE {p}_plain, {p}_parted, {p}_nokey, {p}_unique, {p}_partial, {p}_expr, {p}_temp; DROP SEQUENCE {p}_seq"));
}

#[test]
fn options() {
    let (mut q, _other) = sample();
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
    ] {
        let sql = format!("SELECT xqueue.upgrade('{{q}}', '{options}')");
        refused(&mut q, &[(&sql, states, "")]);
        let sql = format!("SELECT xqueue.create('bad_created', '{options}')");
        refused(&mut q, &[(&sql, &format!("{states} 42703 42804"), "")]);
    }
    refused(&mut q, &[("SELECT xqueue.upgrade('{q}', 'no json')", "22P02", "")]);
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    refused(&mut q, &[(&format!("SELECT xqueue.upgrade('{{q}}', '{deep}')"), "22023 54001", "")]);
    assert!(scalar::<bool>(&mut q.admin, "SELECT to_regclass('bad_created') IS NULL", &[]));
}

#[test]
fn columns_of_the_wrong_kind() {
    let (mut q, _other) = sample();
    let table = unique("bad_columns");
    for (columns, states) in [
        ("id int PRIMARY KEY, status int", "22023"),
        ("id int PRIMARY KEY, status real", "42804"),
        ("id int PRIMARY KEY, status timestamptz", "42804"),
        ("id int PRIMARY KEY, status text[]", "42804"),
        (
            "id int PRIMARY KEY, status text GENERATED ALWAYS AS ('R') STORED",
            "42804 428C9 55000 22023",
        ),
    ] {
        q.sql(&format!("CREATE TABLE {table} ({columns})"));
        let sql =
            format!(r#"SELECT xqueue.upgrade('{table}', '{{"fields": {{"status": "status"}}}}')"#);
        refused(&mut q, &[(&sql, states, "")]);
        // Without being named, the column stays the user's and is not adopted.
        refused(
            &mut q,
            &[(&format!("SELECT xqueue.upgrade('{table}')"), "42701 42804 22023 55000", "status")],
        );
        q.sql(&format!("DROP TABLE {table}"));
    }
    q.sql(&format!("CREATE TABLE {table} (id int PRIMARY KEY, status text, runat text); INSERT INTO {table} VALUES (1, 'purple')"));
    let sql =
        format!(r#"SELECT xqueue.upgrade('{table}', '{{"fields": {{"status": "status"}}}}')"#);
    refused(&mut q, &[(&sql, "22023 23514", "purple")]);
    let sql = format!(
        r#"SELECT xqueue.upgrade('{table}', '{{"fields": {{"status": "status", "runat": "runat"}}, "features": {{"delayed": true}}}}')"#
    );
    refused(&mut q, &[(&sql, "42804 22023", "")]);
    let sql = format!(
        r#"SELECT xqueue.upgrade('{table}', '{{"fields": {{"status": "nowhere to be found"}}, "existing": "Q"}}')"#
    );
    refused(&mut q, &[(&sql, "22023 42703", "")]);
    q.sql(&format!("DROP TABLE {table}"));
}
