//! Many connections wait for a task, and half of them are lost meanwhile. No task is lost, and each put wakes a live
//! connection.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use xqueue_tests::*;

/// Number of connections that live, and equally many are lost.
const LIVING: usize = 80;
const TAKE: &str = "SELECT xqueue.take('jobs', '50s')";

/// Waits for a task over a raw socket: unlike a driver's, it can be closed during the wait.
fn wait_on_socket(server: &Cluster) -> UnixStream {
    let mut socket = UnixStream::connect(format!("{}/.s.PGSQL.5432", server.folder())).unwrap();
    let mut startup = 196_608_i32.to_be_bytes().to_vec();
    startup.extend(b"user\0postgres\0database\0postgres\0\0");
    socket.write_all(&(startup.len() as i32 + 4).to_be_bytes()).unwrap();
    socket.write_all(&startup).unwrap();
    // Reads messages until ReadyForQuery.
    let mut head = [0; 5];
    while head[0] != b'Z' {
        socket.read_exact(&mut head).unwrap();
        let length = i32::from_be_bytes(head[1..].try_into().unwrap());
        let mut body = vec![0; length as usize - 4];
        socket.read_exact(&mut body).unwrap();
    }
    socket.write_all(b"Q").unwrap();
    socket.write_all(&(TAKE.len() as i32 + 5).to_be_bytes()).unwrap();
    socket.write_all(format!("{TAKE}\0").as_bytes()).unwrap();
    socket
}

#[test]
fn each_task_goes_to_a_connection_that_lives() {
    let server = Cluster::new("max_connections = 250\n");
    server.wait_running();
    let mut q = Queue::make_at(server.config(), "jobs", COLUMNS, &json!({}));
    let (mut living, mut closed, mut terminated) = (vec![], vec![], vec![]);
    // In the wait queue each live connection stands between two that get lost.
    for number in 0..LIVING {
        living.push(Waiter::waiting(&mut q, TAKE));
        match number % 2 {
            0 => terminated.push(Waiter::waiting(&mut q, TAKE)),
            _ => closed.push(wait_on_socket(&server)),
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
