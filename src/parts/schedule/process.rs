//! The process of a worker, and when a process is needed.
//!
//! If the server has fewer worker slots than are needed, workers take turns:
//! 1. Requests are met in the order of the instants from which a process is needed.
//! 2. While requests wait, a worker that is not needed for a while leaves at the end of its round.
//! 3. A busy worker leaves at the end of the round in which its turn ends. Its new request queues behind the waiting
//!    ones.

use crate::parts::schedule::NEVER;
use crate::server::{latch, process};
use std::time::Duration;
use xqueue_core::pause::{Limits, Pause};

pub const NO_PROCESS: u32 = u32::MAX;
/// A process that has not begun this long after the request (µs) is considered lost.
const START_TIMEOUT: i64 = 10_000_000;
/// A worker that is not needed for this long (µs) leaves its worker slot to a worker that is needed.
const IDLE: i64 = 100_000;
/// How long a worker with continuous work keeps its worker slot while others wait (µs).
pub const TURN: i64 = 250_000;

/// A request that waits longer than this (µs) is reported.
pub const STARVES_AFTER: i64 = 5_000_000;

/// Pauses before the next start after a process has failed.
pub const FAILURE_PAUSES: Limits = (Duration::from_secs(1), Duration::from_secs(60));

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Process {
    /// Index in the server's process table; `NO_PROCESS` if there is no process.
    pub index: u32,
    pub pid: i32,
    /// When it was requested, until it begins; 0 otherwise.
    pub starting: i64,
    /// Without a process: when one is needed, or `NEVER`. With a process: when its next round begins unless it is
    /// woken; during a round, when the round began.
    pub needed_at: i64,
    /// No process is started before this pause ends, because the last one has failed.
    pub pause: Pause,
    pub begun: i64,
    /// When it ended its first round; 0 before.
    pub first_round: i64,
    /// When it was woken; 0 if a round has begun since.
    pub woken_at: i64,
    /// The lack of a process has been reported.
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

    /// Returns whether there is a process, or one is starting and not overdue.
    pub fn is_attended(&self, now: i64) -> bool {
        self.is_there() || self.is_starting(now)
    }

    pub fn is_starting(&self, now: i64) -> bool {
        self.starting != 0 && now - self.starting < START_TIMEOUT
    }

    /// Returns since when a process is needed; `NEVER` if there is one, or none is needed.
    pub fn requested_at(&self, now: i64) -> i64 {
        match self.needed_at {
            _ if self.is_attended(now) => NEVER,
            NEVER => NEVER,
            needed_at => needed_at.max(self.pause.end_at(now)),
        }
    }

    /// Wakes the process, or requests one for `instant` at the latest. Returns true if the launcher has to be notified.
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

    /// Registers the current process.
    pub fn register(&mut self, now: i64) {
        let (index, pid) = (process::index(), process::pid());
        let pause = self.pause;
        *self = Process { index, pid, begun: now, needed_at: now, pause, ..Process::NONE };
    }

    pub fn is_own(&self) -> bool {
        self.index == process::index()
    }

    /// Returns whether the process leaves while others wait, if its turn is `turn` long. A process that took long to
    /// begin stays for at least as long again, so that the processors do more than start workers.
    pub fn gives_way(&self, now: i64, needed_at: i64, turn: i64) -> bool {
        let has_had_turn = now.saturating_sub(self.first_round) >= turn.max(self.cost());
        self.first_round != 0 && (self.is_idle(now, needed_at) || has_had_turn)
    }

    /// Returns whether the process sleeps, and would leave if it were woken while others wait.
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
