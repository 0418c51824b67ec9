//! Sub-queues: one task of each is in flight at a time, in order, and sub-queues take turns.
//!
//! Invariant: at rest, a sub-queue that has a task to take is in the ring, or the ring is incomplete; two tasks of one
//! sub-queue are never in flight. It survives these races:
//!
//! 1. Two takes find the same sub-queue: a take claims the next sub-queue of the ring in shared memory, and only then
//!    takes the snapshot in which it searches for the first task. Its COMMIT callback makes the sub-queue *busy*, its
//!    rollback returns it to the front. The COMMIT callback of an ack or a release frees a busy sub-queue and puts it
//!    at the end of the ring.
//! 2. A task arrives after the snapshot of a take that finds nothing: the commit has made the sub-queue *dirty*, so the
//!    take that gives it back puts it into the ring again.
//! 3. A task is taken by hand: the trigger of the row claims the sub-queue too, and refuses the change otherwise.
//! 4. A claimant searches for a task in flight in the table, unless the sub-queue is *clear*: then shared memory knows
//!    it. The claimant makes the sub-queue clear if it finds none. It does not if it has seen a transaction that has not
//!    reported its changes yet: that report would free the sub-queue while another task is in flight.
//! 5. Shared memory loses a sub-queue in use (`Reset`). The next claimant searches the table.
//!
//! | step | code |
//! |---|---|
//! | `Claim`, `BeginLook`, `Look`, `Lock`, `GiveBack` | `Take::look` (src/write/subqueues/look.rs), src/write/subqueues.rs, src/write/direct/subqueue.rs |
//! | `See`, `SetClear` | `is_free` (src/write/subqueues/in_flight.rs) |
//! | `Callback`, `Undo` | `commit`, `undo` (src/parts/subqueues/shared.rs) |
//! | `BeginScan`, `EndScan` | `Take::find_subqueues` |
//! | `UpdateByHand`, `ClaimByHand`, `SeeByHand` | `claim` (src/write/subqueues/by_hand.rs) |
//!
//! The code under test is the extension's own: [`Pool`](xqueue_core::subqueues::Pool) with its marks, and
//! [`SubqueueChange`](xqueue_core::transaction::SubqueueChange).

mod state;
mod steps;

use state::{IDLE, Phase, Process, Row, position};
use stateright::{Model, Property};
use xqueue_core::level::UNKNOWN;
use xqueue_core::position::FIRST;
use xqueue_core::slot_id::SlotId;
use xqueue_core::subqueues::{Back, Entry, Header, SubqueueRing};

pub use state::{Action, State};

const SUBQUEUE: u64 = 7;
const ID: SlotId = SlotId { index: 0, generation: 1 };
/// Number of tasks of the sub-queue, in their order.
const TASKS: usize = 2;
const PROCESSES: usize = 2;
const ENTRIES: usize = 3;
const BUCKETS: usize = 2;

/// The bounds of an exploration, and its flaw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subqueues {
    pub takes: u8,
    pub puts: u8,
    pub releases: u8,
    /// Number of takes by hand.
    pub by_hand: u8,
    pub rollbacks: u8,
    pub crashes: u8,
    /// Number of times that shared memory loses the sub-queue.
    pub resets: u8,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// The snapshot of the search is taken before the claim.
    SnapshotBeforeClaim,
    /// A sub-queue without a task to take is given back without checking whether a task has arrived meanwhile.
    DirtyIgnored,
    /// A take that is rolled back drops the sub-queue.
    UndoDrops,
    /// An ack frees the sub-queue before it is visible.
    FreedBeforeVisible,
    /// A commit that frees a claimed sub-queue is not noted.
    SettledIgnored,
    /// A take by hand does not claim the sub-queue.
    HandUnclaimed,
    /// A sub-queue becomes clear although a transaction that was seen has not reported its changes yet.
    ReportIgnored,
    /// A report from before the search counts as the return of the claimant's task.
    SettledKept,
    /// The mark becomes the position found, ignoring tasks that arrived meanwhile.
    MarkWithoutFloor,
}

impl Model for Subqueues {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            left: self.clone(),
            rows: [Row::Absent; TASKS],
            processes: [IDLE; PROCESSES],
            header: Header::default(),
            entries: [Entry::default(); ENTRIES],
            buckets: [0; BUCKETS],
            rings: [SubqueueRing::default()],
        };
        state.pool().open(ID);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        (0..PROCESSES).for_each(|process| self.process_actions(state, process, actions));
        if state.left.crashes > 0 {
            actions.push(Action::Crash);
        }
        if state.left.resets > 0 {
            actions.push(Action::Reset);
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
                state.left.puts -= 1;
            }
            Action::Ack(process, task) | Action::Release(process, task) => {
                let Process { change, pending, phase } = &mut state.processes[process];
                *phase = Phase::Open;
                (change.taken, change.exhausted) = (change.taken - 1, false);
                pending[task] = Some(Row::Gone);
                if action == Action::Release(process, task) {
                    pending[task] = Some(Row::Ready);
                    (change.offers, change.level) = (true, UNKNOWN);
                    change.least = change.least.min(position(task));
                    state.left.releases -= 1;
                }
            }
            Action::LookEarly(process) => {
                let first = state.first(process, FIRST);
                state.processes[process].phase = Phase::Early { first };
            }
            Action::Claim(process) => {
                let is_left = state.processes[process].change.is_left();
                if is_left {
                    state.processes[process].phase = Phase::Claimed;
                } else if state.pool().claim_next(ID).is_some() {
                    let Process { change, phase, .. } = &mut state.processes[process];
                    change.claimed = true;
                    *phase = match *phase {
                        Phase::Early { first } => Phase::Looked { first, is_alone: true },
                        _ => Phase::Claimed,
                    };
                } else {
                    state.processes[process].phase = Phase::Open;
                }
                state.left.takes = state.left.takes.saturating_sub(1);
            }
            Action::See(process) => {
                state.processes[process].phase = if state.pool().is_clear(ID, SUBQUEUE) {
                    Phase::Free
                } else if state.sees_taken(process, None) {
                    state.processes[process].change.exhausted = true;
                    Phase::Vain { stays: false }
                } else {
                    let is_ahead = state.has_unreported(process) && !self.has(Flaw::ReportIgnored);
                    Phase::Seen { is_ahead }
                };
            }
            Action::SetClear(process) => {
                let Phase::Seen { is_ahead } = state.processes[process].phase else { return None };
                let change = state.processes[process].change;
                if !is_ahead && change.claimed && change.taken == 0 {
                    self.set_clear(state);
                }
                state.processes[process].phase = Phase::Free;
            }
            Action::BeginLook(process) => {
                let change = state.processes[process].change;
                let is_alone = change.claimed || state.pool().is_busy(ID, SUBQUEUE);
                let mark = match is_alone {
                    true => state.pool().begin_look(ID, SUBQUEUE).min(change.least),
                    false => FIRST,
                };
                state.processes[process].phase = Phase::BegunLook { mark, is_alone };
            }
            Action::Look(process) => {
                let Phase::BegunLook { mark, is_alone } = state.processes[process].phase else {
                    return None;
                };
                let first = state.first(process, mark);
                state.processes[process].phase = Phase::Looked { first, is_alone };
            }
            Action::Lock(process) => self.lock(state, process)?,
            Action::GiveBack(process) => {
                let Phase::Vain { stays } = state.processes[process].phase else { return None };
                state.processes[process].phase = Phase::Open;
                // A sub-queue that the transaction has without a claim need not be given back.
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
                state.left.by_hand -= 1;
            }
            Action::ClaimByHand(process) => {
                let Phase::UpdatedByHand(task) = state.processes[process].phase else {
                    return None;
                };
                let claimed = state.pool().claim_if_room(ID, SUBQUEUE).is_ok();
                state.processes[process].change.claimed = claimed;
                let is_refused = !claimed && !self.has(Flaw::HandUnclaimed);
                let is_clear = claimed && state.pool().is_clear(ID, SUBQUEUE);
                state.refuse_if(process, is_refused);
                if !is_refused && !is_clear {
                    state.processes[process].phase = Phase::ClaimedByHand(task);
                }
            }
            Action::SeeByHand(process) => {
                let Phase::ClaimedByHand(task) = state.processes[process].phase else {
                    return None;
                };
                let sees_taken = state.sees_taken(process, Some(task));
                state.refuse_if(process, sees_taken);
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
                    state.pool().offer(ID, SUBQUEUE, UNKNOWN);
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
                state.left.rollbacks -= u8::from(state.processes[process].phase == Phase::Open);
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
            Action::Reset => {
                state.pool().reset(ID);
                state.left.resets -= 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Subqueues>> {
        vec![
            Property::always(ONE, |_, state: &State| !state.has_two_in_flight()),
            Property::always(QUEUED, |_, state: &State| {
                let has_ready = state.rows.contains(&Row::Ready);
                let can_go = has_ready && !state.rows.contains(&Row::Taken);
                let mut copy = state.clone();
                !(state.is_quiet() && can_go) || copy.pool().may_have_some(ID)
            }),
            Property::always(MARKED, |_, state: &State| {
                let mark = state.entry().map_or(FIRST, |entry| entry.mark);
                let is_tracked =
                    state.processes.iter().all(|process| process.phase != Phase::Visible);
                let mut ready = (0..TASKS).filter(|task| state.rows[*task] == Row::Ready);
                !is_tracked || ready.all(|task| position(task) >= mark)
            }),
            Property::sometimes("both tasks are done", |_, state: &State| {
                state.rows == [Row::Gone; TASKS] && state.is_quiet()
            }),
            Property::sometimes("a sub-queue is clear", |_, state: &State| {
                state.entry().is_some_and(|entry| entry.clear)
            }),
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
