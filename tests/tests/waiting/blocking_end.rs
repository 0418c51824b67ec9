//! Waits that end without a task: timeout, cancel, terminate, a closed connection. No task is taken for such a waiter,
//! and its wake-up goes to the next consumer.

use xqueue_tests::*;

const CONSUMER: &str = env!("CARGO_BIN_EXE_consumer");

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
fn a_waiter_that_is_ended() {
    let mut q = Queue::new("end");
    for how in ["timeout", "cancel"] {
        let mut c = q.client();
        c.run(if how == "timeout" { "SET statement_timeout = '3s'" } else { "" });
        let waiter = Waiter::take_in(&mut q, c);
        let pid = waiter.pid;
        if how == "cancel" {
            q.sql(&format!("SELECT pg_cancel_backend({pid})"));
        }
        let (mut c, error) = waiter.error();
        assert_eq!(error.code().code(), "57014");
        nothing_taken_and_next_is_served(&mut q, pid);
        put(&mut c, &q.name, 3);
        assert_eq!(take(&mut c, &q.name, "100ms", 1).len(), 1, "the session goes on");
        q.sql("DELETE FROM {q}");
    }
    let waiter = Waiter::take(&mut q);
    let pid = waiter.pid;
    q.sql(&format!("SELECT pg_terminate_backend({pid})"));
    // The client can see the connection close before it reads the message sent just before.
    let error = waiter.join().result.expect_err("the wait was ended");
    assert!(error.is_closed() || code(&error) == "57P01", "{error:?}");
    nothing_taken_and_next_is_served(&mut q, pid);
    q.sql("DELETE FROM {q}");
    let mut child = Consumer::start(CONSUMER, "hold", &database(), &q.name);
    q.wait_for_consumers(1);
    child.kill();
    nothing_taken_and_next_is_served(&mut q, child.backend);
}

/// Race of a kill with a put: the next consumer gets the task in the end, even if the killed client was woken for it.
#[test]
fn the_client_dies_while_it_is_woken() {
    let mut q = Queue::new("end");
    for round in 0..25 {
        let mut child = Consumer::start(CONSUMER, "hold", &database(), &q.name);
        q.wait_for_consumers(1);
        let next = Waiter::take(&mut q);
        let killer = std::thread::spawn(move || child.kill());
        let id = put(&mut q.admin, &q.name, round);
        killer.join().unwrap();
        let (mut client, task) = next.task();
        assert_eq!(xqueue_tests::id(&task), id);
        ack(&mut client, &q.name, id);
    }
    q.assert_tasks(&[("total", 0)]);
}

/// Race of a cancel with a put: the first waiter returns either the task or an error. If it returns an error, the
/// second waiter gets the task.
#[test]
fn a_cancel_that_meets_the_wake_up() {
    let mut q = Queue::new("end");
    let mut canceller = q.client();
    let mut clients = [q.client(), q.client()];
    let (mut served, mut passed) = (0, 0);
    for round in 0..120 {
        let [first, second] = clients.map(|client| Waiter::take_in(&mut q, client));
        let id = std::thread::scope(|scope| {
            scope.spawn(|| first.cancel(&mut canceller));
            put(&mut q.admin, &q.name, round)
        });
        let Outcome { mut client, result } = first.join();
        let for_second = match result {
            Ok(tasks) => {
                served += 1;
                assert_eq!(ids(&tasks), [id]);
                ack(&mut client, &q.name, id);
                put(&mut q.admin, &q.name, round)
            }
            Err(e) => {
                passed += 1;
                assert_eq!(code(&e), "57014");
                id
            }
        };
        let (mut second, task) = second.task();
        assert_eq!(xqueue_tests::id(&task), for_second);
        ack(&mut second, &q.name, for_second);
        // A late cancel must not hit the next round.
        while client.batch_execute("SELECT 1").is_err() {}
        clients = [client, second];
    }
    println!("the first was served {served} times, passed it on {passed} times");
    q.assert_tasks(&[("total", 0)]);
}
