//! Many connections wait for a task, and half of them are lost meanwhile. No task is lost, and each put wakes a live
//! connection.

use std::collections::BTreeSet;

use xqueue_tests::*;

const CONSUMER: &str = env!("CARGO_BIN_EXE_consumer");

/// Number of connections that live, and equally many are lost.
const LIVING: usize = 80;
const TAKE: &str = "SELECT xqueue.take('jobs', '50s')";

#[test]
fn each_task_goes_to_a_connection_that_lives() {
    let server = Cluster::new("max_connections = 250\n");
    server.wait_running();
    let mut q = Queue::make_at(server.config(), "jobs", COLUMNS, &json!({}));
    let (folder, mut living, mut closed, mut terminated) =
        (server.folder(), vec![], vec![], vec![]);
    // In the wait queue each live connection stands between two that get lost.
    for number in 0..LIVING {
        living.push(Waiter::waiting(&mut q, TAKE));
        match number % 2 {
            0 => terminated.push(Waiter::waiting(&mut q, TAKE)),
            // Unlike a driver's connection, that of another process can be closed during the wait.
            _ => closed.push(Consumer::start_at(&folder, 5432, CONSUMER, "postgres", "jobs")),
        }
    }
    q.wait_for_consumers(2 * LIVING as i64);
    let mut admin = server.client();
    let pids: Vec<i32> = terminated.iter().map(|waiter| waiter.pid).collect();
    let killer = std::thread::spawn(move || {
        for pid in pids {
            let _ended: bool = scalar(&mut admin, "SELECT pg_terminate_backend($1)", &[&pid]);
            closed.pop();
        }
    });
    for number in 0..LIVING {
        put(&mut q.admin, "jobs", number as i64);
    }
    killer.join().expect("the others are lost");
    let held: Vec<(Client, Value)> = living.into_iter().map(Waiter::task).collect();
    let distinct: BTreeSet<i64> = held.iter().map(|(_, task)| id(task)).collect();
    assert_eq!(distinct.len(), LIVING, "no task was given twice");
    // A terminated connection can have got a task before its end: that task came back.
    terminated.into_iter().for_each(|waiter| drop(waiter.join()));
    q.wait_for_consumers(0);
    q.assert_tasks(&[("taken", LIVING as i64), ("ready", 0), ("total", LIVING as i64)]);
    drop(held);
    q.wait_for("ready", LIVING as i64);
}
