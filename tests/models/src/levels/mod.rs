//! Levels of sub-queues: of all available sub-queues, the one with the most urgent first task goes first, and equals
//! take turns.
//!
//! Invariant: the level of a sub-queue is at most the least priority of its tasks, and the ring is ordered by level. It
//! survives these races:
//!
//! 1. A take claims the first sub-queue and searches for its first task in a snapshot of its own. It takes the task if
//!    its level is within the *limit*: as urgent as recorded, or more urgent than the other sub-queues. Otherwise it
//!    records the level that it found, gives the sub-queue back, and tries the next one.
//! 2. A task arrives during the scan. It lowers the *floor*, and the level is raised no higher than the floor.
//!
//! | step | code |
//! |---|---|
//! | `Claim`, `BeginLook`, `Look`, `Lock` | `Take::take_by_level` (src/write/subqueues/level.rs), src/write/direct/subqueue.rs |
//! | `Callback`, `Undo` | `commit_subqueues`, `undo_subqueues` (src/parts/subqueues/shared.rs) |
//!
//! The code under test is the extension's own: [`Pool`] with its tree of levels,
//! [`Next::limit`](xqueue_core::subqueues::Next::limit) and [`SubqueueChange`].

mod state;

use state::{IDLE, NO_CHANGE, Phase, Process, Row, level, number, position, subqueue_of};
use stateright::{Model, Property};
use xqueue_core::level::{LAST as LAST_LEVEL, Level};
use xqueue_core::position::{FIRST, LAST, Position};
use xqueue_core::slot_id::SlotId;
use xqueue_core::subqueues::{Back, Entry, Header, SubqueueRing};
use xqueue_core::transaction::SubqueueChange;

pub use state::{Action, State};

const ID: SlotId = SlotId { index: 0, generation: 1 };
const SUBQUEUES: usize = 2;
/// The priorities of the tasks of each sub-queue.
const LEVELS: [Level; 3] = [1, 2, 2];
const TASKS: usize = SUBQUEUES * LEVELS.len();
const PROCESSES: usize = 2;
const ENTRIES: usize = 4;
const BUCKETS: usize = 2;

/// The bounds of an exploration, and its flaw.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    pub takes: u8,
    pub puts: u8,
    pub rollbacks: u8,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The end of a scan raises the level to that of the task found, ignoring tasks that arrived meanwhile.
    LevelWithoutFloor,
    /// A commit does not lower the level.
    NotLowered,
    /// A rollback does not lower the level to that of the tasks that it brings back.
    UndoneSilently,
    /// A take uses the first sub-queue of the ring regardless of the level of its first task.
    LimitIgnored,
    /// A served sub-queue goes to the front of its level.
    ServedToFront,
}

impl Levels {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn end_look(&self, state: &mut State, subqueue: usize, first: Position, level: Level) {
        let mut pool = state.pool();
        if self.has(Flaw::LevelWithoutFloor)
            && let Some(link) = pool.find(ID.index, number(subqueue))
        {
            pool.entry(link).level_floor = LAST_LEVEL;
        }
        pool.end_look(ID, number(subqueue), first, level);
    }

    /// Takes the first task that the scan has found, unless it is locked or beyond the limit.
    fn lock(&self, state: &mut State, process: usize) {
        let Process { phase, subqueue, .. } = state.processes[process];
        let Phase::Looked { limit, first, next } = phase else { return };
        let limit = if self.has(Flaw::LimitIgnored) { LAST_LEVEL } else { limit };
        let back = match first {
            None => {
                self.end_look(state, subqueue, LAST, LAST_LEVEL);
                Back::Away
            }
            Some(task) if level(task) > limit => {
                self.end_look(state, subqueue, FIRST, level(task));
                // The same take continues with the next sub-queue.
                state.takes += 1;
                Back::Tail
            }
            Some(task) if state.is_locked(task) || state.rows[task] != Row::Ready => Back::Tail,
            Some(task) => {
                match state.processes[process].is_alone {
                    true => state.judge(task),
                    false => state.passed_over = None,
                }
                let Process { phase, change, pending, .. } = &mut state.processes[process];
                (*phase, *pending) = (Phase::Open, Some((task, Row::Taken)));
                (change.taken, change.took) = (1, Some(task as u64 + 100));
                (change.first, change.taken_level) = (position(task), level(task));
                return self.end_look(state, subqueue, position(task), next);
            }
        };
        state.pool().give_back(ID, number(subqueue), back);
        let is_alone = state.processes[process].is_alone;
        state.processes[process] = Process { is_alone, ..IDLE };
    }

    fn callback(&self, state: &mut State, process: usize) {
        let Process { subqueue, mut change, .. } = state.processes[process];
        if self.has(Flaw::NotLowered) {
            change.level = LAST_LEVEL;
        }
        let mut pool = state.pool();
        pool.commit(ID, number(subqueue), &change);
        if self.has(Flaw::ServedToFront)
            && change.taken < 0
            && let Some(link) = pool.find(ID.index, number(subqueue))
        {
            let state = pool.entry(link).state;
            pool.place(link, state, Back::Front);
        }
    }

    fn undo(&self, state: &mut State, process: usize) {
        let Process { subqueue, mut change, .. } = state.processes[process];
        if self.has(Flaw::UndoneSilently) {
            change.taken_level = LAST_LEVEL;
        }
        state.pool().undo(ID, number(subqueue), &change);
    }
}

impl Model for Levels {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            rows: [Row::Absent; TASKS],
            processes: [IDLE; PROCESSES],
            header: Header::default(),
            entries: [Entry::default(); ENTRIES],
            buckets: [0; BUCKETS],
            rings: [SubqueueRing::default()],
            passed_over: None,
            has_overtaken: false,
            has_cut_in: false,
            takes: self.takes,
            puts: self.puts,
            rollbacks: self.rollbacks,
        };
        // The queue is empty: a pass through its index completes the ring.
        let mut pool = state.pool();
        pool.open(ID);
        let scan = pool.begin_scan(ID).expect("a new ring is incomplete");
        pool.end_scan(ID, scan, None);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (process, Process { phase, .. }) in state.processes.iter().enumerate() {
            match phase {
                Phase::Idle => {
                    for task in (0..TASKS).filter(|task| !state.is_locked(*task)) {
                        match state.rows[task] {
                            Row::Absent if state.puts > 0 => {
                                actions.push(Action::Put(process, task))
                            }
                            Row::Taken => actions.push(Action::Ack(process, task)),
                            _ => {}
                        }
                    }
                    if state.takes > 0 && state.clone().pool().next(ID).is_some() {
                        actions.push(Action::Claim(process));
                    }
                }
                Phase::Claimed { .. } => actions.push(Action::BeginLook(process)),
                Phase::BegunLook { .. } => actions.push(Action::Look(process)),
                Phase::Looked { .. } => actions.push(Action::Lock(process)),
                Phase::Open => {
                    actions.push(Action::Commit(process));
                    if state.rollbacks > 0 {
                        actions.push(Action::Rollback(process));
                    }
                }
                Phase::Visible => actions.push(Action::Callback(process)),
                Phase::Undone => actions.push(Action::Undo(process)),
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let state = &mut next;
        let (Action::Put(acting, _) | Action::Ack(acting, _)) = action else {
            return self.step(next, action);
        };
        (0..PROCESSES).filter(|other| *other != acting).for_each(|other| {
            state.processes[other].is_alone = false;
        });
        match action {
            Action::Put(process, task) => {
                let change = SubqueueChange {
                    offers: true,
                    least: position(task),
                    level: level(task),
                    ..NO_CHANGE
                };
                let (subqueue, pending) = (subqueue_of(task), Some((task, Row::Ready)));
                state.processes[process] =
                    Process { phase: Phase::Open, subqueue, change, pending, ..IDLE };
                (state.puts, state.passed_over) = (state.puts - 1, None);
            }
            Action::Ack(process, task) => {
                let change =
                    SubqueueChange { taken: -1, left: Some(task as u64 + 100), ..NO_CHANGE };
                let (subqueue, pending) = (subqueue_of(task), Some((task, Row::Gone)));
                state.processes[process] =
                    Process { phase: Phase::Open, subqueue, change, pending, ..IDLE };
            }
            _ => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Levels>> {
        vec![
            Property::always(BOUND, |_, state: &State| {
                let is_tracked =
                    |process: &Process| !matches!(process.phase, Phase::Visible | Phase::Undone);
                // The level of a claimed sub-queue applies to the tasks behind those that its claimer has taken.
                let is_away = |subqueue: usize| {
                    state
                        .processes
                        .iter()
                        .any(|process| process.change.claimed && process.subqueue == subqueue)
                };
                let is_bound = |subqueue: usize| {
                    let known = state.entry(subqueue).map(|entry| entry.level);
                    known.zip(state.least(subqueue)).is_none_or(|(known, least)| known <= least)
                };
                !state.processes.iter().all(is_tracked)
                    || (0..SUBQUEUES).all(|subqueue| is_away(subqueue) || is_bound(subqueue))
            }),
            Property::always(URGENT, |_, state: &State| !state.has_overtaken),
            Property::always(TURNS, |_, state: &State| !state.has_cut_in),
            Property::sometimes("a sub-queue turns out to be less urgent", |_, state: &State| {
                let is_later = |process: &Process| matches!(process.phase, Phase::Looked { limit, first: Some(task), .. } if level(task) > limit);
                state.processes.iter().any(is_later)
            }),
            Property::sometimes("equals have turns", |_, state: &State| {
                state.passed_over.is_some()
            }),
        ]
    }
}

impl Levels {
    /// Does one of the later steps of a transaction, or begins a take.
    fn step(&self, mut next: State, action: Action) -> Option<State> {
        let state = &mut next;
        let (Action::Claim(acting)
        | Action::BeginLook(acting)
        | Action::Look(acting)
        | Action::Lock(acting)
        | Action::Commit(acting)
        | Action::Callback(acting)
        | Action::Rollback(acting)
        | Action::Undo(acting)) = action
        else {
            return None;
        };
        for other in (0..PROCESSES).filter(|other| *other != acting) {
            state.processes[other].is_alone = false;
        }
        match action {
            Action::Claim(process) => {
                let claimed = state.pool().claim_next(ID)?;
                let is_idle = |other: usize| state.processes[other].phase == Phase::Idle;
                let is_alone = (0..PROCESSES).all(is_idle);
                let subqueue = (claimed.subqueue - number(0)) as usize;
                state.processes[process] = Process {
                    phase: Phase::Claimed { limit: claimed.limit(None) },
                    subqueue,
                    change: SubqueueChange { claimed: true, ..NO_CHANGE },
                    pending: None,
                    is_alone,
                };
                state.takes -= 1;
            }
            Action::BeginLook(process) => {
                let Process { phase: Phase::Claimed { limit }, subqueue, .. } =
                    state.processes[process]
                else {
                    return None;
                };
                state.pool().begin_look(ID, number(subqueue));
                state.processes[process].phase = Phase::BegunLook { limit };
            }
            Action::Look(process) => {
                let Process { phase: Phase::BegunLook { limit }, subqueue, .. } =
                    state.processes[process]
                else {
                    return None;
                };
                let mut line = state.line(subqueue);
                let (first, behind) = (line.next(), line.next());
                let next = behind.map_or(LAST_LEVEL, level);
                drop(line);
                state.processes[process].phase = Phase::Looked { limit, first, next };
            }
            Action::Lock(process) => self.lock(state, process),
            Action::Commit(process) => {
                if let Some((task, row)) = state.processes[process].pending.take() {
                    state.rows[task] = row;
                }
                state.processes[process].phase = Phase::Visible;
            }
            Action::Callback(process) => {
                self.callback(state, process);
                state.processes[process] = IDLE;
            }
            Action::Rollback(process) => {
                state.processes[process].pending = None;
                state.processes[process].phase = Phase::Undone;
                (state.rollbacks, state.passed_over) = (state.rollbacks - 1, None);
            }
            Action::Undo(process) => {
                self.undo(state, process);
                state.processes[process] = IDLE;
            }
            Action::Put(..) | Action::Ack(..) => return None,
        }
        Some(next)
    }
}

/// The properties, by name.
pub const BOUND: &str = "no task has a lesser level than its sub-queue is known for";
pub const URGENT: &str = "a take that is alone takes the most urgent task that may go";
pub const TURNS: &str = "of equals none goes twice while another waits";
