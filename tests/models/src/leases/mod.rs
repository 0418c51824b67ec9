//! Leases: a session holds a task from its take until it settles the task, its time to run expires, or the session
//! ends.
//!
//! Invariant: a task is never under two live leases, a live lease is the one in the row, and an ack ends no lease
//! except its own. The lease is in the row: status taken, owner, attempt, deadline. Each change of a task locks its row
//! and judges the row's latest version. An ack checks status and owner, and the attempt if it is given. The worker
//! passes over locked rows, and checks again that the time has expired or which session has the task.
//!
//! The tasks of an ended session come back in spite of these races:
//!
//! 1. A session ends at any moment. It counts in its COMMIT callbacks how many tasks it holds in each queue. At its
//!    exit, after its transaction, it leaves its uuid and those queues to the worker, or nothing if it holds no tasks.
//!    In this model each task is in a queue of its own.
//! 2. Another session writes the uuid into a row by hand. The counts of the session are *distrusted* and the worker
//!    searches all queues. Because the session can end before that commit, the COMMIT callback of the giver, after the
//!    counters, leaves the uuid to the worker again unless the session is attached.
//! 3. Rows are locked, or commits not counted yet. The worker forgets a session once no task is taken (by the
//!    counters), or once it sees no row of the session; it retries locked rows.
//! 4. The worker starts. It compares the owners in the table with the sessions attached after it has read the owners.
//!
//! | step | code |
//! |---|---|
//! | `Take`, `Ack`, `Snatch`, `Touch` | src/core/statement/change.rs, src/core/statement/step.rs: `is_fit` |
//! | `Give` | `row::note` of src/write/row.rs: `sessions::distrust`; `end::commit` (src/transaction/end.rs): `sessions::look_after` |
//! | `Exit` | `session::end` (src/parts/leases/session.rs), `held::queues`, `sessions::detach` (src/parts/leases/sessions.rs) |
//! | `Drain` | `departed::drain`, `KnownQueue::note_ended` (src/worker/known.rs) |
//! | `PickOverdue`, `PickEnded`, `LockPicked`, `CommitPicked` | `change`, `change_each` (src/worker/job.rs); `act_on_time`, `reap` of src/worker/work.rs |
//! | `SeeHolders`, `FindLost` | `find_lost` (src/worker/work.rs), `sessions::not_attached` |

mod rules;
mod state;
mod steps;

use rules::Row;
use state::{ALL, Change, FRESH, KnownLease, Life, Session, Transaction, Verb, Worker};
use stateright::{Model, Property};

pub use state::State;

pub const TASKS: usize = 2;
pub const SESSIONS: usize = 3;
/// Attempts of one task.
const ATTEMPTS: usize = 4;

/// The bounds of an exploration, and its flaw.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    pub takes: u8,
    /// Takes can be rolled back.
    pub rollbacks: bool,
    pub snatches: u8,
    pub gifts: u8,
    /// Number of times that the time to run of a lease expires.
    pub expiries: u8,
    pub touches: u8,
    pub crashes: u8,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// An ack ignores which session has taken the task.
    AckWithoutOwner,
    /// An ack does not check the attempt.
    AckWithoutAttempt,
    /// The worker gives back the tasks that its snapshot has shown as overdue, without checking again.
    OverdueUnchecked,
    /// The worker compares the owners with the sessions that were attached before it read the owners.
    AttachedTooEarly,
    /// The worker forgets a session after one try, even if rows were locked.
    LockedForgotten,
    /// The worker trusts the counters although a visible transaction has yet to change them.
    CountersBelieved,
    /// A gift does not make the receiver's counts distrusted.
    NoDistrust,
    /// The giver does not report the session that was given the task.
    NotLookedAfter,
    /// The giver reports it before its counters are changed.
    LookedAfterTooEarly,
    /// A session is left to the worker before its transaction has ended.
    LeftBeforeAbort,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Take(usize, usize),
    Ack(usize, usize, usize),
    Snatch(usize, usize),
    Touch(usize, usize),
    Give(usize, usize, usize),
    Commit(usize),
    Rollback(usize),
    Callback(usize),
    LookAfter(usize),
    Exit(usize),
    Expire(usize),
    Drain,
    PickOverdue,
    PickEnded,
    LockPicked(usize),
    CommitPicked,
    WorkerCallback,
    SeeAttached,
    SeeHolders,
    FindLost,
    Crash,
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            rows: [Row::Ready; TASKS],
            leases: [[KnownLease::None; ATTEMPTS]; TASKS],
            sessions: [FRESH; SESSIONS],
            taken: 0,
            exact: true,
            left: vec![],
            ended: vec![],
            sweep: false,
            worker: Worker::Idle,
            has_misfired: false,
            takes: self.takes,
            snatches: self.snatches,
            gifts: self.gifts,
            expiries: self.expiries,
            touches: self.touches,
            crashes: self.crashes,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        (0..SESSIONS).for_each(|session| self.session_actions(state, session, actions));
        self.worker_actions(state, actions);
        for task in 0..TASKS {
            if state.expiries > 0
                && matches!(state.rows[task], Row::Taken(lease) if !lease.is_overdue)
            {
                actions.push(Action::Expire(task));
            }
        }
        if state.crashes > 0 {
            actions.push(Action::Crash);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let state = &mut next;
        let open = |task, verb| Transaction::Open(Change { task, verb });
        match action {
            Action::Take(session, task) => {
                state.sessions[session].life = Life::Attached;
                state.sessions[session].transaction = open(task, Verb::Take);
                state.takes -= 1;
            }
            Action::Ack(session, task, attempt) => {
                state.sessions[session].transaction = open(task, Verb::Ack(attempt));
            }
            Action::Snatch(session, task) => {
                state.sessions[session].transaction = open(task, Verb::Snatch);
                state.snatches -= 1;
            }
            Action::Touch(session, task) => {
                state.sessions[session].transaction = open(task, Verb::Touch);
                state.touches -= 1;
            }
            Action::Give(session, to, task) => {
                state.sessions[session].transaction = open(task, Verb::Give(to));
                state.gifts -= 1;
                let is_attached = state.sessions[to].life == Life::Attached;
                state.sessions[to].is_distrusted |= is_attached && !self.has(Flaw::NoDistrust);
            }
            Action::Commit(session) => {
                let Transaction::Open(change) = state.sessions[session].transaction else {
                    return None;
                };
                self.commit(state, session, change);
                state.sessions[session].transaction = Transaction::Visible(change);
            }
            Action::Rollback(session) => state.sessions[session].transaction = Transaction::None,
            Action::Callback(session) => {
                let Transaction::Visible(change) = state.sessions[session].transaction else {
                    return None;
                };
                match self.has(Flaw::LookedAfterTooEarly) {
                    true => self.look_after(state, change),
                    false => self.count(state, session, change),
                }
                state.sessions[session].transaction = Transaction::Counted(change);
            }
            Action::LookAfter(session) => {
                let Transaction::Counted(change) = state.sessions[session].transaction else {
                    return None;
                };
                match self.has(Flaw::LookedAfterTooEarly) {
                    true => self.count(state, session, change),
                    false => self.look_after(state, change),
                }
                state.sessions[session].transaction = Transaction::None;
            }
            Action::Exit(session) => {
                if self.has(Flaw::LeftBeforeAbort) && state.sessions[session].life == Life::Attached
                {
                    state.leave(session);
                    state.sessions[session].life = Life::Leaving;
                    return Some(next);
                }
                if !self.has(Flaw::LeftBeforeAbort) {
                    state.leave(session);
                }
                state.end(session);
            }
            Action::Expire(task) => {
                state.rows[task].expire();
                state.end_lease(task);
                state.expiries -= 1;
            }
            Action::Drain => {
                let left = state.left.remove(0);
                if self.may_be_taken(state) {
                    state.ended.push(left);
                }
            }
            Action::PickOverdue => {
                let picked = std::array::from_fn(|task| state.is_overdue(task));
                state.worker = Worker::Picked { of: None, picked, locked: [false; TASKS] };
            }
            Action::PickEnded => {
                let of = state.ended[0];
                let picked = std::array::from_fn(|task| of.1[task] && state.is_held_by(task, of.0));
                state.worker = Worker::Picked { of: Some(of), picked, locked: [false; TASKS] };
            }
            Action::LockPicked(task) => {
                let may_lock = !state.is_locked(task);
                let Worker::Picked { of, mut picked, mut locked } = state.worker else {
                    return None;
                };
                picked[task] = false;
                locked[task] = may_lock && self.is_still(state, task, of);
                state.worker = Worker::Picked { of, picked, locked };
            }
            Action::CommitPicked => {
                let Worker::Picked { of, locked, .. } = state.worker else { return None };
                let mut count = 0;
                for task in (0..TASKS).filter(|task| locked[*task]) {
                    state.change(task, Leases::giving_back(of));
                    count += 1;
                }
                if let Some((session, tasks)) = of {
                    let is_held = |task: usize| tasks[task] && state.is_held_by(task, session);
                    if self.has(Flaw::LockedForgotten) || !(0..TASKS).any(is_held) {
                        state.ended.remove(0);
                    }
                }
                state.worker = Worker::Visible(count);
            }
            Action::WorkerCallback => {
                let Worker::Visible(count) = state.worker else { return None };
                (state.taken, state.worker) = (state.taken - count, Worker::Idle);
            }
            Action::SeeAttached => state.worker = Worker::Attached(state.attached()),
            Action::SeeHolders => {
                let holders = std::array::from_fn(|session| {
                    (0..TASKS).any(|task| state.is_held_by(task, session))
                });
                let attached = match state.worker {
                    Worker::Attached(attached) => Some(attached),
                    _ => None,
                };
                state.worker = Worker::Holders { holders, attached };
            }
            Action::FindLost => {
                let Worker::Holders { holders, attached } = state.worker else { return None };
                let attached = attached.unwrap_or(state.attached());
                let lost = (0..SESSIONS).filter(|session| holders[*session] && !attached[*session]);
                state.ended.extend(lost.map(|session| (session, ALL)));
                (state.sweep, state.worker) = (false, Worker::Idle);
            }
            Action::Crash => state.crash(),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Leases>> {
        vec![
            Property::always(ONE_LEASE, |_, state: &State| {
                let live = |leases: &[KnownLease; ATTEMPTS]| {
                    leases.iter().filter(|lease| matches!(lease, KnownLease::Live(_))).count()
                };
                state.leases.iter().all(|leases| live(leases) <= 1)
            }),
            Property::always(KEPT, |_, state: &State| {
                let is_kept = |task: usize| {
                    let live = state.leases[task].iter().enumerate();
                    let mut live = live.filter_map(|(attempt, lease)| match lease {
                        KnownLease::Live(session) => Some((*session, attempt)),
                        _ => None,
                    });
                    live.all(|lease| {
                        state.rows[task]
                            .lease()
                            .is_some_and(|row| (row.owner, row.attempt) == lease)
                    })
                };
                (0..TASKS).all(is_kept)
            }),
            Property::always(FENCED, |_, state: &State| !state.has_misfired),
            Property::always(NOT_LOST, |_, state: &State| {
                let is_fit = |row: &Row<usize>| {
                    row.lease()
                        .is_none_or(|lease| state.sessions[lease.owner].life == Life::Attached)
                };
                !state.is_at_rest() || state.rows.iter().all(is_fit)
            }),
            Property::eventually("all tasks come back or are done", |_, state: &State| {
                let is_attached = |session: &Session| session.life == Life::Attached;
                let is_free = |row: &Row<usize>| row.lease().is_none();
                !state.sessions.iter().any(is_attached) && state.rows.iter().all(is_free)
            }),
            Property::sometimes("a task is acked", |_, state: &State| {
                state.rows.contains(&Row::Gone)
            }),
            Property::sometimes("a task is taken once more", |_, state: &State| {
                matches!(state.leases[0], [KnownLease::Over(_), KnownLease::Live(_), ..])
            }),
        ]
    }
}

/// The properties, by name.
pub const ONE_LEASE: &str = "a task is never under two live leases";
pub const KEPT: &str = "a live lease is that of the row";
pub const FENCED: &str = "an ack ends no other lease than its own";
pub const NOT_LOST: &str = "at rest no task is held by a session that has ended";
