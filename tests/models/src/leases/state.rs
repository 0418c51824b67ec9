//! What there is in the model of leases: rows, what sessions and the worker know, and what they are about to do.

use super::rules::{Row, Step};
use super::{ATTEMPTS, SESSIONS, TASKS};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verb {
    Take,
    /// The ack for a lease, by its attempt.
    Ack(usize),
    Snatch,
    Touch,
    /// Taken by hand for another session.
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
    /// Visible, before its callback.
    Visible(Change),
    /// Its counters are changed, before it looks after others.
    Counted(Change),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Life {
    Unborn,
    Attached,
    /// It has left its uuid too early ([`Flaw::LeftBeforeAbort`]).
    Leaving,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Session {
    pub(super) life: Life,
    pub(super) transaction: Transaction,
    /// The tasks that it notes to hold.
    pub(super) noted: [bool; TASKS],
    pub(super) is_distrusted: bool,
}

/// What the consumer knows of its lease; it may be late to learn that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KnownLease {
    None,
    Live(usize),
    Over(usize),
}

/// A session that was left, and the tasks to look at.
pub(super) type Left = (usize, [bool; TASKS]);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Worker {
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
    /// An ack has ended another lease than the one it was for.
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

    /// The number of the next attempt.
    pub(super) fn next_attempt(&self, task: usize) -> Option<usize> {
        self.leases[task].iter().position(|lease| *lease == KnownLease::None)
    }

    /// The lease in force is over.
    pub(super) fn end_lease(&mut self, task: usize) {
        for lease in &mut self.leases[task] {
            if let KnownLease::Live(session) = *lease {
                *lease = KnownLease::Over(session);
            }
        }
    }

    /// `sessions::detach`, at the end of a process.
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

    /// Whether nothing is under way, nor anything for the worker to do.
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
