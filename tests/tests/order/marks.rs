//! Low-water marks never hide a ready task, no matter how it became ready before them.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

/// Makes a queue whose tasks from 1001 on have been taken and acked one by one, except the last hundred. Its marks are
/// far behind the keys that the tests make ready.
fn raised(features: &Value) -> Queue {
    let mut q = Queue::with("marks", COLUMNS, features);
    q.sql("INSERT INTO {q} (id) SELECT 1000 + n FROM generate_series(1, 100) n");
    raise(&mut q);
    q
}

/// Takes and acks until the mark is behind the task that was the first one.
#[track_caller]
fn raise(q: &mut Queue) {
    let was = first(q);
    repeat_until("the mark is raised", || {
        drain(q, enough_takes());
        mark(q, "mark").is_some_and(|mark| mark > was)
    });
}

/// Returns the key of the first ready task according to the table.
fn first(q: &mut Queue) -> i64 {
    q.ask_one("SELECT to_jsonb(min(id)) FROM {q} WHERE status = 'R'").as_i64().unwrap()
}

/// Returns the greatest key.
fn last(q: &mut Queue) -> i64 {
    q.ask_one("SELECT to_jsonb(max(id)) FROM {q}").as_i64().unwrap()
}

/// Asserts that the next task to be taken is this one.
#[track_caller]
fn finds(q: &mut Queue, id: i64) {
    assert_eq!(q.takes(1), [id]);
    q.verify();
}

#[test]
fn puts_before_it() {
    let mut q = raised(&json!({}));
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 5}')");
    finds(&mut q, 5);
    q.sql("SELECT xqueue.put('{q}', '[{\"id\": 8}, {\"id\": 7}]')");
    finds(&mut q, 7);
    q.sql("INSERT INTO {q} (id) VALUES (4)");
    finds(&mut q, 4);
    q.sql("SELECT xqueue.put((9, NULL, NULL, NULL)::{q})");
    finds(&mut q, 8);
    finds(&mut q, 9);
}

#[test]
fn takes_that_are_rolled_back() {
    let mut q = raised(&json!({}));
    let first = first(&mut q);
    let mut other = q.session();
    other.sql("BEGIN");
    assert_eq!(other.takes(1), [first]);
    drain(&mut q, enough_takes());
    other.sql("ROLLBACK");
    finds(&mut q, first);
    // A rollback of the session's own takes to a savepoint, after enough later takes to raise the mark.
    q.sql(&format!("SELECT xqueue.release('{{q}}', {first}); BEGIN; SAVEPOINT s"));
    assert_eq!(q.takes(1), [first]);
    for _ in 0..enough_takes() {
        q.takes(1);
    }
    q.sql("ROLLBACK TO s; COMMIT");
    finds(&mut q, first);
}

/// Nothing reads the table while the trigger is off.
#[test]
fn triggers_that_were_off_in_one_transaction() {
    let mut q = raised(&json!({}));
    q.sql(
        "BEGIN; ALTER TABLE {q} DISABLE TRIGGER xqueue_insert; INSERT INTO {q} (id) VALUES (5);
         ALTER TABLE {q} ENABLE ALWAYS TRIGGER xqueue_insert; COMMIT",
    );
    finds(&mut q, 5);
}

/// An UPDATE that also changes other columns is counted once. A transaction that moves a task away and takes from its
/// old position on does not report to others that no task is there.
#[test]
fn keys_changed_by_hand_and_rolled_back() {
    let mut q = raised(&json!({}));
    q.sql("INSERT INTO {q} (id) VALUES (5)");
    q.sql(
        "BEGIN; UPDATE {q} SET id = 9000 WHERE id = 5;
         SELECT count(*) FROM xqueue.take('{q}', count => 200); ROLLBACK",
    );
    finds(&mut q, 5);
}

#[test]
fn tubes_have_their_own() {
    let mut q = raised(&json!({"features": {"tube": true}}));
    let (first, last, takes) = (first(&mut q), last(&mut q), enough_takes() as i64);
    q.sql(&format!("UPDATE {{q}} SET tube = 'idle' WHERE id > {last} - 10"));
    q.sql(&format!(
        "INSERT INTO {{q}} (id, tube) SELECT {last} + n, 'busy' FROM generate_series(1, {takes}) n"
    ));
    // `check` shows no mark of a tube.
    for n in 1..=takes {
        assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => 'busy')")), [last + n]);
    }
    let (idle, taken) = (last - 5, last + takes / 2);
    for (sql, id) in [
        (format!("UPDATE {{q}} SET tube = 'busy' WHERE id = {idle}"), idle),
        ("SELECT xqueue.put('{q}', '{\"id\": 3}', tube => 'busy')".to_owned(), 3),
        (format!("SELECT xqueue.release('{{q}}', {taken})"), taken),
    ] {
        q.sql(&sql);
        assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', tube => 'busy')")), [id]);
    }
    finds(&mut q, first);
}

/// With row security a take does not see the tasks of all sessions: the first task it finds is no mark for others.
#[test]
fn rows_that_others_do_not_see() {
    let mut q = raised(&json!({}));
    let name = q.name.clone();
    let (first, last, takes) = (first(&mut q), last(&mut q), enough_takes() as i64);
    let role = Role::create();
    q.sql(&format!(
        "ALTER TABLE {{q}} ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON {{q}} USING (id > {last}); \
         GRANT ALL ON {{q}} TO {}; INSERT INTO {{q}} (id) SELECT {last} + n FROM generate_series(1, {takes}) n",
        role.name
    ));
    let mut c = role.client();
    for n in 1..=takes {
        assert_eq!(ids(&take(&mut c, &name, "0", 1)), [last + n]);
    }
    finds(&mut q, first);
    drop(c);
    q.sql("DROP POLICY p ON {q}");
}

/// A state that only one transaction sees, and that a rollback undoes, raises no mark.
/// Each change is rolled back as a whole or to a savepoint, chosen at random.
#[test]
fn what_is_rolled_back() {
    let mut random = StdRng::seed_from_u64(seed());
    for (features, hiding) in [
        (json!({}), "TRUNCATE {q}"),
        (json!({}), "UPDATE {q} SET id = id + 100000"),
        (json!({}), "ALTER TABLE {q} DISABLE TRIGGER xqueue_delete; DELETE FROM {q}"),
        (json!({}), "SELECT xqueue.take('{q}', count => 1000)"),
        (json!({"features": {"priority": true}}), "TRUNCATE {q}"),
        (json!({"features": {"priority": true}}), "UPDATE {q} SET priority = 77"),
    ] {
        let undo = if random.random() { "ROLLBACK" } else { "ROLLBACK TO s; COMMIT" };
        let mut q = raised_or_known(&features);
        q.sql("INSERT INTO {q} (id) VALUES (5)");
        q.sql(&format!("BEGIN; SAVEPOINT s; {hiding}"));
        for _ in 0..enough_takes() {
            q.takes(1);
        }
        q.sql(undo);
        finds(&mut q, 5);
    }
}

/// Makes a queue from which enough tasks have been taken to raise any mark soon.
fn raised_or_known(features: &Value) -> Queue {
    let mut q = Queue::with("marks", COLUMNS, features);
    q.sql("INSERT INTO {q} (id) SELECT 1000 + n FROM generate_series(1, 100) n");
    drain(&mut q, enough_takes());
    q
}

/// A user's trigger can change columns that an UPDATE does not name.
#[test]
fn keys_and_priorities_changed_by_a_trigger() {
    let mut q = Queue::with(
        "marks",
        "id bigint PRIMARY KEY, note text",
        &json!({"features": {"priority": true}}),
    );
    q.sql(
        "CREATE FUNCTION {q}_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF new.note LIKE 'to %' THEN new.id := substr(new.note, 4)::bigint; END IF; \
         IF new.note LIKE 'as %' THEN new.priority := substr(new.note, 4)::int; END IF; \
         RETURN new; END $$; \
         CREATE TRIGGER m BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_move(); \
         INSERT INTO {q} (id) SELECT 1000 + n FROM generate_series(1, 100) n",
    );
    drain(&mut q, enough_takes());
    let last = last(&mut q);
    q.sql(&format!("UPDATE {{q}} SET note = 'to 5' WHERE id = {last} - 50"));
    finds(&mut q, 5);
    q.sql(&format!("UPDATE {{q}} SET note = 'as -3' WHERE id = {last}"));
    finds(&mut q, last);
    q.sql("DROP TRIGGER m ON {q}; DROP FUNCTION {q}_move()");
}
