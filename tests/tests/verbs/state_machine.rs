//! Sessions run random operations, and after each step the table, the counters and the owners equal those of a small
//! model. XQUEUE_SEED repeats a run.
//!
//! One thread drives all connections, and every time is an hour away or made to expire by hand, so a run depends on its
//! seed alone. After each step the test waits for the worker.

mod chance;
mod features;
mod machine;
mod model;
mod operation;
mod performed;
mod shape;

use machine::Machine;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::seed;

const QUEUES: u64 = 3;
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
