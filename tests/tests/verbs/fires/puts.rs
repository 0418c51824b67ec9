//! Puts that fire triggers or compute columns.

use super::{queue, statements};
use xqueue_tests::*;

/// Runs `work` on the direct path, where a put must use no statement, and by statements. A trigger runs `body` before
/// each put.
fn both_ways(features: &Value, body: &str, work: impl Fn(&mut Queue)) {
    alone();
    for direct_path in ["on", "off"] {
        let mut q = queue(features);
        q.before_each("INSERT", body);
        q.sql(&format!("SET xqueue.direct_path = {direct_path}"));
        work(&mut q);
        let name = q.name.clone();
        let inserts = statements(&mut q.admin, &name).contains("INSERT");
        assert!(direct_path == "off" || !inserts, "{body}");
    }
}

#[test]
fn a_trigger_that_changes_the_state() {
    let changes = "NEW.status := coalesce(NEW.note, NEW.status); \
         IF NEW.note = 'T' THEN NEW.owner := xqueue.identify(); END IF; RETURN NEW";
    both_ways(&json!({"utube": true, "buried": true}), changes, |q| {
        q.sql("SELECT xqueue.put('{q}', '[{\"note\": \"B\"}, {\"note\": \"R\"}]')");
        q.assert_tasks(&[("buried", 1), ("ready", 1)]);
        q.fails("SELECT xqueue.put('{q}', '{\"note\": \"X\"}')", "23514", "");
        // A taken task is the only one of its sub-queue.
        q.sql("SELECT xqueue.put('{q}', '{\"note\": \"T\"}', tube => 'a')");
        q.fails("SELECT xqueue.put('{q}', '{\"note\": \"T\"}', tube => 'a')", "23505", "");
        q.sql("SELECT xqueue.put('{q}', '{}', tube => 'a')");
        assert_eq!(q.takes(9), [2]);
        q.sql("SET enable_seqscan = off");
        assert_eq!(q.ask_one("SELECT to_jsonb(count(*)) FROM {q} WHERE status = 'B'"), json!(1));
        q.sql("RESET enable_seqscan");
    });
}

#[test]
fn generated_columns() {
    both_ways(&json!({}), "NEW.note := upper(NEW.note); RETURN NEW", |q| {
        q.sql(
            "ALTER TABLE {q} ADD made text GENERATED ALWAYS AS (note || '!') STORED CHECK (made <> 'NO!'), \
             ADD size int GENERATED ALWAYS AS (length(note)) STORED; CREATE UNIQUE INDEX ON {q} (made)",
        );
        let put = "SELECT xqueue.put('{q}', '[{\"note\": \"a\"}, {\"note\": \"bc\"}, {}]')";
        let made = |task: &Value| (task["made"].clone(), task["size"].clone());
        let expected =
            [(json!("A!"), json!(1)), (json!("BC!"), json!(2)), (json!(null), json!(null))];
        assert_eq!(q.ask(put).iter().map(made).collect::<Vec<_>>(), expected);
        q.fails("SELECT xqueue.put('{q}', '{\"note\": \"A\"}')", "23505", "made");
        q.fails("SELECT xqueue.put('{q}', '{\"note\": \"no\"}')", "23514", "made");
        assert_eq!(q.ask("SELECT xqueue.take('{q}', count => 2)->'made'"), ["A!", "BC!"]);
    });
}

#[test]
fn a_task_that_gives_a_generated_value() {
    let mut q = queue(&json!({}));
    q.sql("ALTER TABLE {q} ADD made int GENERATED ALWAYS AS (1) STORED");
    q.fails("SELECT xqueue.put('{q}', '{\"made\": 1}')", "428C9", "made");
    q.sql("ALTER TABLE {q} ALTER id SET GENERATED ALWAYS");
    q.fails("SELECT xqueue.put('{q}', '{\"id\": 5}')", "428C9", "id");
    assert_eq!(q.ask_one("SELECT xqueue.put('{q}', '{}')->'made'"), json!(1));
}
