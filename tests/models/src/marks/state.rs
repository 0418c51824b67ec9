//! The knowledge of processes and of shared memory, and the possible next steps.

use super::{Flaw, KEYS, Marks, PROCESSES};
use xqueue_core::marks::mark::Mark;
use xqueue_core::position::{LAST, Position};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Status {
    Absent,
    Ready,
    Taken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    pub(super) key: usize,
    pub(super) to: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Transaction {
    None,
    Open(Change),
    /// The transaction has lowered the mark too early ([`Flaw::LowerBeforeVisible`]).
    Lowered(Change),
    /// The transaction is visible, its callback has not run yet.
    Visible(Change),
    /// The transaction has woken a consumer too early ([`Flaw::LowerAfterWaking`]).
    Woken(Change),
    /// The queue is marked, but the locks still belong to the process.
    Preparing(Change),
    /// The locks belong to the prepared transaction.
    Prepared(Change),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Raise {
    None,
    /// The snapshot was taken too early ([`Flaw::SnapshotBeforeStart`]).
    Early(Position),
    Started {
        since: i64,
        from: Position,
    },
    Found {
        since: i64,
        found: Position,
    },
}

/// A prepared transaction, from the end of PREPARE to the end of COMMIT PREPARED or ROLLBACK PREPARED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Prepared {
    None,
    Open(Change),
    /// The transaction has ended and still holds its locks.
    Ended,
    /// The transaction has released its locks; the worker has not been notified.
    Unlocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Worker {
    Idle,
    Cleared,
    Looked { locked: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Consumer {
    Asleep,
    Woken,
    /// The consumer searches from this position on; the flag says whether it was woken again meanwhile.
    Looks(Position, bool),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What is left of the bounds.
    pub(super) left: Marks,
    pub(super) rows: [Status; KEYS],
    pub(super) mark: Mark,
    /// A prepared transaction might have changed the table.
    pub(super) is_prepared: bool,
    /// The worker is checking for prepared transactions that changed the table.
    pub(super) is_looking: bool,
    pub(super) recount: bool,
    pub(super) processes: [(Transaction, Raise); PROCESSES],
    pub(super) prepared: Prepared,
    /// The worker has been asked to check for prepared transactions.
    pub(super) requested: bool,
    pub(super) worker: Worker,
    pub(super) consumer: Consumer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Change(usize, usize),
    /// The next step of a commit.
    Commit(usize),
    Callback(usize),
    Abort(usize),
    PrePrepare(usize),
    Transfer(usize),
    MarkAgain(usize),
    CommitPrepared,
    RollbackPrepared,
    Unlock,
    Request,
    Clear,
    Look,
    Settle,
    Recount,
    Probe(usize),
    Start(usize),
    End(usize),
    ReadMark,
    TakeFirst,
    Crash,
}

impl State {
    pub(super) fn position(&self, key: usize) -> Position {
        if self.left.shares_positions { 1 } else { key as Position + 1 }
    }

    pub(super) fn mark_prepared(&mut self) {
        self.mark = Mark::default();
        self.is_prepared = true;
    }

    pub(super) fn wake(&mut self) {
        self.consumer = match self.consumer {
            Consumer::Looks(from, _) => Consumer::Looks(from, true),
            _ => Consumer::Woken,
        };
    }

    /// Returns the change of an open transaction, which other processes do not see.
    pub(super) fn pending(&self, process: usize) -> Option<Change> {
        match self.processes[process].0 {
            Transaction::Open(change)
            | Transaction::Lowered(change)
            | Transaction::Preparing(change)
            | Transaction::Prepared(change) => Some(change),
            _ => None,
        }
    }

    pub(super) fn is_locked(&self, key: usize) -> bool {
        let by_open = (0..PROCESSES).filter_map(|process| self.pending(process));
        let by_prepared = match self.prepared {
            Prepared::Open(change) => Some(change),
            _ => None,
        };
        by_open.chain(by_prepared).any(|change| change.key == key)
    }

    pub(super) fn has_prepared_locks(&self) -> bool {
        let transferred = |(transaction, _): &(Transaction, Raise)| {
            matches!(transaction, Transaction::Prepared(_))
        };
        matches!(self.prepared, Prepared::Open(_) | Prepared::Ended)
            || self.processes.iter().any(transferred)
    }

    /// Returns the first ready task from a position on, as a process sees it now.
    pub(super) fn first(&self, process: Option<usize>, from: Position) -> Position {
        let own = process.and_then(|process| self.pending(process));
        let sees = |key: &usize| match own {
            Some(change) if change.key == *key => change.to == Status::Ready,
            _ => self.rows[*key] == Status::Ready,
        };
        let keys = (0..KEYS).filter(sees).map(|key| self.position(key));
        keys.filter(|position| *position >= from).min().unwrap_or(LAST)
    }

    /// Lets the consumer take the first task from a position on, or fall asleep.
    pub(super) fn take_first(&mut self, from: Position, is_woken: bool) {
        let is_there = |key: &usize| {
            self.rows[*key] == Status::Ready && !self.is_locked(*key) && self.position(*key) >= from
        };
        let found = (0..KEYS).find(is_there);
        if let Some(key) = found {
            self.rows[key] = Status::Taken;
        }
        // A consumer that has found a task comes back for the next one.
        let goes_on = is_woken || found.is_some();
        self.consumer = if goes_on { Consumer::Woken } else { Consumer::Asleep };
    }

    /// Models `QueueGuard::is_prepared`.
    pub(super) fn may_be_prepared(&self, flaw: Option<Flaw>) -> bool {
        match flaw {
            Some(Flaw::PreparedIgnored) => false,
            Some(Flaw::RaiseDuringLook) => self.is_prepared,
            _ => self.is_prepared || self.is_looking,
        }
    }

    /// Returns whether a commit that made a task ready has yet to report it.
    pub(super) fn is_untold(&self, key: usize) -> bool {
        let has_yet_to = |(transaction, _): &(Transaction, Raise)| match transaction {
            Transaction::Visible(change) | Transaction::Woken(change) => change.key == key,
            _ => false,
        };
        self.processes.iter().any(has_yet_to)
    }

    pub(super) fn is_quiet(&self) -> bool {
        let is_idle = |process: &(Transaction, Raise)| *process == (Transaction::None, Raise::None);
        let is_settled =
            self.prepared == Prepared::None && !self.requested && self.worker == Worker::Idle;
        self.processes.iter().all(is_idle) && is_settled && !self.recount
    }
}

/// Lowers the mark to the task that a transaction has made ready.
pub(super) fn lower(state: &mut State, change: Change) {
    if change.to == Status::Ready {
        state.mark.lower(state.position(change.key));
    }
}
