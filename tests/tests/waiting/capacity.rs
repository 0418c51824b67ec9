//! Feature capacity: the number of tasks never exceeds it, no matter how they are put. Also tests which changes free
//! capacity.

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

/// Deletes make room for puts of the same transaction immediately, and for other transactions after the commit.
#[test]
fn what_the_same_transaction_deletes_is_room() {
    let mut q = Queue::limited("capacity", 2, 2);
    q.sql("BEGIN; DELETE FROM {q}; INSERT INTO {q} SELECT FROM generate_series(1, 2); COMMIT");
    q.sql("BEGIN; TRUNCATE {q}; SELECT xqueue.put('{q}', '[{}, {}]'); COMMIT");
    q.sql("BEGIN; SAVEPOINT s; TRUNCATE {q}; INSERT INTO {q} DEFAULT VALUES; ROLLBACK TO s");
    q.fails("INSERT INTO {q} DEFAULT VALUES", "53400", "is full");
    q.sql("ROLLBACK");
    q.assert_tasks(&[("total", 2)]);
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
fn the_capacity_of_a_live_queue_is_changed() {
    let mut q = Queue::new("capacity");
    q.fill(5);
    let capacity = |q: &mut Queue, capacity: Value| {
        q.upgrade(&json!({"features": {"capacity": capacity}}))["features"]["capacity"].clone()
    };
    assert_eq!(capacity(&mut q, json!(3)), json!(3));
    assert_eq!(q.puts(1), 0, "it holds five");
    q.drain(2);
    assert_eq!(q.puts(1), 0, "it holds three");
    q.drain(1);
    assert_eq!(q.puts(1), 1);
    assert_eq!(capacity(&mut q, json!(4)), json!(4));
    assert_eq!((q.puts(1), q.puts(1)), (1, 0));
    q.sql("BEGIN");
    capacity(&mut q, json!(10));
    assert_eq!(q.puts(1), 1);
    q.sql("ROLLBACK");
    assert_eq!(q.puts(1), 0);
    // The limit also holds in the transaction that lowers it, and in the one that makes the queue.
    q.sql("BEGIN");
    capacity(&mut q, json!(2));
    assert_eq!(q.puts(1), 0);
    assert!(q.ask("SELECT xqueue.put('{q}', '{}', timeout => '1 day')").is_empty(), "in vain");
    q.sql("COMMIT");
    assert_eq!(capacity(&mut q, json!(false)), json!(false));
    assert_eq!(q.puts(7), 7);
}

#[test]
fn a_queue_is_filled_in_the_transaction_that_makes_it() {
    let mut q = Queue::adopt(&database(), &unique("capacity"));
    q.sql("BEGIN; SELECT xqueue.create('{q}', '{\"features\": {\"capacity\": 2}}')");
    assert_eq!((q.puts(1), q.puts(2)), (1, 0));
    q.fill(1);
    q.sql("COMMIT");
    assert_eq!(q.puts(1), 0);
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
