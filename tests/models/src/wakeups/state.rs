//! The knowledge of consumers and of shared memory, and the possible next steps.

use super::rules::Knows;
use super::{CONSUMERS, TASKS};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// The transaction that puts the task is open.
    Open,
    /// The transaction has woken a consumer too early ([`Flaw::WokenTooEarly`]).
    Early,
    Ready,
    Locked,
    Taken,
}

pub(super) type Tasks = [bool; TASKS];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Begins,
    /// The consumer checks in a snapshot that shows these tasks as ready.
    Looks(Tasks),
    Vain,
    Sleeps,
    Holds(usize),
    /// The consumer has left the wait queue with this task; its transaction is open.
    Left(usize),
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Consumer {
    pub(super) phase: Phase,
    pub(super) has_joined: bool,
    /// The number of the wake-up that has removed the consumer from the wait queue.
    pub(super) woken: Option<u8>,
    /// The number of the wake-up whose task it is searching for.
    pub(super) token: Option<u8>,
    /// The last wake-up before its check began.
    pub(super) seen: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) tasks: [Task; TASKS],
    pub(super) consumers: [Consumer; CONSUMERS],
    /// The consumers in the wait queue, whose order is that of their numbers.
    pub(super) in_order: [bool; CONSUMERS],
    /// Number of transactions that have put a task, or rolled a take back, and whose callbacks have not run yet.
    pub(super) puts: u8,
    pub(super) undos: u8,
    pub(super) wakes: u8,
    /// Number of times that consumers were woken.
    pub(super) notified: u8,
    /// The counter of ready tasks.
    pub(super) ready: i8,
    pub(super) rollbacks: u8,
    pub(super) deaths: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Commit(usize),
    Callback,
    BeginLook(usize),
    EndLook(usize),
    Join(usize),
    EndVain(usize),
    Stand(usize),
    Leave(usize),
    CommitTake(usize),
    Rollback(usize),
    Undo,
    Die(usize),
}

impl Consumer {
    pub(super) fn knows(&self) -> Knows<u8> {
        Knows { token: self.token, woken: self.woken, seen: self.seen }
    }
}

impl State {
    pub(super) fn line(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CONSUMERS).filter(|consumer| self.in_order[*consumer])
    }

    pub(super) fn notify(&mut self, consumer: usize, number: u8) {
        self.in_order[consumer] = false;
        self.consumers[consumer].woken = Some(number);
        self.notified += 1;
    }

    /// Models `QueueGuard::wake` for one task.
    pub(super) fn wake(&mut self) {
        self.wakes += 1;
        let first = self.line().next();
        if let Some(consumer) = first {
            self.notify(consumer, self.wakes);
        }
    }

    /// Ends a consumer and clears its state, which no longer matters.
    pub(super) fn end(&mut self, consumer: usize) {
        let entry = &mut self.consumers[consumer];
        (entry.phase, entry.seen) = (Phase::Ended, 0);
    }

    /// Returns whether every consumer sleeps or has ended, and all commits have reported what they changed.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_still = |consumer: &Consumer| match consumer.phase {
            Phase::Sleeps => consumer.woken.is_none(),
            phase => phase == Phase::Ended,
        };
        let is_settled = |task: &Task| matches!(task, Task::Open | Task::Ready | Task::Taken);
        let has_callbacks = self.puts > 0 || self.undos > 0;
        !has_callbacks && self.tasks.iter().all(is_settled) && self.consumers.iter().all(is_still)
    }
}
