//! Producers in large numbers: an observer never sees more tasks than the capacity.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

const CAPACITY: i64 = 10;
const PRODUCERS: i64 = 100;
const TASKS: i64 = 6;

/// Puts its tasks and waits for capacity: alone or in batches, and rolls some back.
fn produce(mut c: Client, name: &str, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut left = TASKS;
    while left > 0 {
        let some = random.random_range(1..=left.min(3));
        let is_undone = random.random_bool(0.2);
        let sql = format!("SELECT xqueue.put('{{q}}', '{}', timeout => '60s')", empty_tasks(some));
        c.run(if is_undone { "BEGIN" } else { "" });
        assert_eq!(ask(&mut c, name, &sql).len() as i64, some, "within its timeout");
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

/// Does work. Meanwhile an observer never sees more tasks than the capacity.
fn observed<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let (sql, is_over) = (format!("SELECT count(*) FROM {name}"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            let (mut c, mut most) = (connect(), 0);
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(scalar::<i64>(&mut c, &sql, &[]));
            }
            most
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        let most = observer.join().unwrap();
        assert!(most <= CAPACITY, "{most} tasks were seen");
        done
    })
}

#[test]
fn a_hundred_producers() {
    let seed = seed();
    let mut q = Queue::limited("crowd", CAPACITY, 0);
    let name = q.name.clone();
    let are_all_put = AtomicBool::new(false);
    let clients: Vec<Client> = (0..PRODUCERS).map(|_| q.client()).collect();
    let done = observed(&name, || {
        std::thread::scope(|scope| {
            let consumers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| consume(connect(), &name, &are_all_put))).collect();
            let producers = clients.into_iter().enumerate().map(|(n, client)| {
                let name = &name;
                scope.spawn(move || produce(client, name, seed ^ n as u64))
            });
            producers.collect::<Vec<_>>().into_iter().for_each(|p| p.join().unwrap());
            are_all_put.store(true, Ordering::Relaxed);
            consumers.into_iter().map(|c| c.join().unwrap()).sum::<i64>()
        })
    });
    assert_eq!(done, PRODUCERS * TASKS);
    q.assert_tasks(&[("total", 0)]);
    assert_eq!(q.calls("put"), PRODUCERS * TASKS);
}

/// Inserts by hand are refused without capacity. The limit holds regardless of how their transactions end.
#[test]
fn by_hand() {
    let mut q = Queue::limited("crowd", CAPACITY, 0);
    let name = q.name.clone();
    let insert_and_delete = |mut c: Client, n: u64| {
        let mut random = StdRng::seed_from_u64(n);
        for _ in 0..60 {
            let rows = random.random_range(1..5);
            let end = if random.random_bool(0.3) { "ROLLBACK" } else { "COMMIT" };
            let sql =
                format!("BEGIN; INSERT INTO {name} SELECT FROM generate_series(1, {rows}); {end}");
            if let Err(error) = c.batch_execute(&sql) {
                assert_eq!(code(&error), "53400");
                c.run("ROLLBACK");
            }
            c.run(&format!(
                "DELETE FROM {name} WHERE id IN (SELECT id FROM {name} LIMIT {rows} FOR UPDATE SKIP LOCKED)"
            ));
        }
    };
    observed(&name, || {
        std::thread::scope(|scope| {
            for n in 0..8 {
                let c = q.client();
                scope.spawn(move || insert_and_delete(c, n));
            }
        });
    });
    q.sql("DELETE FROM {q}");
    assert_eq!(q.puts(CAPACITY) as i64, CAPACITY, "all the room is back");
}
