//! Recounting the tasks of a queue while transactions change them.
//!
//! Invariant: if the counters are exact, they and the callbacks to come add up to the number of tasks. Counters are
//! changed in the COMMIT callback of each transaction, by its own changes. A recount corrects them without blocking a
//! writer:
//!
//! 1. Under the queue's lock it takes a snapshot and sets `since` to 0. A transaction that the snapshot sees has
//!    possibly not reached its callback yet. So a transaction publishes its xid before it becomes visible, and the
//!    recount marks the processes of the published transactions that its snapshot sees.
//! 2. It counts the tasks that the snapshot sees. Each COMMIT callback meanwhile adds its change to the counters, and
//!    also to `since`, unless the process is marked and the xid is below the snapshot's.
//! 3. The callback of a marked process would change the counters after the recount has set them. The recount waits
//!    until no transaction that its snapshot sees is published.
//! 4. Under the lock the counters become the sum of the count and `since`.
//!
//! The end of a prepared transaction has no callback. From PREPARE on the counters are not exact, until the worker has
//! checked and found no prepared transaction, and a recount that began later has ended.
//!
//! | step | code |
//! |---|---|
//! | `PreCommit` | `end::transaction_ended` (src/transaction/end.rs), `sessions::set_committing` |
//! | `Callback` | `QueueGuard::commit`, `is_counted` (src/parts/counters/recount.rs) |
//! | `Begin`, `Count`, `End` | `recount::count` (src/queue/recount.rs), `begin_recount`, `is_ahead`, `end_recount`, `set_counted` |
//! | `PrePrepare`, `MarkAgain` | `end::transaction_ended`, `mark_prepared` |
//! | `Clear`, `Look`, `Settle` | `Prepared::look` (src/worker/prepared.rs), src/parts/prepared/mod.rs |

mod rules;
mod state;

use state::{Prepared, Recount, Snapshot, Transaction, Worker, bit};
use stateright::{Model, Property};

pub use state::{Action, State};

const PROCESSES: usize = 3;

/// The bounds of an exploration, and its flaw.
#[derive(Clone, Debug, Default)]
pub struct Recounts {
    /// Number of transactions; each one puts a task.
    pub transactions: u8,
    pub recounts: u8,
    pub prepares: u8,
    pub crashes: u8,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The snapshot is taken before the lock under which it is published.
    SnapshotUnlocked,
    /// `since` includes all commits.
    SinceAddsAll,
    /// `since` includes no commits.
    SinceAddsNone,
    /// `since` includes no commits of marked processes, also if they began after the snapshot was taken.
    MarkedForever,
    /// The recount ends without waiting for the callbacks of transactions that its snapshot has seen.
    EndAtOnce,
    /// Counters are changed before the transaction is visible, that is in PRE_COMMIT.
    TellBeforeVisible,
    /// The counters are exact while a prepared transaction is open.
    PreparedIgnored,
    /// A recount that ends while the worker checks for prepared transactions makes the counters exact.
    ExactDuringLook,
    /// No recount is requested after a prepared transaction was found to have ended.
    NoRecountAfterLook,
}

impl Recounts {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Models `QueueGuard::commit` of a transaction that has put a task.
    fn tell(&self, state: &mut State, process: usize, xid: u8) {
        state.counter += 1;
        if let Recount::Counts { snapshot, ahead, since, .. } = &mut state.recount {
            let adds = match self.flaw {
                Some(Flaw::SinceAddsAll) => true,
                Some(Flaw::SinceAddsNone) => false,
                Some(Flaw::MarkedForever) => !ahead[process],
                _ => !ahead[process] || xid >= snapshot.next,
            };
            *since += i8::from(adds);
        }
    }

    /// Models `recount::is_ahead`: returns whether a transaction that the snapshot sees is published.
    fn is_ahead(&self, state: &State, snapshot: Snapshot) -> bool {
        !self.has(Flaw::EndAtOnce) && state.ahead_of(snapshot).contains(&true)
    }

    fn crash(&self, state: &mut State) {
        let transferred = state.processes.iter().find_map(|transaction| match transaction {
            Transaction::Prepared(xid) => Some(Prepared::Open(*xid)),
            _ => None,
        });
        let still_open = Some(state.prepared).filter(|open| matches!(open, Prepared::Open(_)));
        state.prepared = transferred.or(still_open).unwrap_or(Prepared::None);
        state.processes = [Transaction::None; PROCESSES];
        (state.counter, state.exact, state.recount_needed) = (0, false, true);
        (state.is_prepared, state.is_looking, state.requested) = (true, false, true);
        (state.recount, state.worker) = (Recount::Idle, Worker::Idle);
        state.crashes -= 1;
        state.recounts += 1;
    }
}

impl Model for Recounts {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            next_xid: 0,
            visible: 0,
            counter: 0,
            exact: true,
            recount_needed: false,
            is_prepared: false,
            is_looking: false,
            processes: [Transaction::None; PROCESSES],
            prepared: Prepared::None,
            recount: Recount::Idle,
            requested: false,
            worker: Worker::Idle,
            transactions: self.transactions,
            recounts: self.recounts,
            prepares: self.prepares,
            crashes: self.crashes,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (process, transaction) in state.processes.iter().enumerate() {
            match transaction {
                Transaction::None if state.transactions > 0 => actions.push(Action::Begin(process)),
                Transaction::None => {}
                Transaction::Open(_) => {
                    actions.extend([Action::PreCommit(process), Action::Abort(process)]);
                    if state.prepares > 0 && state.prepared == Prepared::None {
                        actions.push(Action::PrePrepare(process));
                    }
                }
                Transaction::Committing(_) | Transaction::Told(_) => {
                    actions.push(Action::BecomeVisible(process));
                }
                Transaction::Visible(_) => actions.push(Action::Callback(process)),
                Transaction::Preparing(_) => {
                    actions.extend([Action::Transfer(process), Action::Abort(process)]);
                }
                Transaction::Prepared(_) => actions.push(Action::MarkAgain(process)),
            }
        }
        match state.prepared {
            Prepared::None => {}
            Prepared::Open(_) => actions.extend([Action::CommitPrepared, Action::RollbackPrepared]),
            Prepared::Ended => actions.push(Action::Unlock),
            Prepared::Unlocked => actions.push(Action::Request),
        }
        match state.worker {
            Worker::Idle if state.requested => actions.push(Action::Clear),
            Worker::Idle => {}
            Worker::Cleared => actions.push(Action::Look),
            Worker::Looked { .. } => actions.push(Action::Settle),
        }
        match state.recount {
            Recount::Idle if state.recount_needed => {
                actions.push(match self.has(Flaw::SnapshotUnlocked) {
                    true => Action::TakeSnapshot,
                    false => Action::BeginRecount,
                });
            }
            Recount::Unpublished(..) => actions.push(Action::BeginRecount),
            Recount::Counts { snapshot, .. } if !self.is_ahead(state, snapshot) => {
                actions.push(Action::EndRecount);
            }
            _ => {}
        }
        if state.recounts > 0 && !state.recount_needed {
            actions.push(Action::AskForRecount);
        }
        if state.crashes > 0 {
            actions.push(Action::Crash);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let state = &mut next;
        match action {
            Action::Begin(process) => {
                state.processes[process] = Transaction::Open(state.next_xid);
                state.next_xid += 1;
                state.transactions -= 1;
            }
            Action::PreCommit(process) => {
                let Transaction::Open(xid) = state.processes[process] else { return None };
                state.processes[process] = Transaction::Committing(xid);
                if self.has(Flaw::TellBeforeVisible) {
                    self.tell(state, process, xid);
                    state.processes[process] = Transaction::Told(xid);
                }
            }
            Action::BecomeVisible(process) => {
                state.processes[process] = match state.processes[process] {
                    Transaction::Told(xid) => {
                        state.visible |= bit(xid);
                        Transaction::None
                    }
                    Transaction::Committing(xid) => {
                        state.visible |= bit(xid);
                        Transaction::Visible(xid)
                    }
                    _ => return None,
                };
            }
            Action::Callback(process) => {
                let Transaction::Visible(xid) = state.processes[process] else { return None };
                self.tell(state, process, xid);
                state.processes[process] = Transaction::None;
            }
            Action::Abort(process) => {
                state.requested |= matches!(state.processes[process], Transaction::Preparing(_));
                state.processes[process] = Transaction::None;
            }
            Action::PrePrepare(process) => {
                let Transaction::Open(xid) = state.processes[process] else { return None };
                state.mark_prepared();
                state.prepares -= 1;
                state.processes[process] = Transaction::Preparing(xid);
            }
            Action::Transfer(process) => {
                let Transaction::Preparing(xid) = state.processes[process] else { return None };
                state.processes[process] = Transaction::Prepared(xid);
            }
            Action::MarkAgain(process) => {
                let Transaction::Prepared(xid) = state.processes[process] else { return None };
                state.processes[process] = Transaction::None;
                state.prepared = Prepared::Open(xid);
                state.mark_prepared();
            }
            Action::CommitPrepared => {
                let Prepared::Open(xid) = state.prepared else { return None };
                state.visible |= bit(xid);
                state.prepared = Prepared::Ended;
            }
            Action::RollbackPrepared => state.prepared = Prepared::Ended,
            Action::Unlock => state.prepared = Prepared::Unlocked,
            Action::Request => (state.prepared, state.requested) = (Prepared::None, true),
            Action::Clear => {
                state.requested = false;
                if state.is_prepared {
                    (state.is_prepared, state.is_looking) = (false, true);
                    (state.recount_needed, state.worker) = (true, Worker::Cleared);
                }
            }
            Action::Look => state.worker = Worker::Looked { locked: state.has_prepared_locks() },
            Action::Settle => {
                let Worker::Looked { locked } = state.worker else { return None };
                (state.worker, state.is_looking) = (Worker::Idle, false);
                match locked {
                    true => state.mark_prepared(),
                    false => state.recount_needed |= !self.has(Flaw::NoRecountAfterLook),
                }
            }
            Action::AskForRecount => {
                (state.recount_needed, state.exact) = (true, false);
                state.recounts -= 1;
            }
            Action::TakeSnapshot => {
                state.recount = Recount::Unpublished(state.snapshot(), state.visible);
            }
            Action::BeginRecount => {
                let (snapshot, sees) = match state.recount {
                    Recount::Unpublished(snapshot, sees) => (snapshot, sees),
                    _ => (state.snapshot(), state.visible),
                };
                let ahead = state.ahead_of(snapshot);
                state.recount = Recount::Counts { snapshot, sees, ahead, since: 0 };
                state.recount_needed = false;
            }
            Action::EndRecount => {
                let Recount::Counts { sees, since, .. } = state.recount else { return None };
                state.recount = Recount::Idle;
                state.counter = sees.count_ones() as i8 + since;
                let (is_prepared, is_looking) = match self.flaw {
                    Some(Flaw::PreparedIgnored) => (false, false),
                    Some(Flaw::ExactDuringLook) => (state.is_prepared, false),
                    _ => (state.is_prepared, state.is_looking),
                };
                state.exact = rules::may_be_exact(is_prepared, is_looking, state.recount_needed);
            }
            Action::Crash => self.crash(state),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Recounts>> {
        vec![
            Property::always(EXACT, |_, state: &State| {
                !state.exact || state.counter + state.untold() == state.tasks()
            }),
            Property::always("at rest the counters are exact", |_, state: &State| {
                let is_idle = state.processes == [Transaction::None; PROCESSES]
                    && state.recount == Recount::Idle
                    && state.worker == Worker::Idle;
                let is_settled = state.prepared == Prepared::None && !state.requested;
                !(is_idle && is_settled && !state.recount_needed) || state.exact
            }),
            Property::sometimes(
                "a recount adds what it has not seen",
                |_, state: &State| matches!(state.recount, Recount::Counts { sees, since, .. } if sees != 0 && since > 0),
            ),
            Property::sometimes(
                "a recount waits for a callback",
                |model, state: &State| matches!(state.recount, Recount::Counts { snapshot, .. } if model.is_ahead(state, snapshot)),
            ),
        ]
    }
}

/// The property that each flaw breaks.
pub const EXACT: &str =
    "where counters are exact, they and the callbacks to come make the number of tasks";
