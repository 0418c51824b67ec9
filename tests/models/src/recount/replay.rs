//! What a real server has counted, held against the rules that the model explores: each event of its trace (src/trace)
//! has to be a step that the state before permits.
//!
//! All events of a queue are numbered under its lock, so their order is that in which they happened. What a
//! transaction has changed is known from the event of its callback (`Tell`). So at each moment the trace says how
//! many tasks there are by the callbacks until then, and a recount has to come to just that number: what its snapshot
//! saw, and what callbacks have added since. A callback that comes after the recount's end, of a transaction that its
//! snapshot saw, would be counted twice, and is refused. A prepared transaction has no callback; from its beginning
//! until the counters are exact again the number is not known, and the result of a recount that was running then is
//! not certain.

use super::rules::{hides, may_be_exact};
use crate::model::status::Tasks;
use crate::tampering::Tampering;
use crate::trace;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A step, and how all stands after it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Event {
    #[serde(flatten)]
    pub step: Step,
    pub queue: u64,
    #[serde(flatten)]
    pub after: Shown,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "do")]
pub enum Step {
    /// The COMMIT callback of a transaction.
    Tell {
        xid: u32,
        change: Tasks,
        replaces: bool,
    },
    /// A recount has its snapshot.
    Begin {
        area: usize,
        xmax: u32,
        in_progress: Vec<u32>,
        renews: bool,
    },
    End {
        area: usize,
        counted: Tasks,
        result: Tasks,
        certain: bool,
    },
    /// It has ended without a result.
    GiveUp {
        area: usize,
    },
    /// The counters become the result.
    Set,
    /// A transaction is being prepared, or is known to be.
    Mark,
    /// The worker begins to look for prepared transactions, has found one, has found none.
    Clear,
    Find,
    Resolve,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Shown {
    /// The counters.
    pub tasks: Tasks,
    /// Changes reported to the recounts in progress, by their areas.
    pub since: Vec<(usize, Tasks)>,
    pub prepared: bool,
    pub looks: bool,
    pub wanted: bool,
    pub exact: bool,
}

/// Why an event is no step.
pub type Refusal = String;

#[derive(Clone, Debug)]
struct Snapshot {
    next: u32,
    in_progress: Vec<u32>,
}

impl Snapshot {
    fn hides(&self, xid: u32) -> bool {
        hides(self.next, self.in_progress.contains(&xid), xid)
    }
}

#[derive(Clone, Debug)]
struct Recount {
    snapshot: Snapshot,
    since: Tasks,
    /// The table was truncated after the snapshot.
    is_replaced: bool,
    renews: bool,
    /// A prepared transaction may have ended since its snapshot.
    is_doubtful: bool,
}

/// One queue.
#[derive(Clone, Debug)]
struct Queue {
    /// What is there by the callbacks until now; None while that is not known.
    truth: Option<Tasks>,
    tasks: Tasks,
    running: BTreeMap<usize, Recount>,
    /// The snapshots of recounts that have ended.
    ended: Vec<Snapshot>,
    /// What one that renews the counters has just come to.
    result: Option<Tasks>,
    is_prepared: bool,
    is_looking: bool,
    /// There was cause for a recount, and none that renews has begun since.
    is_wanted: bool,
}

/// The events in a server's log, in their order.
pub fn events(log: &str) -> Vec<Event> {
    trace::events(log, Some("recount")).into_iter().map(|(_, event)| event).collect()
}

/// Replays a trace; gives the counters that each queue has in the end, where they are exact.
pub fn replay<'e>(
    events: impl IntoIterator<Item = &'e Event>,
) -> Result<BTreeMap<u64, Tasks>, Refusal> {
    let mut queues: BTreeMap<u64, Queue> = BTreeMap::new();
    let mut exact = BTreeMap::new();
    for (index, event) in events.into_iter().enumerate() {
        let refused = |why: String| format!("event {index}, {event:?}: {why}");
        match queues.get_mut(&event.queue) {
            Some(queue) => queue.step(event).map_err(refused)?,
            // A new slot, or one of which this is the first that is seen.
            None => drop(queues.insert(event.queue, Queue::first(event))),
        }
        match event.after.exact {
            true => drop(exact.insert(event.queue, event.after.tasks)),
            false => drop(exact.remove(&event.queue)),
        }
    }
    let is_running = |queue: &Queue| !queue.running.is_empty() || queue.result.is_some();
    let still_running = queues.values().any(is_running);
    if still_running { Err("a recount has not come to an end".into()) } else { Ok(exact) }
}

fn sum(one: Tasks, other: Tasks) -> Tasks {
    std::array::from_fn(|status| one[status] + other[status])
}

fn require(holds: bool, otherwise: &str) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

impl Queue {
    fn first(event: &Event) -> Queue {
        Queue {
            truth: None,
            tasks: event.after.tasks,
            running: BTreeMap::new(),
            ended: vec![],
            result: None,
            is_prepared: event.after.prepared,
            is_looking: event.after.looks,
            is_wanted: event.after.wanted,
        }
    }

    fn step(&mut self, event: &Event) -> Result<(), Refusal> {
        let result = self.result.take();
        let is_set = event.step == Step::Set;
        require(is_set == result.is_some(), "the counters become what was counted, and only that")?;
        match &event.step {
            Step::Tell { xid, change, replaces } => self.tell(*xid, *change, *replaces)?,
            Step::Begin { area, xmax, in_progress, renews } => {
                let snapshot = Snapshot { next: *xmax, in_progress: in_progress.clone() };
                let since = Tasks::default();
                let is_doubtful = self.is_prepared || self.is_looking;
                let recount =
                    Recount { snapshot, since, is_replaced: false, renews: *renews, is_doubtful };
                let before = self.running.insert(*area, recount);
                require(before.is_none(), "the area is another recount's")?;
                self.is_wanted &= !renews;
            }
            Step::End { area, counted, result, certain } => {
                let recount = self.running.remove(area).ok_or("no such recount has begun")?;
                let counted = if recount.is_replaced { Tasks::default() } else { *counted };
                let expected = sum(counted, recount.since);
                require(*result == expected, "the result is not what was counted and came since")?;
                require(*certain != recount.is_doubtful, "whether the result is certain")?;
                let is_true = !certain || self.truth.is_none_or(|truth| truth == expected);
                require(is_true, &format!("there are {:?}", self.truth))?;
                self.ended.push(recount.snapshot);
                self.result = recount.renews.then_some(expected);
            }
            Step::GiveUp { area } => {
                let recount = self.running.remove(area).ok_or("no such recount has begun")?;
                self.is_wanted |= recount.renews;
            }
            Step::Set => {
                self.tasks = result.unwrap_or(self.tasks);
                let after = &event.after;
                let may_be = may_be_exact(after.prepared, after.looks, after.wanted);
                require(after.exact <= may_be, "the counters cannot be exact")?;
            }
            Step::Mark => {
                (self.is_prepared, self.truth) = (true, None);
                self.running.values_mut().for_each(|recount| recount.is_doubtful = true);
            }
            Step::Clear => {
                // No worker ends in the middle of a look where this is traced.
                let may_look = self.is_prepared && !self.is_looking;
                require(may_look, "there is nothing to look for, or a look is under way")?;
                (self.is_prepared, self.is_looking, self.is_wanted) = (false, true, true);
            }
            Step::Find => {
                require(self.is_looking, "nothing was looked for")?;
                self.is_looking = false;
            }
            Step::Resolve => {
                require(self.is_looking, "nothing was looked for")?;
                (self.is_looking, self.is_wanted) = (false, true);
            }
        }
        self.compare(&event.after)
    }

    fn tell(&mut self, xid: u32, change: Tasks, replaces: bool) -> Result<(), Refusal> {
        let renewed = |tasks: Tasks| if replaces { change } else { sum(tasks, change) };
        self.tasks = renewed(self.tasks);
        self.truth = match self.truth {
            None if !replaces || self.is_prepared || self.is_looking => None,
            truth => Some(renewed(truth.unwrap_or_default())),
        };
        for recount in self.running.values_mut() {
            recount.is_replaced |= replaces;
            if replaces || recount.snapshot.hides(xid) {
                recount.since = renewed(recount.since);
            }
        }
        let changes = replaces || change != Tasks::default();
        let is_late = changes && self.ended.iter().any(|snapshot| !snapshot.hides(xid));
        require(!is_late, "a recount has seen it, and ended before this")
    }

    /// What the server shows has to be what the steps come to.
    fn compare(&mut self, after: &Shown) -> Result<(), Refusal> {
        require(after.tasks == self.tasks, "the counters are others")?;
        let since: Vec<(usize, Tasks)> =
            self.running.iter().map(|(area, recount)| (*area, recount.since)).collect();
        require(after.since == since, "the recounts in progress have been told something else")?;
        require(after.prepared == self.is_prepared, "whether a transaction may be prepared")?;
        require(after.looks == self.is_looking, "whether the worker looks for prepared ones")?;
        // Much else may cause a recount.
        require(after.wanted || !self.is_wanted, "nobody will count what was prepared")?;
        self.is_wanted = after.wanted;
        if after.exact {
            let truth = *self.truth.get_or_insert(after.tasks);
            require(after.tasks == truth, &format!("there are {truth:?}"))?;
            require(!self.is_prepared && !self.is_looking, "exact beside a prepared transaction")?;
        }
        Ok(())
    }
}

/// Returns all that can be done to one event of a trace, unless it is the same history again: a callback that has
/// changed no task or a mark that was there already may be missing or come at another time, as may what the next one
/// makes anew, which may be done twice.
pub fn tamperings(trace: &[Event]) -> Vec<Tampering> {
    let mut all = vec![];
    let mut last: BTreeMap<u64, usize> = BTreeMap::new();
    let mut says_something = vec![false; trace.len()];
    for (index, event) in trace.iter().enumerate() {
        let Some(before) = last.insert(event.queue, index) else { continue };
        says_something[index] = match event.step {
            Step::Tell { .. } => event.after.tasks != trace[before].after.tasks,
            Step::Mark | Step::Clear => event.after != trace[before].after,
            _ => true,
        };
        if !says_something[index] {
            continue;
        }
        let next = trace[index + 1..].iter().find(|next| next.queue == event.queue);
        let is_lost = |next: &Event| match next.step {
            Step::Mark => event.step == Step::Mark,
            Step::Tell { replaces, .. } => replaces && matches!(event.step, Step::Tell { .. }),
            _ => false,
        };
        if !next.is_some_and(is_lost) {
            all.push(Tampering::Dropped(index));
        }
        let may_be_twice = match event.step {
            Step::Tell { replaces, .. } => replaces,
            _ => matches!(event.step, Step::Mark | Step::Clear),
        };
        all.extend((!may_be_twice).then_some(Tampering::Doubled(index)));
        let is_mark = matches!(trace[before].step, Step::Mark | Step::Clear);
        if !is_mark && says_something[before] {
            all.push(Tampering::Swapped(before, index));
        }
    }
    all
}
