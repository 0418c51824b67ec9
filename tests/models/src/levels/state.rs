//! The knowledge of processes and of shared memory, and the possible next steps.

use super::{BUCKETS, ENTRIES, LEVELS, PROCESSES, SUBQUEUES, TASKS};
use xqueue_core::level::Level;
use xqueue_core::position::Position;
use xqueue_core::subqueues::{Entry, Header, Pool, SubqueueRing};
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
    Claimed { limit: Level },
    BegunLook { limit: Level },
    Looked { limit: Level, first: Option<usize>, next: Level },
    Open,
    Visible,
    Undone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) phase: Phase,
    /// The sub-queue that the process is working on.
    pub(super) subqueue: usize,
    pub(super) change: SubqueueChange,
    pub(super) pending: Option<(usize, Row)>,
    /// No other process has made a step since its take began.
    pub(super) is_alone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) rows: [Row; TASKS],
    pub(super) processes: [Process; PROCESSES],
    pub(super) header: Header,
    pub(super) entries: [Entry; ENTRIES],
    pub(super) buckets: [u32; BUCKETS],
    pub(super) rings: [SubqueueRing; 1],
    /// The equally urgent sub-queue that was available when another one was served.
    pub(super) passed_over: Option<usize>,
    pub(super) has_overtaken: bool,
    pub(super) has_cut_in: bool,
    pub(super) takes: u8,
    pub(super) puts: u8,
    pub(super) rollbacks: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Put(usize, usize),
    Ack(usize, usize),
    Claim(usize),
    BeginLook(usize),
    Look(usize),
    Lock(usize),
    Commit(usize),
    Callback(usize),
    Rollback(usize),
    Undo(usize),
}

pub(super) const NO_CHANGE: SubqueueChange = SubqueueChange::NONE;

pub(super) const IDLE: Process =
    Process { phase: Phase::Idle, subqueue: 0, change: NO_CHANGE, pending: None, is_alone: false };

pub(super) fn subqueue_of(task: usize) -> usize {
    task / LEVELS.len()
}

pub(super) fn tasks_of(subqueue: usize) -> std::ops::Range<usize> {
    subqueue * LEVELS.len()..(subqueue + 1) * LEVELS.len()
}

pub(super) fn level(task: usize) -> Level {
    LEVELS[task % LEVELS.len()]
}

pub(super) fn position(task: usize) -> Position {
    task as Position + 1
}

/// Returns the number that stands for a sub-queue.
pub(super) fn number(subqueue: usize) -> u64 {
    subqueue as u64 + 7
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

    pub(super) fn is_locked(&self, task: usize) -> bool {
        self.processes.iter().any(|process| process.pending.is_some_and(|(row, _)| row == task))
    }

    /// Returns the ready tasks of a sub-queue in order; no tasks if one is in flight.
    pub(super) fn line(&self, subqueue: usize) -> impl Iterator<Item = usize> {
        let is_free = tasks_of(subqueue).all(|task| self.rows[task] != Row::Taken);
        tasks_of(subqueue).filter(move |task| is_free && self.rows[*task] == Row::Ready)
    }

    pub(super) fn least(&self, subqueue: usize) -> Option<Level> {
        self.line(subqueue).next().map(level)
    }

    pub(super) fn entry(&self, subqueue: usize) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.subqueue == number(subqueue))
    }

    /// Judges a take that was alone and has taken this task.
    pub(super) fn judge(&mut self, task: usize) {
        let subqueue = subqueue_of(task);
        let others: Vec<usize> = (0..SUBQUEUES).filter(|other| *other != subqueue).collect();
        self.has_overtaken |=
            others.iter().any(|other| self.least(*other).is_some_and(|least| least < level(task)));
        let equal = others.into_iter().find(|other| self.least(*other) == Some(level(task)));
        self.has_cut_in |= equal.is_some() && self.passed_over == equal;
        self.passed_over = equal;
    }
}
