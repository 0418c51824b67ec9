//! Things that are wrong with a trace.

use super::trace::{Change, Event, Step, Verb, What};
use crate::tampering::Tampering;
use std::collections::HashMap;

/// Returns all that can be done to one event of a trace: dropped, doubled, and swapped with the next change of the
/// same task, with the next step at the same slot, or with the step that reports it.
pub fn tamperings(trace: &[Event]) -> Vec<Tampering> {
    let mut all = Vec::with_capacity(4 * trace.len());
    let mut of_task: HashMap<(u64, &str), usize> = HashMap::new();
    let mut of_slot: HashMap<u64, usize> = HashMap::new();
    let mut of_transaction: HashMap<(u64, u64), usize> = HashMap::new();
    for (index, event) in trace.iter().enumerate() {
        all.extend([Tampering::Dropped(index), Tampering::Doubled(index)]);
        let befores = match &event.what {
            What::Changed(change) | What::Prepared(change) => {
                let Change { slot, task, stand, .. } = change;
                if stand.is_some() || matches!(event.what, What::Prepared(_)) {
                    of_transaction.insert((*slot, event.number), index);
                }
                [of_task.insert((*slot, task), index), None]
            }
            What::Step(step) => {
                let told = step.transaction().map(|number| (step.slot, number));
                let told = told.and_then(|told| of_transaction.remove(&told));
                [of_slot.insert(step.slot, index), told]
            }
        };
        let swapped = |before| Tampering::Swapped(before, index);
        all.extend(befores.into_iter().flatten().map(swapped));
    }
    all
}

/// Whether what comes out could have happened as well: two steps one after the other at a slot of which neither
/// changes anything (tasks that come to be ready behind the mark and the floor) come in either order, unless the
/// latter is that of a transaction which has done something only in between.
pub fn is_harmless(tampering: Tampering, trace: &[Event]) -> bool {
    let Tampering::Swapped(one, other) = tampering else { return false };
    let (What::Step(first), What::Step(second)) = (&trace[one].what, &trace[other].what) else {
        return false;
    };
    let changes_nothing = |step: &Step| step.before == step.after;
    let is_between = |event: &Event| {
        !matches!(event.what, What::Step(_)) && Some(event.number) == second.transaction()
    };
    changes_nothing(first) && changes_nothing(second) && !trace[one..other].iter().any(is_between)
}

impl Step {
    /// Returns the transaction whose changes it reports.
    fn transaction(&self) -> Option<u64> {
        match self.verb {
            Verb::Lower { commit, .. } | Verb::Prepare { commit } => Some(commit),
            _ => None,
        }
    }
}
