//! The state of the model of leases: rows, the knowledge of sessions and of the worker, and their next steps.

use super::rules::{Row, Step};
use super::{ATTEMPTS, SESSIONS, TASKS};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verb {
    Take,
    /// The ack of a lease, given by its attempt.
    Ack(usize),
    Snatch,
    Touch,
    /// The task is taken by hand for another session.
    Give(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    pub(super) task: usize,
    pub(super) verb: Verb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Transaction {
    None,
    Open(Change),
    /// The transaction is visible, its callback has not run yet.
    Visible(Change),
    /// The counters are changed; the sessions that were given tasks are not reported yet.
    Counted(Change),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Life {
    Unborn,
    Attached,
    /// The session has left its uuid to the worker too early ([`Flaw::LeftBeforeAbort`]).
    Leaving,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Session {
    pub(super) life: Life,
    pub(super) transaction: Transaction,
    /// The tasks that the session has recorded as held.
    pub(super) noted: [bool; TASKS],
    pub(super) is_distrusted: bool,
}

/// The consumer's knowledge of its lease; it can learn late that the lease has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KnownLease {
    None,
    Live(usize),
    Over(usize),
}

/// A session that its connection has left, and the tasks to search.
pub(super) type Left = (usize, [bool; TASKS]);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Worker {
    Idle,
    /// The attached sessions, read too early ([`Flaw::AttachedTooEarly`]).
    Attached([bool; SESSIONS]),
    /// The owners in the table.
    Holders {
        holders: [bool; SESSIONS],
        attached: Option<[bool; SESSIONS]>,
    },
    /// Tasks that the worker's snapshot has shown as overdue, or as held by a session, and those of them that it has
    /// locked.
    Picked {
        of: Option<Left>,
        picked: [bool; TASKS],
        locked: [bool; TASKS],
    },
    /// The tasks are ready, the worker's callback has not run yet.
    Visible(i8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) rows: [Row<usize>; TASKS],
    pub(super) leases: [[KnownLease; ATTEMPTS]; TASKS],
    pub(super) sessions: [Session; SESSIONS],
    /// The counter of taken tasks.
    pub(super) taken: i8,
    pub(super) exact: bool,
    pub(super) left: Vec<Left>,
    pub(super) ended: Vec<Left>,
    pub(super) sweep: bool,
    pub(super) worker: Worker,
    /// An ack has ended a lease other than its own.
    pub(super) has_misfired: bool,
    pub(super) takes: u8,
    pub(super) snatches: u8,
    pub(super) gifts: u8,
    pub(super) expiries: u8,
    pub(super) touches: u8,
    pub(super) crashes: u8,
}

pub(super) const ALL: [bool; TASKS] = [true; TASKS];
pub(super) const FRESH: Session = Session {
    life: Life::Unborn,
    transaction: Transaction::None,
    noted: [false; TASKS],
    is_distrusted: false,
};

impl State {
    pub(super) fn is_locked(&self, task: usize) -> bool {
        let by_session = |session: &Session| matches!(session.transaction, Transaction::Open(change) if change.task == task);
        let by_worker = matches!(self.worker, Worker::Picked { locked, .. } if locked[task]);
        by_worker || self.sessions.iter().any(by_session)
    }

    pub(super) fn attached(&self) -> [bool; SESSIONS] {
        self.sessions.map(|session| session.life == Life::Attached)
    }

    pub(super) fn is_held_by(&self, task: usize, session: usize) -> bool {
        self.rows[task].lease().is_some_and(|lease| lease.owner == session)
    }

    pub(super) fn is_overdue(&self, task: usize) -> bool {
        self.rows[task].lease().is_some_and(|lease| lease.is_overdue)
    }

    pub(super) fn change(&mut self, task: usize, step: Step<usize>) {
        self.rows[task] = self.rows[task].after(step);
    }

    /// Returns the number of the next attempt.
    pub(super) fn next_attempt(&self, task: usize) -> Option<usize> {
        self.leases[task].iter().position(|lease| *lease == KnownLease::None)
    }

    /// Ends the lease in force.
    pub(super) fn end_lease(&mut self, task: usize) {
        for lease in &mut self.leases[task] {
            if let KnownLease::Live(session) = *lease {
                *lease = KnownLease::Over(session);
            }
        }
    }

    /// Models `sessions::detach`, at the end of a process.
    pub(super) fn leave(&mut self, session: usize) {
        let Session { noted, is_distrusted, .. } = self.sessions[session];
        match is_distrusted {
            true => self.left.push((session, ALL)),
            false if noted != [false; TASKS] => self.left.push((session, noted)),
            false => {}
        }
    }

    pub(super) fn end(&mut self, session: usize) {
        self.sessions[session] = Session { life: Life::Ended, ..FRESH };
        for lease in self.leases.iter_mut().flatten() {
            if *lease == KnownLease::Live(session) {
                *lease = KnownLease::Over(session);
            }
        }
    }

    /// Returns whether nothing is in progress and the worker has nothing to do.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_idle = |session: &Session| session.transaction == Transaction::None;
        let has_overdue = (0..TASKS).any(|task| self.is_overdue(task));
        let is_done = self.left.is_empty() && self.ended.is_empty() && !self.sweep && !has_overdue;
        self.sessions.iter().all(is_idle) && self.worker == Worker::Idle && is_done
    }

    pub(super) fn crash(&mut self) {
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
