//! Feature capacity: the number of tasks never exceeds it, no matter how they are put.

use xqueue_tests::*;

/// A rollback to the savepoint restores the deleted tasks, so their capacity stays reserved.
#[test]
fn room_of_what_is_deleted_in_a_savepoint_stays_reserved() {
    let mut q = Queue::limited("capacity", 3, 0);
    let (name, mut other) = (q.name.clone(), q.client());
    other.run(&format!(
        "BEGIN; SELECT xqueue.put('{name}', '[{{}}, {{}}]'); SAVEPOINT s; DELETE FROM {name};
         SELECT xqueue.put('{name}', '{{}}'); ROLLBACK TO s"
    ));
    q.assert_reserved(2);
    assert_eq!((q.puts(2), q.puts(1)), (0, 1));
    other.run("COMMIT");
    q.assert_tasks(&[("total", 3)]);
}

/// Capacity that turns out not to be needed is returned when the call ends, not with the transaction.
#[test]
fn what_a_trigger_drops_is_room() {
    let mut q = Queue::limited("capacity", 3, 0);
    q.before_each("INSERT", "IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW");
    q.sql(r#"BEGIN; SELECT xqueue.put('{q}', '[{"id": 1}, {"id": 2}, {"id": 3}]')"#);
    q.assert_reserved(2);
    q.sql("INSERT INTO {q} (id) VALUES (5), (6); COMMIT");
    q.assert_tasks(&[("total", 3)]);
    q.mend();
}

/// Rows that a trigger adds need capacity of their own.
#[test]
fn what_a_trigger_adds_needs_room() {
    let mut q = Queue::limited("capacity", 3, 0);
    q.sql(
        "CREATE FUNCTION {q}_twice() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN IF NEW.id < 100 THEN INSERT INTO {q} (id) VALUES (NEW.id + 100); END IF; RETURN NULL; END $$;
         CREATE TRIGGER twice AFTER INSERT ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_twice()",
    );
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 1}')");
    q.fails("SELECT xqueue.put('{q}', '{\"id\": 2}')", "53400", "is full");
    q.assert_tasks(&[("total", 2)]);
    q.sql("DROP FUNCTION {q}_twice CASCADE; INSERT INTO {q} (id) VALUES (2)");
    assert_eq!(q.puts(1), 0);
}

#[test]
fn a_queue_is_filled_in_the_transaction_that_makes_it() {
    let mut q = Queue::adopt(&database(), &unique("capacity"));
    q.sql("BEGIN; SELECT xqueue.create('{q}', '{\"features\": {\"capacity\": 2}}')");
    assert_eq!((q.puts(1), q.puts(2)), (1, 0));
    q.fill(1);
    q.sql("COMMIT");
    assert_eq!(q.puts(1), 0);
    // The limit also holds in the transaction that lowers it.
    q.drain(1);
    q.sql("BEGIN");
    q.upgrade(&json!({"features": {"capacity": 1}}));
    assert_eq!(q.puts(1), 0);
    assert!(q.ask("SELECT xqueue.put('{q}', '{}', timeout => '1 day')").is_empty(), "in vain");
    q.sql("COMMIT");
    q.sql("DROP TABLE {q}; CREATE TABLE {q} (id int PRIMARY KEY); INSERT INTO {q} VALUES (1), (2), (3)");
    q.upgrade(&json!({"features": {"capacity": 2}}));
    q.fails("INSERT INTO {q} VALUES (4)", "53400", "is full");
    q.drain(3);
    q.sql("INSERT INTO {q} VALUES (4)");
}

#[test]
fn a_role_that_may_not_insert_reserves_nothing() {
    let mut q = Queue::limited("capacity", 1, 1);
    let role = Role::create();
    q.sql(&format!("GRANT SELECT, UPDATE ON {{q}} TO {}", role.name));
    let sql = format!("SELECT xqueue.put('{}', '{{}}', timeout => '1 day')", q.name);
    expect_error(&mut role.client(), &sql, "42501", "permission denied");
    q.drain(1);
    expect_error(&mut role.client(), &sql, "42501", "permission denied");
    assert_eq!(q.puts(1), 1);
}
