//! Random choices in tests. Each random test prints its seed, which is shown when it fails. With that seed in
//! XQUEUE_SEED it makes these choices again: `XQUEUE_SEED=7 pgrx-embed/test --pg 18 counters_random`.

const VARIABLE: &str = "XQUEUE_SEED";

/// Returns the seed of XQUEUE_SEED, or a new one, and prints it.
pub fn seed() -> u64 {
    let seed = chosen_seed();
    println!("{VARIABLE}={seed} repeats {}", std::thread::current().name().unwrap_or("the test"));
    seed
}

/// Returns the seed without printing it, for programs that also take it as an argument.
pub fn chosen_seed() -> u64 {
    let given = std::env::var(VARIABLE);
    given.map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"))
}
