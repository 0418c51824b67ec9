//! Changes that a transaction makes to a queue's counters.

use crate::change::{CallKind, Calls, Counts, NOWHERE, OTHER_TUBE, StateAndTube, Transitions, end};
use crate::counters::rates::Flow;
use crate::histogram::Histogram;
use crate::status::{Status, Tasks};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterChange {
    pub tasks: Tasks,
    pub calls: Calls,
    pub transitions: Transitions,
    /// Time that tasks had been ready before they were taken.
    pub waits: Histogram,
    /// Time that tasks had been taken before they were acked.
    pub works: Histogram,
    /// Changes of tubes that have statistics of their own, by the tube's index.
    pub tubes: Vec<(usize, TubeDelta)>,
    /// `tasks` is the whole count instead of a change, for instance after TRUNCATE.
    pub replaces: bool,
    /// From now on the table's triggers report every change (true), or do not (false).
    pub tracked: Option<bool>,
    /// A recount is needed.
    pub recount: bool,
    /// The set of tubes that have statistics changes.
    pub tubes_changed: bool,
}

/// The state in which a task has spent its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    Ready,
    Taken,
}

/// Changes of one tube.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TubeDelta {
    pub tasks: Tasks,
    pub transitions: Transitions,
}

impl CounterChange {
    /// Records that a task changed its state or tube. `old` is None for an insertion, `new` for a deletion.
    pub fn change(&mut self, old: Option<StateAndTube>, new: Option<StateAndTube>) {
        let (from, to) = (old.map(|place| place.status), new.map(|place| place.status));
        if let Some(status) = from {
            self.tasks[status as usize] -= 1;
        }
        if let Some(status) = to {
            self.tasks[status as usize] += 1;
        }
        if from != to {
            self.transitions[end(from)][end(to)] += 1;
        }
        let has_moved = has_moved(old, new);
        if from != to || has_moved {
            self.change_tubes(old, new, has_moved);
        }
    }

    fn change_tubes(
        &mut self,
        old: Option<StateAndTube>,
        new: Option<StateAndTube>,
        has_moved: bool,
    ) {
        let (from, to) = (old.map(|place| place.status), new.map(|place| place.status));
        let counted = |place: Option<StateAndTube>| place?.tube?.counted;
        let (leaves, enters) = (counted(old), counted(new));
        if let (Some(tube), Some(status)) = (leaves, from) {
            let tube = self.tube(tube);
            tube.tasks[status as usize] -= 1;
            tube.transitions[end(from)][if has_moved { OTHER_TUBE } else { end(to) }] += 1;
        }
        if let (Some(tube), Some(status)) = (enters, to) {
            let tube = self.tube(tube);
            tube.tasks[status as usize] += 1;
            if has_moved {
                tube.transitions[OTHER_TUBE][end(to)] += 1;
            } else if leaves.is_none() {
                tube.transitions[end(from)][end(to)] += 1;
            }
        }
    }

    fn tube(&mut self, tube: usize) -> &mut TubeDelta {
        let known = self.tubes.iter().position(|(known, _)| *known == tube);
        let index = known.unwrap_or_else(|| {
            self.tubes.push((tube, TubeDelta::default()));
            self.tubes.len() - 1
        });
        &mut self.tubes[index].1
    }

    /// Returns how many tasks were put, and how many became done or were deleted.
    pub fn flow(&self) -> Flow {
        let mut flow = Flow::default();
        for status in Status::ALL {
            flow.put += self.transitions[NOWHERE][status as usize].max(0) as u64;
            let left = &self.transitions[status as usize];
            if !status.is_over() {
                let over = Status::ALL.into_iter().filter(|status| status.is_over());
                let over = over.map(|status| status as usize).chain([NOWHERE]);
                flow.done += over.map(|end| left[end].max(0) as u64).sum::<u64>();
            }
        }
        flow
    }

    /// Records how long (µs) a task was ready until it was taken, or was taken until it was acked.
    pub fn spend(&mut self, spent: Spent, length: i64) {
        self.histogram(spent).add(length);
    }

    fn histogram(&mut self, spent: Spent) -> &mut Histogram {
        match spent {
            Spent::Ready => &mut self.waits,
            Spent::Taken => &mut self.works,
        }
    }

    pub fn call(&mut self, call: CallKind, tasks: usize) {
        self.calls[call as usize] += tasks as i64;
    }

    /// Replaces the count: the queue holds exactly these tasks from now on.
    pub fn replace(&mut self, counts: &Counts) {
        self.tasks = counts.tasks;
        self.replaces = true;
        self.tubes.iter_mut().for_each(|(_, tube)| tube.tasks = Tasks::default());
        for (tube, tasks) in counts.tubes.iter().enumerate() {
            if *tasks != Tasks::default() {
                self.tube(tube).tasks = *tasks;
            }
        }
    }

    pub fn absorb(&mut self, later: &CounterChange) {
        let CounterChange {
            tasks,
            calls,
            transitions,
            waits,
            works,
            tubes,
            replaces,
            tracked,
            recount,
            tubes_changed,
        } = later;
        if *replaces {
            self.replace(&Counts::default());
        }
        add(&mut self.tasks, tasks);
        add(&mut self.calls, calls);
        add_all(&mut self.transitions, transitions);
        self.waits.absorb(waits);
        self.works.absorb(works);
        for (tube, change) in tubes {
            let tube = self.tube(*tube);
            add(&mut tube.tasks, &change.tasks);
            add_all(&mut tube.transitions, &change.transitions);
        }
        self.tracked = tracked.or(self.tracked);
        self.recount |= recount;
        self.tubes_changed |= tubes_changed;
    }
}

/// Returns whether a task has moved to another tube.
pub fn has_moved(old: Option<StateAndTube>, new: Option<StateAndTube>) -> bool {
    old.zip(new).is_some_and(|(old, new)| old.tube != new.tube)
}

pub fn add<const N: usize>(sum: &mut [i64; N], change: &[i64; N]) {
    for (total, part) in sum.iter_mut().zip(change) {
        *total += part;
    }
}

pub fn add_all(sum: &mut Transitions, change: &Transitions) {
    for (total, part) in sum.iter_mut().zip(change) {
        add(total, part);
    }
}
