//! Takes beside row triggers.

use xqueue_tests::{Queue, ids, json};

/// A waiting take does not wake itself when it undoes the take of a task that jsonb cannot hold.
#[test]
fn a_waiting_take_fires_few_triggers() {
    let mut q = Queue::with("by_trigger", "id bigint PRIMARY KEY, doc json", &json!({}));
    q.sql(
        "CREATE SEQUENCE {q}_fired;
         CREATE FUNCTION {q}_counts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             PERFORM nextval('{q}_fired'); RETURN new; END $$;
         CREATE TRIGGER own BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_counts();
         INSERT INTO {q} VALUES (1, '\"\\u0000\"')",
    );
    assert!(q.ask("SELECT xqueue.take('{q}', '1 s')").is_empty());
    let fired = q.ask_one("SELECT to_jsonb(last_value) FROM {q}_fired").as_i64().expect("a number");
    assert!(fired < 20, "{fired} calls of the trigger");
    q.sql("DROP FUNCTION {q}_counts CASCADE; DROP SEQUENCE {q}_fired");
}

#[test]
fn a_take_goes_on_behind_tasks_that_a_trigger_keeps() {
    for count in [7, 12] {
        let mut q = Queue::with("by_trigger", "id bigint PRIMARY KEY", &json!({}));
        q.sql(
            "CREATE FUNCTION {q}_keeps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF new.status = 'T' AND new.id % 7 = 3 THEN RETURN NULL; END IF;
                 RETURN new; END $$;
             CREATE TRIGGER own BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_keeps();
             INSERT INTO {q} SELECT generate_series(1, 20)",
        );
        let expected: Vec<i64> = (1..=20).filter(|id| id % 7 != 3).collect();
        for part in expected.chunks(count) {
            let taken = q.ask(&format!("SELECT xqueue.take('{{q}}', count => {count})"));
            assert_eq!(ids(&taken), part, "{count}");
        }
        q.sql("DROP FUNCTION {q}_keeps CASCADE");
    }
}
