//! The knowledge of processes and of shared memory, and the possible next steps.

use super::{BUCKETS, ENTRIES, PROCESSES, SUBQUEUE, Subqueues, TASKS};
use xqueue_core::position::Position;
use xqueue_core::subqueues::{Entry, Header, Pool, Scan, SubqueueRing};
use xqueue_core::transaction::SubqueueChange;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Row {
    Absent,
    Ready,
    Taken,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    /// The process has searched too early ([`Flaw::SnapshotBeforeClaim`]).
    Early {
        first: Option<usize>,
    },
    Claimed,
    /// The process has seen no taken task.
    Seen {
        is_ahead: bool,
    },
    Free,
    BegunLook {
        mark: Position,
        is_alone: bool,
    },
    Looked {
        first: Option<usize>,
        is_alone: bool,
    },
    Vain {
        stays: bool,
    },
    UpdatedByHand(usize),
    ClaimedByHand(usize),
    Scans(Scan, bool),
    Open,
    /// The process has freed the sub-queue too early ([`Flaw::FreedBeforeVisible`]).
    Freed,
    /// The transaction is visible, its callback has not run yet.
    Visible,
    /// The transaction is rolled back, its callback has not run yet.
    Undone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) phase: Phase,
    pub(super) change: SubqueueChange,
    /// The rows that the transaction has changed, which other processes do not see.
    pub(super) pending: [Option<Row>; TASKS],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What is left of the bounds.
    pub(super) left: Subqueues,
    pub(super) rows: [Row; TASKS],
    pub(super) processes: [Process; PROCESSES],
    pub(super) header: Header,
    pub(super) entries: [Entry; ENTRIES],
    pub(super) buckets: [u32; BUCKETS],
    pub(super) rings: [SubqueueRing; 1],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Put(usize, usize),
    Ack(usize, usize),
    Release(usize, usize),
    LookEarly(usize),
    Claim(usize),
    See(usize),
    SetClear(usize),
    BeginLook(usize),
    Look(usize),
    Lock(usize),
    GiveBack(usize),
    UpdateByHand(usize, usize),
    ClaimByHand(usize),
    SeeByHand(usize),
    BeginScan(usize),
    EndScan(usize),
    Commit(usize),
    Callback(usize),
    Rollback(usize),
    Undo(usize),
    Crash,
    Reset,
}

pub(super) const IDLE: Process =
    Process { phase: Phase::Idle, change: SubqueueChange::NONE, pending: [None; TASKS] };

pub(super) fn position(task: usize) -> Position {
    task as Position + 1
}

impl State {
    pub(super) fn pool(&mut self) -> Pool<'_> {
        Pool {
            header: &mut self.header,
            entries: &mut self.entries,
            buckets: &mut self.buckets,
            rings: &mut self.rings,
            reserve: 1,
        }
    }

    pub(super) fn entry(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.subqueue == SUBQUEUE)
    }

    pub(super) fn is_locked(&self, task: usize, process: usize) -> bool {
        let others = (0..PROCESSES).filter(|other| *other != process);
        others.into_iter().any(|other| self.processes[other].pending[task].is_some())
    }

    /// Returns a row as a process sees it.
    pub(super) fn seen(&self, process: usize, task: usize) -> Row {
        self.processes[process].pending[task].unwrap_or(self.rows[task])
    }

    /// Returns whether a process sees another task of the sub-queue, other than `but`, as taken.
    pub(super) fn sees_taken(&self, process: usize, but: Option<usize>) -> bool {
        (0..TASKS).any(|task| Some(task) != but && self.seen(process, task) == Row::Taken)
    }

    /// Returns whether another process is visible and has not reported its changes.
    pub(super) fn has_unreported(&self, process: usize) -> bool {
        let others = (0..PROCESSES).filter(|other| *other != process);
        others.into_iter().any(|other| self.processes[other].phase == Phase::Visible)
    }

    /// Ends a take by hand: the transaction goes on, or is rolled back.
    pub(super) fn refuse_if(&mut self, process: usize, is_refused: bool) {
        self.processes[process].phase = if is_refused { Phase::Undone } else { Phase::Open };
        if is_refused {
            self.processes[process].pending = [None; TASKS];
        }
    }

    pub(super) fn first(&self, process: usize, mark: Position) -> Option<usize> {
        (0..TASKS).find(|task| self.seen(process, *task) == Row::Ready && position(*task) >= mark)
    }

    /// Ends the transaction of a process.
    pub(super) fn reset(&mut self, process: usize) {
        self.processes[process] = IDLE;
    }

    pub(super) fn has_taken(&mut self, process: usize, task: usize) {
        let Process { change, pending, .. } = &mut self.processes[process];
        pending[task] = Some(Row::Taken);
        (change.taken, change.first) = (change.taken + 1, Some(position(task)));
        change.exhausted = false;
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.processes.iter().all(|process| process.phase == Phase::Idle)
    }

    /// Returns whether two tasks are in flight, not counting one that the same transaction settles.
    pub(super) fn has_two_in_flight(&self) -> bool {
        let takes = |task: usize| {
            (0..PROCESSES).find(|process| {
                let process = &self.processes[*process];
                process.pending[task] == Some(Row::Taken) && process.phase != Phase::Undone
            })
        };
        let is_in_flight = |task: usize| self.rows[task] == Row::Taken || takes(task).is_some();
        let settles = |process: usize, task: usize| {
            self.processes[process].pending[task].is_some_and(|row| row != Row::Taken)
        };
        // A take by hand can still be refused.
        let is_sure = |process: &Process| {
            !matches!(process.phase, Phase::UpdatedByHand(_) | Phase::ClaimedByHand(_))
        };
        let is_sound = |one: usize, other: usize| match (takes(one), takes(other)) {
            (Some(process), _) if settles(process, other) => true,
            (_, Some(process)) if settles(process, one) => true,
            (one, other) => {
                let of = [one, other];
                of.iter().flatten().any(|process| !is_sure(&self.processes[*process]))
            }
        };
        is_in_flight(0) && is_in_flight(1) && !is_sound(0, 1)
    }
}
