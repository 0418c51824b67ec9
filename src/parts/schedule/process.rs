//! The process of a worker, and when one is needed.
//!
//! Where the server has fewer worker slots than are needed, workers take turns. Requests are met in the order of the
//! instants from which on a process is needed. While requests wait, a worker leaves at the end of a round: if it is not
//! needed for a while, and otherwise once its turn has ended, with a new request behind those that wait.

use crate::parts::schedule::NEVER;
use crate::server::{latch, process};
use std::time::Duration;
use xqueue_core::pause::{Limits, Pause};

pub const NO_PROCESS: u32 = u32::MAX;
/// A process that has not begun this long after the request (µs) is considered lost.
const START_TIMEOUT: i64 = 10_000_000;
/// A worker that is not needed for this long (µs) leaves its worker slot to one that is.
const IDLE: i64 = 100_000;
/// How long a worker that always has something to do keeps its worker slot while others wait (µs).
pub const TURN: i64 = 250_000;

/// A request that waits for longer than this (µs) is reported.
pub const STARVES_AFTER: i64 = 5_000_000;

/// Before the next try after a process that has failed.
pub const FAILURE_PAUSES: Limits = (Duration::from_secs(1), Duration::from_secs(60));

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Process {
    /// Its index in the server's table; `NO_PROCESS` if there is none.
    pub index: u32,
    pub pid: i32,
    /// When it was requested, until it begins; 0 otherwise.
    pub starting: i64,
    /// Without a process: when one is needed, `NEVER` if none is. With one: when it begins a round unasked, or, during a
    /// round, when that began.
    pub needed_at: i64,
    /// None is started before it ends, because the last one has failed.
    pub pause: Pause,
    pub begun: i64,
    /// When it ended its first round; 0 before.
    pub first_round: i64,
    /// When it was woken, unless it has begun a round since; 0 if it has.
    pub woken_at: i64,
    /// It was reported that there is none.
    pub is_reported: bool,
}

impl Process {
    pub const NONE: Process = Process {
        index: NO_PROCESS,
        pid: 0,
        starting: 0,
        needed_at: NEVER,
        pause: Pause::NONE,
        begun: 0,
        first_round: 0,
        woken_at: 0,
        is_reported: false,
    };

    pub fn is_there(&self) -> bool {
        self.index != NO_PROCESS
    }

    /// Returns whether there is one, or one is starting and not overdue.
    pub fn is_attended(&self, now: i64) -> bool {
        self.is_there() || self.is_starting(now)
    }

    pub fn is_starting(&self, now: i64) -> bool {
        self.starting != 0 && now - self.starting < START_TIMEOUT
    }

    /// Returns since when one is needed; `NEVER` if there is one, or none is needed.
    pub fn requested_at(&self, now: i64) -> i64 {
        match self.needed_at {
            _ if self.is_attended(now) => NEVER,
            NEVER => NEVER,
            needed_at => needed_at.max(self.pause.end_at(now)),
        }
    }

    /// Wakes it, or makes one needed at `instant` at the latest. True if the launcher has to know of that.
    pub fn wake_or_need(&mut self, instant: i64, now: i64) -> bool {
        if self.is_there() {
            self.woken_at = if self.woken_at == 0 { now } else { self.woken_at };
            latch::wake(self.index);
            return false;
        }
        let instant = instant.max(now);
        let is_earlier = instant < self.needed_at;
        self.needed_at = self.needed_at.min(instant);
        is_earlier
    }

    /// This process is the one.
    pub fn register(&mut self, now: i64) {
        let (index, pid) = (process::index(), process::pid());
        let pause = self.pause;
        *self = Process { index, pid, begun: now, needed_at: now, pause, ..Process::NONE };
    }

    pub fn is_own(&self) -> bool {
        self.index == process::index()
    }

    /// Returns whether it leaves while others wait, with `turn` as the length of its turn. One that took long to begin
    /// stays for at least as long, so that the processors do more than to start workers.
    pub fn gives_way(&self, now: i64, needed_at: i64, turn: i64) -> bool {
        let has_had_turn = now.saturating_sub(self.first_round) >= turn.max(self.cost());
        self.first_round != 0 && (self.is_idle(now, needed_at) || has_had_turn)
    }

    /// Returns whether it sleeps, and would leave if it were woken while others wait.
    pub fn sleeps_idle(&self, now: i64) -> bool {
        self.is_there()
            && self.woken_at == 0
            && self.first_round != 0
            && self.is_idle(now, self.needed_at)
    }

    fn is_idle(&self, now: i64, needed_at: i64) -> bool {
        needed_at.saturating_sub(now) >= IDLE.max(self.cost())
    }

    fn cost(&self) -> i64 {
        self.first_round.saturating_sub(self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 20_000;
    const SECOND: i64 = 1_000_000;

    fn begun_at(begun: i64, cost: i64) -> Process {
        Process { index: 1, begun, first_round: begun + cost, ..Process::NONE }
    }

    #[test]
    fn a_worker_without_work_leaves_at_once_and_a_busy_one_after_its_turn() {
        let process = begun_at(1, START);
        let begun = process.first_round;
        assert!(process.gives_way(begun, NEVER, TURN));
        assert!(process.gives_way(begun, begun + IDLE, TURN));
        assert!(!process.gives_way(begun, begun + IDLE - 1, TURN));
        assert!(!process.gives_way(begun + TURN - 1, 0, TURN));
        assert!(process.gives_way(begun + TURN, 0, TURN));
        assert!(!Process::NONE.gives_way(begun, NEVER, TURN), "it has made no round");
    }

    #[test]
    fn a_worker_that_took_long_to_begin_stays_for_as_long() {
        let process = begun_at(0, 2 * SECOND);
        assert!(!process.gives_way(2 * SECOND, 3 * SECOND, TURN));
        assert!(process.gives_way(2 * SECOND, 4 * SECOND, TURN));
        assert!(!process.gives_way(3 * SECOND, 0, TURN));
        assert!(process.gives_way(4 * SECOND, 0, TURN));
    }
}
