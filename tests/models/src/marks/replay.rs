//! What a real server has done to low-water marks, held against the [`rules`](super::rules) and the invariant of the
//! model.
//!
//! The steps at a queue's slot draw their numbers under its lock: for each slot their numbers are their order. A
//! transaction that changes tasks draws its number in PRE_COMMIT, before it is visible, with the rows locked: for
//! each task the numbers are the order of its row's versions (src/trace/mod.rs). So:
//!
//! - Each step finds the slot as the step before has left it, and does to it what the rule of its kind says.
//! - A commit that makes tasks ready lowers the marks in its COMMIT callback, so later than its own number, and once.
//! - From that step on, for as long as no later number changes the task, no mark is beyond it. A raise that began before the
//!   step has its floor lowered by it. One that began after it looks in a snapshot that shows the task, unless the commit
//!   that changed it is in the snapshot as well, and has a number from before the raise's end. A take that is rolled back has
//!   no number: the task stays ready, here as for sessions that raise marks.
//! - The end of a prepared transaction is reported to no session, but until the worker has looked and found none the marks stay at the
//!   first place. What was prepared when it began to look, and is seen later in any way, is ready when it has found none.

use super::rules::Limits;
use super::trace::{Change, Event, Group, Noted, Seen, Stand, Status, Step, Verb, What};
use crate::model::position::{FIRST, Position};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

/// Why an event is no step, or the end is not that of the server.
#[derive(Debug)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Result<T = ()> = std::result::Result<T, &'static str>;

/// The tasks that tables have, by slot and key.
pub type Left = HashMap<(u64, String), Status>;

/// Replays a trace from new slots and empty tables to the tasks that are left.
pub fn run<'trace>(
    trace: &[&'trace Event],
    left: &'trace Left,
) -> std::result::Result<(), Refusal> {
    let mut seen: HashSet<(u64, &str)> =
        left.keys().map(|(slot, task)| (*slot, task.as_str())).collect();
    seen.extend(trace.iter().filter_map(|event| match &event.what {
        What::Changed(change) => Some((change.slot, change.task.as_str())),
        _ => None,
    }));
    let mut slots: HashMap<u64, Slot> = HashMap::new();
    for event in trace {
        let done = match &event.what {
            What::Changed(change) => {
                slots.entry(change.slot).or_default().change(event.number, change)
            }
            What::Prepared(change) => {
                let is_committed = seen.contains(&(change.slot, change.task.as_str()));
                slots.entry(change.slot).or_default().prepare(event.number, change, is_committed)
            }
            What::Step(step) => slots.entry(step.slot).or_default().step(step),
        };
        done.map_err(|why| Refusal(format!("{why}: {event:?}")))?;
    }
    for (number, slot) in &slots {
        slot.end().map_err(|why| Refusal(format!("{why} (slot {number})")))?;
    }
    let there = |(slot, tasks): (&u64, &Slot<'trace>)| -> Vec<((u64, &'trace str), Status)> {
        let task = |(key, task): (&&'trace str, &Task)| Some(((*slot, *key), task.status?));
        tasks.tasks.iter().filter_map(task).collect()
    };
    let there: HashMap<(u64, &str), Status> = slots.iter().flat_map(there).collect();
    let left: HashMap<(u64, &str), Status> =
        left.iter().map(|((slot, task), status)| ((*slot, task.as_str()), *status)).collect();
    match there == left {
        true => Ok(()),
        false => Err(Refusal("the tables are not as the trace leaves them".into())),
    }
}

#[derive(Default)]
struct Task {
    status: Option<Status>,
    stand: Option<Stand>,
    /// The transaction that has made it so.
    by: u64,
}

/// Changes of a transaction to tasks of a queue that are not reported yet.
#[derive(Default)]
struct Untold<'trace> {
    tasks: Vec<&'trace str>,
    ready: Option<Position>,
    buried: Option<Position>,
}

#[derive(Default)]
struct Prepared<'trace> {
    /// Its tasks, with what becomes of them if it is committed.
    tasks: HashMap<&'trace str, Option<&'trace Change>>,
    /// How often it has marked the slot.
    marked: u8,
}

struct Slot<'trace> {
    seen: Seen,
    tasks: HashMap<&'trace str, Task>,
    /// Ready tasks, which no mark may be beyond.
    ready: BTreeSet<(Position, &'trace str)>,
    buried: BTreeSet<(Position, &'trace str)>,
    /// Raises in progress, with the place of the mark when they began.
    raises: HashMap<(Group, i64, i32), Position>,
    untold: HashMap<u64, Untold<'trace>>,
    told: HashSet<u64>,
    prepared: HashMap<u64, Prepared<'trace>>,
    /// The worker has found a prepared transaction, and has not marked the slot for it yet.
    has_found: bool,
    /// Transactions that were prepared when the worker began to look.
    looked_for: Vec<u64>,
}

impl Default for Slot<'_> {
    /// A new one: nothing is known of prepared transactions.
    fn default() -> Self {
        Slot {
            seen: Seen {
                ready: Limits::FORGOTTEN,
                buried: Limits::FORGOTTEN,
                prepared: true,
                looking: false,
            },
            tasks: HashMap::new(),
            ready: BTreeSet::new(),
            buried: BTreeSet::new(),
            raises: HashMap::new(),
            untold: HashMap::new(),
            told: HashSet::new(),
            prepared: HashMap::new(),
            has_found: false,
            looked_for: vec![],
        }
    }
}

impl<'trace> Slot<'trace> {
    fn change(&mut self, number: u64, change: &'trace Change) -> Result {
        if self.told.contains(&number) {
            return Err("its transaction has been told of already");
        }
        let pending = |prepared: &mut Prepared<'trace>| {
            prepared.tasks.get_mut(change.task.as_str()).and_then(Option::take)
        };
        if let Some(committed) = self.prepared.values_mut().find_map(pending) {
            self.put(number, committed);
        }
        if self.tasks.get(change.task.as_str()).and_then(|task| task.status) != change.from {
            return Err("the task is in another state");
        }
        self.put(number, change);
        if let Some(Stand(noted, at)) = change.stand {
            let untold = self.untold.entry(number).or_default();
            untold.tasks.push(&change.task);
            let lower =
                |lowest: &mut Option<Position>| *lowest = Some(lowest.map_or(at, |l| l.min(at)));
            match noted {
                Noted::Ready => lower(&mut untold.ready),
                Noted::Buried => lower(&mut untold.buried),
                Noted::Any => [&mut untold.ready, &mut untold.buried].into_iter().for_each(lower),
            }
        }
        Ok(())
    }

    /// A task comes to be as a change has made it; marks may be beyond it yet.
    fn put(&mut self, by: u64, change: &'trace Change) {
        let task = self.tasks.entry(&change.task).or_default();
        if let Some(Stand(noted, at)) = task.stand {
            let told = if noted == Noted::Buried { &mut self.buried } else { &mut self.ready };
            told.remove(&(at, &change.task));
        }
        *task = Task { status: change.to, stand: change.stand, by };
    }

    /// No mark may be beyond a task any more, if it stands anywhere.
    fn tell(&mut self, key: &'trace str) {
        if let Some(Stand(noted, at)) = self.tasks.get(key).and_then(|task| task.stand) {
            let told = if noted == Noted::Buried { &mut self.buried } else { &mut self.ready };
            told.insert((at, key));
        }
    }

    fn prepare(&mut self, number: u64, change: &'trace Change, is_committed: bool) -> Result {
        let prepared = self.prepared.entry(number).or_default();
        if prepared.marked > 0 {
            return Err("its transaction has been prepared already");
        }
        if change.from.is_some() || self.tasks.contains_key(change.task.as_str()) {
            return Err("a prepared transaction changes a task that was there");
        }
        match prepared.tasks.insert(&change.task, is_committed.then_some(change)) {
            Some(_) => Err("a prepared transaction puts a task twice"),
            None => Ok(()),
        }
    }

    fn step(&mut self, step: &Step) -> Result {
        if step.before != self.seen {
            return Err("a step is missing before this one");
        }
        let after = self.after(&step.verb)?;
        if step.after != after {
            return Err("the rules have another outcome");
        }
        self.seen = after;
        let may_be_prepared = after.prepared || after.looking;
        if may_be_prepared && (after.ready.at, after.buried.at) != (FIRST, FIRST) {
            return Err("a mark is raised beside a prepared transaction");
        }
        for (mark, tasks) in [(after.ready, &self.ready), (after.buried, &self.buried)] {
            if tasks.first().is_some_and(|(first, _)| *first < mark.at) {
                return Err("a task stands before the mark");
            }
        }
        Ok(())
    }

    /// The slot after a step.
    fn after(&mut self, verb: &Verb) -> Result<Seen> {
        let seen = self.seen;
        let forgotten = Seen { ready: Limits::FORGOTTEN, buried: Limits::FORGOTTEN, ..seen };
        let may_be_prepared = seen.prepared || seen.looking;
        if std::mem::take(&mut self.has_found) != matches!(verb, Verb::Forbid) {
            return Err("the slot is marked for what the worker finds, and for nothing else");
        }
        match *verb {
            Verb::Start { group, since, by } => {
                if may_be_prepared {
                    return Err("a raise begins beside a prepared transaction");
                }
                let mark = seen.mark(group);
                if self.raises.insert((group, since, by), mark.at).is_some() {
                    return Err("a raise begins twice");
                }
                let begun = mark.begun(since).ok_or("two raise a mark at once")?;
                Ok(seen.with(group, begun))
            }
            Verb::End { group, since, by, found } => {
                let from = self.raises.remove(&(group, since, by));
                let from = from.ok_or("a raise ends that has not begun")?;
                if found.is_some_and(|found| found < from) {
                    return Err("it finds what is before where it looks");
                }
                let believed = found.filter(|_| !may_be_prepared);
                Ok(seen.with(group, seen.mark(group).ended(since, believed)))
            }
            Verb::Lower { commit, ready, buried, forgets } => {
                if commit != 0 && !self.told.insert(commit) {
                    return Err("a commit lowers the marks twice");
                }
                let untold = self.untold.remove(&commit).unwrap_or_default();
                if (untold.ready, untold.buried) != (ready, buried) {
                    return Err("the commit has put its tasks elsewhere");
                }
                for key in untold.tasks {
                    if self.tasks.get(key).is_some_and(|task| task.by == commit) {
                        self.tell(key);
                    }
                }
                if forgets {
                    return Ok(forgotten);
                }
                let lowered = |mark: Limits, to: Option<_>| to.map_or(mark, |to| mark.lowered(to));
                Ok(Seen {
                    ready: lowered(seen.ready, ready),
                    buried: lowered(seen.buried, buried),
                    ..seen
                })
            }
            Verb::Forget => Ok(forgotten),
            Verb::Prepare { commit } => {
                let prepared = self.prepared.entry(commit).or_default();
                prepared.marked += 1;
                if prepared.marked > 2 {
                    return Err("a transaction is prepared twice");
                }
                Ok(Seen { prepared: true, ..forgotten })
            }
            Verb::Clear => {
                let is_whole = |(_, prepared): &(&u64, &Prepared)| prepared.marked == 2;
                self.looked_for =
                    self.prepared.iter().filter(is_whole).map(|(number, _)| *number).collect();
                Ok(Seen { prepared: false, looking: true, ..seen })
            }
            Verb::Settle { .. } if !seen.looking => Err("the worker has not looked"),
            Verb::Settle { found: true } => {
                self.has_found = !seen.prepared;
                Ok(Seen { looking: false, ..seen })
            }
            Verb::Forbid => Ok(Seen { prepared: true, ..forgotten }),
            Verb::Settle { found: false } => {
                for number in std::mem::take(&mut self.looked_for) {
                    self.commit_prepared(number);
                }
                Ok(Seen { looking: false, ..seen })
            }
        }
    }

    /// A prepared transaction has ended; it was committed if what it has put is seen later.
    fn commit_prepared(&mut self, number: u64) {
        let tasks = self.prepared.get_mut(&number).map(|prepared| &mut prepared.tasks);
        let committed: Vec<&Change> =
            tasks.into_iter().flat_map(HashMap::values_mut).filter_map(Option::take).collect();
        for change in committed {
            self.put(number, change);
            self.tell(&change.task);
        }
    }

    fn end(&self) -> Result {
        if !self.raises.is_empty() {
            return Err("a raise does not end");
        }
        if self.has_found {
            return Err("the slot is not marked for what the worker has found");
        }
        if !self.untold.is_empty() {
            return Err("a commit does not lower the marks");
        }
        // PREPARE may fail after PRE_PREPARE; its changes are not traced then.
        let is_whole =
            |prepared: &Prepared| prepared.marked == if prepared.tasks.is_empty() { 1 } else { 2 };
        if !self.prepared.values().all(is_whole) {
            return Err("a prepared transaction does not mark the queue twice");
        }
        let is_open = |prepared: &Prepared| prepared.tasks.values().any(Option::is_some);
        if self.prepared.values().any(is_open) {
            return Err("the worker has not seen the end of a prepared transaction");
        }
        Ok(())
    }
}

impl Seen {
    fn mark(&self, group: Group) -> Limits {
        match group {
            Group::Ready => self.ready,
            Group::Buried => self.buried,
        }
    }

    fn with(self, group: Group, mark: Limits) -> Seen {
        match group {
            Group::Ready => Seen { ready: mark, ..self },
            Group::Buried => Seen { buried: mark, ..self },
        }
    }
}
