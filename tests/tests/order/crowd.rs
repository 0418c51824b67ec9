//! Producers and consumers at work on a queue at the same time. XQUEUE_SEED repeats their choices.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

const CONSUMERS: u64 = 3;
/// A consumer ends when this many takes in a row have found no task after the end of the producers.
const IDLE: usize = 100;

/// Runs producers and consumers until no task is found. Each producer makes `puts` puts, each in a transaction of its
/// own, and rolls some back. The consumers ack, release or roll back. `put` returns the SQL of a producer's nth put,
/// `take` that of a take.
pub fn crowd(
    q: &Queue,
    (producers, puts): (i64, i64),
    put: impl Fn(&mut StdRng, i64, i64) -> String + Sync,
    take: impl Fn(&mut StdRng) -> String + Sync,
) {
    let (seed, done) = (seed(), AtomicBool::new(false));
    let random = |n: u64| StdRng::seed_from_u64(seed.wrapping_add(n));
    let (name, put, take, done) = (&q.name, &put, &take, &done);
    std::thread::scope(|scope| {
        let producers: Vec<_> = (0..producers)
            .map(|producer| {
                let (mut c, mut random) = (q.client(), random(producer as u64));
                scope.spawn(move || {
                    for n in 0..puts {
                        let end = if n % 12 == 0 { "ROLLBACK" } else { "COMMIT" };
                        let put = put(&mut random, producer, n).replace("{q}", name);
                        c.batch_execute(&format!("BEGIN; {put}; {end}")).unwrap();
                    }
                })
            })
            .collect();
        for consumer in 0..CONSUMERS {
            let (mut c, mut random) = (q.client(), random(100 + consumer));
            scope.spawn(move || {
                let mut idle = 0;
                while idle < IDLE {
                    let was_done = done.load(Ordering::SeqCst);
                    c.batch_execute("BEGIN").unwrap();
                    let tasks = ask(&mut c, name, &take(&mut random));
                    idle = if tasks.is_empty() && was_done { idle + 1 } else { 0 };
                    // The take is committed before its tasks end, or together with them.
                    let ending = random.random_range(0..10);
                    if ending < 5 {
                        c.batch_execute("COMMIT").unwrap();
                    }
                    for task in ids(&tasks) {
                        match ending {
                            0 | 5 => release(&mut c, name, task),
                            _ => ack(&mut c, name, task),
                        };
                    }
                    if ending >= 5 {
                        c.batch_execute(if ending == 6 { "ROLLBACK" } else { "COMMIT" }).unwrap();
                    }
                }
            });
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        done.store(true, Ordering::SeqCst);
    });
}

/// Takes the tasks that a consumer has rolled back or released last, and asserts that none is left.
#[track_caller]
pub fn assert_all_found(q: &mut Queue) {
    let name = q.name.clone();
    while !take_all(&mut q.admin, &name).is_empty() {}
    q.assert_tasks(&[("ready", 0)]);
    q.sql("DISCARD ALL");
}
