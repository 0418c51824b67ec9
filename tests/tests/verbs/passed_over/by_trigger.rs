//! Takes beside row triggers.

use xqueue_tests::{Queue, json};

/// A waiting take does not wake itself when it undoes the take of a task that jsonb cannot hold.
#[test]
fn a_waiting_take_fires_few_triggers() {
    let mut q = Queue::with("by_trigger", "id bigint PRIMARY KEY, doc json", &json!({}));
    q.sql(r#"CREATE SEQUENCE {q}_fired; INSERT INTO {q} VALUES (1, '"\u0000"')"#);
    q.before_each("UPDATE", "PERFORM nextval('{q}_fired'); RETURN new");
    assert!(q.ask("SELECT xqueue.take('{q}', '1 s')").is_empty());
    let fired = q.ask_one("SELECT to_jsonb(last_value) FROM {q}_fired").as_i64().expect("a number");
    assert!(fired < 20, "{fired} calls of the trigger");
}

#[test]
fn a_take_goes_on_behind_tasks_that_a_trigger_keeps() {
    for count in [7, 12] {
        let mut q = Queue::with("by_trigger", "id bigint PRIMARY KEY", &json!({}));
        q.sql("INSERT INTO {q} SELECT generate_series(1, 20)");
        let keeps = "IF new.status = 'T' AND new.id % 7 = 3 THEN RETURN NULL; END IF; RETURN new";
        q.before_each("UPDATE", keeps);
        let expected: Vec<i64> = (1..=20).filter(|id| id % 7 != 3).collect();
        for part in expected.chunks(count as usize) {
            assert_eq!(q.takes(count), part, "{count}");
        }
    }
}
