//! The order of waiting consumers: first come, first served, one consumer per task, and batches.

use std::collections::{BTreeSet, VecDeque};

use xqueue_tests::*;

/// A waiter that was served queues up again at the end.
#[test]
fn waiters_are_served_in_the_order_they_came() {
    let mut q = Queue::new("order");
    let mut waiters: VecDeque<Waiter> = (0..6).map(|_| Waiter::take(&mut q)).collect();
    for round in 0..12 {
        let put = put(&mut q.admin, &q.name, round);
        let (mut client, task) = waiters.pop_front().expect("one waits").task();
        assert_eq!(id(&task), put);
        ack(&mut client, &q.name, put);
        if round < 6 {
            waiters.push_back(Waiter::take_in(&mut q, client));
        }
    }
    q.assert_tasks(&[("total", 0)]);
    // Fewer tasks than waiters, then enough.
    let waiters = [(); 6].map(|()| Waiter::take(&mut q));
    q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}, {}]')");
    wait_until("the first four are served", || waiters[..4].iter().all(Waiter::finished));
    q.wait_for_consumers(2);
    q.assert_tasks(&[("taken", 4), ("total", 4)]);
    q.fill(2);
    let held = waiters.map(Waiter::task);
    q.assert_tasks(&[("taken", 6), ("total", 6)]);
    drop(held);
    q.wait_for("ready", 6);
}

/// A consumer takes a whole batch for which several were woken: the others keep waiting and miss no later task.
#[test]
fn a_greedy_waiter_leaves_the_others_waiting() {
    let mut q = Queue::new("order");
    let greedy = Waiter::waiting(&mut q, "SELECT xqueue.take('{q}', '30s', 100)");
    let others: Vec<Waiter> = (0..4).map(|_| Waiter::take(&mut q)).collect();
    for _ in 0..5 {
        q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}, {}]')");
    }
    let mut held: Vec<(Client, Vec<Value>)> = Vec::new();
    let mut keep = |outcome: Outcome| held.push((outcome.client, outcome.result.unwrap()));
    keep(greedy.join());
    // It can have taken all of them: four more tasks guarantee one for each of the others.
    q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}, {}]')");
    others.into_iter().for_each(|waiter| keep(waiter.join()));
    let taken: BTreeSet<i64> = held.iter().flat_map(|(_, tasks)| ids(tasks)).collect();
    let given: usize = held.iter().map(|(_, tasks)| tasks.len()).sum();
    assert_eq!(taken.len(), given, "no task was given twice");
    q.assert_tasks(&[("taken", given as i64), ("total", 24)]);
}
