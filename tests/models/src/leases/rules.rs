//! The rules of a lease: what may become of a task's row, and by what.

/// A task's row, as far as its lease goes. `S` names sessions.
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

/// A change of a row, which is locked for it: it is judged by the row's latest version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step<S> {
    /// By a session, or by hand for one, as this attempt.
    Take(S, usize),
    /// By a session, for its lease of this attempt.
    Ack(S, usize),
    /// By a session, which has more time from here on.
    Touch(S),
    /// By any session.
    Snatch,
    /// By the worker, as the time to run is over.
    ReturnOverdue,
    /// By the worker, as this session has ended.
    ReturnOf(S),
}

/// The conditions of the steps, each of which may be left out.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// An ack compares the session that has taken the task,
    pub by_owner: bool,
    /// and as which attempt.
    pub by_attempt: bool,
    /// The worker looks once more whether the time is over.
    pub if_overdue: bool,
}

impl Rules {
    /// Whether a row lets a step be taken.
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
    /// What becomes of the row by a step that it permits.
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

    /// The time to run of the lease passes.
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
