//! Chance in tests. Each random test prints its seed, which is shown when it fails; with that in XQUEUE_SEED it makes
//! the same choices again: `XQUEUE_SEED=7 pgrx-embed/test --pg 18 counters_random`.

const VARIABLE: &str = "XQUEUE_SEED";

/// The seed that XQUEUE_SEED gives, or a new one.
pub fn seed() -> u64 {
    let seed = chosen_seed();
    println!("{VARIABLE}={seed} repeats {}", std::thread::current().name().unwrap_or("the test"));
    seed
}

/// Returns the seed for programs that also take it as an argument.
pub fn chosen_seed() -> u64 {
    let given = std::env::var(VARIABLE);
    given.map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"))
}
