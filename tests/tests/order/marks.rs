//! Low-water marks never hide a task that became ready before them. Takes do not walk over the index entries of finished
//! tasks. marks_tubes has tubes and priorities; crowd and by_column_random have more ways to make tasks ready.

use xqueue_tests::*;

/// Makes a queue whose tasks from 1001 on have been taken and acked one by one, except the last hundred. Its marks are
/// far behind the keys that the tests make ready.
fn raised(features: &Value) -> Queue {
    let mut q = Queue::with("marks", COLUMNS, &json!({ "features": features }));
    q.sql("INSERT INTO {q} (id) SELECT 1000 + n FROM generate_series(1, 100) n");
    repeat_until("the mark is raised", || {
        drain(&mut q, enough_takes());
        // `check` shows no marks of priorities or sub-queues.
        *features != json!({}) || mark(&mut q, "mark") > Some(1001)
    });
    q
}

/// Returns the greatest key.
fn last(q: &mut Queue) -> i64 {
    q.ask_one("SELECT to_jsonb(max(id)) FROM {q}").as_i64().expect("a key")
}

/// Asserts that the next task to be taken is this one.
#[track_caller]
fn finds(q: &mut Queue, id: i64) {
    assert_eq!(q.takes(1), [id]);
    q.verify();
}

/// Nothing reads the table while the trigger is off. A transaction that deletes without its trigger hides no task.
#[test]
fn triggers_that_were_off_in_one_transaction() {
    let put =
        "BEGIN; ALTER TABLE {q} DISABLE TRIGGER xqueue_insert; INSERT INTO {q} (id) VALUES (5);
               ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_insert";
    for features in [json!({}), json!({"priority": true}), json!({"utube": true})] {
        let mut q = raised(&features);
        q.sql(put);
        assert_eq!(q.takes(1), [5], "{features}");
        q.sql("ROLLBACK");
    }
    let mut q = raised(&json!({}));
    q.sql(&format!("{put}; COMMIT"));
    finds(&mut q, 5);
    q.sql("INSERT INTO {q} (id) VALUES (4)");
    q.sql("BEGIN; ALTER TABLE {q} DISABLE TRIGGER xqueue_delete; DELETE FROM {q}");
    (0..enough_takes()).for_each(|_| drop(q.takes(1)));
    q.sql("ROLLBACK");
    finds(&mut q, 4);
}

/// With row security a take does not see the tasks of all sessions: the first task it finds is no mark for others.
#[test]
fn rows_that_others_do_not_see() {
    let mut q = raised(&json!({}));
    let (role, last, takes) = (Role::create(), last(&mut q), enough_takes() as i64);
    let first = "SELECT to_jsonb(min(id)) FROM {q} WHERE status = 'R'";
    let first = q.ask_one(first).as_i64().expect("a key");
    q.sql(&format!(
        "ALTER TABLE {{q}} ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON {{q}} USING (id > {last}); \
         GRANT ALL ON {{q}} TO {}; INSERT INTO {{q}} (id) SELECT {last} + n FROM generate_series(1, {takes}) n",
        role.name
    ));
    let mut c = role.client();
    for n in 1..=takes {
        assert_eq!(ids(&take(&mut c, &q.name, "0", 1)), [last + n]);
    }
    finds(&mut q, first);
    drop(c);
    q.sql("DROP POLICY p ON {q}");
}

/// A take within a statement does not see the tasks that the statement has deleted, and the triggers fire at its end.
#[test]
fn a_take_within_a_statement_that_is_undone() {
    for features in [json!({}), json!({"priority": true})] {
        let mut q = Queue::with("marks", COLUMNS, &json!({ "features": features }));
        let many = enough_takes();
        q.fill(10 * many as i64);
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

/// A user's trigger can change columns that an UPDATE does not name.
#[test]
fn keys_and_priorities_changed_by_a_trigger() {
    let mut q = raised(&json!({"priority": true}));
    q.before_each(
        "UPDATE",
        "IF NEW.payload ? 'id' THEN NEW.id := (NEW.payload->>'id')::bigint; END IF;
         IF NEW.payload ? 'priority' THEN NEW.priority := (NEW.payload->>'priority')::int; END IF; RETURN NEW",
    );
    let last = last(&mut q);
    q.sql(&format!("UPDATE {{q}} SET payload = '{{\"id\": 5}}' WHERE id = {last} - 50"));
    finds(&mut q, 5);
    q.sql(&format!("UPDATE {{q}} SET payload = '{{\"priority\": -3}}' WHERE id = {last}"));
    finds(&mut q, last);
    q.mend();
}

/// Neither on a bare table, nor with an addition that real tables have.
#[test]
fn a_lifecycle_does_not_walk_over_finished_tasks() {
    let db = Database::new("beside");
    db.client().run(additions::SHARED);
    for (name, addition) in additions::ADDITIONS.into_iter().chain([("nothing", "")]) {
        println!("{name}");
        let mut q = Queue::new_in(&db.name, "beside");
        q.sql(&addition.replace("{n}", "1"));
        q.assert_steady(|q, _| {
            q.sql("SELECT xqueue.put('{q}', '{}')");
            q.sql("SELECT xqueue.ack('{q}', t) FROM xqueue.take('{q}') t");
        });
    }
}
