//! Wake-ups of consumers that wait for a task.
//!
//! A consumer that has found nothing joins the wait queue and looks once more: what was committed before it joined it
//! finds, for what is committed later it is woken. The COMMIT callback of a transaction that made tasks ready, and
//! the ABORT callback of one that had taken some, wake as many consumers, at the head of the wait queue first. One
//! that is woken is out of the wait queue and has a *token*. It joins again at its old place, looks, and has used the
//! token if it finds a task. If it ends before that look has ended, by whatever cause, or was woken while it found a
//! task, it hands the token on to another.
//!
//! Tokens are not tied to tasks: the task of one may go to the holder of a later one, whose own task the look of the
//! first came too early for. Wake-ups are numbered, and each consumer notes the last before its look began. So a look
//! in vain uses the token up only if there was no wake-up since it began. Otherwise the consumer looks again with it;
//! if it has been given another meanwhile, it passes the first on to the next in the wait queue whose look began
//! before the last wake-up.
//!
//! Where tasks depend on the caller (row security, `pick`), a look in vain says nothing of the others: it always
//! passes the token on in this way. A token has been round when there is none there to pass it on to: for one
//! wake-up each consumer is woken once at the most.
//!
//! | step | code |
//! |---|---|
//! | `Callback`, `Undo` | `QueueGuard::commit`, `transaction::undo`, `wake` (src/parts/waiters/shared.rs) |
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

/// What is explored, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Wakeups {
    /// Which tasks each consumer sees.
    pub sees: [[bool; TASKS]; CONSUMERS],
    /// Number of consumers that sleep already.
    pub sleepers: usize,
    pub rollbacks: u8,
    pub deaths: u8,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A consumer that has joined the line sleeps without a look.
    NoLookOnceJoined,
    /// One that ends takes its token along.
    TokenKept,
    /// One that was woken while it found a task takes that token along.
    SecondTokenKept,
    /// A look in vain uses the token up, whatever other consumers see.
    VainUsesUp,
    /// A token goes on to the first in line, whether it has looked or not.
    RoundAndRound,
    /// A consumer sleeps though there were wake-ups since its look began.
    MissedIgnored,
    /// One that has been given another token has used the first up.
    AnotherUsesUp,
    /// Consumers are woken before the transaction is visible, as in PRE_COMMIT.
    WokenTooEarly,
    /// A rollback of a take wakes nobody.
    UndoneSilently,
}

impl Wakeups {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Whether others may find what one does not: `Queue::gives_by_caller`.
    fn by_caller(&self) -> bool {
        self.sees.iter().any(|sees| *sees != self.sees[0])
    }

    /// The rules that the flaw does not leave out.
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

    /// `QueueGuard::end_look`.
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

    /// `leave_any_wait_queue`; `unused`: the token that it looks for is not used.
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
                // One that leaves may hand on a wake-up as a new one.
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
