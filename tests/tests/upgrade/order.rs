//! The option `order` on a queue in use: set, changed and taken away; and its columns altered. switches_at_random changes
//! it beside consumers.

use xqueue_tests::*;

const COLUMNS: &str = "id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n bigserial, m bigint";

/// Makes a queue of 300 tasks; `m` falls where `n` rises.
fn queue(options: &Value) -> Queue {
    let mut q = Queue::with("ordered", COLUMNS, options);
    q.sql("INSERT INTO {q} (m) SELECT -g FROM generate_series(1, 300) g; ALTER TABLE {q} ALTER m SET NOT NULL");
    q
}

/// Takes this number of tasks, one at a time, and returns their values of `n`.
#[track_caller]
fn takes(q: &mut Queue, count: usize) -> Vec<i64> {
    let task = |q: &mut Queue| take(&mut q.admin, &q.name, "0", 1)[0]["n"].as_i64().expect("n");
    (0..count).map(|_| task(q)).collect()
}

fn order(of: Value) -> Value {
    json!({"fields": {"order": of}})
}

/// Takes raise marks between the changes.
#[test]
fn an_order_is_set_and_changed_on_a_live_queue() {
    let mut q = queue(&json!({}));
    let by_key: Vec<i64> =
        q.ask("SELECT to_jsonb(n) FROM {q} ORDER BY id").iter().filter_map(Value::as_i64).collect();
    assert_eq!(takes(&mut q, 5), by_key[..5]);
    q.sql("SELECT xqueue.release_all('{q}')");
    let defined = q.upgrade(&order(json!("n")));
    assert_eq!(defined["fields"]["order"], json!(["n"]));
    assert_eq!(takes(&mut q, 140), (1..=140).collect::<Vec<_>>());
    q.upgrade(&order(json!(["m"])));
    assert_eq!(takes(&mut q, 140), (161..=300).rev().collect::<Vec<_>>());
    q.sql("SELECT xqueue.release_all('{q}')");
    assert_eq!(q.upgrade(&json!({})), q.upgrade(&order(json!("m"))), "it stays");
    q.upgrade(&order(json!(["n", "m"])));
    assert_eq!(takes(&mut q, 3), [1, 2, 3]);
    q.sql("SELECT xqueue.release_all('{q}')");
    let defined = q.upgrade(&order(json!([])));
    assert_eq!(defined["fields"]["order"], Value::Null);
    assert_eq!(takes(&mut q, 5), by_key[..5]);
}

#[test]
fn a_column_of_the_order_is_not_dropped_in_passing() {
    let mut q = queue(&order(json!(["n"])));
    q.fails("ALTER TABLE {q} DROP COLUMN n", "2BP01", "");
    let refused = q.fails("ALTER TABLE {q} ALTER COLUMN n TYPE int", "0A000", "");
    assert!(refused.hint().is_some_and(|hint| hint.contains("downgrade")), "{refused:?}");
    q.sql("ALTER TABLE {q} DROP COLUMN n CASCADE");
    let lost = q.fails("SELECT xqueue.take('{q}')", "42703", "has lost its column \"n\"");
    q.fails("SELECT xqueue.upgrade('{q}')", "42703", "the order needs column \"n\"");
    let hint = lost.hint().and_then(|hint| hint.split_inclusive(';').next());
    q.sql(hint.expect("a hint"));
    q.sql("SELECT xqueue.take('{q}')");
}

/// NULLs come last. The queue has no marks then, which would hide them.
#[test]
fn a_column_that_may_be_null_again() {
    let mut q = queue(&order(json!(["n"])));
    assert_eq!(takes(&mut q, 200), (1..=200).collect::<Vec<_>>());
    q.sql("ALTER TABLE {q} ALTER n DROP NOT NULL; UPDATE {q} SET n = NULL WHERE n = 290; DELETE FROM {q} WHERE n IS NULL");
    q.sql("INSERT INTO {q} (n, m) VALUES (NULL, 7)");
    assert_eq!(takes(&mut q, 99), (201..=289).chain(291..=300).collect::<Vec<_>>());
    assert_eq!(take(&mut q.admin, &q.name, "0", 1)[0]["m"], json!(7));
    let problems = q.ask_one("SELECT xqueue.check('{q}')->'problems'").to_string();
    assert!(problems.contains("it can be NULL"), "{problems}");
    q.sql("DELETE FROM {q} WHERE n IS NULL; ALTER TABLE {q} ALTER n SET NOT NULL");
}
