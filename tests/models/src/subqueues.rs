//! Sub-queues: of each, one task is in flight at a time, in order; they take turns.
//!
//! A take claims the sub-queue that is next in the ring, in shared memory; only then it takes the snapshot in which
//! it looks for the first task. Its COMMIT callback leaves the sub-queue *busy*, its rollback brings it back to the
//! front. If it has found nothing it gives the sub-queue back, which is queued again only if that has become
//! *dirty* meanwhile: a commit has put something there after the snapshot. The COMMIT callback of an ack or a release frees a busy
//! sub-queue and puts it at the end of the ring.
//!
//! A take by hand has claimed nothing. The unique index on the sub-queue of taken tasks stops it beside another
//! task in flight. A take by a function looks for one in its statement, unless the sub-queue is *clear*: then shared
//! memory knows of every task of it in flight, and the take does without that. So who takes by hand says, after its
//! row is in the index, that the sub-queue is not clear; and a take that has done without looks once more, after its
//! own row is in the index, whether the sub-queue is clear still, and asks the index if it is not.
//!
//! | step | code |
//! |---|---|
//! | `Claim`, `BeginLook`, `Look`, `Lock`, `GiveBack` | `subqueue::Take` (src/write/subqueues.rs, src/write/subqueues/look.rs), src/write/direct/subqueue.rs |
//! | `Callback`, `Undo` | `commit_lanes`, `undo_lanes` (src/parts/subqueues/shared.rs) |
//! | `BeginScan`, `EndScan` | `Take::find_lanes` |
//! | `UpdateByHand`, `ClaimByHand`, `AskIndex` | `subqueues::claim_unless_own` |
//!
//! [`Pool`], its marks and [`LaneChange`] are the extension's own. What they do in a server is traced, and
//! [replayed](replay) by [rules] of their own.

pub mod replay;
pub mod rules;

use crate::model::level::{LAST as LAST_LEVEL, UNKNOWN};
use crate::model::position::{FIRST, LAST, Position};
use crate::parts::slot_id::SlotId;
use crate::parts::subqueues::change::LaneChange;
use crate::parts::subqueues::pool::{Back, Entry, Header, Pool, Ring, Scan};
use stateright::{Model, Property};

const LANE: u64 = 7;
const ID: SlotId = SlotId { index: 0, generation: 1 };
/// Tasks of the sub-queue, in their order.
const TASKS: usize = 2;
const PROCESSES: usize = 2;
const ENTRIES: usize = 3;
const BUCKETS: usize = 2;

/// What is explored, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Subqueues {
    pub takes: u8,
    pub puts: u8,
    pub releases: u8,
    /// Takes by hand.
    pub by_hand: u8,
    pub rollbacks: u8,
    pub crashes: u8,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The look is in a snapshot of before the claim.
    SnapshotBeforeClaim,
    /// A sub-queue that has nothing to take is given back without a look at what has come meanwhile.
    DirtyIgnored,
    /// A take that is rolled back drops the sub-queue.
    UndoDrops,
    /// An ack frees the sub-queue before it is visible.
    FreedBeforeVisible,
    /// A commit that frees a claimed sub-queue is not noted.
    SettledIgnored,
    /// Who takes by hand does not say so.
    HandUntold,
    /// A sub-queue of which a task was taken by hand becomes clear as any other.
    UnclaimedForgotten,
    /// Who has taken from a clear sub-queue does not look whether it is clear still.
    ClearBelieved,
    /// The mark becomes the place that was found, whatever has come meanwhile.
    MarkWithoutFloor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    Absent,
    Ready,
    Taken,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// It has looked too early ([`Flaw::SnapshotBeforeClaim`]).
    Early {
        first: Option<usize>,
        sees_taken: bool,
    },
    Claimed,
    BegunLook {
        mark: Position,
        is_alone: bool,
    },
    Looked {
        first: Option<usize>,
        sees_taken: bool,
        is_alone: bool,
        /// The sub-queue was clear before the look.
        is_direct: bool,
    },
    /// A direct take before it looks whether the sub-queue is clear still.
    TakenDirectly(usize),
    Vain {
        stays: bool,
    },
    UpdatedByHand(usize),
    AsksIndex(usize),
    Scans(Scan, bool),
    Open,
    /// It has freed the sub-queue too early ([`Flaw::FreedBeforeVisible`]).
    Freed,
    /// Visible, before its callback.
    Visible,
    /// Rolled back, before its callback.
    Undone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    phase: Phase,
    change: LaneChange,
    /// What it has changed, which others do not see.
    pending: [Option<Row>; TASKS],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    rows: [Row; TASKS],
    processes: [Process; PROCESSES],
    header: Header,
    entries: [Entry; ENTRIES],
    buckets: [u32; BUCKETS],
    rings: [Ring; 1],
    /// A take by a function has run into the unique index.
    has_collided: bool,
    takes: u8,
    puts: u8,
    releases: u8,
    by_hand: u8,
    rollbacks: u8,
    crashes: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Put(usize, usize),
    Ack(usize, usize),
    Release(usize, usize),
    LookEarly(usize),
    Claim(usize),
    BeginLook(usize),
    Look(usize),
    Lock(usize),
    LookAgain(usize),
    GiveBack(usize),
    UpdateByHand(usize, usize),
    ClaimByHand(usize),
    AskIndex(usize),
    BeginScan(usize),
    EndScan(usize),
    Commit(usize),
    Callback(usize),
    Rollback(usize),
    Undo(usize),
    Crash,
}

const IDLE: Process = Process {
    phase: Phase::Idle,
    change: LaneChange {
        taken: 0,
        offers: false,
        lost: false,
        claimed: false,
        exhausted: false,
        least: LAST,
        level: LAST_LEVEL,
        first: FIRST,
        taken_level: LAST_LEVEL,
        took: None,
        left: None,
    },
    pending: [None; TASKS],
};

fn position(task: usize) -> Position {
    task as Position + 1
}

/// The number that stands for a task's key.
fn hash(task: usize) -> u64 {
    task as u64 + 100
}

impl State {
    fn pool(&mut self) -> Pool<'_> {
        Pool {
            header: &mut self.header,
            entries: &mut self.entries,
            buckets: &mut self.buckets,
            rings: &mut self.rings,
            reserve: 1,
        }
    }

    fn entry(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.lane == LANE)
    }

    fn is_locked(&self, task: usize, process: usize) -> bool {
        let others = (0..PROCESSES).filter(|other| *other != process);
        others.into_iter().any(|other| self.processes[other].pending[task].is_some())
    }

    /// A row as a process sees it.
    fn seen(&self, process: usize, task: usize) -> Row {
        self.processes[process].pending[task].unwrap_or(self.rows[task])
    }

    /// Whether a task of the sub-queue but this one is taken, as a process sees it.
    fn sees_taken(&self, process: usize, but: Option<usize>) -> bool {
        (0..TASKS).any(|task| Some(task) != but && self.seen(process, task) == Row::Taken)
    }

    /// Whether another task has been taken by a transaction that has not ended: the unique index waits for it.
    fn is_being_taken(&self, process: usize, task: usize) -> bool {
        let others = (0..PROCESSES).filter(|other| *other != process);
        let is_taken = |other: usize| {
            (0..TASKS).any(|row| {
                row != task && self.processes[other].pending[row] == Some(Row::Taken)
                    || row != task
                        && self.rows[row] == Row::Taken
                        && self.processes[other].pending[row].is_some()
            })
        };
        others.into_iter().any(is_taken)
    }

    fn first(&self, process: usize, mark: Position) -> Option<usize> {
        (0..TASKS).find(|task| self.seen(process, *task) == Row::Ready && position(*task) >= mark)
    }

    /// Ends a transaction that has changed these rows.
    fn reset(&mut self, process: usize) {
        self.processes[process] = IDLE;
    }

    fn has_taken(&mut self, process: usize, task: usize) {
        let Process { change, pending, .. } = &mut self.processes[process];
        pending[task] = Some(Row::Taken);
        (change.taken, change.first) = (change.taken + 1, position(task));
        (change.took, change.exhausted) = (Some(hash(task)), false);
    }

    fn is_quiet(&self) -> bool {
        self.processes.iter().all(|process| process.phase == Phase::Idle)
    }

    /// Whether two tasks are in flight, but for one that the same transaction settles.
    fn has_two_in_flight(&self) -> bool {
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
        // A direct take has still to look whether another is in flight, and one by hand asks the index.
        let is_sure = |process: &Process| {
            !matches!(
                process.phase,
                Phase::TakenDirectly(_) | Phase::UpdatedByHand(_) | Phase::AsksIndex(_)
            )
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

impl Subqueues {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// The first task may be taken: locks it, or comes away empty-handed.
    fn lock(&self, state: &mut State, process: usize) -> Option<()> {
        let phase = state.processes[process].phase;
        let Phase::Looked { first, sees_taken, is_alone, is_direct } = phase else { return None };
        let before = state.processes[process].change;
        let is_free = |task: &usize| {
            !state.is_locked(*task, process) && state.seen(process, *task) == Row::Ready
        };
        let locked = first.filter(is_free);
        let is_held = first.is_some() && locked.is_none();
        let sees_all = is_alone && !before.lost;
        if is_direct {
            match locked {
                Some(task) => {
                    state.has_taken(process, task);
                    if sees_all {
                        self.end_look(state, position(task));
                    }
                    state.processes[process].phase = Phase::TakenDirectly(task);
                }
                None => {
                    state.processes[process].change.exhausted = true;
                    if !is_held && sees_all {
                        self.end_look(state, LAST);
                    }
                    let stays = is_held || before.is_seen_otherwise();
                    state.processes[process].phase = Phase::Vain { stays };
                }
            }
            return Some(());
        }
        match locked.filter(|_| !sees_taken) {
            Some(task) if state.is_being_taken(process, task) => return None,
            Some(task)
                if (0..TASKS).any(|row| row != task && state.seen(process, row) == Row::Taken) =>
            {
                // 23505: the statement fails, and the transaction with it.
                state.has_collided |= self.by_hand == 0;
                state.processes[process].pending = [None; TASKS];
                state.processes[process].phase = Phase::Undone;
            }
            Some(task) => {
                state.has_taken(process, task);
                if sees_all {
                    self.end_look(state, position(task));
                }
                if before.claimed && before.taken == 0 {
                    state.pool().set_clear(ID, LANE);
                }
                state.processes[process].phase = Phase::Open;
            }
            None => {
                state.processes[process].change.exhausted = true;
                // `is_takeable`, in a snapshot of its own.
                let is_there = state.first(process, FIRST).is_some();
                let stays =
                    before.is_seen_otherwise() || is_there && !state.sees_taken(process, None);
                state.processes[process].phase = Phase::Vain { stays };
            }
        }
        Some(())
    }

    fn end_look(&self, state: &mut State, first: Position) {
        let mut pool = state.pool();
        if self.has(Flaw::MarkWithoutFloor)
            && let Some(link) = pool.find(ID.index, LANE)
        {
            pool.entry(link).mark = first;
        } else {
            pool.end_look(ID, LANE, first, UNKNOWN);
        }
    }

    fn give_back(&self, state: &mut State, to: Back) {
        let mut pool = state.pool();
        if self.has(Flaw::DirtyIgnored)
            && let Some(link) = pool.find(ID.index, LANE)
        {
            pool.entry(link).dirty = false;
        }
        pool.give_back(ID, LANE, to);
    }

    fn callback(&self, state: &mut State, process: usize) {
        let change = state.processes[process].change;
        if change == LaneChange::default() {
            return;
        }
        let mut pool = state.pool();
        if self.has(Flaw::SettledIgnored)
            && let Some(link) = pool.find(ID.index, LANE)
        {
            pool.entry(link).settled = false;
        }
        pool.commit(ID, LANE, &change);
    }

    fn process_actions(&self, state: &State, process: usize, actions: &mut Vec<Action>) {
        let Process { phase, change, .. } = state.processes[process];
        let may_change = matches!(phase, Phase::Idle | Phase::Open);
        let rows = (0..TASKS).filter(|task| !state.is_locked(*task, process));
        for task in
            rows.filter(|task| may_change && state.processes[process].pending[*task].is_none())
        {
            match state.rows[task] {
                Row::Absent if state.puts > 0 => actions.push(Action::Put(process, task)),
                Row::Taken => {
                    actions.push(Action::Ack(process, task));
                    if state.releases > 0 {
                        actions.push(Action::Release(process, task));
                    }
                }
                Row::Ready if state.by_hand > 0 && phase == Phase::Idle => {
                    let collides = (0..TASKS).any(|other| state.rows[other] == Row::Taken);
                    if !collides && !state.is_being_taken(process, task) {
                        actions.push(Action::UpdateByHand(process, task));
                    }
                }
                _ => {}
            }
        }
        match phase {
            Phase::Idle | Phase::Open => {
                let is_next = state.clone().pool().next(ID).is_some();
                if state.takes > 0 && (is_next || change.is_left()) {
                    let early = self.has(Flaw::SnapshotBeforeClaim) && !change.is_left();
                    actions.push(match early {
                        true => Action::LookEarly(process),
                        false => Action::Claim(process),
                    });
                } else if phase == Phase::Idle && state.clone().pool().begin_scan(ID).is_some() {
                    actions.push(Action::BeginScan(process));
                }
                if phase == Phase::Open {
                    actions.push(Action::Commit(process));
                }
            }
            Phase::Early { .. } => actions.push(Action::Claim(process)),
            Phase::Claimed => actions.push(Action::BeginLook(process)),
            Phase::BegunLook { .. } => actions.push(Action::Look(process)),
            Phase::Looked { .. } => actions.push(Action::Lock(process)),
            Phase::TakenDirectly(_) => actions.push(Action::LookAgain(process)),
            Phase::Vain { .. } => actions.push(Action::GiveBack(process)),
            Phase::UpdatedByHand(_) => actions.push(Action::ClaimByHand(process)),
            Phase::AsksIndex(_) => actions.push(Action::AskIndex(process)),
            Phase::Scans(..) => actions.push(Action::EndScan(process)),
            Phase::Freed => actions.push(Action::Commit(process)),
            Phase::Visible => actions.push(Action::Callback(process)),
            Phase::Undone => actions.push(Action::Undo(process)),
        }
        // Also where two wait for each other in the index.
        let waits =
            matches!(phase, Phase::AsksIndex(_) | Phase::TakenDirectly(_) | Phase::Looked { .. });
        if waits || phase == Phase::Open && state.rollbacks > 0 {
            actions.push(Action::Rollback(process));
        }
    }

    fn crash(&self, state: &mut State) {
        state.processes = [IDLE; PROCESSES];
        (state.header, state.rings) = (Header::default(), [Ring::default()]);
        (state.entries, state.buckets) = ([Entry::default(); ENTRIES], [0; BUCKETS]);
        state.pool().open(ID);
        state.crashes -= 1;
    }
}

impl Model for Subqueues {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            rows: [Row::Absent; TASKS],
            processes: [IDLE; PROCESSES],
            header: Header::default(),
            entries: [Entry::default(); ENTRIES],
            buckets: [0; BUCKETS],
            rings: [Ring::default()],
            has_collided: false,
            takes: self.takes,
            puts: self.puts,
            releases: self.releases,
            by_hand: self.by_hand,
            rollbacks: self.rollbacks,
            crashes: self.crashes,
        };
        state.pool().open(ID);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        (0..PROCESSES).for_each(|process| self.process_actions(state, process, actions));
        if state.crashes > 0 {
            actions.push(Action::Crash);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let state = &mut next;
        match action {
            Action::Put(process, task) => {
                let Process { change, pending, phase } = &mut state.processes[process];
                (pending[task], *phase) = (Some(Row::Ready), Phase::Open);
                (change.offers, change.exhausted) = (true, false);
                (change.least, change.level) = (change.least.min(position(task)), UNKNOWN);
                state.puts -= 1;
            }
            Action::Ack(process, task) | Action::Release(process, task) => {
                let Process { change, pending, phase } = &mut state.processes[process];
                *phase = Phase::Open;
                (change.taken, change.exhausted) = (change.taken - 1, false);
                change.left = change.left.or(Some(hash(task)));
                pending[task] = Some(Row::Gone);
                if action == Action::Release(process, task) {
                    pending[task] = Some(Row::Ready);
                    (change.offers, change.level) = (true, UNKNOWN);
                    change.least = change.least.min(position(task));
                    state.releases -= 1;
                }
            }
            Action::LookEarly(process) => {
                let first = state.first(process, FIRST);
                let sees_taken = state.sees_taken(process, None);
                state.processes[process].phase = Phase::Early { first, sees_taken };
            }
            Action::Claim(process) => {
                let is_left = state.processes[process].change.is_left();
                if is_left {
                    state.processes[process].phase = Phase::Claimed;
                } else if state.pool().claim_next(ID).is_some() {
                    let is_direct = state.pool().is_clear(ID, LANE);
                    let Process { change, phase, .. } = &mut state.processes[process];
                    change.claimed = true;
                    *phase = match *phase {
                        Phase::Early { first, sees_taken } => {
                            Phase::Looked { first, sees_taken, is_alone: true, is_direct }
                        }
                        _ => Phase::Claimed,
                    };
                } else {
                    state.processes[process].phase = Phase::Open;
                }
                state.takes = state.takes.saturating_sub(1);
            }
            Action::BeginLook(process) => {
                let change = state.processes[process].change;
                let is_alone = change.claimed || state.pool().is_busy(ID, LANE);
                let mark = match is_alone {
                    true => state.pool().begin_look(ID, LANE).min(change.least),
                    false => FIRST,
                };
                state.processes[process].phase = Phase::BegunLook { mark, is_alone };
            }
            Action::Look(process) => {
                let Phase::BegunLook { mark, is_alone } = state.processes[process].phase else {
                    return None;
                };
                let first = state.first(process, mark);
                let sees_taken = state.sees_taken(process, None);
                let is_direct = is_alone && state.pool().is_clear(ID, LANE);
                state.processes[process].phase =
                    Phase::Looked { first, sees_taken, is_alone, is_direct };
            }
            Action::Lock(process) => self.lock(state, process)?,
            Action::LookAgain(process) => {
                let Phase::TakenDirectly(task) = state.processes[process].phase else {
                    return None;
                };
                let is_clear = state.pool().is_clear(ID, LANE) || self.has(Flaw::ClearBelieved);
                state.processes[process].phase =
                    if is_clear { Phase::Open } else { Phase::AsksIndex(task) };
            }
            Action::AskIndex(process) => {
                let Phase::AsksIndex(task) = state.processes[process].phase else { return None };
                if state.is_being_taken(process, task) {
                    return None;
                }
                let collides = state.sees_taken(process, Some(task));
                state.processes[process].phase = if collides { Phase::Undone } else { Phase::Open };
                if collides {
                    state.processes[process].pending = [None; TASKS];
                }
            }
            Action::GiveBack(process) => {
                let Phase::Vain { stays } = state.processes[process].phase else { return None };
                state.processes[process].phase = Phase::Open;
                // What it has for itself without a claim it has nothing to give back of.
                if std::mem::replace(&mut state.processes[process].change.claimed, false) {
                    if stays {
                        self.end_look(state, FIRST);
                    }
                    self.give_back(state, if stays { Back::Tail } else { Back::Away });
                }
            }
            Action::UpdateByHand(process, task) => {
                state.has_taken(process, task);
                state.processes[process].phase = Phase::UpdatedByHand(task);
                state.by_hand -= 1;
            }
            Action::ClaimByHand(process) => {
                let Phase::UpdatedByHand(task) = state.processes[process].phase else {
                    return None;
                };
                state.processes[process].phase = Phase::AsksIndex(task);
                if !self.has(Flaw::HandUntold) {
                    match state.pool().claim_by_hand(ID, LANE) {
                        Ok(_) => state.processes[process].change.claimed = true,
                        Err(_) if self.has(Flaw::UnclaimedForgotten) => {
                            let mut pool = state.pool();
                            let link = pool.find(ID.index, LANE)?;
                            pool.entry(link).clear = false;
                        }
                        Err(_) => state.pool().take_unclaimed(ID, LANE),
                    }
                }
            }
            Action::BeginScan(process) => {
                let scan = state.pool().begin_scan(ID)?;
                let is_takeable =
                    state.first(process, FIRST).is_some() && !state.sees_taken(process, None);
                state.processes[process].phase = Phase::Scans(scan, is_takeable);
            }
            Action::EndScan(process) => {
                let Phase::Scans(scan, is_takeable) = state.processes[process].phase else {
                    return None;
                };
                if is_takeable {
                    state.pool().offer(ID, LANE, UNKNOWN);
                }
                state.pool().end_scan(ID, scan, None);
                state.processes[process].phase = Phase::Idle;
            }
            Action::Commit(process) => {
                let is_early = state.processes[process].phase == Phase::Open
                    && self.has(Flaw::FreedBeforeVisible);
                if is_early {
                    self.callback(state, process);
                    state.processes[process].phase = Phase::Freed;
                    return Some(next);
                }
                let pending = state.processes[process].pending;
                for (row, new) in state.rows.iter_mut().zip(pending) {
                    *row = new.unwrap_or(*row);
                }
                state.processes[process].pending = [None; TASKS];
                state.processes[process].phase = match state.processes[process].phase {
                    Phase::Freed => Phase::Idle,
                    _ => Phase::Visible,
                };
                if state.processes[process].phase == Phase::Idle {
                    state.reset(process);
                }
            }
            Action::Callback(process) => {
                self.callback(state, process);
                state.reset(process);
            }
            Action::Rollback(process) => {
                state.rollbacks -= u8::from(state.processes[process].phase == Phase::Open);
                state.processes[process].pending = [None; TASKS];
                state.processes[process].phase = Phase::Undone;
            }
            Action::Undo(process) => {
                if state.processes[process].change.claimed {
                    let to = if self.has(Flaw::UndoDrops) { Back::Away } else { Back::Front };
                    self.give_back(state, to);
                }
                state.reset(process);
            }
            Action::Crash => self.crash(state),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Subqueues>> {
        vec![
            Property::always(ONE, |_, state: &State| !state.has_two_in_flight()),
            Property::always("claims keep takes out of the unique index", |_, state: &State| {
                !state.has_collided
            }),
            Property::always(QUEUED, |_, state: &State| {
                let has_ready = state.rows.contains(&Row::Ready);
                let can_go = has_ready && !state.rows.contains(&Row::Taken);
                let mut copy = state.clone();
                !(state.is_quiet() && can_go) || copy.pool().may_have_some(ID)
            }),
            Property::always(MARKED, |_, state: &State| {
                let mark = state.entry().map_or(FIRST, |entry| entry.mark);
                let is_told = state.processes.iter().all(|process| process.phase != Phase::Visible);
                let mut ready = (0..TASKS).filter(|task| state.rows[*task] == Row::Ready);
                !is_told || ready.all(|task| position(task) >= mark)
            }),
            Property::sometimes("both tasks are done", |_, state: &State| {
                state.rows == [Row::Gone; TASKS] && state.is_quiet()
            }),
            Property::sometimes(
                "a task is taken without a look for others in flight",
                |_, state: &State| {
                    let is_direct =
                        |process: &Process| matches!(process.phase, Phase::TakenDirectly(_));
                    state.processes.iter().any(is_direct)
                },
            ),
            Property::sometimes("a mark is raised", |_, state: &State| {
                state.entry().is_some_and(|entry| entry.mark > position(0))
            }),
        ]
    }
}

/// The properties, by name.
pub const ONE: &str = "never two tasks of a sub-queue are in flight";
pub const QUEUED: &str =
    "at rest a sub-queue that has something to take is in the ring, or that is incomplete";
pub const MARKED: &str = "no ready task stands before the sub-queue's mark";
