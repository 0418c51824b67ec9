//! The possible steps, and the effects of transactions' steps.

use super::rules::{Row, Rules, Step};
use super::state::{
    ALL, Change, KnownLease, Left, Life, Session, State, Transaction, Verb, Worker,
};
use super::{Action, Flaw, Leases, SESSIONS, TASKS};

impl Leases {
    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Models `may_have_taken` (src/worker/maintenance.rs).
    pub(super) fn may_be_taken(&self, state: &State) -> bool {
        // `sessions::set_committing` comes before a commit is visible.
        let is_committing =
            |session: &Session| matches!(session.transaction, Transaction::Visible(_));
        let believes = self.has(Flaw::CountersBelieved);
        let is_committing = !believes && state.sessions.iter().any(is_committing);
        !state.exact || state.taken != 0 || is_committing
    }

    /// Makes the change of a session visible.
    pub(super) fn commit(&self, state: &mut State, session: usize, change: Change) {
        let task = change.task;
        match change.verb {
            Verb::Take | Verb::Give(_) => {
                let Some(attempt) = state.next_attempt(task) else { return };
                let owner = match change.verb {
                    Verb::Give(to) => to,
                    _ => session,
                };
                state.change(task, Step::Take(owner, attempt));
                let is_alive = state.sessions[owner].life == Life::Attached;
                let lease =
                    if is_alive { KnownLease::Live(owner) } else { KnownLease::Over(owner) };
                state.leases[task][attempt] = lease;
            }
            Verb::Ack(attempt) => {
                let Row::Taken(lease) = state.rows[task] else { return };
                state.has_misfired |= (lease.owner, lease.attempt) != (session, attempt);
                state.change(task, Step::Ack(session, attempt));
                if state.leases[task][attempt] == KnownLease::Live(session) {
                    state.leases[task][attempt] = KnownLease::Over(session);
                }
            }
            Verb::Snatch => {
                state.change(task, Step::Snatch);
                state.end_lease(task);
            }
            Verb::Touch => {
                let Row::Taken(lease) = state.rows[task] else { return };
                state.change(task, Step::Touch(session));
                state.leases[task][lease.attempt] = KnownLease::Live(session);
            }
        }
    }

    /// Runs the first part of a COMMIT callback: records and counters.
    pub(super) fn count(&self, state: &mut State, session: usize, change: Change) {
        let noted = &mut state.sessions[session].noted[change.task];
        match change.verb {
            Verb::Take => (*noted, state.taken) = (true, state.taken + 1),
            Verb::Ack(_) => (*noted, state.taken) = (false, state.taken - 1),
            Verb::Give(_) => state.taken += 1,
            Verb::Snatch => state.taken -= 1,
            Verb::Touch => {}
        }
    }

    /// Models `sessions::look_after`.
    pub(super) fn look_after(&self, state: &mut State, change: Change) {
        let Verb::Give(to) = change.verb else { return };
        if state.sessions[to].life != Life::Attached && !self.has(Flaw::NotLookedAfter) {
            state.left.push((to, ALL));
        }
    }

    /// Returns the step that the worker takes on the tasks that it has picked.
    pub(super) fn giving_back(of: Option<Left>) -> Step<usize> {
        of.map_or(Step::ReturnOverdue, |(session, _)| Step::ReturnOf(session))
    }

    /// Returns whether a picked task still meets the condition that it was picked for.
    pub(super) fn is_still(&self, state: &State, task: usize, of: Option<Left>) -> bool {
        self.rules().permit(&state.rows[task], Leases::giving_back(of))
    }

    pub(super) fn session_actions(&self, state: &State, session: usize, actions: &mut Vec<Action>) {
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
                Row::Taken(lease) if is_known => {
                    if state.snatches > 0 && lease.owner != session {
                        actions.push(Action::Snatch(session, task));
                    }
                    if state.touches > 0 && lease.owner == session {
                        actions.push(Action::Touch(session, task));
                    }
                }
                _ => {}
            }
            let is_mine = |lease: &KnownLease| {
                [KnownLease::Live(session), KnownLease::Over(session)].contains(lease)
            };
            for (attempt, lease) in state.leases[task].iter().enumerate() {
                if is_mine(lease)
                    && is_known
                    && self.rules().permit(&state.rows[task], Step::Ack(session, attempt))
                {
                    actions.push(Action::Ack(session, task, attempt));
                }
            }
        }
    }

    /// Returns the conditions of the statements, which apply to the latest version of the row.
    fn rules(&self) -> Rules {
        Rules {
            by_owner: !self.has(Flaw::AckWithoutOwner),
            by_attempt: !self.has(Flaw::AckWithoutAttempt) && !self.has(Flaw::AckWithoutOwner),
            if_overdue: !self.has(Flaw::OverdueUnchecked),
        }
    }

    pub(super) fn worker_actions(&self, state: &State, actions: &mut Vec<Action>) {
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
