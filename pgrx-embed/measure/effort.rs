//! How much is measured.

use std::time::Duration;

pub struct Effort {
    pub name: &'static str,
    /// Consumers killed, and as many sessions terminated.
    pub kills: usize,
    /// Tasks waited for, with each method and setting.
    pub wakes: usize,
    /// Delayed tasks, due at `DUE_PER_SECOND`.
    pub delayed: usize,
    pub stats_calls: i32,
    pub many_rows: i64,
    /// Tasks of a sub-queue at the most.
    pub deepest: i64,
    /// Of each contender.
    pub rounds: usize,
    /// The length of a round, and of a measurement of `stats` from outside.
    pub seconds: u32,
    /// Beside an old snapshot: how many periods of how many seconds.
    pub pinned: (u32, u32),
    /// After which everything is given up.
    pub limit: Duration,
}

pub const DUE_PER_SECOND: usize = 200;

pub const FULL: Effort = Effort {
    name: "full",
    kills: 300,
    wakes: 1000,
    delayed: 10 * DUE_PER_SECOND,
    stats_calls: 5000,
    many_rows: 1_000_000,
    deepest: 150_000,
    rounds: 5,
    seconds: 5,
    pinned: (6, 10),
    limit: Duration::from_secs(60 * 60),
};

pub const QUICK: Effort = Effort {
    name: "quick",
    kills: 30,
    wakes: 100,
    delayed: 2 * DUE_PER_SECOND,
    stats_calls: 500,
    many_rows: 50_000,
    deepest: 1000,
    rounds: 1,
    seconds: 1,
    pinned: (3, 5),
    limit: Duration::from_secs(10 * 60),
};
