//! The state of the model of candidate rings.

use super::{KEYS, PROCESSES, Rings as Bounds};
use xqueue_core::marks::candidate::{Candidates, Handed};
use xqueue_core::marks::rings::{Rings, States};
use xqueue_core::position::{Group, Position};

/// Number of rings: one per group.
pub const RINGS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    Absent,
    BeingPut,
    Ready,
    BeingTaken,
    Taken,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Process {
    Idle,
    /// The process puts a task; then the task is visible, and not reported yet.
    Puts(usize),
    Visible(usize),
    /// The process takes its snapshot before it is handed out a candidate.
    ReadEarly(Group, Vec<usize>),
    /// A take of a group with the candidates that it was handed out. `hands`: the tasks that it holds. `taken`: those
    /// of them that it has taken. `free`: the tasks that have been free since the handing out. `read`: the tasks that
    /// a refill has read. `seen`: the tasks that it sees under an old snapshot.
    Handed {
        group: Group,
        handed: Handed,
        hands: Vec<usize>,
        taken: Vec<usize>,
        free: Vec<usize>,
        seen: Option<Vec<usize>>,
        read: Option<Vec<usize>>,
    },
    Takes(Handed, Vec<usize>),
    /// The tasks are ready again, and not reported yet.
    RolledBack(Handed, Vec<usize>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub rows: [Row; KEYS],
    pub rings: States<RINGS>,
    pub candidates: [Candidates; RINGS],
    pub processes: [Process; PROCESSES],
    /// The row that a foreign transaction has locked, and that transaction's id.
    pub locked: Option<usize>,
    pub locker: Option<u32>,
    /// What is left of the bounds.
    pub left: Bounds,
    pub now: i64,
    pub is_out_of_order: bool,
    pub is_hidden: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Put(usize, usize),
    ReadEarly(usize, Group),
    HandOut(usize, Group),
    Read(usize),
    EndRead(usize),
    Look(usize),
    Exit(usize),
    Commit(usize),
    Callback(usize),
    Abort(usize),
    Undo(usize),
    Lock(usize),
    Unlock,
}

/// Returns the group of a task: every second task has the tube.
pub fn group_of(key: usize) -> Group {
    if key % 2 == 1 { TUBE } else { Group::Ready { tube: Some(0), priority: None } }
}

/// The group of the tasks with the tube.
pub const TUBE: Group = Group::Ready { tube: Some(1), priority: None };

impl State {
    pub fn rings(&mut self) -> Rings<'_, RINGS> {
        Rings { states: &mut self.rings, candidates: self.candidates.each_mut() }
    }

    /// Returns the state of a process that gives these tasks back.
    pub fn rolled_back(&mut self, handed: Handed, taken: Vec<usize>) -> Process {
        taken.iter().for_each(|key| self.rows[*key] = Row::Ready);
        if taken.is_empty() { Process::Idle } else { Process::RolledBack(handed, taken) }
    }

    /// Notes that a task is taken or locked. It was not free all along, even if it becomes free again.
    pub fn hold(&mut self, key: usize) {
        for process in &mut self.processes {
            if let Process::Handed { free, .. } = process {
                free.retain(|free| *free != key);
            }
        }
    }

    /// Returns whether a take by this process can be given a task: all processes know that it is ready, and no other
    /// process has it.
    pub fn is_free(&self, key: usize, process: usize) -> bool {
        let has = |(number, other): (usize, &Process)| match other {
            Process::Visible(of) => *of == key,
            Process::RolledBack(_, taken) => taken.contains(&key),
            Process::Handed { hands, .. } if number != process => hands.contains(&key),
            _ => false,
        };
        let is_ready = self.rows[key] == Row::Ready && self.locked != Some(key);
        is_ready && !self.processes.iter().enumerate().any(has)
    }
}

pub fn position(key: usize) -> Position {
    key as Position + 1
}
