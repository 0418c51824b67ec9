//! How much is measured.

use std::time::Duration;

#[derive(Clone)]
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
    /// Tasks that wait when consumers begin to work on a backlog.
    pub backlog: u32,
    /// Many tasks: of a deep queue, loaded at once, due at once.
    pub deep: u32,
    /// Ten times as many, too.
    pub ten_times: bool,
    pub idle_queues: i32,
    /// Without a pause: how many periods of how many seconds.
    pub flat: (u32, u32),
    /// Rounds and seconds of the same beside an old snapshot.
    pub pinned: (u32, u32),
    /// After which everything is given up.
    pub limit: Duration,
}

pub const DUE_PER_SECOND: usize = 1000;

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
    backlog: 300_000,
    deep: 1_000_000,
    ten_times: false,
    idle_queues: 1000,
    flat: (3, 60),
    pinned: (6, 10),
    limit: Duration::from_secs(4 * 60 * 60),
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
    backlog: 60_000,
    deep: 50_000,
    ten_times: false,
    idle_queues: 100,
    flat: (3, 2),
    pinned: (3, 5),
    limit: Duration::from_secs(30 * 60),
};
