//! Low-water marks: where a take begins its search.
//!
//! Invariant: no task is ready before the mark of its queue. Three rules keep it:
//!
//! 1. A transaction that made tasks ready lowers the mark and its floor in the COMMIT callback. The callback runs after
//!    the rows have become visible, and before it wakes a consumer.
//! 2. Only one process at a time raises the mark. Under the lock it sets the floor to +∞ and reads the mark. Then it
//!    searches, in a snapshot taken after that, for the first ready task from the mark on. Under the lock again, it
//!    sets the mark to the lesser of the task's position and the floor. A commit before the snapshot is visible to the
//!    search; a commit after it has lowered the floor.
//! 3. A prepared transaction ends without a callback. So PREPARE resets the marks to −∞ and forbids raising them until
//!    the worker has checked and found no prepared transaction.
//!
//! | step | code |
//! |---|---|
//! | `Callback` | `end::commit` (src/transaction/end.rs), `QueueGuard::commit`, `lower_marks` (src/parts/marks/shared.rs), [`Mark::lower`] |
//! | `Start`, `Probe`, `End` | `start::start` (src/write/start.rs), [`Mark::start`], `start::first`, [`Mark::end_raise`] |
//! | `PrePrepare`, `MarkAgain` | `end::transaction_ended`, `QueueGuard::mark_prepared` |
//! | `Clear`, `Look`, `Settle` | `PreparedCheck::look` (src/worker/prepared.rs), src/parts/prepared/mod.rs |
//! | `Recount` | `count_briefly`, `count_at_leisure` (src/worker/recounts.rs), `QueueGuard::nudge_for_counted` |
//! | `ReadMark`, `TakeFirst` | a waiting consumer that was woken, src/parts/waiters/wait.rs and src/api/consumer.rs |
//!
//! [`Mark`] is the extension's own.

mod state;

use state::{Change, Consumer, Prepared, Raise, Status, Transaction, Worker, lower};
use stateright::{Model, Property};
use xqueue_core::marks::mark::{LOST_AFTER, Mark, RAISE_AFTER};
use xqueue_core::position::{FIRST, LAST, Position};

pub use state::{Action, State};

/// Tasks, by their position in the order: 1, 2.
const KEYS: usize = 2;
const PROCESSES: usize = 2;

/// The bounds of an exploration, and its flaw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    pub transactions: u8,
    pub raises: u8,
    pub prepares: u8,
    pub crashes: u8,
    /// All tasks have the same position.
    pub shares_positions: bool,
    /// Raises can take so long that they are considered abandoned.
    pub slow_raises: bool,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// The snapshot of the search is taken before the floor is set to +∞.
    SnapshotBeforeStart,
    /// The mark becomes the position found, regardless of the floor.
    NoFloor,
    /// The mark is lowered before the transaction is visible, that is in PRE_COMMIT.
    LowerBeforeVisible,
    /// A consumer is woken before the mark is lowered.
    LowerAfterWaking,
    /// A transaction that hides ready tasks from itself raises marks.
    RaiseBesideOwnTake,
    /// Marks are raised while a prepared transaction is open.
    PreparedIgnored,
    /// Marks are raised while the worker checks whether there is a prepared transaction.
    RaiseDuringLook,
    /// Only PRE_PREPARE marks the queue, before the locks belong to the prepared transaction.
    MarkedOnce,
    /// The recount that follows wakes no consumer.
    NoNudge,
    /// The end of a raise does not check whether another raise has begun since.
    AbandonedRaiseEnds,
    /// Marks survive a crash.
    KeepOverCrash,
}

impl Marks {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Models `start::may_raise` and `QueueGuard::start`.
    fn may_raise(&self, state: &State, process: usize) -> bool {
        let hides = state.pending(process).is_some_and(|change| change.to == Status::Taken);
        (!hides || self.has(Flaw::RaiseBesideOwnTake)) && !state.may_be_prepared(self.flaw)
    }

    /// Returns the clock at the beginning of the next raise.
    fn now(&self, state: &State) -> i64 {
        let count = i64::from(self.raises - state.left.raises) + 1;
        if self.slow_raises { count * (LOST_AFTER + 1) } else { count }
    }

    fn end(&self, state: &mut State, since: i64, found: Position) {
        let found = Some(found).filter(|_| !state.may_be_prepared(self.flaw));
        match found {
            Some(found) if self.has(Flaw::NoFloor) => state.mark.at = found,
            Some(found) if self.has(Flaw::AbandonedRaiseEnds) => {
                state.mark.at = found.min(state.mark.floor);
            }
            found => state.mark.end_raise(since, found),
        }
    }

    fn crash(&self, state: &mut State) {
        let transferred = state.processes.iter().find_map(|(transaction, _)| match transaction {
            Transaction::Prepared(change) => Some(*change),
            _ => None,
        });
        state.prepared = match (transferred, state.prepared) {
            (Some(change), _) | (None, Prepared::Open(change)) => Prepared::Open(change),
            _ => Prepared::None,
        };
        state.processes = [(Transaction::None, Raise::None); PROCESSES];
        if !self.has(Flaw::KeepOverCrash) {
            state.mark = Mark::default();
        }
        // A new slot knows nothing of prepared transactions, and its tasks have to be counted.
        (state.is_prepared, state.recount, state.requested) = (true, true, true);
        (state.worker, state.is_looking, state.consumer) = (Worker::Idle, false, Consumer::Woken);
        state.left.crashes -= 1;
    }
}

impl Model for Marks {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            left: self.clone(),
            rows: [Status::Absent; KEYS],
            mark: Mark::default(),
            is_prepared: false,
            is_looking: false,
            recount: false,
            processes: [(Transaction::None, Raise::None); PROCESSES],
            prepared: Prepared::None,
            requested: false,
            worker: Worker::Idle,
            consumer: Consumer::Asleep,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (process, (transaction, raise)) in state.processes.iter().enumerate() {
            let idle = *raise == Raise::None;
            match transaction {
                Transaction::None if idle && state.left.transactions > 0 => {
                    let free = (0..KEYS).filter(|key| !state.is_locked(*key));
                    actions.extend(free.map(|key| Action::Change(process, key)));
                }
                Transaction::Open(change) if idle => {
                    actions.extend([Action::Commit(process), Action::Abort(process)]);
                    // A take must not be prepared.
                    if state.left.prepares > 0 && change.to == Status::Ready {
                        actions.push(Action::PrePrepare(process));
                    }
                }
                Transaction::Lowered(_) => actions.push(Action::Commit(process)),
                Transaction::Visible(_) | Transaction::Woken(_) => {
                    actions.push(Action::Callback(process));
                }
                Transaction::Preparing(_) => {
                    actions.extend([Action::Transfer(process), Action::Abort(process)]);
                }
                Transaction::Prepared(_) => actions.push(Action::MarkAgain(process)),
                _ => {}
            }
            let may_begin = matches!(transaction, Transaction::None | Transaction::Open(_));
            match raise {
                Raise::None
                    if may_begin && state.left.raises > 0 && self.may_raise(state, process) =>
                {
                    actions.push(match self.has(Flaw::SnapshotBeforeStart) {
                        true => Action::Probe(process),
                        false => Action::Start(process),
                    });
                }
                Raise::Early(_) => actions.push(Action::Start(process)),
                Raise::Started { .. } => actions.push(Action::Probe(process)),
                Raise::Found { .. } => actions.push(Action::End(process)),
                Raise::None => {}
            }
        }
        match state.prepared {
            Prepared::Open(_) => actions.extend([Action::CommitPrepared, Action::RollbackPrepared]),
            Prepared::Ended => actions.push(Action::Unlock),
            Prepared::Unlocked => actions.push(Action::Request),
            Prepared::None => {}
        }
        match state.worker {
            Worker::Idle if state.requested => actions.push(Action::Clear),
            Worker::Idle if state.recount => actions.push(Action::Recount),
            Worker::Idle => {}
            Worker::Cleared => actions.push(Action::Look),
            Worker::Looked { .. } => actions.push(Action::Settle),
        }
        match state.consumer {
            Consumer::Asleep => {}
            Consumer::Woken => actions.push(Action::ReadMark),
            Consumer::Looks(..) => actions.push(Action::TakeFirst),
        }
        if state.left.crashes > 0 {
            actions.push(Action::Crash);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let state = &mut next;
        match action {
            Action::Change(process, key) => {
                let to = match state.rows[key] {
                    Status::Ready => Status::Taken,
                    Status::Absent | Status::Taken => Status::Ready,
                };
                state.processes[process].0 = Transaction::Open(Change { key, to });
                state.left.transactions -= 1;
            }
            Action::Commit(process) => {
                let change = state.pending(process)?;
                let is_early = self.has(Flaw::LowerBeforeVisible)
                    && state.processes[process].0 == Transaction::Open(change);
                if is_early {
                    lower(state, change);
                    state.processes[process].0 = Transaction::Lowered(change);
                } else {
                    state.rows[change.key] = change.to;
                    state.processes[process].0 = Transaction::Visible(change);
                }
            }
            Action::Callback(process) => {
                let transaction = state.processes[process].0;
                let (Transaction::Visible(change) | Transaction::Woken(change)) = transaction
                else {
                    return None;
                };
                let wakes = change.to == Status::Ready;
                if self.has(Flaw::LowerAfterWaking) && transaction == Transaction::Visible(change) {
                    if wakes {
                        state.wake();
                    }
                    state.processes[process].0 = Transaction::Woken(change);
                    return Some(next);
                }
                if !self.has(Flaw::LowerBeforeVisible) {
                    lower(state, change);
                }
                if wakes && !self.has(Flaw::LowerAfterWaking) {
                    state.wake();
                }
                state.processes[process].0 = Transaction::None;
            }
            Action::Abort(process) => {
                match state.processes[process].0 {
                    Transaction::Preparing(_) => state.requested = true,
                    // The rollback makes the taken task ready again, and `end::undo` wakes a consumer.
                    Transaction::Open(change) if change.to == Status::Taken => state.wake(),
                    _ => {}
                }
                state.processes[process].0 = Transaction::None;
            }
            Action::PrePrepare(process) => {
                state.mark_prepared();
                state.left.prepares -= 1;
                state.processes[process].0 = Transaction::Preparing(state.pending(process)?);
            }
            Action::Transfer(process) => {
                state.processes[process].0 = Transaction::Prepared(state.pending(process)?);
            }
            Action::MarkAgain(process) => {
                state.prepared = Prepared::Open(state.pending(process)?);
                state.processes[process].0 = Transaction::None;
                if !self.has(Flaw::MarkedOnce) {
                    state.mark_prepared();
                }
            }
            Action::CommitPrepared => {
                let Prepared::Open(change) = state.prepared else { return None };
                state.rows[change.key] = change.to;
                state.prepared = Prepared::Ended;
            }
            Action::RollbackPrepared => state.prepared = Prepared::Ended,
            Action::Unlock => state.prepared = Prepared::Unlocked,
            Action::Request => (state.prepared, state.requested) = (Prepared::None, true),
            Action::Clear => {
                state.requested = false;
                if state.is_prepared {
                    (state.is_prepared, state.recount) = (false, true);
                    state.wake();
                    state.is_looking = true;
                    state.worker = Worker::Cleared;
                }
            }
            Action::Look => state.worker = Worker::Looked { locked: state.has_prepared_locks() },
            Action::Settle => {
                let Worker::Looked { locked } = state.worker else { return None };
                (state.worker, state.is_looking) = (Worker::Idle, false);
                match locked {
                    true => state.mark_prepared(),
                    false => state.recount = true,
                }
            }
            Action::Recount => {
                state.recount = false;
                let is_in_line = state.consumer != Consumer::Woken;
                if is_in_line && state.first(None, FIRST) != LAST && !self.has(Flaw::NoNudge) {
                    state.mark = Mark::default();
                    state.wake();
                }
            }
            Action::Probe(process) => {
                state.processes[process].1 = match state.processes[process].1 {
                    Raise::Started { since, from } => {
                        Raise::Found { since, found: state.first(Some(process), from) }
                    }
                    _ => Raise::Early(state.first(Some(process), state.mark.at)),
                };
            }
            Action::Start(process) => {
                let now = self.now(state);
                state.left.raises = state.left.raises.saturating_sub(1);
                let may_raise = self.may_raise(state, process);
                let start = state.mark.start(RAISE_AFTER + 1, may_raise, now);
                state.processes[process].1 = match state.processes[process].1 {
                    _ if !start.raises => Raise::None,
                    Raise::Early(found) => Raise::Found { since: now, found },
                    _ => Raise::Started { since: now, from: start.from },
                };
            }
            Action::End(process) => {
                let Raise::Found { since, found } = state.processes[process].1 else { return None };
                self.end(state, since, found);
                state.processes[process].1 = Raise::None;
            }
            Action::ReadMark => state.consumer = Consumer::Looks(state.mark.at, false),
            Action::TakeFirst => {
                let Consumer::Looks(from, is_woken) = state.consumer else { return None };
                state.take_first(from, is_woken);
            }
            Action::Crash => self.crash(state),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Marks>> {
        vec![
            Property::always(INVARIANT, |_, state: &State| {
                let stands_before = |key: &usize| {
                    state.rows[*key] == Status::Ready && state.position(*key) < state.mark.at
                };
                !(0..KEYS).filter(stands_before).any(|key| !state.is_untold(key))
            }),
            Property::always(AWAKE, |_, state: &State| {
                let sleeps = state.is_quiet() && state.consumer == Consumer::Asleep;
                !sleeps || state.first(None, FIRST) == LAST
            }),
            Property::sometimes(
                "a mark is raised behind a task that is done",
                |_, state: &State| {
                    let is_behind = state.mark.at > state.position(0) && state.mark.at < LAST;
                    is_behind || state.left.shares_positions
                },
            ),
            Property::sometimes("an empty queue has its mark behind all", |_, state: &State| {
                state.mark.at == LAST && state.is_quiet()
            }),
            Property::sometimes("a commit meets a raise", |_, state: &State| {
                let is_raised = state.processes.iter().any(|(_, raise)| *raise != Raise::None);
                is_raised && state.mark.floor != LAST && state.mark.floor != FIRST
            }),
        ]
    }
}

/// The properties, by name.
pub const INVARIANT: &str =
    "no task is ready before the mark, but for those of a commit before its callback";
pub const AWAKE: &str = "at rest no consumer sleeps beside a ready task";
