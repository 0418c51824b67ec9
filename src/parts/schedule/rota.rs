//! Whose turn it is for a place, where the server has fewer places for background workers than databases need. Pure.
//!
//! A database claims a place from the instant on at which it needs its worker. Claims are met in the order of these
//! instants: what waits for longest comes first. While claims wait, a worker gives its place up at the end of a round:
//! if it is not needed for a while, and otherwise once its turn is over, with a new claim behind those that wait. Claims to places for
//! job workers wait in the same line; what is particular to them is in `job_claim`.

/// A worker that is not needed for this long (µs) gives its place up to one that is.
const IDLE: i64 = 100_000;
/// How long a worker that always has something to do keeps its place while others wait (µs).
pub const TURN: i64 = 250_000;
/// A claim that waits for longer than this (µs) is reported.
pub const STARVES_AFTER: i64 = 5_000_000;

/// What a place is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The worker of a database.
    Worker,
    /// A job worker, for a database whose worker runs.
    Job,
}

/// A claim to a place. The least one is met first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    pub since: i64,
    pub database: u32,
    pub purpose: Purpose,
}

/// How long a worker has had its place.
#[derive(Clone, Copy, Debug)]
pub struct Tenure {
    /// When its process began.
    pub begun: i64,
    /// When it ended its first round.
    pub first_round: i64,
}

impl Tenure {
    /// Returns whether a worker gives its place up to one that waits. One that took long to begin stays for at least as
    /// long, so that the processors do more than to start workers.
    pub fn gives_up(&self, now: i64, needed_at: i64) -> bool {
        let cost = self.first_round.saturating_sub(self.begun);
        is_idle(now, needed_at, cost) || now.saturating_sub(self.first_round) >= TURN.max(cost)
    }

    /// Returns whether it would give its place up at once.
    pub fn is_idle(&self, now: i64, needed_at: i64) -> bool {
        is_idle(now, needed_at, self.first_round.saturating_sub(self.begun))
    }
}

fn is_idle(now: i64, needed_at: i64, cost: i64) -> bool {
    needed_at.saturating_sub(now) >= IDLE.max(cost)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    pub const MILLISECOND: i64 = 1_000;
    pub const SECOND: i64 = 1_000_000;
    /// What a start costs in the simulation, and a round.
    pub const START: i64 = 20 * MILLISECOND;
    pub const ROUND: i64 = 5 * MILLISECOND;

    pub fn begun_at(begun: i64) -> Tenure {
        Tenure { begun, first_round: begun + START }
    }

    #[test]
    fn a_worker_without_work_goes_at_once_and_a_busy_one_after_its_turn() {
        let tenure = begun_at(0);
        assert!(tenure.gives_up(START, i64::MAX));
        assert!(tenure.gives_up(START, START + IDLE));
        assert!(!tenure.gives_up(START, START + IDLE - 1));
        assert!(!tenure.gives_up(START + TURN - 1, 0));
        assert!(tenure.gives_up(START + TURN, 0));
        assert!(!tenure.is_idle(START + TURN, START + TURN));
    }

    #[test]
    fn a_worker_that_took_long_to_begin_stays_for_as_long() {
        let tenure = Tenure { begun: 0, first_round: 2 * SECOND };
        assert!(!tenure.gives_up(2 * SECOND, 3 * SECOND));
        assert!(tenure.gives_up(2 * SECOND, 4 * SECOND));
        assert!(!tenure.gives_up(3 * SECOND, 0));
        assert!(tenure.gives_up(4 * SECOND, 0));
    }

    #[test]
    fn what_waits_for_longest_comes_first() {
        let claim = |since, database, purpose| Claim { since, database, purpose };
        let mut claims = [
            claim(7, 1, Purpose::Worker),
            claim(5, 9, Purpose::Job),
            claim(5, 9, Purpose::Worker),
            claim(5, 3, Purpose::Worker),
        ];
        claims.sort_unstable();
        let order = claims.map(|claim| (claim.database, claim.purpose));
        assert_eq!(
            order,
            [(3, Purpose::Worker), (9, Purpose::Worker), (9, Purpose::Job), (1, Purpose::Worker)]
        );
    }

    /// A database of the simulation: when it needs its worker, or since when it has one.
    #[derive(Clone, Copy, Debug)]
    enum Simulated {
        Resting { needed_at: i64 },
        Working { tenure: Tenure, needed_at: i64 },
    }

    /// Lets databases, whose tasks are due each `period` microseconds, share places; returns how long each claim has
    /// waited at most, and how often each database had a worker.
    fn simulate(periods: &[i64], places: usize, until: i64) -> Vec<(i64, u32)> {
        let first = |period: &i64| Simulated::Resting { needed_at: *period };
        let mut databases: Vec<Simulated> = periods.iter().map(first).collect();
        let mut results = vec![(0, 0); periods.len()];
        for instant in (0..until).step_by(ROUND as usize) {
            let waits = |(database, state): (usize, &Simulated)| match state {
                Simulated::Resting { needed_at: since } if *since <= instant => {
                    let database = database as u32;
                    Some(Claim { since: *since, database, purpose: Purpose::Worker })
                }
                _ => None,
            };
            let mut claims: Vec<Claim> = databases.iter().enumerate().filter_map(waits).collect();
            claims.sort_unstable();
            let is_working = |state: &&Simulated| matches!(state, Simulated::Working { .. });
            let free = places - databases.iter().filter(is_working).count();
            let met = claims.len().min(free);
            let mut waiting = claims.len() - met;
            for claim in &claims[..met] {
                let index = claim.database as usize;
                let result = &mut results[index];
                *result = (result.0.max(instant - claim.since), result.1 + 1);
                databases[index] =
                    Simulated::Working { tenure: begun_at(instant), needed_at: instant + START };
            }
            for (state, period) in databases.iter_mut().zip(periods) {
                let Simulated::Working { tenure, needed_at } = state else { continue };
                if *needed_at <= instant {
                    *needed_at = instant + period;
                }
                if waiting > 0
                    && tenure.first_round <= instant
                    && tenure.gives_up(instant, *needed_at)
                {
                    waiting -= 1;
                    *state = Simulated::Resting { needed_at: *needed_at };
                }
            }
        }
        results
    }

    #[test]
    fn sixty_four_databases_with_a_task_at_the_same_instant_share_twelve_places() {
        let results = simulate(&[SECOND; 64], 12, 10 * SECOND);
        assert!(results.iter().all(|(longest, _)| *longest < SECOND), "{results:?}");
    }

    proptest! {
        /// However busy the others are, a claim waits for no more than a turn of each that may come before it.
        #[test]
        fn no_claim_waits_for_longer_than_the_turns_of_the_others(
            periods in prop::collection::vec(1..3_000i64, 1..40),
            places in 1..14usize,
        ) {
            let periods: Vec<i64> = periods.into_iter().map(|period| period * MILLISECOND).collect();
            let turns = periods.len().div_ceil(places) as i64;
            let results = simulate(&periods, places, 20 * SECOND);
            let longest_turn = START + TURN + 3 * ROUND;
            for (longest, served) in results {
                prop_assert!(longest <= turns * longest_turn, "{longest} µs, {turns} turns");
                prop_assert!(served > 0);
            }
        }
    }
}
