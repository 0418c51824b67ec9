//! Feature on_task_change: a user's function that is called on every change of a task.

use xqueue_tests::{
    COLUMNS, Queue, Role, Value, Watcher, ask, connect_as, expect_error, id, json, try_sql, unique,
    wait_until,
};

/// Makes a queue with a function that logs each change with its event and the task's state.
fn noting(features: &Value) -> Queue {
    let mut q = Queue::with("hook", COLUMNS, &json!({ "features": features }));
    q.sql(
        "CREATE TABLE {q}_log (no bigint GENERATED ALWAYS AS IDENTITY, event text, task jsonb, role text); \
         CREATE FUNCTION {q}_note(task jsonb, event text) RETURNS void LANGUAGE sql AS \
         $$ INSERT INTO public.{q}_log (event, task, role) VALUES (event, task, current_user) $$",
    );
    let hook = format!("{}_note", q.name);
    q.upgrade(&json!({"features": {"on_task_change": hook}}));
    q
}

/// Returns "event:new state" of each logged change in order, and clears the log.
fn noted(q: &mut Queue) -> Vec<String> {
    let log = q.ask("SELECT jsonb_build_array(event, task->>'status') FROM {q}_log ORDER BY no");
    q.sql("TRUNCATE {q}_log");
    let text = |value: &Value| value.as_str().unwrap_or("none").to_string();
    log.iter().map(|entry| format!("{}:{}", text(&entry[0]), text(&entry[1]))).collect()
}

fn drop_log(mut q: Queue) {
    q.upgrade(&json!({"features": {"on_task_change": false}}));
    q.sql("DROP TABLE {q}_log; DROP FUNCTION {q}_note");
}

#[test]
fn what_the_worker_does_is_reported_too() {
    let mut q = noting(&json!({
        "delayed": true, "buried": true, "ttl": true, "ttr": true, "zombie": true,
    }));
    let name = q.name.clone();
    let steps: [(&str, &str); 5] = [
        ("put('{q}', '{}', delay => '10 milliseconds')", "delay:R"),
        ("take('{q}', '10 seconds', ttr => '10 milliseconds')", "ttr:R"),
        ("put('{q}', '{}', ttl => '10 milliseconds')", "ttl:R"),
        ("take('{q}')", "session:R"),
        ("ack('{q}', (xqueue.take('{q}')->>'id')::bigint, delay => '10 milliseconds')", "zombie:Z"),
    ];
    for (call, expected) in steps {
        let mut client = q.client();
        ask(&mut client, &name, &format!("SELECT xqueue.{call}"));
        if expected.starts_with("session") {
            drop(client);
        }
        let log = format!("SELECT to_jsonb(event || ':' || (task->>'status')) FROM {name}_log");
        wait_until(&format!("{expected} is told"), || q.ask(&log).contains(&json!(expected)));
        noted(&mut q);
    }
    q.assert_tasks(&[("total", 0)]);
    drop_log(q);
}

#[test]
fn the_function_is_replaced_and_removed_on_a_queue_in_use() {
    let mut q = noting(&json!({}));
    let (name, mut consumer) = (q.name.clone(), q.client());
    q.sql("SELECT xqueue.put('{q}', '{}')");
    assert_eq!(id(&ask(&mut consumer, &name, "SELECT xqueue.take('{q}')")[0]), 1);
    assert_eq!(noted(&mut q), ["put:R", "take:T"]);
    // A new function body is called immediately, another function once its name is set.
    q.sql(
        "CREATE OR REPLACE FUNCTION {q}_note(task jsonb, event text) RETURNS void LANGUAGE sql AS \
         $$ INSERT INTO public.{q}_log (event, task) VALUES ('new ' || event, task) $$",
    );
    ask(&mut consumer, &name, "SELECT xqueue.release('{q}', 1)");
    assert_eq!(noted(&mut q), ["new release:R"]);
    q.sql(
        "CREATE FUNCTION {q}_other(task jsonb, event text) RETURNS int LANGUAGE plpgsql AS \
         $$ BEGIN INSERT INTO public.{q}_log (event, task) VALUES ('other ' || event, task); RETURN 1; END $$",
    );
    q.upgrade(&json!({"features": {"on_task_change": format!("public.{name}_other")}}));
    ask(&mut consumer, &name, "SELECT xqueue.take('{q}')");
    assert_eq!(noted(&mut q), ["other take:T"]);
    q.upgrade(&json!({"features": {"on_task_change": false}}));
    ask(&mut consumer, &name, "SELECT xqueue.ack('{q}', 1)");
    assert!(noted(&mut q).is_empty());
    q.sql("DROP FUNCTION {q}_other");
    drop_log(q);
}

#[test]
fn its_error_in_the_worker_is_shown_and_holds_up_no_other_queue() {
    let mut sick = noting(&json!({"delayed": true}));
    sick.sql(
        "CREATE OR REPLACE FUNCTION {q}_note(task jsonb, event text) RETURNS void LANGUAGE plpgsql AS \
         $$ BEGIN IF event = 'delay' AND task->>'id' = '1' THEN RAISE EXCEPTION 'not today'; END IF; END $$",
    );
    let mut healthy = Queue::with("hook", COLUMNS, &json!({"features": {"delayed": true}}));
    for q in [&mut sick, &mut healthy] {
        q.sql("SELECT xqueue.put('{q}', '[{}, {}]', delay => '10 milliseconds')");
    }
    healthy.wait_for("ready", 2);
    // The other task of that queue is promoted, too.
    sick.wait_for("ready", 1);
    assert!(sick.holds(1, "status = 'W'"));
    let error = "SELECT to_jsonb(error) FROM xqueue.queues WHERE queue = '{q}'::regclass AND error IS NOT NULL";
    wait_until("the error is shown", || !sick.ask(error).is_empty());
    assert!(sick.ask_one(error).as_str().is_some_and(|error| error.contains("not today")));
    healthy.sql("SELECT xqueue.put('{q}', '{}', delay => '10 milliseconds')");
    healthy.wait_for("ready", 3);
    // After the fix, the task is promoted and the error disappears.
    sick.sql(
        "CREATE OR REPLACE FUNCTION {q}_note(task jsonb, event text) RETURNS void LANGUAGE sql AS '' ",
    );
    sick.wait_for("ready", 2);
    wait_until("the error is gone", || sick.ask(error).is_empty());
    drop_log(sick);
}

#[test]
fn it_has_the_rights_of_the_caller_and_in_the_worker_those_of_the_owner() {
    let (owner, producer) = (Role::create(), Role::create());
    let name = unique("hook");
    let mut as_owner = connect_as(&owner.name);
    try_sql(
        &mut as_owner,
        &format!(
            "CREATE TABLE {name} ({COLUMNS}); CREATE TABLE {name}_log (event text, role text); \
             CREATE FUNCTION {name}_note(task jsonb, event text) RETURNS void LANGUAGE sql AS \
             $$ INSERT INTO public.{name}_log VALUES (event, current_user) $$; \
             SELECT xqueue.upgrade('{name}', '{{\"features\": {{\"delayed\": true, \"on_task_change\": \"{name}_note\"}}}}'); \
             GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO {}",
            producer.name
        ),
    )
    .expect("a queue of the owner's");
    let mut as_producer = connect_as(&producer.name);
    let delayed = format!("SELECT xqueue.put('{name}', '{{}}', delay => '10 milliseconds')");
    // The function does not run with its owner's privileges.
    expect_error(&mut as_producer, &delayed, "42501", &format!("{name}_log"));
    try_sql(&mut as_owner, &format!("GRANT INSERT ON {name}_log TO {}", producer.name)).unwrap();
    try_sql(&mut as_producer, &delayed).expect("a put");
    let log = format!("SELECT jsonb_object_agg(event, role) FROM {name}_log");
    wait_until("both are noted", || {
        ask(&mut as_owner, &name, &log) == [json!({"put": producer.name, "delay": owner.name})]
    });
    let mut q = Queue::adopt(&xqueue_tests::database(), &name);
    q.verify();
    q.abandon();
    try_sql(&mut as_owner, &format!("DROP TABLE {name}, {name}_log; DROP FUNCTION {name}_note"))
        .unwrap();
}

#[test]
fn what_it_does_itself_to_other_tasks_is_reported_as_what_it_is() {
    let mut q = Queue::with("hook", COLUMNS, &json!({}));
    q.sql(
        "CREATE FUNCTION {q}_heir(task jsonb, event text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN \
         IF event = 'ack' THEN DELETE FROM public.{q} WHERE id = 2; END IF; END $$",
    );
    q.sql("SELECT xqueue.put('{q}', '[{}, {}]')");
    q.sql("SELECT xqueue.take('{q}')");
    let heir = format!("{}_heir", q.name);
    q.upgrade(&json!({"features": {"on_task_change": heir}}));
    let (first, second) =
        (Watcher::wait(&mut q, 1, "30 seconds"), Watcher::wait(&mut q, 2, "30 seconds"));
    q.sql("SELECT xqueue.ack('{q}', 1)");
    first.assert_told("acked");
    second.assert_told("deleted");
    q.upgrade(&json!({"features": {"on_task_change": false}}));
    q.sql("DROP FUNCTION {q}_heir");
}
