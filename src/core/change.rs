//! Changes of tasks: kinds of calls, transitions between states, outcomes.

use crate::listed::listed;
use crate::options::TUBES_COUNTED;
use crate::status::{Status, Tasks};

listed! {
    /// A kind of call; counters hold the number of tasks of each kind.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CallKind {
        /// Inserted, by `put` or by hand.
        Put,
        Take,
        Ack,
        /// Given back after a failed attempt.
        Release,
        /// Given back by the consumer without counting an attempt, by `give_back` or a release that asks for this.
        GiveBack,
        Bury,
        /// Dug out by `dig`, `plow` or `kick`.
        Kick,
        Touch,
        Switch,
        Snatch,
        Restart,
        Delete,
        /// Promoted by the worker at the end of the delay.
        Delay,
        /// Given back by the worker because the session that held the task ended.
        Session,
        /// Given back by the worker because the time to run expired.
        Ttr,
        /// Deleted by the worker at the end of life.
        Ttl,
        /// Deleted by the worker some time after the ack.
        Zombie,
    }
}

impl CallKind {
    pub const fn name(self) -> &'static str {
        match self {
            CallKind::Put => "put",
            CallKind::Take => "take",
            CallKind::Ack => "ack",
            CallKind::Release => "release",
            CallKind::GiveBack => "give_back",
            CallKind::Bury => "bury",
            CallKind::Kick => "kick",
            CallKind::Touch => "touch",
            CallKind::Switch => "switch",
            CallKind::Snatch => "snatch",
            CallKind::Restart => "restart",
            CallKind::Delete => "delete",
            CallKind::Delay => "delay",
            CallKind::Session => "session",
            CallKind::Ttr => "ttr",
            CallKind::Ttl => "ttl",
            CallKind::Zombie => "zombie",
        }
    }
}

/// Number of tasks by kind of call, indexed by `CallKind as usize`.
pub type Calls = [i64; CallKind::ALL.len()];

/// A tube as identified by wake-ups and statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tube {
    pub hash: u64,
    /// Index among the tubes with statistics of their own.
    pub counted: Option<usize>,
    /// The tube is a sub-queue, and `hash` is the sub-queue's hash.
    pub is_subqueue: bool,
    /// A waiting task of the sub-queue holds up the tasks behind it.
    pub is_strict: bool,
}

/// A task's state and, if the queue has tubes, its tube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateAndTube {
    pub status: Status,
    pub tube: Option<Tube>,
}

impl StateAndTube {
    /// Returns whether the task is in a sub-queue.
    pub fn is_in_subqueue(&self) -> bool {
        self.tube.is_some_and(|tube| tube.is_subqueue)
    }

    /// Returns the sub-queue in whose order the task counts. A waiting task counts only if the sub-queue is strict.
    pub fn subqueue(&self) -> Option<u64> {
        let tube = self.tube.filter(|tube| tube.is_subqueue)?;
        (tube.is_strict || self.status != Status::Waiting).then_some(tube.hash)
    }
}

/// The end of a task, for watchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Acked,
    Buried,
    Expired,
    Deleted,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Acked => "acked",
            Outcome::Buried => "buried",
            Outcome::Expired => "expired",
            Outcome::Deleted => "deleted",
        }
    }

    /// Returns the outcome of a change, if the task has been processed or never will be.
    pub fn of(call: Option<CallKind>, old: Option<Status>, new: Option<Status>) -> Option<Outcome> {
        let was_over = old.is_some_and(Status::is_over);
        match (call, new) {
            (_, Some(Status::Buried)) if old != Some(Status::Buried) => Some(Outcome::Buried),
            (_, Some(status)) if status.is_over() && !was_over => Some(Outcome::Acked),
            (_, Some(_)) => None,
            (Some(CallKind::Ack | CallKind::Zombie), None) => Some(Outcome::Acked),
            (Some(CallKind::Ttl), None) => Some(Outcome::Expired),
            (_, None) => Some(Outcome::Deleted),
        }
    }

    /// Returns whether a change takes an outcome back: the task is to be processed again.
    pub fn is_undone(old: Option<Status>, new: Option<Status>) -> bool {
        let has_ended = |status: Status| status == Status::Buried || status.is_over();
        old.is_some_and(has_ended) && new.is_some_and(|status| !has_ended(status))
    }
}

/// Names a change for the `on_task_change` function. `call` is the session's running call; a change by hand is
/// classified by its states.
pub fn event(call: Option<CallKind>, old: Option<Status>, new: Option<Status>) -> &'static str {
    match (call, old, new) {
        (_, None, _) => CallKind::Put.name(),
        // A put that has found an existing task.
        (Some(CallKind::Put), Some(_), Some(_)) => "update",
        (_, Some(old), Some(Status::Buried)) if old != Status::Buried => CallKind::Bury.name(),
        (Some(CallKind::GiveBack), _, _) => CallKind::Release.name(),
        (Some(call), _, _) => call.name(),
        (_, _, None) => CallKind::Delete.name(),
        (_, Some(old), Some(new)) if old == new => "update",
        (_, _, Some(Status::Taken)) => CallKind::Take.name(),
        (_, _, Some(Status::Done | Status::Zombie)) => CallKind::Ack.name(),
        (_, Some(Status::Taken), _) => CallKind::Release.name(),
        (_, Some(Status::Buried), _) => CallKind::Kick.name(),
        (_, Some(Status::Waiting), Some(Status::Ready)) => CallKind::Delay.name(),
        (_, Some(Status::Done | Status::Zombie), _) => CallKind::Restart.name(),
        _ => CallKind::Switch.name(),
    }
}

/// Indexes in [`ENDS`], behind the states: no task, and another tube.
pub const NOWHERE: usize = Status::ALL.len();
pub const OTHER_TUBE: usize = NOWHERE + 1;

/// The ends of a transition: the states, X for no task and S for another tube, with the letters of the Tarantool module
/// xqueue.
pub const ENDS: [char; OTHER_TUBE + 1] = {
    let mut ends = ['X'; OTHER_TUBE + 1];
    ends[OTHER_TUBE] = 'S';
    let mut index = 0;
    while index < NOWHERE {
        let status = Status::ALL[index];
        assert!(!matches!(status.letter(), 'X' | 'S'), "the letter is no state's");
        ends[status as usize] = status.letter();
        index += 1;
    }
    ends
};

/// Number of tasks by transition: `[from][to]`, in the order of [`ENDS`].
pub type Transitions = [[i64; ENDS.len()]; ENDS.len()];

/// Returns the index in [`ENDS`] of a state; None is X.
pub fn end(status: Option<Status>) -> usize {
    status.map_or(NOWHERE, |status| status as usize)
}

/// Returns whether tasks left a state, or the table, for good. `is_due`: some changed tasks need further work
/// immediately. Inserted tasks can then be deleted tasks that were put again, which is no progress.
pub fn has_progressed(transitions: &Transitions, is_due: bool) -> bool {
    let states = 0..NOWHERE;
    let left = |state: usize| -> i64 {
        let out: i64 = states.clone().map(|to| transitions[state][to]).sum();
        let back: i64 = states.clone().map(|from| transitions[from][state]).sum();
        out - back
    };
    let has_inserted = states.clone().any(|to| transitions[NOWHERE][to] > 0);
    let has_deleted = states.clone().any(|from| transitions[from][NOWHERE] > 0);
    (has_deleted || states.clone().any(|state| left(state) > 0)) && !(has_inserted && is_due)
}

/// Numbers of tasks: of the queue, and of the tubes with statistics of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub tasks: Tasks,
    pub tubes: [Tasks; TUBES_COUNTED],
}

impl Counts {
    pub fn count(&mut self, place: StateAndTube) {
        self.tasks[place.status as usize] += 1;
        if let Some(tube) = place.tube.and_then(|tube| tube.counted) {
            self.tubes[tube][place.status as usize] += 1;
        }
    }
}

/// Returns the non-zero counters of transitions, each with its name such as "R-T".
pub fn named(transitions: &Transitions) -> impl Iterator<Item = (String, i64)> {
    let pairs = (0..ENDS.len()).flat_map(|from| (0..ENDS.len()).map(move |to| (from, to)));
    let named = |(from, to): (usize, usize)| {
        (format!("{}-{}", ENDS[from], ENDS[to]), transitions[from][to])
    };
    pairs.map(named).filter(|(_, count)| *count != 0).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_what_ends_the_wait() {
        use Status::*;
        let of = Outcome::of;
        assert_eq!(of(Some(CallKind::Ack), Some(Taken), None), Some(Outcome::Acked));
        assert_eq!(of(Some(CallKind::Ack), Some(Taken), Some(Done)), Some(Outcome::Acked));
        assert_eq!(of(None, Some(Ready), Some(Zombie)), Some(Outcome::Acked));
        assert_eq!(of(Some(CallKind::Release), Some(Taken), Some(Buried)), Some(Outcome::Buried));
        assert_eq!(of(Some(CallKind::Ttl), Some(Ready), None), Some(Outcome::Expired));
        assert_eq!(of(None, Some(Ready), None), Some(Outcome::Deleted));
        assert_eq!(of(Some(CallKind::Release), Some(Taken), Some(Ready)), None);
        assert_eq!(of(None, None, Some(Ready)), None);
        assert_eq!(of(Some(CallKind::Touch), Some(Buried), Some(Buried)), None);
    }

    #[test]
    fn an_event_by_hand_follows_from_the_states() {
        use Status::*;
        assert_eq!(event(None, None, Some(Ready)), "put");
        assert_eq!(event(None, Some(Ready), Some(Taken)), "take");
        assert_eq!(event(Some(CallKind::Ttr), Some(Taken), Some(Ready)), "ttr");
        assert_eq!(event(Some(CallKind::Ttr), Some(Taken), Some(Buried)), "bury");
        assert_eq!(event(None, Some(Taken), Some(Ready)), "release");
        assert_eq!(event(None, Some(Buried), Some(Ready)), "kick");
        assert_eq!(event(None, Some(Ready), Some(Ready)), "update");
        assert_eq!(event(None, Some(Done), None), "delete");
        assert_eq!(event(Some(CallKind::Put), Some(Waiting), Some(Ready)), "update");
    }

    #[test]
    fn what_is_put_back_is_no_progress() {
        let (ready, waiting) = (end(Some(Status::Ready)), end(Some(Status::Waiting)));
        let mut transitions = Transitions::default();
        assert!(!has_progressed(&transitions, false));
        transitions[waiting][ready] = 5;
        assert!(has_progressed(&transitions, true));
        transitions[ready][waiting] = 5;
        assert!(!has_progressed(&transitions, true));
        transitions[waiting][NOWHERE] = 1;
        assert!(has_progressed(&transitions, true));
        transitions[NOWHERE][waiting] = 1;
        assert!(!has_progressed(&transitions, true));
        // The further work is not due yet.
        assert!(has_progressed(&transitions, false));
    }

    #[test]
    fn transitions_have_an_end_for_each_state_and_two_more() {
        assert_eq!(ENDS, ['R', 'T', 'W', 'B', 'Z', 'D', 'X', 'S']);
        assert_eq!((ENDS[end(None)], ENDS[OTHER_TUBE]), ('X', 'S'));
    }

    #[test]
    fn transitions_are_named_by_letters() {
        let mut transitions = Transitions::default();
        transitions[NOWHERE][0] = 6;
        transitions[0][1] = 2;
        let named: Vec<_> = named(&transitions).collect();
        assert_eq!(named, [("R-T".to_string(), 2), ("X-R".to_string(), 6)]);
    }
}
