//! Functions only do what the caller's own privileges on the table allow.

use xqueue_tests::*;

#[test]
fn a_waiter_that_loses_its_privilege() {
    let mut q = Queue::new("priv");
    let role = Role::create();
    let (name, r) = (q.name.clone(), role.name.clone());
    q.sql(&format!("GRANT SELECT, UPDATE ON {{q}} TO {r}"));
    let waiter = Waiter::start(role.client(), &format!("SELECT xqueue.take('{name}', '30s')"));
    q.wait_for_consumers(1);
    q.sql(&format!("REVOKE UPDATE ON {{q}} FROM {r}"));
    let next = Waiter::take(&mut q);
    let id = put(&mut q.admin, &name, 1);
    assert_eq!(waiter.error().1.code().code(), "42501");
    assert_eq!(xqueue_tests::id(&next.task().1), id, "the wake-up went to the next");
}

#[test]
fn row_security_applies() {
    let columns = "id bigserial PRIMARY KEY, who text, payload jsonb";
    let mut q = Queue::with("priv", columns, &json!({"features": {"delayed": true}}));
    let role = Role::create();
    let (mut c, name, r) = (role.client(), q.name.clone(), role.name.clone());
    q.sql(&format!(
        "GRANT ALL ON {{q}} TO {r}; GRANT USAGE ON SEQUENCE {{q}}_id_seq TO {r}; ALTER TABLE {{q}} ENABLE ROW LEVEL SECURITY;
         CREATE POLICY own ON {{q}} USING (who = current_user) WITH CHECK (who = current_user);
         INSERT INTO {{q}} (who) VALUES ('another'), ('{r}'), ('another'), ('{r}')"
    ));
    assert_eq!(take_all(&mut c, &name), [2, 4]);
    assert!(values(&mut c, &format!("SELECT xqueue.peek('{name}', 1)"), &[]).is_empty());
    let ack_another = format!("SELECT xqueue.ack('{name}', 1)");
    expect_error(&mut c, &ack_another, "P0002", "task 1 was not found");
    let put_another = format!(r#"SELECT xqueue.put('{name}', '{{"who": "another"}}')"#);
    expect_error(&mut c, &put_another, "42501", "row-level security");
    assert_eq!(ack(&mut c, &name, 2).len(), 1);
    assert!(take(&mut c, &name, "20ms", 1).is_empty());
    // Another role's committed task does not keep a consumer awake forever: the consumer gets its own role's later
    // task.
    let waiter = Waiter::start(c, &format!("SELECT xqueue.take('{name}', '30s')"));
    q.wait_for_consumers(1);
    q.sql("INSERT INTO {q} (who) VALUES ('another')");
    q.sql(&format!("INSERT INTO {{q}} (who) VALUES ('{r}')"));
    let (c, task) = waiter.task();
    assert_eq!(task["who"], json!(r));
    q.assert_tasks(&[("ready", 3), ("taken", 2), ("total", 5)]);
    // FORCE filters even the owner's rows, but not the counters, delays and the end of a session.
    q.sql("ALTER TABLE {q} FORCE ROW LEVEL SECURITY");
    drop(c);
    q.wait_for("ready", 5);
    q.sql("INSERT INTO {q} (who, status, runat) VALUES ('another', 'W', now() + interval '20 milliseconds')");
    q.wait_for("ready", 6);
    q.assert_tasks(&[("ready", 6), ("total", 6)]);
}
