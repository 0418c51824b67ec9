//! Producers in large numbers: an observer never sees more tasks than the capacity.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

const CAPACITY: i64 = 10;
const PRODUCERS: i64 = 100;
const TASKS: i64 = 6;

/// Puts its tasks, alone or in batches, and rolls some back. It waits for capacity, or inserts by hand without waiting.
fn produce(mut c: Client, name: &str, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut left = TASKS;
    while left > 0 {
        let some = random.random_range(1..=left.min(3));
        let is_undone = random.random_bool(0.2);
        c.run(if is_undone { "BEGIN" } else { "" });
        if random.random_bool(0.3) {
            let insert = format!("INSERT INTO {name} SELECT FROM generate_series(1, {some})");
            if let Err(error) = try_sql(&mut c, &insert) {
                assert_eq!(code(&error), "53400");
                c.run("ROLLBACK");
                continue;
            }
        } else {
            let tasks = empty_tasks(some);
            let put = format!("SELECT xqueue.put('{{q}}', '{tasks}', timeout => '60s')");
            assert_eq!(ask(&mut c, name, &put).len() as i64, some, "within its timeout");
        }
        c.run(if is_undone { "ROLLBACK" } else { "" });
        left -= if is_undone { 0 } else { some };
    }
}

/// Takes and acks until all tasks have been put and taken; returns their number.
fn consume(mut c: Client, name: &str, are_all_put: &AtomicBool) -> i64 {
    let mut done = 0;
    loop {
        let were_all_put = are_all_put.load(Ordering::Relaxed);
        let tasks = take(&mut c, name, "100ms", 2);
        if tasks.is_empty() && were_all_put {
            return done;
        }
        for task in tasks {
            done += ack(&mut c, name, id(&task)).len() as i64;
        }
    }
}

#[test]
fn a_hundred_producers() {
    let seed = seed();
    let mut q = Queue::limited("crowd", CAPACITY, 0);
    let name = q.name.clone();
    let are_all_put = AtomicBool::new(false);
    let clients: Vec<Client> = (0..PRODUCERS).map(|_| q.client()).collect();
    let is_over = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut c = connect();
            while !is_over.load(Ordering::Relaxed) {
                let seen: i64 = scalar(&mut c, &format!("SELECT count(*) FROM {name}"), &[]);
                assert!(seen <= CAPACITY, "{seen} tasks were seen");
            }
        });
        let consumers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| consume(connect(), &name, &are_all_put))).collect();
        let producers = clients.into_iter().enumerate().map(|(n, client)| {
            let name = &name;
            scope.spawn(move || produce(client, name, seed ^ n as u64))
        });
        producers.collect::<Vec<_>>().into_iter().for_each(|p| p.join().unwrap());
        are_all_put.store(true, Ordering::Relaxed);
        let done = consumers.into_iter().map(|c| c.join().unwrap()).sum::<i64>();
        is_over.store(true, Ordering::Relaxed);
        done
    });
    assert_eq!(done, PRODUCERS * TASKS);
    q.assert_tasks(&[("total", 0)]);
    assert_eq!(q.calls("put"), PRODUCERS * TASKS);
}
