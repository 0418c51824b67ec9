//! Ids whose type is not the key's: a clear error, and no memory is misread.

use xqueue_tests::*;

const TWO: &str = "a int, b int, payload jsonb, PRIMARY KEY (a, b)";
/// Calls that read `{id}`; a role with only SELECT can try each of them.
const CALLS: [&str; 14] = [
    "SELECT xqueue.peek('{q}', {id})",
    "SELECT xqueue.stats('{q}', {id})",
    "SELECT xqueue.wait('{q}', {id}, '0')",
    "SELECT xqueue.ack('{q}', {id})",
    "SELECT xqueue.release('{q}', {id})",
    "SELECT xqueue.bury('{q}', {id})",
    "SELECT xqueue.touch('{q}', {id}, '1s')",
    "SELECT xqueue.dig('{q}', {id})",
    "SELECT xqueue.delete('{q}', {id})",
    "SELECT xqueue.snatch('{q}', {id})",
    "SELECT xqueue.restart('{q}', {id})",
    "SELECT xqueue.switch('{q}', {id}, 'B')",
    "SELECT xqueue.take('{q}', done => {id})",
    "SELECT xqueue.take('{q}', id => {id})",
];

fn queue() -> Queue {
    let features = r#"{"features": {"buried": true, "ttr": "1 hour", "zombie": "1 hour"}}"#;
    Queue::with("ids", TWO, &serde_json::from_str(features).unwrap())
}

/// The element type of an array is checked before its elements are read as records.
#[test]
fn arrays_of_no_records() {
    let mut q = queue();
    let ids = ["ARRAY[1,2]", "ARRAY['a'::text]", "ARRAY[1.5, NULL]", "ARRAY['{}'::jsonb]", "true"];
    for call in CALLS {
        for id in ids {
            let sql = call.replace("{q}", &q.name).replace("{id}", id);
            let e = expect_error(&mut q.admin, &sql, "42804 22P02 22023 22004", "");
            assert!(e.hint().is_some(), "no hint: {sql}\n{e:?}");
        }
    }
}

/// A variable holds a row from before the key's column changed its type; it is not read with the new description.
#[test]
fn a_row_from_before_the_table_was_altered() {
    for (columns, change) in [
        (TWO, "ALTER a TYPE text USING 'x' || a"),
        (TWO, "ALTER b TYPE bytea USING decode(repeat('00', 5000), 'hex')"),
        ("id int PRIMARY KEY, payload jsonb", "ALTER id TYPE text USING id::text"),
        ("id bigint PRIMARY KEY, payload jsonb", "ALTER id TYPE uuid USING gen_random_uuid()"),
    ] {
        let q = Queue::with("ids", columns, &json!({}));
        let (mut c, name) = (q.client(), q.name.clone());
        let put = if columns == TWO { r#"{"a": 7, "b": 8}"# } else { r#"{"id": 7}"# };
        c.batch_execute(&format!("SELECT xqueue.put('{name}', '{put}')")).unwrap();
        for call in ["xqueue.peek(r)", "xqueue.ack(r)", "xqueue.put(r)"] {
            let sql = format!(
                "DO $$ DECLARE r {name}; BEGIN
                   SELECT * INTO r FROM {name}; ALTER TABLE {name} {change}; PERFORM {call};
                 END $$"
            );
            let e = expect_error(&mut c, &sql, "42804 22P02 22023 P0002 55000 0A000", "");
            assert!(!e.code().code().starts_with("XX"), "{sql}: {e:?}");
        }
    }
}
