//! The state of the model of the ring.

use super::{KEYS, PROCESSES};
use xqueue_core::marks::candidate::{Candidates, Handed};
use xqueue_core::marks::rings::{Rings, States};
use xqueue_core::position::{Group, Position};

/// As many as there are groups.
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
    /// It puts a task; the task is visible, and not told yet.
    Puts(usize),
    Visible(usize),
    /// It has a snapshot before it is handed out anything.
    ReadEarly(Group, Vec<usize>),
    /// What a take of a group was handed out, the tasks in its hands and those that it has taken of them, and which tasks were free
    /// then; what a refill has read. `seen`: what it sees under an old snapshot.
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
    /// Ready again, and not told yet.
    RolledBack(Handed, Vec<usize>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub rows: [Row; KEYS],
    pub rings: States<RINGS>,
    pub candidates: [Candidates; RINGS],
    pub processes: [Process; PROCESSES],
    /// The row that a foreign transaction has locked, and that transaction.
    pub locked: Option<usize>,
    pub locker: Option<u32>,
    pub puts: u8,
    pub takes: u8,
    pub locks: u8,
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

/// The group of a task: every second one has a tube.
pub fn group_of(key: usize) -> Group {
    if key % 2 == 1 { TUBE } else { Group::Ready { tube: Some(0), priority: None } }
}

/// Tasks of a tube.
pub const TUBE: Group = Group::Ready { tube: Some(1), priority: None };

impl State {
    pub fn rings(&mut self) -> Rings<'_, RINGS> {
        Rings { states: &mut self.rings, candidates: self.candidates.each_mut() }
    }

    /// What becomes of a process that gives these tasks back.
    pub fn rolled_back(&mut self, handed: Handed, taken: Vec<usize>) -> Process {
        taken.iter().for_each(|key| self.rows[*key] = Row::Ready);
        if taken.is_empty() { Process::Idle } else { Process::RolledBack(handed, taken) }
    }

    /// Returns whether a take by this process may be given a task: it is ready, which all know, and no other has it.
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
