//! User code that calls again is refused beyond a depth: immediately, with a clear error, and regardless of the stack's
//! size. A backend can be ended in the middle of such calls.

use xqueue_tests::*;

/// The largest size that the server allows.
const STACK: &str = "SET max_stack_depth = '7MB'";

/// Makes a queue whose PL/pgSQL function runs `body` on every put.
fn hooked(body: &str) -> Queue {
    let mut q = Queue::new("nesting");
    hook(&mut q, body);
    q
}

fn hook(q: &mut Queue, body: &str) {
    let name = q.name.clone();
    q.sql(&format!(
        "CREATE FUNCTION {{q}}_hook(task jsonb, event text) RETURNS void LANGUAGE plpgsql AS $$
         BEGIN IF event = 'put' THEN {body} END IF; END $$"
    ));
    q.upgrade(&json!({"features": {"on_task_change": format!("{name}_hook")}}));
}

#[track_caller]
fn refused(q: &mut Queue, sql: &str) {
    q.sql(STACK);
    let error = q.fails(sql, "54001", "nested too deep in queue");
    assert!(error.message().contains(&q.name), "{error:?}");
    assert!(error.detail().is_some() && error.hint().is_some(), "{error:?}");
    // The session has no trace of the failed call.
    q.assert_tasks(&[("total", 0)]);
    q.upgrade(&json!({"features": {"on_task_change": false, "pick": false}}));
    q.sql("DROP TRIGGER IF EXISTS again ON {q}; SELECT xqueue.put('{q}', '{}')");
    q.assert_tasks(&[("ready", 1)]);
}

#[test]
fn code_that_puts_into_its_own_queue() {
    for put in ["SELECT xqueue.put('{q}', '{}')", "INSERT INTO {q} DEFAULT VALUES"] {
        let mut q = hooked(&format!("{};", put.replace("SELECT", "PERFORM")));
        refused(&mut q, put);
    }
    for when in ["BEFORE", "AFTER"] {
        let mut q = Queue::new("nesting");
        q.sql(&format!(
            "CREATE FUNCTION {{q}}_again() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM xqueue.put('{{q}}', '{{}}'); RETURN NEW; END $$;
             CREATE TRIGGER again {when} INSERT ON {{q}} FOR EACH ROW EXECUTE FUNCTION {{q}}_again()"
        ));
        refused(&mut q, "SELECT xqueue.put('{q}', '{}')");
    }
}

#[test]
fn a_function_that_picks_and_takes() {
    let mut q = Queue::with("nesting", COLUMNS, &json!({}));
    q.sql(
        "CREATE FUNCTION {q}_pick(count integer) RETURNS SETOF bigint LANGUAGE sql AS
         $$ SELECT id FROM xqueue.take(NULL::{q}) $$",
    );
    let pick = format!("{}_pick", q.name);
    q.upgrade(&json!({"features": {"pick": pick}}));
    refused(&mut q, "SELECT xqueue.take('{q}')");
}

#[test]
fn two_queues_that_put_into_each_other() {
    let (mut q, mut other) = (Queue::new("nesting"), Queue::new("nesting"));
    hook(&mut q, &format!("PERFORM xqueue.put('{}', '{{}}');", other.name));
    hook(&mut other, &format!("PERFORM xqueue.put('{}', '{{}}');", q.name));
    q.sql(STACK);
    q.fails("SELECT xqueue.put('{q}', '{}')", "54001", "nested too deep in queue");
    q.assert_tasks(&[("total", 0)]);
    other.assert_tasks(&[("total", 0)]);
}

#[test]
fn a_chain_of_queues() {
    let mut queues: Vec<Queue> = (0..25).map(|_| Queue::new("nesting")).collect();
    for number in 1..queues.len() {
        let next = queues[number - 1].name.clone();
        hook(&mut queues[number], &format!("PERFORM xqueue.put('{next}', '{{}}');"));
    }
    queues.last_mut().expect("the first").sql("SELECT xqueue.put('{q}', '{}')");
    for q in &mut queues {
        q.assert_tasks(&[("ready", 1)]);
    }
}

/// Errors that are caught leave the depth unchanged.
#[test]
fn an_error_that_is_caught() {
    let mut q = hooked(
        "BEGIN PERFORM xqueue.put('{q}', '{}'); EXCEPTION WHEN statement_too_complex THEN NULL; END;",
    );
    q.sql("SELECT xqueue.put('{q}', '{}')");
    let deep = q.stats()["tasks"]["total"].as_i64().expect("a number");
    assert!((10..64).contains(&deep), "{deep} tasks");
    for round in 2..5 {
        q.sql("SELECT xqueue.put('{q}', '{}')");
        q.assert_tasks(&[("ready", deep * round)]);
    }
}

/// Two nested calls at each level run practically forever.
#[test]
fn a_backend_in_the_midst_of_it_can_be_ended() {
    let again = "BEGIN PERFORM xqueue.put('{q}', '{}'); EXCEPTION WHEN statement_too_complex THEN NULL; END;";
    let mut q = hooked(&again.repeat(2));
    let runs = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND state = 'active' \
                AND query_start < clock_timestamp() - interval '300 ms')";
    let deep = |q: &mut Queue, client: Client| {
        let waiter = Waiter::start(client, &format!("SELECT xqueue.put('{}', '{{}}')", q.name));
        wait_until("it is deep in it", || scalar(&mut q.admin, runs, &[&waiter.pid]));
        waiter
    };
    let client = q.client();
    let waiter = deep(&mut q, client);
    waiter.cancel(&mut q.admin);
    let (client, error) = waiter.error();
    assert_eq!(error.code().code(), "57014");
    let waiter = deep(&mut q, client);
    q.sql(&format!("SELECT pg_terminate_backend({})", waiter.pid));
    assert!(waiter.join().result.is_err());
    q.assert_tasks(&[("total", 0)]);
}
