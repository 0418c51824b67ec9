//! Sessions do at random what sessions can do, and after each step the table, the counters and the owners are what a
//! small model says. XQUEUE_SEED repeats a run.
//!
//! One thread drives all connections, and all times are an hour, or ended by hand: the same seed does the same. What
//! the worker does is waited for.

mod chance;
mod crowd;
mod features;
mod machine;
mod model;
mod operation;
mod performed;
mod shape;

use crowd::Crowd;
use machine::Machine;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::seed;

const QUEUES: u64 = 10;
const STEPS: usize = 250;

#[test]
fn a_queue_is_what_the_model_says() {
    let seed = seed();
    for queue in 0..QUEUES {
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(queue));
        let connections = random.random_range(2..7);
        let mut machine = Machine::start(random, connections);
        for _ in 0..STEPS {
            machine.step();
        }
        machine.finish();
    }
}

/// Real concurrency: producers, consumers and an administrator in threads of their own. However often
/// a task was released, lost, snatched or late, one ack of it succeeded, and none is left.
#[test]
fn a_crowd_processes_every_task_once() {
    Crowd::new(seed()).run();
}
