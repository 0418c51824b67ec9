//! Keys of every type with a btree order, untyped parameters, batches, both forms.

use xqueue_tests::*;

/// Puts, takes, peeks, releases and acks a task. `key` is an SQL expression of the key's own type.
#[track_caller]
fn round(columns: &str, insert: &str, key: &str) {
    let mut q = Queue::with("key", columns, &json!({"features": {"delayed": true}}));
    let name = q.name.clone();
    q.sql(&format!("INSERT INTO {{q}} {insert}"));
    let peeked = values(&mut q.admin, &format!("SELECT xqueue.peek('{name}', {key})"), &[]);
    assert_eq!(peeked.len(), 1, "{key}");
    assert_eq!(take(&mut q.admin, &name, "0", 9).len(), 1);
    let call = |f: &str| format!("SELECT xqueue.{f}('{name}', {key})");
    assert_eq!(values(&mut q.admin, &call("release"), &[])[0]["status"], json!("R"), "{key}");
    let e = expect_error(&mut q.admin, &call("ack"), "55000", "is not taken by anybody");
    assert!(e.message().starts_with("task "), "{e:?}");
    assert_eq!(take(&mut q.admin, &name, "0", 9).len(), 1);
    // A delay, and the worker's promotion.
    let delayed = format!("SELECT xqueue.release('{name}', {key}, delay => '20 milliseconds')");
    assert_eq!(values(&mut q.admin, &delayed, &[])[0]["status"], json!("W"));
    assert_eq!(take(&mut q.admin, &name, "30s", 9).len(), 1);
    // An ack returns the task as it was.
    assert_eq!(values(&mut q.admin, &call("ack"), &[])[0]["status"], json!("T"), "{key}");
    expect_error(&mut q.admin, &call("ack"), "P0002", "was not found");
    // The row form reads the key from the row.
    q.sql(&format!("INSERT INTO {{q}} {insert}"));
    for verb in ["release", "ack"] {
        let sql = format!("SELECT xqueue.{verb}(t)::text FROM xqueue.take(NULL::{name}) AS t");
        assert_eq!(q.admin.query(&sql, &[]).expect(key).len(), 1, "{verb} {key}");
    }
    q.assert_tasks(&[("total", 0)]);
    // The end of the session finds the key too.
    q.sql(&format!("INSERT INTO {{q}} {insert}"));
    let mut c = q.client();
    assert_eq!(take(&mut c, &name, "0", 1).len(), 1);
    drop(c);
    q.wait_for("ready", 1);
}

/// Types with values. The SQL expression of a key is the value cast to the type, unless another one is given.
const KEYS: [(&str, &str, &str); 18] = [
    ("bigint", "9223372036854775807", "9223372036854775807"),
    ("int", "-7", "-7"),
    ("smallint", "7", "7::bigint"),
    ("uuid", "11111111-2222-3333-4444-555555555555", ""),
    ("uuid", "11111111-2222-3333-4444-555555555555", "'11111111-2222-3333-4444-555555555555'"),
    ("text", "", "''"),
    ("text", "it''s \"so\"", ""),
    ("text", "{1,2}", "'{1,2}'"),
    ("text", "äöü ✓", ""),
    ("varchar(40)", "a,b)(", "'a,b)('"),
    ("varchar(40)", "NULL", "'NULL'"),
    ("text COLLATE \"C\"", "x", "'x'"),
    ("char(5)", "x", ""),
    ("timestamptz", "2026-01-02 03:04:05.678901+00", ""),
    ("numeric", "1.10", "1.1"),
    ("float8", "0.1", "0.1::float8"),
    ("bytea", "\\x00ff", ""),
    // If the key is an array, an array parameter is one key.
    ("text[]", "{a,NULL,c}", "ARRAY['a', NULL, 'c']"),
];

#[test]
fn keys_of_one_column() {
    std::thread::scope(|scope| {
        for keys in KEYS.chunks(KEYS.len() / 4) {
            scope.spawn(move || {
                for (kind, value, key) in keys {
                    let cast = format!("'{value}'::{kind}");
                    let key: &str = if key.is_empty() { &cast } else { key };
                    round(&format!("id {kind} PRIMARY KEY"), &format!("VALUES ('{value}')"), key);
                }
            });
        }
    });
}

#[test]
fn enum_domain_and_row_types() {
    let mut admin = connect();
    let (kind, number, pair) = (unique("kind"), unique("number"), unique("pair"));
    admin.run(&format!(
        "CREATE TYPE {kind} AS ENUM ('low', 'high'); CREATE DOMAIN {number} AS bigint CHECK (VALUE > 0);
         CREATE TYPE {pair} AS (a int, b text)"
    ));
    for (kind, value, key) in [
        (&kind, "'high'", "'high'".to_owned()),
        (&kind, "'high'", format!("'high'::{kind}")),
        (&number, "5", "5".to_owned()),
        (&number, "5", format!("5::{number}")),
        (&pair, "ROW(1, 'x')", format!("ROW(1, 'x')::{pair}")),
    ] {
        round(&format!("id {kind} PRIMARY KEY"), &format!("VALUES ({value})"), &key);
    }
}

#[test]
fn rows_arrays_and_json_are_keys_in_the_json_of_a_task() {
    for (kind, key) in [
        ("{q}_pair", json!({"a": 1, "b": "x"})),
        ("{q}_pair[]", json!([{"a": 1, "b": "x"}])),
        ("jsonb", json!("1")),
        ("jsonb", json!([1])),
        ("jsonb", json!({"a": 1})),
    ] {
        let mut q = Queue::table(
            "nested",
            "CREATE TYPE {q}_pair AS (a int, b text); CREATE DOMAIN {q}_count AS int NOT NULL",
        );
        q.sql(&format!("CREATE TABLE {{q}} (k {kind} PRIMARY KEY, n {{q}}_count DEFAULT 1)"));
        q.upgrade(&json!({"features": {"buried": true}}));
        let task = json!({ "k": key });
        let put = format!("SELECT xqueue.put('{{q}}', '{task}', on_conflict => 'nothing')->'k'");
        assert_eq!((q.ask_one(&put), q.ask_one(&put)), (key.clone(), key), "{kind}");
        if kind == "jsonb" {
            q.sql("INSERT INTO {q} VALUES ('1')");
        }
        let taken = take(&mut q.admin, &q.name, "0", 9).len();
        q.sql("SELECT xqueue.bury(j) FROM {q} AS j");
        // The board gives the id of a buried task back.
        let dug = "SELECT to_jsonb(count(*)) FROM xqueue_internal.buried('{q}', 9) AS b
                   CROSS JOIN LATERAL xqueue.dig('{q}', b->'id')";
        assert_eq!(q.ask_one(dug), json!(taken), "{kind}");
        take(&mut q.admin, &q.name, "0", 9);
        q.sql(&format!("CALL xqueue.next('{{q}}', '0', task => '{task}')"));
        let left = q.ask_one("SELECT coalesce(jsonb_agg(k), '[]') FROM {q}");
        assert_eq!(left, if kind == "jsonb" { json!([1]) } else { json!([]) }, "{task}");
    }
}

#[test]
fn composite_keys() {
    let columns = "a int, b text, note text, PRIMARY KEY (a, b)";
    round(columns, "(a, b) VALUES (1, 'x')", "ROW(1, 'x')");
    round(columns, "(a, b) VALUES (1, 'it''s, \"odd\" )')", "ROW(1, 'it''s, \"odd\" )'::text)");
    round(columns, "(a, b) VALUES (1, 'x')", r#"'{"b": "x", "a": 1}'::jsonb"#);
    let id = "11111111-2222-3333-4444-555555555555";
    round(
        "at timestamptz, device uuid, PRIMARY KEY (device, at)",
        &format!("(at, device) VALUES ('2026-01-02 03:04:05+00', '{id}')"),
        &format!("ROW('{id}'::uuid, '2026-01-02 03:04:05+00'::timestamptz)"),
    );
    // Almost the maximum number of columns of an index. The table orders its columns differently from the key.
    let list = |f: fn(i32) -> String| (1..=30).map(f).collect::<Vec<_>>().join(", ");
    round(
        &format!(
            "{}, PRIMARY KEY ({})",
            list(|n| format!("c{n} int")),
            list(|n| format!("c{}", 31 - n))
        ),
        &format!("VALUES ({})", list(|n| n.to_string())),
        &format!("ROW({})", list(|n| (31 - n).to_string())),
    );
}

/// The driver sends every parameter without a type, and it resolves to text.
#[test]
fn untyped_parameters() {
    for (kind, one, two) in [
        ("bigint", "1", "22"),
        ("timestamptz", "2026-01-01 00:00:00+00", "2026-01-02 00:00:00Z"),
        ("numeric", "1.5", "2.50"),
    ] {
        let columns = format!("id {kind} PRIMARY KEY, n int");
        let mut q = Queue::with("untyped", &columns, &json!({}));
        let batch = format!("{{\"{one}\",\"{two}\"}}");
        q.sql(&format!("INSERT INTO {{q}} (id) VALUES ('{one}'), ('{two}')"));
        let mut call = |verb: &str, id: &str| {
            values(&mut q.admin, &format!("SELECT xqueue.{verb}$2)"), &[&q.name, &id]).len()
        };
        assert_eq!(call("take($1, id => ", &batch), 2, "{kind}");
        assert_eq!((call("release($1, ", one), call("peek($1, ", two)), (1, 1), "{kind}");
        assert_eq!(call("take($1, id => ", one), 1, "{kind}");
        assert_eq!(call("release($1, ", &batch), 2, "{kind}");
        assert_eq!(call("take($1, id => ", &batch), 2, "{kind}");
        assert_eq!(call("ack($1, ", &batch), 2, "{kind}");
        q.assert_tasks(&[("total", 0)]);
    }
}

/// PostgreSQL 18 knows a primary key without overlaps, whose index is no btree.
#[test]
fn only_the_key_columns_of_a_btree_are_the_key() {
    let mut q =
        Queue::table("keys", "CREATE TABLE {q} (id int, x text, PRIMARY KEY (id) INCLUDE (x))");
    assert_eq!(q.upgrade(&json!({}))["key"], json!(["id"]));
    q.sql("INSERT INTO {q} VALUES (2, 'a'), (1, NULL)");
    assert_eq!(q.takes(1), [1]);
    q.sql("SELECT xqueue.release('{q}', 1), xqueue.put('{q}', '{\"id\": 1, \"x\": \"b\"}', on_conflict => 'update')");
    assert_eq!(take(&mut q.admin, &q.name, "0", 1)[0]["x"], json!("b"));
    assert_eq!(q.ask_one("SELECT xqueue.check('{q}')")["problems"], json!([]));
    q.sql("SELECT xqueue.downgrade('{q}'); DROP TABLE {q}");
    if version(&mut q) >= 180000 {
        q.sql("CREATE TABLE {q} (p int4range, r int4range, n int NOT NULL UNIQUE, PRIMARY KEY (p, r WITHOUT OVERLAPS))");
        assert_eq!(q.upgrade(&json!({}))["key"], json!(["n"]));
        q.sql("SELECT xqueue.downgrade('{q}'); ALTER TABLE {q} DROP COLUMN n");
        q.fails("SELECT xqueue.upgrade('{q}')", "42P16", "has no key");
        q.sql("DROP TABLE {q}");
    }
    q.abandon();
}

/// An index in another collation could hold two values that the column takes for equal.
#[test]
fn a_unique_index_of_some_rows_an_expression_or_another_collation_is_no_key() {
    let mut q = Queue::table(
        "keys",
        "CREATE TABLE {q} (id text COLLATE \"C\" NOT NULL);
         CREATE UNIQUE INDEX ON {q} (id COLLATE \"POSIX\");
         CREATE UNIQUE INDEX ON {q} (id) WHERE id > 'a'; CREATE UNIQUE INDEX ON {q} ((id || 'a'))",
    );
    q.fails("SELECT xqueue.upgrade('{q}')", "42P16", "has no key");
    q.sql("CREATE UNIQUE INDEX {q}_key ON {q} (id DESC)");
    q.upgrade(&json!({}));
    q.verify();
    q.sql("DROP INDEX {q}_key");
    wait_until("it is noticed", || q.error().contains("the key (id) is not unique"));
    q.sql("ALTER TABLE {q} ADD PRIMARY KEY (id)");
}

/// Other keys would refuse each ack that names a task by the old one.
#[test]
fn a_queue_keeps_its_key_while_it_is_unique() {
    let (two, key) = ("id int NOT NULL UNIQUE, code int NOT NULL UNIQUE", "CONSTRAINT {q}_id_key");
    for (columns, change, kept) in [
        (
            two,
            format!("DROP {key}, ADD {key} UNIQUE (id); ALTER TABLE {{q}} RENAME id TO it"),
            json!(["it"]),
        ),
        (two, "ADD no serial PRIMARY KEY".into(), json!(["id"])),
        (
            "id int, code int, CONSTRAINT {q}_id_key PRIMARY KEY (id, code)",
            format!("DROP {key}, ADD {key} PRIMARY KEY (code, id)"),
            json!(["id", "code"]),
        ),
    ] {
        let mut q = Queue::table("keys", &format!("CREATE TABLE {{q}} ({columns})"));
        q.upgrade(&json!({}));
        q.sql(&format!("ALTER TABLE {{q}} {change}"));
        assert_eq!(q.ask_one("SELECT xqueue.check('{q}')->'problems'"), json!([]), "{change}");
        assert_eq!(q.upgrade(&json!({}))["key"], kept, "{change}");
        q.sql(&format!("ALTER TABLE {{q}} DROP {key}, ADD n serial UNIQUE"));
        let problems = q.ask_one("SELECT xqueue.check('{q}')->'problems'").to_string();
        assert!(problems.contains("is no more unique"), "{change}: {problems}");
        assert_ne!(q.upgrade(&json!({}))["key"], kept, "{change}");
    }
}

fn version(q: &mut Queue) -> i64 {
    let version = q.ask_one("SELECT to_jsonb(current_setting('server_version_num')::int)");
    version.as_i64().expect("a version")
}

/// PostgreSQL 18 has NOT NULL constraints that existing rows do not meet: no new NULL is accepted.
#[test]
fn a_constraint_that_is_not_valid() {
    let mut q = Queue::adopt(&database(), &unique("keys"));
    if version(&mut q) < 180000 {
        q.abandon();
        return;
    }
    q.sql(
        "CREATE TABLE {q} (id int UNIQUE, note text, owner uuid, status text DEFAULT 'R', runat timestamptz);
         INSERT INTO {q} VALUES (NULL, 'a'); ALTER TABLE {q} ADD NOT NULL id NOT VALID",
    );
    q.fails("SELECT xqueue.upgrade('{q}')", "42P16", "has no key");
    q.sql("DELETE FROM {q}; ALTER TABLE {q} ALTER id DROP NOT NULL, ADD NOT NULL owner NOT VALID");
    q.sql("ALTER TABLE {q} ADD PRIMARY KEY (id)");
    let fields = json!({"status": "status", "owner": "owner", "runat": "runat"});
    let options = json!({"fields": fields, "features": {"delayed": true}});
    let sql = format!("SELECT xqueue.upgrade('{{q}}', '{options}')");
    q.fails(&sql, "42P16", "cannot be the owner: it is NOT NULL");
    q.sql(
        "ALTER TABLE {q} ALTER owner DROP NOT NULL; INSERT INTO {q} VALUES (1, NULL), (2, 'b'), (3, 'c');
         ALTER TABLE {q} ADD NOT NULL runat NOT VALID, ADD NOT NULL note NOT VALID",
    );
    q.upgrade(&options);
    // A take cannot write the row with a NULL, and passes over it.
    for by_statement in [false, true] {
        if by_statement {
            q.sql("SET xqueue.direct_path = off");
        }
        q.sql("UPDATE {q} SET runat = now() WHERE id > 1");
        assert_eq!(q.takes(2), [2, 3], "by a statement: {by_statement}");
        q.sql("SELECT xqueue.release('{q}', 2), xqueue.release('{q}', 3)");
    }
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 4, \"note\": \"d\"}')");
}
