//! What can be done to a trace of wake-ups so that it is none.

use super::replay::{Event, Number, Process, Step};
use crate::tampering::Tampering;
use std::collections::HashMap;

/// Returns all that can be done to one event of a trace: dropped, doubled, and swapped with the event before of the
/// same process; not what changes nothing, see [`is_idle`] and [`commute`].
pub fn tamperings(trace: &[Event]) -> Vec<Tampering> {
    let mut all = Vec::with_capacity(3 * trace.len());
    let mut last: HashMap<(Process, u32), usize> = HashMap::new();
    let mut tokens: HashMap<(Process, u32), Option<Number>> = HashMap::new();
    let following = following(trace);
    for (index, event) in trace.iter().enumerate() {
        let of = (event.by, event.queue);
        let before = last.insert(of, index);
        let has_token = tokens.get(&of).is_some_and(Option::is_some);
        match event.step {
            Step::Join { token, .. } | Step::EndVain { kept: token, .. } => {
                tokens.insert(of, token);
            }
            _ => {}
        }
        let is_last = index + 1 == trace.len();
        if !is_idle(&event.step, following[index], has_token) && !is_last {
            all.push(Tampering::Dropped(index));
        }
        if event.step != (Step::Nudge {}) {
            all.push(Tampering::Doubled(index));
            let matters = |before: &usize| !commute(&trace[*before].step, &event.step);
            let before = before.filter(matters);
            all.extend(before.map(|before| Tampering::Swapped(before, index)));
        }
    }
    all
}

/// Returns the events that it concerns, and what the same process does next.
pub fn where_in(tampering: Tampering, trace: &[Event]) -> Vec<&Event> {
    let first = tampering.begins();
    let by = trace[first].by;
    trace[first..].iter().filter(|event| event.by == by).take(3).collect()
}

/// Returns what the same process does next, for each event.
fn following(trace: &[Event]) -> Vec<Option<&Step>> {
    let mut next: HashMap<(Process, u32), &Step> = HashMap::new();
    let mut following = vec![None; trace.len()];
    for (index, event) in trace.iter().enumerate().rev() {
        following[index] = next.insert((event.by, event.queue), &event.step);
    }
    following
}

/// Returns whether a trace describes the same history without a step. A look may be cut short at any time: so one
/// that comes to no end, as its process leaves, says nothing; nor, where there is no token, does its end, after which
/// the process leaves or is woken. A nudge may find no process to wake.
fn is_idle(step: &Step, following: Option<&Step>, has_token: bool) -> bool {
    let leaves = matches!(following, Some(Step::Leave { .. }));
    let stands = matches!(following, Some(Step::Join { .. }));
    match step {
        Step::Look => leaves,
        Step::Found => !has_token,
        Step::EndVain { token: None, .. } => leaves || stands,
        Step::Nudge {} => true,
        _ => false,
    }
}

/// Returns whether two steps of one process might have been taken in the other order: the beginning of a look, which
/// is no step of the wait queue, and the last of what the step before has led to, or, where the process was woken
/// before it looked, the step that gives its token on; and two nudges.
fn commute(one: &Step, other: &Step) -> bool {
    match (one, other) {
        (Step::Notify { .. } | Step::PassOn { .. }, Step::Look) => true,
        (Step::Look, Step::Again { .. }) => true,
        (Step::Notify { number: one, .. }, Step::Notify { number: other, .. }) => {
            (*one, *other) == (0, 0)
        }
        (one, _) => *one == Step::Nudge {},
    }
}
