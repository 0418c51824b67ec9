//! The rules of a lease: which steps can change a task's row, and how.

/// A task's row, reduced to its lease. `S` names sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row<S> {
    Ready,
    Taken(Lease<S>),
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease<S> {
    pub owner: S,
    pub attempt: usize,
    pub is_overdue: bool,
}

/// A change of a row. The row is locked for it, and its latest version is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step<S> {
    /// Taken by a session, or by hand for a session, as this attempt.
    Take(S, usize),
    /// Acked by a session, for its lease of this attempt.
    Ack(S, usize),
    /// Touched by a session, which gets more time from now on.
    Touch(S),
    /// Snatched by any session.
    Snatch,
    /// Given back by the worker, because the time to run has expired.
    ReturnOverdue,
    /// Given back by the worker, because this session has ended.
    ReturnOf(S),
}

/// The conditions of the steps; a flaw can switch off each of them.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// An ack compares the session that has taken the task.
    pub by_owner: bool,
    /// An ack compares the attempt.
    pub by_attempt: bool,
    /// The worker checks again that the time has expired.
    pub if_overdue: bool,
}

impl Rules {
    /// Returns whether a row permits a step.
    pub fn permit<S: Copy + PartialEq>(&self, row: &Row<S>, step: Step<S>) -> bool {
        match (*row, step) {
            (Row::Ready, Step::Take(..)) => true,
            (Row::Taken(lease), Step::Ack(session, attempt)) => {
                (lease.owner == session || !self.by_owner)
                    && (lease.attempt == attempt || !self.by_attempt)
            }
            (Row::Taken(lease), Step::Touch(session) | Step::ReturnOf(session)) => {
                lease.owner == session
            }
            (Row::Taken(_), Step::Snatch) => true,
            (Row::Taken(lease), Step::ReturnOverdue) => lease.is_overdue || !self.if_overdue,
            (Row::Ready | Row::Taken(_) | Row::Gone, _) => false,
        }
    }
}

impl<S: Copy> Row<S> {
    /// Returns the row after a step that it permits.
    pub fn after(self, step: Step<S>) -> Row<S> {
        match (step, self) {
            (Step::Take(owner, attempt), _) => {
                Row::Taken(Lease { owner, attempt, is_overdue: false })
            }
            (Step::Touch(_), Row::Taken(lease)) => Row::Taken(Lease { is_overdue: false, ..lease }),
            (Step::Touch(_), row) => row,
            (Step::Ack(..), _) => Row::Gone,
            (Step::Snatch | Step::ReturnOverdue | Step::ReturnOf(_), _) => Row::Ready,
        }
    }

    /// Makes the lease overdue.
    pub fn expire(&mut self) {
        if let Row::Taken(lease) = self {
            lease.is_overdue = true;
        }
    }

    pub fn lease(&self) -> Option<&Lease<S>> {
        match self {
            Row::Taken(lease) => Some(lease),
            Row::Ready | Row::Gone => None,
        }
    }
}
