//! Candidate rings: the order in which takes are given tasks if one take reads ahead for the others.
//!
//! Users see only the order. A take gets the first task of its group, which is all tasks or the tasks of a tube. Only
//! tasks count that are ready, visible to all, not locked, and not in the hands of another take. If the ring has no
//! candidate, the take searches the index from the mark on, as in the model of marks. The ring can also report that the
//! group has no tasks.
//!
//! The properties:
//!
//! 1. No take gets a task while an earlier one was free all along.
//! 2. No take learns that its group is empty while a task of it is free.
//!
//! | step | code |
//! |---|---|
//! | `HandOut` | `ahead::hand_out` (src/write/direct/ahead.rs), [`Rings::hand_out`](xqueue_core::marks::rings::Rings::hand_out); `Rings::knows_none` before it |
//! | `Read`, `EndRead` | `ahead::read_ahead`, `Rings::end_refill` |
//! | `Look` | `ahead::take` and `ahead::look`, `Rings::pass_over` |
//! | `Exit` | `claim::abandon` (src/parts/marks/claim.rs), `Rings::discard` |
//! | `Callback` | `QueueGuard::lower_marks` (src/parts/marks/shared.rs), `Rings::lower` |
//! | `Undo` | `end::undo` (src/transaction/end.rs), `Rings::discard` |
//! | `Lock`, `Unlock` | SELECT … FOR UPDATE, which reports nothing |
//!
//! The rings are the extension's own.

mod state;

use state::{Process, RINGS, Row, State, TUBE, group_of, position};
use stateright::{Model, Property};
use xqueue_core::marks::candidate::{Candidate, Candidates, Handed, More, Read};
use xqueue_core::marks::rings::States;
use xqueue_core::position::Group;
use xqueue_core::row_id::RowId;

pub use state::Action;

/// Number of tasks; a task's number is its position in the order of keys.
const KEYS: usize = 3;
const PROCESSES: usize = 2;

/// The bounds of an exploration, and its flaw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rings {
    /// Number of tasks, the last ones, that are ready at the start.
    pub ready: usize,
    pub puts: u8,
    pub takes: u8,
    pub locks: u8,
    /// Takes can be limited to a tube.
    pub has_tube: bool,
    /// Number of tasks that a take wants besides the first one.
    pub more: usize,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// A rollback leaves the rings as they are.
    NoUndo,
    /// A rollback discards only the ring that handed out the task, not other rings that contain it.
    UndoInOneRing,
    /// A process that ends while it holds a candidate leaves the ring unchanged.
    NoAbandon,
    /// A commit does not report to the rings.
    NoLower,
    /// A refill has searched for its tasks before the ring knew of the refill.
    ReadBeforeHandOut,
    /// A locked row is passed over without a note.
    LockForgotten,
    /// A take looks at its candidate under a snapshot that is older than the handing out.
    OldSnapshot,
}

impl Rings {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn read(state: &State, group: Group) -> Vec<usize> {
        let is_of = |key: &usize| state.rows[*key] == Row::Ready && group.meets(group_of(*key));
        (0..KEYS).filter(is_of).collect()
    }

    fn groups(&self) -> &'static [Group] {
        if self.has_tube { &[Group::ALL, TUBE] } else { &[Group::ALL] }
    }

    /// Looks at the next candidate that the take was handed out.
    fn look(&self, state: &mut State, process: usize) -> Option<()> {
        let Process::Handed { handed, mut hands, mut taken, free, seen, .. } =
            state.processes[process].clone()
        else {
            return None;
        };
        let is_first = taken.is_empty()
            && handed.candidate.is_some_and(|first| {
                hands.first().is_some_and(|key| position(*key) == first.position())
            });
        let has_ended = |locker: &u32| *locker != 0 && state.locker != Some(*locker);
        let ended = handed.lockers.into_iter().find(has_ended);
        if let Some(ended) = ended.filter(|_| is_first || hands.is_empty()) {
            state.processes[process] = Process::Idle;
            state.rings().locker_ended(&handed, ended);
            return Some(());
        }
        if !hands.is_empty() {
            let key = hands.remove(0);
            if self.takes_one(state, process, &handed, key, &free, seen.as_deref()) {
                taken.push(key);
            }
        }
        let is_over = hands.is_empty();
        if let Process::Handed { hands: left, taken: all, .. } = &mut state.processes[process] {
            (*left, *all) = (hands, taken.clone());
        }
        if is_over {
            state.processes[process] = match taken.is_empty() {
                true => Process::Idle,
                false => Process::Takes(handed, taken),
            };
        }
        Some(())
    }

    /// Returns whether a take gets the task that it looks at.
    fn takes_one(
        &self,
        state: &mut State,
        process: usize,
        handed: &Handed,
        key: usize,
        free: &[usize],
        seen: Option<&[usize]>,
    ) -> bool {
        if seen.is_some_and(|seen| !seen.contains(&key)) || state.rows[key] != Row::Ready {
            return false;
        }
        if state.locked == Some(key) {
            if !self.has(Flaw::LockForgotten) {
                let (locker, now) = (state.locker, state.now);
                state.rings().pass_over(handed, locker, now);
            }
            return false;
        }
        let is_passed = |other: &usize| *other < key && state.is_free(*other, process);
        state.is_out_of_order |= free.iter().any(is_passed);
        state.rows[key] = Row::BeingTaken;
        state.hold(key);
        true
    }
}

impl Model for Rings {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let is_ready = |key| key + self.ready >= KEYS;
        vec![State {
            rows: std::array::from_fn(|key| if is_ready(key) { Row::Ready } else { Row::Absent }),
            rings: States::default(),
            candidates: [Candidates::default(); RINGS],
            processes: std::array::from_fn(|_| Process::Idle),
            locked: None,
            locker: None,
            left: self.clone(),
            now: 1,
            is_out_of_order: false,
            is_hidden: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (number, process) in state.processes.iter().enumerate() {
            match process {
                Process::Idle => {
                    if state.left.puts > 0 {
                        let absent = (0..KEYS).filter(|key| state.rows[*key] == Row::Absent);
                        actions.extend(absent.map(|key| Action::Put(number, key)));
                    }
                    if state.left.takes > 0 {
                        let is_early =
                            self.has(Flaw::ReadBeforeHandOut) || self.has(Flaw::OldSnapshot);
                        actions.extend(self.groups().iter().map(|group| match is_early {
                            true => Action::ReadEarly(number, *group),
                            false => Action::HandOut(number, *group),
                        }));
                    }
                }
                Process::ReadEarly(group, _) => actions.push(Action::HandOut(number, *group)),
                Process::Handed { handed, read, .. } => {
                    actions.push(match (&handed.refill, read) {
                        (Some(_), None) => Action::Read(number),
                        (Some(_), Some(_)) => Action::EndRead(number),
                        (None, _) => Action::Look(number),
                    });
                    actions.push(Action::Exit(number));
                }
                Process::Takes(..) => {
                    actions.extend([Action::Commit(number), Action::Abort(number)])
                }
                Process::Puts(_) => actions.push(Action::Commit(number)),
                Process::Visible(_) => actions.push(Action::Callback(number)),
                Process::RolledBack(..) => actions.push(Action::Undo(number)),
            }
        }
        match state.locked {
            Some(_) => actions.push(Action::Unlock),
            None if state.left.locks > 0 => {
                let ready = (0..KEYS).filter(|key| state.rows[*key] == Row::Ready);
                actions.extend(ready.map(Action::Lock));
            }
            None => {}
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let state = &mut next;
        match action {
            Action::Put(process, key) => {
                state.left.puts -= 1;
                state.rows[key] = Row::BeingPut;
                state.processes[process] = Process::Puts(key);
            }
            Action::ReadEarly(process, group) => {
                state.left.takes -= 1;
                state.processes[process] = Process::ReadEarly(group, Rings::read(state, group));
            }
            Action::HandOut(process, group) => {
                let early = match &state.processes[process] {
                    Process::ReadEarly(_, read) => Some(read.clone()),
                    _ => None,
                };
                state.processes[process] = Process::Idle;
                if early.is_none() {
                    state.left.takes -= 1;
                }
                state.now += 1;
                let is_free =
                    |key: &usize| group.meets(group_of(*key)) && state.is_free(*key, process);
                let (free, now) = ((0..KEYS).filter(is_free).collect::<Vec<_>>(), state.now);
                state.is_hidden |= state.rings().knows_none(group, now) && !free.is_empty();
                let mut more = More::besides_one(1 + self.more);
                let handed = state.rings().hand_out(group, &mut more, now);
                let all = handed.candidate.into_iter().chain(more.take());
                let hands = all.map(|candidate| candidate.position() as usize - 1).collect();
                let (read, seen) = match self.has(Flaw::ReadBeforeHandOut) {
                    true => (early, None),
                    false => (None, early),
                };
                state.processes[process] =
                    Process::Handed { group, handed, hands, taken: vec![], free, seen, read };
            }
            Action::Read(process) => {
                let Process::Handed { group, .. } = state.processes[process] else { return None };
                let found = Rings::read(state, group);
                if let Process::Handed { read, .. } = &mut state.processes[process] {
                    *read = Some(found);
                }
            }
            Action::EndRead(process) => {
                let Process::Handed { handed, read, .. } = &mut state.processes[process] else {
                    return None;
                };
                let refill = handed.refill.take()?;
                let from = refill.from;
                let found = read.take()?.into_iter().map(position).filter(|at| *at >= from);
                let found = found.map(|at| Candidate::new(at, RowId::new(at as u32, 1)));
                let (read, now) = (Read { found: found.collect(), has_left_out: false }, state.now);
                state.rings().end_refill(&refill, &read, now);
            }
            Action::Look(process) => self.look(state, process)?,
            Action::Exit(process) => {
                let Process::Handed { handed, taken, .. } = state.processes[process].clone() else {
                    return None;
                };
                if !self.has(Flaw::NoAbandon) {
                    state.rings().discard();
                }
                state.processes[process] = state.rolled_back(handed, taken);
            }
            Action::Commit(process) => {
                state.processes[process] = match state.processes[process] {
                    Process::Puts(key) => {
                        state.rows[key] = Row::Ready;
                        Process::Visible(key)
                    }
                    Process::Takes(_, ref keys) => {
                        keys.iter().for_each(|key| state.rows[*key] = Row::Taken);
                        Process::Idle
                    }
                    _ => return None,
                };
            }
            Action::Callback(process) => {
                let Process::Visible(key) = state.processes[process] else { return None };
                state.processes[process] = Process::Idle;
                if !self.has(Flaw::NoLower) {
                    state.rings().lower(group_of(key), position(key));
                }
            }
            Action::Abort(process) => {
                let Process::Takes(handed, keys) = state.processes[process].clone() else {
                    return None;
                };
                state.processes[process] = state.rolled_back(handed, keys);
            }
            Action::Undo(process) => {
                let Process::RolledBack(handed, _) = state.processes[process] else { return None };
                state.processes[process] = Process::Idle;
                if self.has(Flaw::UndoInOneRing) {
                    state.rings().give_up(&handed);
                } else if !self.has(Flaw::NoUndo) {
                    state.rings().discard();
                }
            }
            Action::Lock(key) => {
                state.left.locks -= 1;
                (state.locked, state.locker) = (Some(key), Some(u32::from(state.left.locks) + 1));
                state.hold(key);
            }
            Action::Unlock => (state.locked, state.locker) = (None, None),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Rings>> {
        vec![
            Property::always(ORDER, |_, state: &State| !state.is_out_of_order),
            Property::always(HIDDEN, |_, state: &State| !state.is_hidden),
            Property::sometimes("two takes are given tasks at a time", |_, state: &State| {
                state.processes.iter().all(|process| matches!(process, Process::Takes(..)))
            }),
            Property::sometimes(
                "a take is given a task that another has read ahead",
                |_, state: &State| {
                    let is_handed = |process: &Process| match process {
                        Process::Handed { handed, .. } => handed.candidate.is_some(),
                        _ => false,
                    };
                    state.processes.iter().any(is_handed)
                },
            ),
        ]
    }
}

/// The properties, by name.
pub const ORDER: &str = "no take is given a task while an earlier one is free";
pub const HIDDEN: &str = "no take is told that there are none while one is free";
