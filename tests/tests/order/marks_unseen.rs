//! Marks and changes that are not reported when they become visible, or are reported in a form that marks do not
//! handle.

use xqueue_tests::*;

fn queue(features: &Value) -> Queue {
    let mut q = Queue::with("marks", COLUMNS, features);
    let tasks = 10 * enough_takes().max(enough_kicks());
    q.sql(&format!("INSERT INTO {{q}} (id) SELECT generate_series(1, {tasks})"));
    q
}

/// A take within a statement does not see the tasks that the statement has deleted, and the triggers fire at its end.
#[test]
fn a_take_within_a_statement_that_is_undone() {
    let many = enough_takes();
    let priorities = json!({"features": {"priority": true}});
    for features in [json!({}), priorities] {
        let mut q = queue(&features);
        for _ in 0..4 {
            q.sql(&format!(
                "BEGIN; WITH gone AS (DELETE FROM {{q}} WHERE id = 1 RETURNING id)
                 SELECT count(*) FROM gone, LATERAL xqueue.take(NULL::{{q}}, count => {many} + (gone.id - 1)::int);
                 ROLLBACK"
            ));
        }
        assert_eq!(q.takes(1), [1]);
    }
}

#[test]
fn a_kick_within_a_statement_that_is_undone() {
    let mut q = queue(&json!({"features": {"buried": true}}));
    q.sql("UPDATE {q} SET status = 'B'");
    let many = enough_kicks();
    q.sql(&format!(
        "BEGIN; WITH gone AS (DELETE FROM {{q}} WHERE id = 1 RETURNING id)
         SELECT xqueue.kick('{{q}}', {many} + (gone.id - 1)::int) FROM gone; ROLLBACK"
    ));
    q.sql("SELECT xqueue.kick('{q}', 1)");
    assert_eq!(q.takes(1), [1]);
}

#[test]
fn a_buried_task_that_gets_another_key_and_another_tube() {
    let mut q = queue(&json!({"features": {"buried": true, "tube": true}}));
    q.sql("UPDATE {q} SET status = 'B'");
    let many = enough_kicks();
    q.sql(&format!(
        "BEGIN; UPDATE {{q}} SET id = 1000000, tube = 'y' WHERE id = 1;
         SELECT xqueue.kick('{{q}}', {many}); ROLLBACK"
    ));
    q.sql("SELECT xqueue.kick('{q}', 1)");
    assert_eq!(q.takes(1), [1]);
}
