//! Waits that end without a task: timeout, cancel, terminate, a closed connection. No task is taken for such a waiter,
//! and its wake-up goes to the next consumer.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

const CONSUMER: &str = env!("CARGO_BIN_EXE_consumer");

fn alive(c: &mut Client, pid: i32) -> bool {
    scalar(c, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", &[&pid])
}

/// Asserts that the waiter is gone, that a task put now stays ready, and that a second waiter gets it.
#[track_caller]
fn nothing_taken_and_next_is_served(q: &mut Queue, gone: i32) {
    q.wait_for_consumers(0);
    assert!(!is_waiting(&mut q.admin, gone));
    let id = put(&mut q.admin, &q.name, 1);
    assert_eq!(status(&mut q.admin, &q.name, id).as_deref(), Some("R"));
    q.assert_tasks(&[("ready", 1), ("taken", 0), ("total", 1)]);
    assert_eq!(take_all(&mut q.admin, &q.name), [id]);
    ack(&mut q.admin, &q.name, id);
    let next = Waiter::take(q);
    let id = put(&mut q.admin, &q.name, 2);
    assert_eq!(xqueue_tests::id(&next.task().1), id);
}

#[test]
fn statement_timeout() {
    let mut q = Queue::new("end");
    let mut c = q.client();
    c.batch_execute("SET statement_timeout = '300ms'").unwrap();
    let waiter = Waiter::start(c, &format!("SELECT xqueue.take('{}', '30s')", q.name));
    let pid = waiter.pid;
    let (mut c, error) = waiter.error();
    assert_eq!(error.code().code(), "57014");
    nothing_taken_and_next_is_served(&mut q, pid);
    // The session is still usable.
    take(&mut c, &q.name, "10ms", 1);
}

#[test]
fn cancel() {
    let mut q = Queue::new("end");
    let waiter = Waiter::take(&mut q);
    let pid = waiter.pid;
    let done: bool = scalar(&mut q.admin, "SELECT pg_cancel_backend($1)", &[&pid]);
    assert!(done);
    let (mut c, error) = waiter.error();
    assert_eq!(error.code().code(), "57014");
    nothing_taken_and_next_is_served(&mut q, pid);
    put(&mut c, &q.name, 3);
    assert_eq!(take(&mut c, &q.name, "10s", 1).len(), 1, "the session goes on");
}

#[test]
fn terminate() {
    let mut q = Queue::new("end");
    let waiter = Waiter::take(&mut q);
    let pid = waiter.pid;
    q.sql(&format!("SELECT pg_terminate_backend({pid})"));
    // The client can see the connection close before it reads the message sent just before.
    let error = waiter.join().result.expect_err("the wait was ended");
    assert!(error.is_closed() || code(&error) == "57P01", "{error:?}");
    wait_until("the backend is gone", || !alive(&mut q.admin, pid));
    nothing_taken_and_next_is_served(&mut q, pid);
}

#[test]
fn the_client_is_gone() {
    let mut q = Queue::new("end");
    let mut child = Consumer::start(CONSUMER, "hold", &database(), &q.name);
    q.wait_for_consumers(1);
    child.kill();
    wait_until("the backend is gone", || !alive(&mut q.admin, child.backend));
    nothing_taken_and_next_is_served(&mut q, child.backend);
}

/// Race of a kill with a put: the next consumer gets the task in the end, even if the killed client was woken for it.
#[test]
fn the_client_dies_while_it_is_woken() {
    let mut q = Queue::new("end");
    let name = q.name.clone();
    for round in 0..25 {
        let mut child = Consumer::start(CONSUMER, "hold", &database(), &name);
        q.wait_for_consumers(1);
        let next = Waiter::start(q.client(), &format!("SELECT xqueue.take('{name}', '30s')"));
        q.wait_for_consumers(2);
        let killer = std::thread::spawn(move || child.kill());
        let id = put(&mut q.admin, &name, round);
        killer.join().unwrap();
        let (mut client, task) = next.task();
        assert_eq!(xqueue_tests::id(&task), id);
        ack(&mut client, &name, id);
    }
    q.assert_tasks(&[("total", 0)]);
}

/// Race of a cancel with a put: the first waiter returns either the task or an error. If it returns an error, the
/// second waiter gets the task.
#[test]
fn a_cancel_that_meets_the_wake_up() {
    let mut q = Queue::new("end");
    let name = q.name.clone();
    let mut canceller = q.client();
    let (mut first_client, mut second_client) = (Some(q.client()), Some(q.client()));
    let sql = format!("SELECT xqueue.take('{name}', '30s')");
    let (mut served, mut passed) = (0, 0);
    for round in 0..120 {
        let first = Waiter::start(first_client.take().unwrap(), &sql);
        q.wait_for_consumers(1);
        let second = Waiter::start(second_client.take().unwrap(), &sql);
        q.wait_for_consumers(2);
        let id = std::thread::scope(|scope| {
            scope.spawn(|| first.cancel(&mut canceller));
            put(&mut q.admin, &name, round)
        });
        let Outcome { mut client, result } = first.join();
        let for_second = match result {
            Ok(tasks) => {
                served += 1;
                assert_eq!(ids(&tasks), [id]);
                ack(&mut client, &name, id);
                put(&mut q.admin, &name, round)
            }
            Err(e) => {
                passed += 1;
                assert_eq!(code(&e), "57014");
                id
            }
        };
        let (mut second, task) = second.task();
        assert_eq!(xqueue_tests::id(&task), for_second);
        ack(&mut second, &name, for_second);
        second_client = Some(second);
        // A late cancel must not hit the next round.
        while client.batch_execute("SELECT 1").is_err() {}
        first_client = Some(client);
    }
    println!("the first was served {served} times, passed it on {passed} times");
    q.assert_tasks(&[("total", 0)]);
}

/// A waiter whose own transaction fails after it got a task has not used its wake-up.
#[test]
fn a_served_waiter_that_rolls_back() {
    let mut q = Queue::new("end");
    let name = q.name.clone();
    let mut c = q.client();
    c.batch_execute("BEGIN").unwrap();
    let first = Waiter::start(c, &format!("SELECT xqueue.take('{name}', '30s')"));
    q.wait_for_consumers(1);
    let second = Waiter::take(&mut q);
    let id = put(&mut q.admin, &name, 1);
    let (mut c, task) = first.task();
    assert_eq!(xqueue_tests::id(&task), id);
    c.batch_execute("ROLLBACK").unwrap();
    assert_eq!(xqueue_tests::id(&second.task().1), id);
}

/// Each put wakes one consumer, while consumers keep dying: no task stays ready for good.
#[test]
fn kills_at_random() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut q = Queue::new("end");
    let (db, name) = (database(), q.name.clone());
    let start = || Consumer::start(CONSUMER, "loop", &db, &name);
    let mut children: Vec<Consumer> = (0..5).map(|_| start()).collect();
    for round in 0..60 {
        let victim = random.random_range(0..children.len());
        match random.random_range(0..5) {
            0 => children[victim].kill(),
            1 => {
                let sql = "SELECT pg_terminate_backend($1)";
                let _done: bool = scalar(&mut q.admin, sql, &[&children[victim].backend]);
            }
            2 => {
                // A cancelled statement also ends this consumer, with an error.
                let sql = "SELECT pg_cancel_backend($1)";
                let _done: bool = scalar(&mut q.admin, sql, &[&children[victim].backend]);
            }
            _ => {
                put(&mut q.admin, &name, round);
                continue;
            }
        }
        put(&mut q.admin, &name, round);
        children[victim] = start();
    }
    // A task is acked by its holder, or becomes ready again and goes to a waiting consumer.
    q.wait_for("total", 0);
    q.assert_tasks(&[("total", 0)]);
}

#[test]
fn many_waiters_are_cancelled_at_once() {
    let mut q = Queue::new("end");
    let name = q.name.clone();
    let waiters: Vec<Waiter> = (0..20).map(|_| Waiter::take(&mut q)).collect();
    let survivor = Waiter::take(&mut q);
    q.sql(&format!(
        "SELECT pg_cancel_backend(pid) FROM xqueue.consumers WHERE queue = '{name}'::regclass AND pid <> {}",
        survivor.pid
    ));
    let id = put(&mut q.admin, &name, 1);
    let mut served = 0;
    let mut clients = Vec::new();
    for waiter in waiters {
        let Outcome { client, result } = waiter.join();
        served += usize::from(result.is_ok());
        clients.push(client);
    }
    if served == 0 {
        assert_eq!(xqueue_tests::id(&survivor.task().1), id);
    } else {
        assert_eq!(served, 1);
        put(&mut q.admin, &name, 2);
        survivor.task();
    }
    drop(clients);
}
