//! Feature on_task_change: a user's function that is called on every change of a task.

use xqueue_tests::{COLUMNS, Queue, Role, database, json, unique, wait_until};

#[test]
fn what_the_worker_does_is_reported_too() {
    let features = json!({"delayed": true, "ttl": true, "ttr": true, "zombie": true});
    let mut q = Queue::with("hook", COLUMNS, &json!({ "features": features }));
    q.sql(
        "CREATE TABLE {q}_log (noted text); \
         CREATE FUNCTION {q}_note(task jsonb, event text) RETURNS void LANGUAGE sql AS \
         $$ INSERT INTO public.{q}_log VALUES (event || ':' || (task->>'status')) $$",
    );
    let hook = format!("{}_note", q.name);
    q.upgrade(&json!({"features": {"on_task_change": hook}}));
    let steps = [
        ("put('{q}', '{}', delay => '10 milliseconds')", "delay:R"),
        ("take('{q}', '10 seconds', ttr => '10 milliseconds')", "ttr:R"),
        ("put('{q}', '{}', ttl => '10 milliseconds')", "ttl:R"),
        ("take('{q}')", "session:R"),
        ("ack('{q}', (xqueue.take('{q}')->>'id')::bigint, delay => '10 milliseconds')", "zombie:Z"),
    ];
    for (call, expected) in steps {
        let mut session = q.session();
        session.sql(&format!("SELECT xqueue.{call}"));
        if expected.starts_with("session") {
            drop(session);
        }
        let log = "SELECT to_jsonb(noted) FROM {q}_log";
        wait_until(&format!("{expected} is told"), || q.ask(log).contains(&json!(expected)));
        q.sql("TRUNCATE {q}_log");
    }
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn it_has_the_rights_of_the_caller_and_in_the_worker_those_of_the_owner() {
    let (owner, producer) = (Role::create(), Role::create());
    let mut q = Queue::adopt(&database(), &unique("hook"));
    q.admin = owner.client();
    q.sql(&format!(
        "CREATE TABLE {{q}} ({COLUMNS}); CREATE TABLE {{q}}_log (event text, role text); \
         CREATE FUNCTION {{q}}_note(task jsonb, event text) RETURNS void LANGUAGE sql AS \
         $$ INSERT INTO public.{{q}}_log VALUES (event, current_user) $$"
    ));
    let hook = format!("{}_note", q.name);
    q.upgrade(&json!({"features": {"delayed": true, "on_task_change": hook}}));
    q.sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {{q}} TO {}", producer.name));
    let mut as_producer = q.session();
    as_producer.admin = producer.client();
    let delayed = "SELECT xqueue.put('{q}', '{}', delay => '10 milliseconds')";
    // The function does not run with its owner's privileges.
    as_producer.fails(delayed, "42501", &format!("{}_log", q.name));
    q.sql(&format!("GRANT INSERT ON {{q}}_log TO {}", producer.name));
    as_producer.sql(delayed);
    let log = "SELECT jsonb_object_agg(event, role) FROM {q}_log";
    let roles = json!({"put": producer.name, "delay": owner.name});
    wait_until("both are noted", || q.ask_one(log) == roles);
}
