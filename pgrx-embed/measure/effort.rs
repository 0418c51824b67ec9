//! The size of each measurement.

use std::time::Duration;

use crate::crowd::selection::Selection;

/// Maximum number of contenders in a case that runs without a pause.
const CONTENDERS_AT_MOST: u32 = 16;

#[derive(Clone)]
pub struct Effort {
    pub name: &'static str,
    /// Consumers killed. Equally many sessions are terminated.
    pub kills: usize,
    /// Tasks waited for, with each method and setting.
    pub wakes: usize,
    /// Delayed tasks, due at a rate of `DUE_PER_SECOND`.
    pub delayed: usize,
    pub stats_calls: i32,
    pub many_rows: i64,
    /// Maximum number of tasks in a sub-queue.
    pub deepest: i64,
    /// Rounds of each contender.
    pub rounds: usize,
    /// The length of a round, and of an external measurement of `stats`, in seconds.
    pub seconds: u32,
    /// Ready tasks when consumers start to work on a backlog.
    pub backlog: u32,
    /// Tasks of a deep queue, of a bulk load, and due in the same instant.
    pub deep: u32,
    /// Measures ten times as many, too.
    pub ten_times: bool,
    pub idle_queues: i32,
    /// Cases without a pause: the number of periods, and their seconds.
    pub flat: (u32, u32),
    pub pinned: Pinned,
    pub beside_queries: BesideQueries,
    /// The selection for the case crowd.
    pub crowd: Selection,
    pub many: Many,
    /// Stops and starts the server: pg_ctl with its data folder.
    pub pg_ctl: Option<String>,
    /// The watchdog ends the program after this time.
    pub limit: Duration,
}

impl Effort {
    /// Sets the time that cases without a pause take with each contender.
    pub fn in_minutes(&mut self, minutes: u32) {
        self.flat = (minutes, 60);
        self.pinned = Pinned::minutes(minutes);
        self.beside_queries = BesideQueries::minutes(minutes);
        let one = Duration::from_secs(60 * u64::from(minutes + 2));
        self.limit = self.limit.max(CONTENDERS_AT_MOST * one);
    }
}

/// Periods without a pause, before and while an old snapshot is held, and their seconds.
#[derive(Clone, Copy)]
pub struct Pinned {
    pub before: u32,
    pub beside: u32,
    pub seconds: u32,
}

impl Pinned {
    pub const fn minutes(minutes: u32) -> Pinned {
        Pinned { before: 6, beside: 6 * minutes, seconds: 10 }
    }
}

/// Producers at a steady rate while long queries run.
#[derive(Clone, Copy)]
pub struct BesideQueries {
    pub seconds: u32,
    /// Seconds between two counts of the backlog.
    pub period: u32,
    /// The length of a query in seconds. Three queries with staggered starts run at a time.
    pub query: u32,
}

impl BesideQueries {
    pub const fn minutes(minutes: u32) -> BesideQueries {
        BesideQueries { seconds: 60 * minutes, period: 10, query: 120 }
    }
}

/// Numbers for resources that a server usually has few of.
#[derive(Clone)]
pub struct Many {
    pub queues: u32,
    pub databases: u32,
    /// Worker slots (max_worker_processes).
    pub places: u32,
    /// Waiting connections.
    pub waiters: usize,
    pub wakes: usize,
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
    pinned: Pinned { before: 1, beside: 6, seconds: 10 },
    beside_queries: BesideQueries::minutes(15),
    crowd: Selection::ALL,
    many: Many { queues: 2000, databases: 64, places: 16, waiters: 1000, wakes: 300 },
    pg_ctl: None,
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
    pinned: Pinned { before: 1, beside: 3, seconds: 5 },
    beside_queries: BesideQueries { seconds: 12, period: 2, query: 4 },
    crowd: Selection::ALL,
    many: Many { queues: 200, databases: 12, places: 8, waiters: 100, wakes: 50 },
    pg_ctl: None,
    limit: Duration::from_secs(30 * 60),
};
