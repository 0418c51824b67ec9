//! The knowledge of processes and of shared memory, and the possible next steps.

use super::{PROCESSES, rules};

/// A set of transactions, one bit for each xid.
pub(super) type Xids = u16;

pub(super) fn bit(xid: u8) -> Xids {
    1 << xid
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Snapshot {
    /// `xmax`: this transaction and later ones are not seen.
    pub(super) next: u8,
    pub(super) in_progress: Xids,
}

impl Snapshot {
    /// Models the opposite of `recount::sees`.
    pub(super) fn hides(self, xid: u8) -> bool {
        rules::hides(self.next.into(), self.in_progress & bit(xid) != 0, xid.into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Transaction {
    None,
    Open(u8),
    /// The transaction has published its xid.
    Committing(u8),
    /// The transaction has changed the counters too early ([`Flaw::TellBeforeVisible`]).
    Told(u8),
    /// The transaction is visible, its callback has not run yet.
    Visible(u8),
    /// The queue is marked, but the locks still belong to the process.
    Preparing(u8),
    /// The locks belong to the prepared transaction.
    Prepared(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Prepared {
    None,
    Open(u8),
    /// The transaction has ended and still holds its locks.
    Ended,
    /// The transaction has released its locks; the worker has not been notified.
    Unlocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Recount {
    Idle,
    /// The snapshot is not published ([`Flaw::SnapshotUnlocked`]).
    Unpublished(Snapshot, Xids),
    /// The snapshot is published, with the transactions that it sees.
    Counts {
        snapshot: Snapshot,
        sees: Xids,
        /// The marked processes.
        ahead: [bool; PROCESSES],
        since: i8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Worker {
    Idle,
    Cleared,
    Looked { locked: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) next_xid: u8,
    /// The transactions whose tasks are visible to new snapshots.
    pub(super) visible: Xids,
    pub(super) counter: i8,
    pub(super) exact: bool,
    pub(super) recount_needed: bool,
    pub(super) is_prepared: bool,
    pub(super) is_looking: bool,
    pub(super) processes: [Transaction; PROCESSES],
    pub(super) prepared: Prepared,
    pub(super) recount: Recount,
    pub(super) requested: bool,
    pub(super) worker: Worker,
    pub(super) transactions: u8,
    pub(super) recounts: u8,
    pub(super) prepares: u8,
    pub(super) crashes: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Begin(usize),
    PreCommit(usize),
    BecomeVisible(usize),
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
    AskForRecount,
    TakeSnapshot,
    BeginRecount,
    EndRecount,
    Crash,
}

impl State {
    /// Returns the transactions that have an xid and are not visible.
    pub(super) fn in_progress(&self) -> Xids {
        let of_process = |transaction: &Transaction| match *transaction {
            Transaction::Open(xid)
            | Transaction::Committing(xid)
            | Transaction::Told(xid)
            | Transaction::Preparing(xid)
            | Transaction::Prepared(xid) => bit(xid),
            Transaction::None | Transaction::Visible(_) => 0,
        };
        let prepared = match self.prepared {
            Prepared::Open(xid) => bit(xid),
            _ => 0,
        };
        self.processes.iter().map(of_process).fold(prepared, |all, xid| all | xid)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot { next: self.next_xid, in_progress: self.in_progress() }
    }

    /// Returns for each process whether it has published a transaction that the snapshot sees.
    pub(super) fn ahead_of(&self, snapshot: Snapshot) -> [bool; PROCESSES] {
        self.processes.map(|transaction| match transaction {
            Transaction::Committing(xid) | Transaction::Told(xid) | Transaction::Visible(xid) => {
                !snapshot.hides(xid)
            }
            _ => false,
        })
    }

    pub(super) fn has_prepared_locks(&self) -> bool {
        let is_transferred =
            |transaction: &Transaction| matches!(transaction, Transaction::Prepared(_));
        matches!(self.prepared, Prepared::Open(_) | Prepared::Ended)
            || self.processes.iter().any(is_transferred)
    }

    /// Returns the number of visible transactions whose callbacks have not run yet.
    pub(super) fn untold(&self) -> i8 {
        let is_visible =
            |transaction: &&Transaction| matches!(transaction, Transaction::Visible(_));
        self.processes.iter().filter(is_visible).count() as i8
    }

    pub(super) fn tasks(&self) -> i8 {
        self.visible.count_ones() as i8
    }

    pub(super) fn mark_prepared(&mut self) {
        (self.is_prepared, self.exact) = (true, false);
    }
}
