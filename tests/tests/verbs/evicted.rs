//! A backend evicts its data of one queue to make room for others, even in the middle of a call. These tests limit it
//! to one queue.

use xqueue_tests::*;

const OTHERS: usize = 8;

/// Returns a connection that keeps at most one queue that it does not use.
fn forgetful(q: &Queue) -> Client {
    let mut c = q.client();
    c.run("SET xqueue.queue_memory = '64kB'");
    c
}

fn others() -> Vec<Queue> {
    let features = json!({"delayed": true, "buried": true});
    let other = || Queue::with("other", COLUMNS, &json!({"features": features}));
    (0..OTHERS).map(|_| other()).collect()
}

/// Makes a queue whose trigger at these events puts tasks into each of the others, acks one, buries one, and then runs
/// `more`.
fn using_each(others: &[Queue], events: &str, more: &str) -> Queue {
    let names: Vec<String> = others.iter().map(|q| format!("'{}'", q.name)).collect();
    let mut q = Queue::new("evicted");
    q.sql(&format!(
        "CREATE FUNCTION {{q}}_uses() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE other text; BEGIN
             FOREACH other IN ARRAY ARRAY[{}] LOOP
                 PERFORM xqueue.put(other, '[{{}}, {{}}]');
                 PERFORM xqueue.ack(other, (xqueue.take(other)->>'id')::bigint);
                 PERFORM xqueue.bury(other, (xqueue.take(other)->>'id')::bigint);
             END LOOP;
             {more} RETURN NULL; END $$;
         CREATE TRIGGER uses AFTER {events} ON {{q}} FOR EACH ROW EXECUTE FUNCTION {{q}}_uses()",
        names.join(", ")
    ));
    q
}

#[test]
fn triggers_that_use_many_others() {
    let mut others = others();
    // The trigger also puts into its own queue while the outer call runs.
    let more = "IF TG_OP = 'INSERT' AND (NEW.payload->>'n')::int > 0 THEN
         PERFORM xqueue.put('{q}', jsonb_build_object('payload', jsonb_build_object('n', (NEW.payload->>'n')::int - 1)));
         END IF;";
    let mut q = using_each(&others, "INSERT OR UPDATE OR DELETE", more);
    let name = q.name.clone();
    let mut c = forgetful(&q);
    for _ in 0..2 {
        put(&mut c, &name, 2);
        let tasks = take_all(&mut c, &name);
        assert_eq!(tasks.len(), 3);
        tasks.iter().for_each(|id| assert_eq!(ack(&mut c, &name, *id).len(), 1));
    }
    // Each round puts, takes and acks three tasks.
    q.assert_tasks(&[("total", 0)]);
    for other in &mut others {
        other.assert_tasks(&[("buried", 2 * 9), ("total", 2 * 9)]);
    }
}

#[test]
fn an_error_within() {
    let mut others = others();
    let mut q = using_each(&others, "INSERT", "PERFORM 1 / (NEW.payload->>'n')::int;");
    let name = q.name.clone();
    let mut c = forgetful(&q);
    let put_in_block = format!(
        "DO $do$ BEGIN FOR n IN 0..3 LOOP BEGIN
           PERFORM xqueue.put('{name}', jsonb_build_object('payload', jsonb_build_object('n', n % 2)));
         EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $do$"
    );
    for _ in 0..3 {
        c.batch_execute(&put_in_block).unwrap();
        let put = format!("SELECT xqueue.put('{name}', '{{\"payload\": {{\"n\": 0}}}}')");
        expect_error(&mut c, &put, "22012", "");
    }
    q.assert_tasks(&[("ready", 6)]);
    for other in &mut others {
        other.assert_tasks(&[("buried", 6), ("total", 6)]);
    }
}

#[test]
fn a_table_that_is_open_meanwhile() {
    let mut others = others();
    let mut q = Queue::new("evicted");
    let mut c = forgetful(&q);
    let name = q.name.clone();
    let ids: Vec<i64> = (0..6).map(|number| put(&mut c, &name, number)).collect();
    // One cursor reads a statement, the other a call that returns its rows one by one.
    c.run(&format!("BEGIN; DECLARE a CURSOR FOR SELECT id FROM {name} ORDER BY id"));
    let peek = format!("SELECT t->>'id' FROM xqueue.peek('{name}', ARRAY{ids:?}) AS t");
    c.run(&format!("DECLARE b CURSOR FOR {peek}"));
    for id in &ids {
        let fetched: i64 = scalar(&mut c, "FETCH a", &[]);
        let peeked: String = scalar(&mut c, "FETCH b", &[]);
        assert_eq!((fetched, &peeked), (*id, &id.to_string()));
        for other in &others {
            put(&mut c, &other.name, 1);
            take(&mut c, &other.name, "0", 1);
        }
    }
    c.run("ROLLBACK");
    q.assert_tasks(&[("ready", 6)]);
    others.iter_mut().for_each(|other| other.assert_tasks(&[("total", 0)]));
}

#[test]
fn queues_of_the_open_transaction() {
    let mut others = others();
    let mut c = forgetful(&others[0]);
    for end in ["ROLLBACK", "COMMIT"] {
        let name = unique("evicted");
        let options = json!({"features": {"delayed": true}});
        c.run(&format!("BEGIN; SELECT xqueue.create('{name}', '{options}')"));
        for _ in 0..3 {
            put(&mut c, &name, 1);
            for other in &others {
                put(&mut c, &other.name, 1);
            }
            c.run(&format!("ALTER TABLE {name} ALTER payload SET STATISTICS 10"));
            assert_eq!(take(&mut c, &name, "0", 1).len(), 1);
        }
        c.run(end);
        if end == "COMMIT" {
            Queue::adopt(&database(), &name).assert_tasks(&[("taken", 3), ("total", 3)]);
        }
    }
    others.iter_mut().for_each(|other| other.assert_tasks(&[("ready", 3)]));
}
