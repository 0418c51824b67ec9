//! Producers that end without using their capacity, or while they wait in line: cancelled, terminated, killed, timed
//! out. The next producer gets the capacity.

use xqueue_tests::*;

const PRODUCER: &str = env!("CARGO_BIN_EXE_producer");

fn producer(q: &Queue, tasks: i64) -> Consumer {
    Consumer::run(PRODUCER, &[&database(), &q.name, &tasks.to_string()])
}

fn end(q: &mut Queue, how: &str, producer: &Waiter) {
    let sql = format!("SELECT {how}($1)");
    let _done: bool = scalar(&mut q.admin, &sql, &[&producer.pid]);
}

const ENDS: [&str; 2] = ["pg_cancel_backend", "pg_terminate_backend"];

#[test]
fn at_the_head_of_the_line() {
    let mut q = Queue::limited("roomend", 4, 3);
    for how in ENDS {
        let batch = Waiter::put(&mut q, &empty_tasks(2));
        let single = Waiter::put(&mut q, &empty_tasks(1));
        end(&mut q, how, &batch);
        assert!(batch.join().result.is_err());
        assert_eq!(single.tasks().len(), 1, "{how}");
        q.drain(1);
    }
    let mut killed = producer(&q, 2);
    q.wait_for_producers(1);
    let single = Waiter::put(&mut q, &empty_tasks(1));
    killed.kill();
    assert_eq!(single.tasks().len(), 1);
    q.assert_tasks(&[("total", 4)]);
}

#[test]
fn statement_timeout() {
    let mut q = Queue::limited("roomend", 1, 1);
    let mut c = q.client();
    c.run("SET statement_timeout = '200ms'");
    let sql = format!("SELECT xqueue.put('{}', '{{}}', timeout => '30s')", q.name);
    let (mut c, error) = Waiter::start(c, &sql).error();
    assert_eq!(error.code().code(), "57014");
    assert_eq!(q.stats()["producers"], json!(0));
    // If a function catches the error, the session continues and no longer waits in line.
    q.sql(
        "SET statement_timeout = '200ms';
         DO $$ BEGIN PERFORM xqueue.put('{q}', '{}', timeout => '30s');
               EXCEPTION WHEN query_canceled THEN NULL; END $$;
         SET statement_timeout = '60s'",
    );
    assert_eq!(q.stats()["producers"], json!(0));
    q.drain(1);
    c.run(&sql);
}

#[test]
fn put_wait() {
    let mut q = Queue::limited("roomend", 1, 1);
    let sql = "CALL xqueue.put_wait('{q}', '{}', '30s')";
    for how in ENDS {
        let waiting = Waiter::producing(&mut q, sql);
        let next = Waiter::put(&mut q, &empty_tasks(1));
        end(&mut q, how, &waiting);
        assert!(waiting.join().result.is_err());
        assert!(!next.finished());
        q.drain(1);
        assert_eq!(next.tasks().len(), 1, "{how}");
    }
    let waiting = Waiter::producing(&mut q, sql);
    q.sql("DROP TABLE {q}");
    assert_eq!(waiting.error().1.code().code(), "42P01");
    q.abandon();
}

/// The producer is in line already: the end of the transaction does not end the wait, the end of the process does.
#[test]
fn in_the_commit_before_the_wait() {
    let mut q = Queue::limited("roomend", 1, 1);
    let name = q.name.clone();
    let key = i64::from(pid(&mut q.admin));
    q.sql(&format!(
        "CREATE TABLE {{q}}_log (); CREATE FUNCTION {{q}}_f() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM pg_advisory_xact_lock({key}); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON {{q}}_log DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION {{q}}_f();
         SELECT pg_advisory_lock({key})"
    ));
    let sql = format!(
        "DO $$ DECLARE outcome text; id jsonb; BEGIN INSERT INTO {name}_log DEFAULT VALUES; \
         CALL xqueue.put_wait('{name}', '{{}}', '30s', outcome, id); END $$"
    );
    for how in ENDS {
        let waiting = Waiter::start(q.client(), &sql);
        waiting.wait_for_lock(&mut q);
        q.wait_for_producers(1);
        end(&mut q, how, &waiting);
        assert!(waiting.join().result.is_err());
        q.wait_for_producers(0);
    }
    q.drain(1);
    assert_eq!(q.puts(1), 1);
    q.sql("DROP TABLE {q}_log; DROP FUNCTION {q}_f CASCADE");
}

/// A lock request that arrives while a put is rolled back is granted before the producers that get its capacity.
struct Blocked {
    lock: Waiter,
    first: Waiter,
    second: Waiter,
}

/// Returns when the first producer has been granted capacity and waits for the table lock.
fn granted_and_blocked(q: &mut Queue) -> Blocked {
    let mut open = q.client();
    open.run("BEGIN; SAVEPOINT s");
    put(&mut open, &q.name, 1);
    let first = Waiter::put(q, &empty_tasks(1));
    let second = Waiter::put(q, &empty_tasks(1));
    let mut locker = q.client();
    locker.run("BEGIN");
    let lock = Waiter::start(locker, &format!("LOCK TABLE {} IN SHARE MODE", q.name));
    lock.wait_for_lock(q);
    open.run("ROLLBACK TO s");
    first.wait_for_lock(q);
    q.assert_reserved(1);
    Blocked { lock, first, second }
}

#[test]
fn with_room_that_is_not_used_yet() {
    for how in ENDS {
        let mut q = Queue::limited("roomend", 1, 0);
        let Blocked { lock, first, second } = granted_and_blocked(&mut q);
        end(&mut q, how, &first);
        assert!(first.join().result.is_err());
        second.wait_for_lock(&mut q);
        lock.join().client.run("COMMIT");
        assert_eq!(second.tasks().len(), 1, "{how}");
        q.assert_tasks(&[("total", 1)]);
    }
}

#[test]
fn with_tasks_that_are_not_committed() {
    let mut q = Queue::limited("roomend", 3, 0);
    let mut holding = producer(&q, 2);
    assert_eq!(holding.number("put"), 2);
    assert_eq!(q.puts(2), 0);
    let next = Waiter::put(&mut q, &empty_tasks(3));
    holding.kill();
    assert_eq!(next.tasks().len(), 3);
    q.assert_tasks(&[("total", 3)]);
}

/// Race of a cancel with freed capacity: the first producer puts its task or returns an error. The second one puts its
/// task in either case once there is capacity for both.
#[test]
fn a_cancel_that_meets_the_room() {
    let mut q = Queue::limited("roomend", 1, 1);
    let sql = format!("SELECT xqueue.put('{}', '{{}}', timeout => '30s')", q.name);
    let mut canceller = q.client();
    let (mut first_client, mut second_client) = (Some(q.client()), Some(q.client()));
    let mut served = 0;
    for _ in 0..100 {
        let first = Waiter::start(first_client.take().unwrap(), &sql);
        q.wait_for_producers(1);
        let second = Waiter::start(second_client.take().unwrap(), &sql);
        q.wait_for_producers(2);
        std::thread::scope(|scope| {
            scope.spawn(|| first.cancel(&mut canceller));
            q.drain(1);
        });
        let Outcome { mut client, result } = first.join();
        if result.is_ok() {
            served += 1;
            q.drain(1);
        }
        let second = second.join();
        assert_eq!(second.result.unwrap().len(), 1);
        while client.batch_execute("SELECT 1").is_err() {}
        (first_client, second_client) = (Some(client), Some(second.client));
    }
    println!("the first was served {served} times");
    q.assert_tasks(&[("total", 1)]);
}
