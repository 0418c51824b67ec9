//! Bad intervals and counts, rows of another version of the table, and a huge payload: a clear error with SQLSTATE and
//! hint, and the backend survives.

use xqueue_tests::*;

#[test]
fn intervals_and_counts() {
    let mut q = Queue::new("bad");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 2)");
    assert_eq!(q.takes(1), [1]);
    // A month is 30 days. Before PostgreSQL 17 there is no infinite interval, and the cast itself fails.
    refused(
        &mut q,
        &[
            ("SELECT xqueue.put('{q}', '{}', '1 month -400 days')", "22023", ""),
            ("SELECT xqueue.release('{q}', 1, delay => '300000 years')", "22023 22008", ""),
            ("SELECT xqueue.take('{q}', '1 month -400 days')", "22023", ""),
            ("SELECT xqueue.take('{q}', '0', -2147483648)", "22023", ""),
            ("SELECT xqueue.take('{q}', 'infinity')", "22023 22007", ""),
            ("SELECT xqueue.put('{q}', '{}', 'infinity')", "22023 22007", ""),
            ("SELECT xqueue.release('{q}', 1, delay => '-infinity')", "22023 22007", ""),
        ],
    );
    assert_eq!(q.takes(i32::MAX), [2], "no array of that size is made");
}

/// A variable holds a row from before the key's column changed its type; it is not read with the new description.
#[test]
fn a_row_from_before_the_table_was_altered() {
    const TWO: &str = "a int, b int, payload jsonb, PRIMARY KEY (a, b)";
    for (columns, change) in [
        (TWO, "ALTER a TYPE text USING 'x' || a"),
        (TWO, "ALTER b TYPE bytea USING decode(repeat('00', 5000), 'hex')"),
        ("id int PRIMARY KEY, payload jsonb", "ALTER id TYPE text USING id::text"),
        ("id bigint PRIMARY KEY, payload jsonb", "ALTER id TYPE uuid USING gen_random_uuid()"),
    ] {
        let mut q = Queue::with("ids", columns, &json!({}));
        let put = if columns == TWO { r#"{"a": 7, "b": 8}"# } else { r#"{"id": 7}"# };
        q.sql(&format!("SELECT xqueue.put('{{q}}', '{put}')"));
        for call in ["xqueue.peek(r)", "xqueue.ack(r)", "xqueue.put(r)"] {
            let sql = format!(
                "DO $$ DECLARE r {{q}}; BEGIN
                   SELECT * INTO r FROM {{q}}; ALTER TABLE {{q}} {change}; PERFORM {call};
                 END $$"
            );
            q.fails(&sql, "42804 22P02 22023 P0002 55000 0A000", "");
        }
    }
}

/// A payload of 100 MB is stored and returned complete, or is refused, and the backend survives.
#[test]
fn a_payload_of_100_mb() {
    let mut q = Queue::with("bad", "id bigserial PRIMARY KEY, payload text", &json!({}));
    let backend = pid(&mut q.admin);
    let sql = "SELECT count(*) FROM xqueue.put($1::text, jsonb_build_object('payload', repeat('x', 100000000)))";
    match q.admin.query_one(sql, &[&q.name]) {
        Ok(_) => {
            let sql = "SELECT length(t->>'payload') FROM xqueue.take($1::text) AS t";
            assert_eq!(scalar::<i32>(&mut q.admin, sql, &[&q.name]), 100_000_000);
            let sql = "SELECT length((xqueue.ack($1::text, 1))->>'payload')";
            assert_eq!(scalar::<i32>(&mut q.admin, sql, &[&q.name]), 100_000_000);
        }
        Err(e) => assert!(["54000", "53200"].contains(&code(&e)), "{e:?}"),
    }
    assert_eq!(pid(&mut q.admin), backend);
    q.assert_tasks(&[("total", 0)]);
}
