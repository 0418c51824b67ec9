//! Wake-ups of consumers that wait for a task.
//!
//! Invariant: at rest no consumer sleeps while there is a task that it can take, and for one wake-up each consumer is
//! woken at most once. It survives these races:
//!
//! 1. A task is committed while a consumer goes to sleep. A consumer that has found no task joins the wait queue and
//!    rechecks: it sees earlier commits itself, and later commits wake it.
//! 2. A woken consumer ends without a task. A COMMIT callback wakes one consumer for each task that the transaction
//!    made ready, starting at the head of the wait queue; an ABORT callback does so for each task that was taken. A
//!    woken consumer leaves the wait queue and has a *token*. It joins again at its old position and rechecks; a task
//!    that it finds uses up the token. If it ends before the recheck has ended, for any reason, or was woken again
//!    while it found a task, it hands the token on.
//! 3. The task of a token goes to the holder of a later one, whose own task became visible too late for the first
//!    holder's check: tokens are not tied to tasks. Wake-ups are numbered, and each consumer notes the last one before
//!    its check began. An unsuccessful check uses up the token only if there was no wake-up since it began. Otherwise
//!    the consumer checks again with the token. If it has received another token meanwhile, it passes the first one on
//!    to the next consumer in the wait queue whose check began before the last wake-up.
//! 4. Tasks depend on the caller (row security, `pick`). Then an unsuccessful check says nothing about other consumers,
//!    and always passes the token on in this way. A token ends when no such consumer is left.
//!
//! | step | code |
//! |---|---|
//! | `Callback`, `Undo` | `QueueGuard::commit`, `end::undo` (src/transaction/end.rs), `wake` (src/parts/waiters/shared.rs) |
//! | `BeginLook`, `EndLook` | `take_now` (src/api/consumer.rs) |
//! | `Join`, `Stand` | `Place::join`, `Place::stand`, `join_wait_queue` (src/parts/waiters/wait.rs, src/parts/waiters/shared.rs) |
//! | `EndVain` | `Place::sleep`, `end_look`, `pass_on` (src/parts/waiters/token.rs) |
//! | `Leave`, `Die` | `leave_any_wait_queue`, `leave_wait_queue`, `hand_on` |

mod rules;
mod state;

use rules::{Rules, Vain};
use state::{Consumer, Phase, Task};
use stateright::{Model, Property};

pub use state::{Action, State};

pub const CONSUMERS: usize = 3;
pub const TASKS: usize = 3;

/// The bounds of an exploration, and its flaw.
#[derive(Clone, Debug)]
pub struct Wakeups {
    /// The tasks that each consumer can see.
    pub sees: [[bool; TASKS]; CONSUMERS],
    /// Number of consumers that sleep at the start.
    pub sleepers: usize,
    pub rollbacks: u8,
    pub deaths: u8,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A consumer that has joined the wait queue sleeps without a recheck.
    NoLookOnceJoined,
    /// A consumer that ends keeps its token.
    TokenKept,
    /// A consumer that was woken while it found a task keeps that token.
    SecondTokenKept,
    /// An unsuccessful check uses up the token even if other consumers see other tasks.
    VainUsesUp,
    /// A token goes to the first consumer in the wait queue, even if it has checked since.
    RoundAndRound,
    /// A consumer sleeps although there were wake-ups since its check began.
    MissedIgnored,
    /// A second token uses up the first.
    AnotherUsesUp,
    /// Consumers are woken before the transaction is visible, that is in PRE_COMMIT.
    WokenTooEarly,
    /// The rollback of a take wakes no consumer.
    UndoneSilently,
}

impl Wakeups {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Returns whether other consumers can find tasks that one does not find; models `Queue::gives_by_caller`.
    fn by_caller(&self) -> bool {
        self.sees.iter().any(|sees| *sees != self.sees[0])
    }

    /// Returns the rules that the flaw does not switch off.
    fn rules(&self) -> Rules {
        Rules {
            passes_on: !self.has(Flaw::VainUsesUp),
            passes_first: !self.has(Flaw::AnotherUsesUp),
            looks_again: !self.has(Flaw::MissedIgnored),
            goes_round: !self.has(Flaw::RoundAndRound),
            leaves: !self.has(Flaw::TokenKept),
            leaves_second: !self.has(Flaw::SecondTokenKept),
        }
    }

    fn pass_on(&self, state: &mut State) {
        if state.ready == 0 {
            return;
        }
        let number = state.wakes;
        let may_have =
            |consumer: &usize| self.rules().may_go_to(state.consumers[*consumer].seen, number);
        let next = state.line().find(may_have);
        if let Some(consumer) = next {
            state.notify(consumer, number);
        }
    }

    fn hand_on(&self, state: &mut State) {
        match self.by_caller() {
            true => self.pass_on(state),
            false => state.wake(),
        }
    }

    /// Models `QueueGuard::end_look`.
    fn end_look(&self, state: &mut State, consumer: usize) {
        let wakes = state.wakes;
        let entry = &mut state.consumers[consumer];
        let Vain { looks_again, kept, passed } =
            self.rules().vain(entry.knows(), wakes, self.by_caller());
        entry.phase = if looks_again { Phase::Begins } else { Phase::Sleeps };
        (entry.token, entry.seen) = (kept, wakes);
        if passed.is_some() {
            self.pass_on(state);
        }
    }

    /// Models `leave_any_wait_queue`. `unused`: the token that the consumer is searching for is not used.
    fn leave(&self, state: &mut State, consumer: usize, unused: bool) {
        let entry = &mut state.consumers[consumer];
        let tokens = self.rules().left(entry.knows(), !unused);
        (entry.token, entry.woken) = (None, None);
        state.in_order[consumer] = false;
        for _ in tokens.into_iter().flatten() {
            self.hand_on(state);
        }
    }

    fn join(&self, state: &mut State, consumer: usize) {
        state.in_order[consumer] = true;
        let wakes = state.wakes;
        let entry = &mut state.consumers[consumer];
        (entry.woken, entry.seen, entry.phase) = (None, wakes, Phase::Begins);
        entry.has_joined = true;
    }
}

impl Model for Wakeups {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let consumer = |number| Consumer {
            phase: if number < self.sleepers { Phase::Sleeps } else { Phase::Begins },
            has_joined: number < self.sleepers,
            woken: None,
            token: None,
            seen: 0,
        };
        vec![State {
            tasks: [Task::Open; TASKS],
            consumers: std::array::from_fn(consumer),
            in_order: std::array::from_fn(|number| number < self.sleepers),
            puts: 0,
            undos: 0,
            wakes: 0,
            notified: 0,
            ready: 0,
            rollbacks: self.rollbacks,
            deaths: self.deaths,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_open = |task: &usize| matches!(state.tasks[*task], Task::Open | Task::Early);
        actions.extend((0..TASKS).filter(is_open).map(Action::Commit));
        if state.puts > 0 {
            actions.push(Action::Callback);
        }
        if state.undos > 0 {
            actions.push(Action::Undo);
        }
        for (consumer, Consumer { phase, has_joined, woken, .. }) in
            state.consumers.iter().enumerate()
        {
            match phase {
                Phase::Begins => actions.push(Action::BeginLook(consumer)),
                Phase::Looks(_) => actions.push(Action::EndLook(consumer)),
                Phase::Vain if !has_joined => actions.push(Action::Join(consumer)),
                Phase::Vain => actions.push(Action::EndVain(consumer)),
                Phase::Sleeps if woken.is_some() => actions.push(Action::Stand(consumer)),
                Phase::Holds(_) => actions.push(Action::Leave(consumer)),
                Phase::Left(_) => {
                    actions.push(Action::CommitTake(consumer));
                    if state.rollbacks > 0 {
                        actions.push(Action::Rollback(consumer));
                    }
                }
                Phase::Sleeps | Phase::Ended => {}
            }
            if state.deaths > 0 && *has_joined && *phase != Phase::Ended {
                actions.push(Action::Die(consumer));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let state = &mut next;
        match action {
            Action::Commit(task) => match state.tasks[task] {
                Task::Open if self.has(Flaw::WokenTooEarly) => {
                    state.tasks[task] = Task::Early;
                    state.ready += 1;
                    state.wake();
                }
                Task::Early => state.tasks[task] = Task::Ready,
                _ => {
                    state.tasks[task] = Task::Ready;
                    state.puts += 1;
                }
            },
            Action::Callback => {
                state.puts -= 1;
                state.ready += 1;
                state.wake();
            }
            Action::BeginLook(consumer) => {
                let snapshot = state.tasks.map(|task| task == Task::Ready);
                state.consumers[consumer].phase = Phase::Looks(snapshot);
            }
            Action::EndLook(consumer) => {
                let Phase::Looks(snapshot) = state.consumers[consumer].phase else { return None };
                let is_there = |task: &usize| {
                    snapshot[*task]
                        && self.sees[consumer][*task]
                        && state.tasks[*task] == Task::Ready
                };
                let found = (0..TASKS).find(is_there);
                state.consumers[consumer].phase = match found {
                    Some(task) => {
                        state.tasks[task] = Task::Locked;
                        Phase::Holds(task)
                    }
                    None => Phase::Vain,
                };
            }
            Action::Join(consumer) => {
                self.join(state, consumer);
                if self.has(Flaw::NoLookOnceJoined) {
                    state.consumers[consumer].phase = Phase::Sleeps;
                }
            }
            Action::EndVain(consumer) => self.end_look(state, consumer),
            Action::Stand(consumer) => {
                state.consumers[consumer].token = state.consumers[consumer].woken.take();
                self.join(state, consumer);
            }
            Action::Leave(consumer) => {
                let Phase::Holds(task) = state.consumers[consumer].phase else { return None };
                self.leave(state, consumer, false);
                state.consumers[consumer].phase = Phase::Left(task);
            }
            Action::CommitTake(consumer) => {
                let Phase::Left(task) = state.consumers[consumer].phase else { return None };
                (state.tasks[task], state.ready) = (Task::Taken, state.ready - 1);
                state.end(consumer);
            }
            Action::Rollback(consumer) => {
                let Phase::Left(task) = state.consumers[consumer].phase else { return None };
                state.tasks[task] = Task::Ready;
                (state.undos, state.rollbacks) = (state.undos + 1, state.rollbacks - 1);
                state.end(consumer);
            }
            Action::Undo => {
                state.undos -= 1;
                if !self.has(Flaw::UndoneSilently) {
                    state.wake();
                }
            }
            Action::Die(consumer) => {
                if let Phase::Holds(task) | Phase::Left(task) = state.consumers[consumer].phase {
                    (state.tasks[task], state.undos) = (Task::Ready, state.undos + 1);
                }
                self.leave(state, consumer, true);
                state.end(consumer);
                state.deaths -= 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Wakeups>> {
        vec![
            Property::always(AWAKE, |model: &Wakeups, state: &State| {
                let sleeps_beside = |consumer: usize| {
                    let sees = |task: usize| {
                        model.sees[consumer][task] && state.tasks[task] == Task::Ready
                    };
                    state.consumers[consumer].phase == Phase::Sleeps && (0..TASKS).any(sees)
                };
                !state.is_at_rest() || !(0..CONSUMERS).any(sleeps_beside)
            }),
            Property::always(BOUNDED, |model: &Wakeups, state: &State| {
                let causes = TASKS + usize::from(model.rollbacks) + usize::from(model.deaths);
                // A consumer that leaves can hand its wake-up on as a new one.
                let most = if model.by_caller() { causes } else { causes + 2 * CONSUMERS };
                usize::from(state.wakes) <= most
                    && usize::from(state.notified) <= usize::from(state.wakes) * CONSUMERS
            }),
            Property::always(
                "no wake-up stays with a consumer that has ended",
                |_, state: &State| {
                    let mut ended =
                        state.consumers.iter().filter(|consumer| consumer.phase == Phase::Ended);
                    ended.all(|consumer| consumer.woken.is_none() && consumer.token.is_none())
                },
            ),
            Property::eventually("all is at rest", |_, state: &State| state.is_at_rest()),
            Property::sometimes("a consumer that was woken takes a task", |_, state: &State| {
                state.consumers.iter().any(|consumer| {
                    consumer.token.is_some() && matches!(consumer.phase, Phase::Holds(_))
                })
            }),
            Property::sometimes("all tasks are taken", |_, state: &State| {
                state.tasks == [Task::Taken; TASKS]
            }),
        ]
    }
}

/// The properties, by name.
pub const AWAKE: &str = "at rest no consumer sleeps beside a task that it may take";
pub const BOUNDED: &str = "for each wake-up each consumer is woken once at the most";
