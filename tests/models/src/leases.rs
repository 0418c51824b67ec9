//! Leases: a session holds a task from its take until it settles it, its time to run is over, or the session ends.
//!
//! The lease is in the row: status taken, owner, attempt, deadline. Whatever changes a task locks its row and judges
//! the row's latest version: an ack wants status and owner, and the attempt where it is given; the worker passes
//! over locked rows and looks once more whether the time is over, or whose the task is.
//!
//! What a session that has ended leaves behind comes back so: each session notes in its COMMIT callbacks what it has
//! taken and settled. At its exit, after its transaction, it leaves the worker its uuid and those keys, or nothing if
//! it holds nothing. If another session has written its uuid into a row by hand, its notes are *distrusted* and
//! the worker looks by owner; and as it may have ended before that was committed, the COMMIT callback of the
//! giver, after the counters, leaves the worker the uuid again unless the session is attached. The worker forgets a session
//! once nothing is taken (by the counters), or once it sees no row of it any more; locked ones it tries again. At its start it compares the
//! owners in the table with the sessions attached after it has read them.
//!
//! | step | code |
//! |---|---|
//! | `Take`, `Ack`, `Snatch`, `Touch` | src/statement/change.rs, src/statement/step.rs: `is_fit` |
//! | `Give` | `change::note` of src/change.rs: `sessions::distrust`; `xact::commit`: `sessions::look_after` |
//! | `Exit` | `session::ended`, `sessions::detach` (src/shmem/sessions.rs), `session::held` |
//! | `Drain` | `left::drain`, `Leftovers::note` (src/worker/leftovers.rs) |
//! | `PickOverdue`, `PickEnded`, `LockPicked`, `CommitPicked` | `Batch::run` (src/worker/job.rs), `Leftovers::reap_leavers`, `reap_ended` |
//! | `SeeHolders`, `FindLost` | `Leftovers::find_lost`, `sessions::not_attached` |

use stateright::{Model, Property};

pub const TASKS: usize = 2;
pub const SESSIONS: usize = 3;
/// Attempts of one task.
const ATTEMPTS: usize = 4;

/// What is explored, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    pub takes: u8,
    /// Takes may be rolled back.
    pub rollbacks: bool,
    pub snatches: u8,
    pub gifts: u8,
    /// How often the time to run of a lease passes.
    pub expiries: u8,
    pub touches: u8,
    pub crashes: u8,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// An ack does not look who has taken the task.
    AckWithoutOwner,
    /// An ack does not look at the attempt.
    AckWithoutAttempt,
    /// The worker gives back what its snapshot has shown it as overdue.
    OverdueUnchecked,
    /// The worker compares the owners with the sessions that were attached before it saw them.
    AttachedTooEarly,
    /// The worker forgets a session after one try, whatever was locked.
    LockedForgotten,
    /// The worker believes counters that a transaction, visible already, has still to change.
    CountersBelieved,
    /// A session distrusts nothing.
    NoDistrust,
    /// The giver does not look after the session that has got a task.
    NotLookedAfter,
    /// It does so before its counters are changed.
    LookedAfterTooEarly,
    /// A session is left to the worker before its transaction has ended.
    LeftBeforeAbort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    Ready,
    Taken { owner: usize, attempt: usize, is_overdue: bool },
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Verb {
    Take,
    /// The ack for a lease, by its attempt.
    Ack(usize),
    Snatch,
    Touch,
    /// Taken by hand for another session.
    Give(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Change {
    task: usize,
    verb: Verb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Transaction {
    None,
    Open(Change),
    /// Visible, before its callback.
    Visible(Change),
    /// Its counters are changed, before it looks after others.
    Counted(Change),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    Unborn,
    Attached,
    /// It has left its uuid too early ([`Flaw::LeftBeforeAbort`]).
    Leaving,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Session {
    life: Life,
    transaction: Transaction,
    /// The tasks that it notes to hold.
    noted: [bool; TASKS],
    is_distrusted: bool,
}

/// What the consumer knows of its lease; it may be late to learn that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lease {
    None,
    Live(usize),
    Over(usize),
}

/// A session that was left, and the tasks to look at.
type Left = (usize, [bool; TASKS]);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Worker {
    Idle,
    /// Sessions attached, seen too early ([`Flaw::AttachedTooEarly`]).
    Attached([bool; SESSIONS]),
    /// The owners in the table.
    Holders {
        holders: [bool; SESSIONS],
        attached: Option<[bool; SESSIONS]>,
    },
    /// Tasks that its snapshot has shown it as overdue, or as those of a session; of those it has locked some.
    Picked {
        of: Option<Left>,
        picked: [bool; TASKS],
        locked: [bool; TASKS],
    },
    /// They are ready, before its callback.
    Visible(i8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    rows: [Row; TASKS],
    leases: [[Lease; ATTEMPTS]; TASKS],
    sessions: [Session; SESSIONS],
    /// The counter of taken tasks.
    taken: i8,
    exact: bool,
    left: Vec<Left>,
    ended: Vec<Left>,
    sweep: bool,
    worker: Worker,
    /// An ack has ended another lease than the one it was for.
    has_misfired: bool,
    takes: u8,
    snatches: u8,
    gifts: u8,
    expiries: u8,
    touches: u8,
    crashes: u8,
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

const ALL: [bool; TASKS] = [true; TASKS];
const FRESH: Session = Session {
    life: Life::Unborn,
    transaction: Transaction::None,
    noted: [false; TASKS],
    is_distrusted: false,
};

impl State {
    fn is_locked(&self, task: usize) -> bool {
        let by_session = |session: &Session| matches!(session.transaction, Transaction::Open(change) if change.task == task);
        let by_worker = matches!(self.worker, Worker::Picked { locked, .. } if locked[task]);
        by_worker || self.sessions.iter().any(by_session)
    }

    fn attached(&self) -> [bool; SESSIONS] {
        self.sessions.map(|session| session.life == Life::Attached)
    }

    fn is_held_by(&self, task: usize, session: usize) -> bool {
        matches!(self.rows[task], Row::Taken { owner, .. } if owner == session)
    }

    fn is_overdue(&self, task: usize) -> bool {
        matches!(self.rows[task], Row::Taken { is_overdue: true, .. })
    }

    /// The number of the next attempt.
    fn next_attempt(&self, task: usize) -> Option<usize> {
        self.leases[task].iter().position(|lease| *lease == Lease::None)
    }

    /// The lease in force is over.
    fn end_lease(&mut self, task: usize) {
        for lease in &mut self.leases[task] {
            if let Lease::Live(session) = *lease {
                *lease = Lease::Over(session);
            }
        }
    }

    /// `sessions::detach`, at the end of a process.
    fn leave(&mut self, session: usize) {
        let Session { noted, is_distrusted, .. } = self.sessions[session];
        match is_distrusted {
            true => self.left.push((session, ALL)),
            false if noted != [false; TASKS] => self.left.push((session, noted)),
            false => {}
        }
    }

    fn end(&mut self, session: usize) {
        self.sessions[session] = Session { life: Life::Ended, ..FRESH };
        for lease in self.leases.iter_mut().flatten() {
            if *lease == Lease::Live(session) {
                *lease = Lease::Over(session);
            }
        }
    }

    /// Whether nothing is under way, nor anything for the worker to do.
    fn is_at_rest(&self) -> bool {
        let is_idle = |session: &Session| session.transaction == Transaction::None;
        let has_overdue = (0..TASKS).any(|task| self.is_overdue(task));
        let is_done = self.left.is_empty() && self.ended.is_empty() && !self.sweep && !has_overdue;
        self.sessions.iter().all(is_idle) && self.worker == Worker::Idle && is_done
    }

    fn crash(&mut self) {
        for session in 0..SESSIONS {
            if self.sessions[session].life != Life::Unborn {
                self.end(session);
            }
        }
        (self.taken, self.exact, self.sweep) = (0, false, true);
        (self.left, self.ended, self.worker) = (vec![], vec![], Worker::Idle);
        self.crashes -= 1;
    }
}

impl Leases {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// `Leftovers::doubt_if_taken`.
    fn may_be_taken(&self, state: &State) -> bool {
        // `sessions::set_committing` comes before a commit is visible.
        let is_committing =
            |session: &Session| matches!(session.transaction, Transaction::Visible(_));
        let believes = self.has(Flaw::CountersBelieved);
        let is_committing = !believes && state.sessions.iter().any(is_committing);
        !state.exact || state.taken != 0 || is_committing
    }

    /// What is visible once the change of a session is committed.
    fn commit(&self, state: &mut State, session: usize, change: Change) {
        let task = change.task;
        match change.verb {
            Verb::Take | Verb::Give(_) => {
                let Some(attempt) = state.next_attempt(task) else { return };
                let owner = match change.verb {
                    Verb::Give(to) => to,
                    _ => session,
                };
                state.rows[task] = Row::Taken { owner, attempt, is_overdue: false };
                let is_alive = state.sessions[owner].life == Life::Attached;
                let lease = if is_alive { Lease::Live(owner) } else { Lease::Over(owner) };
                state.leases[task][attempt] = lease;
            }
            Verb::Ack(attempt) => {
                let Row::Taken { owner, attempt: current, .. } = state.rows[task] else { return };
                state.has_misfired |= (owner, current) != (session, attempt);
                state.rows[task] = Row::Gone;
                if state.leases[task][attempt] == Lease::Live(session) {
                    state.leases[task][attempt] = Lease::Over(session);
                }
            }
            Verb::Snatch => {
                state.rows[task] = Row::Ready;
                state.end_lease(task);
            }
            Verb::Touch => {
                let Row::Taken { attempt, .. } = state.rows[task] else { return };
                state.rows[task] = Row::Taken { owner: session, attempt, is_overdue: false };
                state.leases[task][attempt] = Lease::Live(session);
            }
        }
    }

    /// What a COMMIT callback does first: notes and counters.
    fn count(&self, state: &mut State, session: usize, change: Change) {
        let noted = &mut state.sessions[session].noted[change.task];
        match change.verb {
            Verb::Take => (*noted, state.taken) = (true, state.taken + 1),
            Verb::Ack(_) => (*noted, state.taken) = (false, state.taken - 1),
            Verb::Give(_) => state.taken += 1,
            Verb::Snatch => state.taken -= 1,
            Verb::Touch => {}
        }
    }

    /// `sessions::look_after`.
    fn look_after(&self, state: &mut State, change: Change) {
        let Verb::Give(to) = change.verb else { return };
        if state.sessions[to].life != Life::Attached && !self.has(Flaw::NotLookedAfter) {
            state.left.push((to, ALL));
        }
    }

    /// Whether a picked task is still what it was picked for.
    fn is_still(&self, state: &State, task: usize, of: Option<Left>) -> bool {
        match of {
            Some((session, _)) => state.is_held_by(task, session),
            None if self.has(Flaw::OverdueUnchecked) => {
                matches!(state.rows[task], Row::Taken { .. })
            }
            None => state.is_overdue(task),
        }
    }

    fn session_actions(&self, state: &State, session: usize, actions: &mut Vec<Action>) {
        let Session { life, transaction, .. } = state.sessions[session];
        match transaction {
            Transaction::Open(change) => {
                actions.push(Action::Commit(session));
                if self.rollbacks || !matches!(change.verb, Verb::Take) {
                    actions.push(Action::Rollback(session));
                }
            }
            Transaction::Visible(_) => return actions.push(Action::Callback(session)),
            Transaction::Counted(_) => return actions.push(Action::LookAfter(session)),
            Transaction::None => {}
        }
        match life {
            Life::Ended => return,
            Life::Leaving => return actions.push(Action::Exit(session)),
            // A kill is an exit in the middle of a transaction.
            Life::Attached => actions.push(Action::Exit(session)),
            Life::Unborn => {}
        }
        if transaction != Transaction::None {
            return;
        }
        for task in (0..TASKS).filter(|task| !state.is_locked(*task)) {
            let is_known = life == Life::Attached;
            match state.rows[task] {
                Row::Ready if state.next_attempt(task).is_some() => {
                    if state.takes > 0 {
                        actions.push(Action::Take(session, task));
                    }
                    let others = (0..SESSIONS).filter(|other| *other != session);
                    let there = others.filter(|other| state.sessions[*other].life != Life::Unborn);
                    if state.gifts > 0 && is_known {
                        actions.extend(there.map(|other| Action::Give(session, other, task)));
                    }
                }
                Row::Taken { owner, .. } if is_known => {
                    if state.snatches > 0 && owner != session {
                        actions.push(Action::Snatch(session, task));
                    }
                    if state.touches > 0 && owner == session {
                        actions.push(Action::Touch(session, task));
                    }
                }
                _ => {}
            }
            let is_mine =
                |lease: &Lease| [Lease::Live(session), Lease::Over(session)].contains(lease);
            for (attempt, lease) in state.leases[task].iter().enumerate() {
                if is_mine(lease) && is_known && self.may_ack(state, session, task, attempt) {
                    actions.push(Action::Ack(session, task, attempt));
                }
            }
        }
    }

    /// The condition of the statement, on the latest version of the row.
    fn may_ack(&self, state: &State, session: usize, task: usize, attempt: usize) -> bool {
        let Row::Taken { owner, attempt: current, .. } = state.rows[task] else { return false };
        let is_owner = owner == session || self.has(Flaw::AckWithoutOwner);
        let is_fenced = !self.has(Flaw::AckWithoutAttempt) && !self.has(Flaw::AckWithoutOwner);
        is_owner && (attempt == current || !is_fenced)
    }

    fn worker_actions(&self, state: &State, actions: &mut Vec<Action>) {
        match &state.worker {
            Worker::Idle => {
                if !state.left.is_empty() {
                    actions.push(Action::Drain);
                }
                if (0..TASKS).any(|task| state.is_overdue(task)) {
                    actions.push(Action::PickOverdue);
                }
                if !state.ended.is_empty() {
                    actions.push(Action::PickEnded);
                }
                if state.sweep {
                    actions.push(match self.has(Flaw::AttachedTooEarly) {
                        true => Action::SeeAttached,
                        false => Action::SeeHolders,
                    });
                }
            }
            Worker::Attached(_) => actions.push(Action::SeeHolders),
            Worker::Holders { .. } => actions.push(Action::FindLost),
            Worker::Picked { picked, .. } => match picked.iter().position(|is_picked| *is_picked) {
                Some(task) => actions.push(Action::LockPicked(task)),
                None => actions.push(Action::CommitPicked),
            },
            Worker::Visible(_) => actions.push(Action::WorkerCallback),
        }
    }
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            rows: [Row::Ready; TASKS],
            leases: [[Lease::None; ATTEMPTS]; TASKS],
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
                && matches!(state.rows[task], Row::Taken { is_overdue: false, .. })
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
                let Row::Taken { owner, attempt, .. } = state.rows[task] else { return None };
                state.rows[task] = Row::Taken { owner, attempt, is_overdue: true };
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
                    state.rows[task] = Row::Ready;
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
                let live = |leases: &[Lease; ATTEMPTS]| {
                    leases.iter().filter(|lease| matches!(lease, Lease::Live(_))).count()
                };
                state.leases.iter().all(|leases| live(leases) <= 1)
            }),
            Property::always(KEPT, |_, state: &State| {
                let is_kept = |task: usize| {
                    let live = state.leases[task].iter().enumerate();
                    let mut live = live.filter_map(|(attempt, lease)| match lease {
                        Lease::Live(session) => Some((*session, attempt)),
                        _ => None,
                    });
                    live.all(|lease| {
                        matches!(state.rows[task], Row::Taken { owner, attempt, .. } if (owner, attempt) == lease)
                    })
                };
                (0..TASKS).all(is_kept)
            }),
            Property::always(FENCED, |_, state: &State| !state.has_misfired),
            Property::always(NOT_LOST, |_, state: &State| {
                let is_fit = |row: &Row| match row {
                    Row::Taken { owner, .. } => state.sessions[*owner].life == Life::Attached,
                    _ => true,
                };
                !state.is_at_rest() || state.rows.iter().all(is_fit)
            }),
            Property::eventually("all tasks come back or are done", |_, state: &State| {
                let is_attached = |session: &Session| session.life == Life::Attached;
                let is_free = |row: &Row| !matches!(row, Row::Taken { .. });
                !state.sessions.iter().any(is_attached) && state.rows.iter().all(is_free)
            }),
            Property::sometimes("a task is acked", |_, state: &State| {
                state.rows.contains(&Row::Gone)
            }),
            Property::sometimes("a task is taken once more", |_, state: &State| {
                matches!(state.leases[0], [Lease::Over(_), Lease::Live(_), ..])
            }),
        ]
    }
}

/// The properties, by name.
pub const ONE_LEASE: &str = "a task is never under two live leases";
pub const KEPT: &str = "a live lease is that of the row";
pub const FENCED: &str = "an ack ends no other lease than its own";
pub const NOT_LOST: &str = "at rest no task is held by a session that has ended";
