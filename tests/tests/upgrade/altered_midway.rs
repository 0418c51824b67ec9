//! Tables that are altered in the middle of a call, by code that the call runs: `pick`, or the check of a domain. The
//! table is locked, but by the same transaction, so PostgreSQL allows the change.

use xqueue_tests::*;

/// Read as text, these bytes would be a pointer to an object.
const POINTER: &str = "01020000-0000-0000-0000-0000efbeadde";

#[test]
fn rows_of_another_shape_are_refused() {
    let mut q = Queue::with("midway", "id bigint PRIMARY KEY, payload text", &json!({}));
    let name = q.name.clone();
    // Turns the payload into a uuid, then picks task 1.
    q.sql(&format!(
        "CREATE FUNCTION {name}_pick(int) RETURNS SETOF bigint LANGUAGE plpgsql AS $$ BEGIN
           IF (SELECT atttypid FROM pg_attribute WHERE attrelid = '{name}'::regclass AND attname = 'payload') <> 'uuid'::regtype
           THEN ALTER TABLE {name} ALTER payload TYPE uuid USING '{POINTER}'; END IF;
           RETURN QUERY SELECT id FROM {name}; END $$"
    ));
    q.upgrade(&json!({"features": {"pick": format!("{name}_pick")}}));
    q.sql("INSERT INTO {q} VALUES (1, 'a')");
    for call in [
        "SELECT payload FROM xqueue.take(NULL::{q})",
        "SELECT (xqueue.take(NULL::{q})).payload",
        "SELECT length(payload) FROM xqueue.take(NULL::{q}) ORDER BY payload",
    ] {
        let sql = call.replace("{q}", &name);
        let e =
            expect_error(&mut q.admin, &sql, "0A000", "have changed since this query was planned");
        assert!(e.hint().is_some());
    }
    // The jsonb form returns the task as it is now.
    let taken = values(&mut q.admin, &format!("SELECT xqueue.take('{name}')"), &[]);
    assert_eq!(taken[0]["payload"], json!(POINTER));
    // The session goes on, and takes with the new row type.
    q.sql("SELECT xqueue.release('{q}', 1)");
    let sql = format!("SELECT payload::text FROM xqueue.take(NULL::{name})");
    assert_eq!(scalar::<String>(&mut q.admin, &sql, &[]), POINTER);
    q.sql("SELECT xqueue.ack('{q}', 1); SELECT xqueue.upgrade('{q}', '{\"features\": {\"pick\": false}}')");
    q.sql(&format!("DROP FUNCTION {name}_pick"));
}

/// Creates a domain over a type whose check runs a statement once, when `midway.alter` is on.
fn domain_that_runs(admin: &mut Client, over: &str, statement: &str) -> String {
    let domain = unique("midway_domain");
    admin.run(&format!(
        "CREATE FUNCTION {domain}_check({over}) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
           IF current_setting('midway.alter', true) = 'on' THEN
             PERFORM set_config('midway.alter', 'off', false);
             {statement};
           END IF; RETURN true; END $$;
         CREATE DOMAIN {domain} AS {over} CHECK ({domain}_check(VALUE))"
    ));
    domain
}

/// The check of the key's domain alters the table while the id is read.
#[test]
fn by_the_check_of_a_domain() {
    let (mut admin, name) = (connect(), unique("midway"));
    let alter = format!("ALTER TABLE {name} ALTER payload TYPE uuid USING '{POINTER}'");
    let domain = domain_that_runs(&mut admin, "bigint", &alter);
    for call in ["peek", "take", "ack", "release"] {
        let columns = format!("id {domain} PRIMARY KEY, payload text");
        let mut q = Queue::make(&database(), &name, &columns, &json!({}));
        q.sql("INSERT INTO {q} VALUES (1, 'a')");
        if call != "peek" && call != "take" {
            assert_eq!(q.takes(1), [1]);
        }
        let id = if call == "take" { "id => '1'::text" } else { "'1'::text" };
        let sql =
            format!("SET midway.alter = on; SELECT payload FROM xqueue.{call}(NULL::{name}, {id})");
        // Each call runs in its own transaction, so the error also undoes the check's ALTER TABLE.
        expect_error(&mut q.admin, &sql, "0A000", "have changed since this query was planned");
        q.sql("SET midway.alter = off");
    }
}

/// The check of the tube's domain replaces the column of the owner by one of another type.
#[test]
fn a_column_of_the_queue_that_the_check_of_a_domain_replaces() {
    let (mut admin, name) = (connect(), unique("midway"));
    let alter = format!(
        "ALTER TABLE {name} DROP COLUMN owner; ALTER TABLE {name} ADD COLUMN owner bigint DEFAULT 140737488355328"
    );
    let domain = domain_that_runs(&mut admin, "text", &alter);
    let columns = format!("{COLUMNS}, tube {domain}");
    let options = json!({"fields": {"tube": "tube"}, "features": {"tube": true}});
    let mut q = Queue::make(&database(), &name, &columns, &options);
    q.sql("SELECT xqueue.put('{q}', '{\"payload\": 1}', tube => 'a')");
    for call in [
        "put('{q}', '{\"payload\": 2}', tube => 'b')",
        "take('{q}', tube => 'b')",
        "put(NULL::{q}, '{\"payload\": 2}', tube => 'b')",
    ] {
        let sql = format!("SET midway.alter = on; SELECT xqueue.{}", call.replace("{q}", &name));
        let refused = try_sql(&mut q.admin, &sql).expect_err(&sql);
        assert!(!code(&refused).starts_with("XX"), "{sql}: {refused:?}");
        q.sql("SET midway.alter = off; SELECT count(*), max(payload::text), max(owner::text) FROM {q}");
    }
}

/// An index that has the name of one of the queue's former indexes, but belongs to another table, stays.
#[test]
fn an_index_of_another_table_is_not_dropped() {
    let mut q = Queue::new("midway");
    let mut victim = Queue::new("midway");
    let theirs = victim.name.clone();
    let (index, of_theirs) = (q.index("ready"), victim.index("ready"));
    q.lose_index("ready");
    q.sql(&format!("ALTER INDEX {of_theirs} RENAME TO {index}"));
    for call in ["upgrade", "downgrade"] {
        q.sql(&format!("SELECT xqueue.{call}('{{q}}')"));
        let sql = format!(
            "SELECT indrelid = '{theirs}'::regclass FROM pg_index WHERE indexrelid = '{index}'::regclass"
        );
        assert!(scalar::<bool>(&mut victim.admin, &sql, &[]), "after {call}");
    }
    victim.sql(&format!("ALTER INDEX {index} RENAME TO {of_theirs}"));
    q.sql("DROP TABLE {q}");
    q.abandon();
}
