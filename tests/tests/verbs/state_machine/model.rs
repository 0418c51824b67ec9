//! The model of a queue: tasks, open transactions with their savepoints, counters. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::features::Features;

pub type Key = i64;
/// The number of a session: every connection has its own, and a new one after DISCARD ALL.
pub type Session = usize;

/// A time: an hour away, or past. No task becomes due by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    Past,
    Future,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    pub status: char,
    pub owner: Option<Session>,
    pub attempts: i64,
    pub priority: i64,
    pub tube: Option<&'static str>,
    pub payload: Option<i64>,
    pub runat: Option<Time>,
    pub expires: Option<Time>,
    pub has_ttr: bool,
    pub has_reason: bool,
}

impl Task {
    pub fn new(status: char) -> Task {
        Task { status, ..Task::default() }
    }
}

/// The SQLSTATE with which a statement must fail.
pub type Refusal = &'static str;
pub const NOT_FOUND: Refusal = "P0002";
pub const WRONG_STATE: Refusal = "55000";
pub const IN_USE: Refusal = "55006";
pub const FEATURE_OFF: Refusal = "0A000";
pub const INVALID: Refusal = "22023";
pub const DUPLICATE: Refusal = "23505";
pub const LOCKED: Refusal = "55P03";

/// Counts of calls, such as "take", and of transitions, such as "R-T".
pub type Counters = BTreeMap<String, i64>;

fn add(counters: &mut Counters, later: Counters) {
    for (what, count) in later {
        *counters.entry(what).or_default() += count;
    }
}

/// The changes of a transaction since its last savepoint. Each row in it is locked.
#[derive(Clone, Debug, Default)]
struct Layer {
    rows: BTreeMap<Key, Option<Task>>,
    counters: Counters,
}

pub struct Model {
    pub features: Features,
    pub tasks: BTreeMap<Key, Task>,
    pub counters: Counters,
    /// The open transaction of each connection, with a layer for each savepoint.
    open: Vec<Vec<Layer>>,
    pub dead: BTreeSet<Session>,
}

impl Model {
    pub fn new(features: Features, connections: usize) -> Model {
        Model {
            features,
            tasks: BTreeMap::new(),
            counters: Counters::new(),
            open: vec![vec![]; connections],
            dead: BTreeSet::new(),
        }
    }

    pub fn in_transaction(&self, connection: usize) -> bool {
        !self.open[connection].is_empty()
    }

    pub fn savepoints(&self, connection: usize) -> usize {
        self.open[connection].len().saturating_sub(1)
    }

    /// Returns the table as a connection sees it.
    pub fn view(&self, connection: usize) -> BTreeMap<Key, Task> {
        let mut view = self.tasks.clone();
        for (key, task) in self.open[connection].iter().flat_map(|layer| &layer.rows) {
            match task {
                Some(task) => view.insert(*key, task.clone()),
                None => view.remove(key),
            };
        }
        view
    }

    /// Returns whether another session has changed the row and not committed yet.
    pub fn is_locked(&self, key: Key, connection: Option<usize>) -> bool {
        let others = self.open.iter().enumerate().filter(|(other, _)| Some(*other) != connection);
        others.flat_map(|(_, layers)| layers).any(|layer| layer.rows.contains_key(&key))
    }

    pub fn begin(&mut self, connection: usize) {
        self.open[connection].push(Layer::default());
    }

    /// Releases a savepoint, or commits the transaction.
    pub fn keep_layer(&mut self, connection: usize) {
        let Some(layer) = self.open[connection].pop() else { return };
        match self.open[connection].last_mut() {
            Some(below) => {
                below.rows.extend(layer.rows);
                add(&mut below.counters, layer.counters);
            }
            None => self.write_down(layer),
        }
    }

    pub fn commit(&mut self, connection: usize) {
        while self.in_transaction(connection) {
            self.keep_layer(connection);
        }
        self.settle();
    }

    /// Rolls back to the last savepoint, which stays.
    pub fn roll_back_to(&mut self, connection: usize) {
        self.open[connection].pop();
        self.begin(connection);
        self.settle();
    }

    pub fn roll_back(&mut self, connection: usize) {
        self.open[connection].clear();
        self.settle();
    }

    /// Runs a statement, which takes effect completely or not at all; commits it outside of a transaction.
    pub fn statement<T>(
        &mut self,
        connection: usize,
        work: impl FnOnce(&mut Model) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.begin(connection);
        let result = work(self);
        match result {
            Ok(_) => self.keep_layer(connection),
            Err(_) => drop(self.open[connection].pop()),
        }
        if !self.in_transaction(connection) {
            self.settle();
        }
        result
    }

    /// Returns the changes since the last savepoint of an open transaction.
    fn layer(&mut self, connection: usize) -> &mut Layer {
        self.open[connection].last_mut().expect("an open transaction")
    }

    fn write_down(&mut self, layer: Layer) {
        for (key, task) in layer.rows {
            match task {
                Some(task) => self.tasks.insert(key, task),
                None => self.tasks.remove(&key),
            };
        }
        add(&mut self.counters, layer.counters);
    }

    /// Writes a row (None deletes it) and counts the transition.
    pub fn write(&mut self, connection: usize, key: Key, new: Option<Task>) {
        let old = self.view(connection).get(&key).cloned();
        change(self.layer(connection), key, old.as_ref(), new);
    }

    pub fn count(&mut self, connection: usize, call: &'static str, tasks: usize) {
        *self.layer(connection).counters.entry(call.into()).or_default() += tasks as i64;
    }

    pub fn end_session(&mut self, session: Session) {
        self.dead.insert(session);
        self.settle();
    }

    /// Does the worker's work on tasks that are not locked. It releases tasks of dead sessions, then promotes, ends
    /// times to run, deletes zombies, and finally expires tasks.
    fn settle(&mut self) {
        let keys: Vec<Key> = self.tasks.keys().copied().collect();
        for key in keys.into_iter().filter(|key| !self.is_locked(*key, None)).collect::<Vec<_>>() {
            let mut layer = Layer::default();
            while let Some((call, old, new)) = self.worker_step(key, &layer) {
                change(&mut layer, key, Some(&old), new);
                *layer.counters.entry(call.into()).or_default() += 1;
            }
            self.write_down(layer);
        }
    }

    fn worker_step(&self, key: Key, layer: &Layer) -> Option<(&'static str, Task, Option<Task>)> {
        let task = layer.rows.get(&key).cloned().unwrap_or(self.tasks.get(&key).cloned())?;
        let is_due = task.runat == Some(Time::Past);
        let is_lost = task.owner.is_some_and(|owner| self.dead.contains(&owner));
        let back = || self.returned(&task, &Return { failed: true, ..Return::default() });
        let (call, new) = match task.status {
            'T' if is_lost => ("session", Some(back())),
            'W' if is_due => ("delay", Some(Task { status: 'R', runat: None, ..task.clone() })),
            'T' if is_due => ("ttr", Some(back())),
            'Z' if is_due => ("zombie", None),
            'R' | 'W' | 'B' if task.expires == Some(Time::Past) => ("ttl", None),
            _ => return None,
        };
        Some((call, task, new))
    }

    /// Returns the task as it is after it has come back.
    pub fn returned(&self, task: &Task, back: &Return) -> Task {
        let features = &self.features;
        let limit = features.limit().filter(|_| back.failed);
        let exhausted = limit.is_some_and(|limit| task.attempts > 0 && task.attempts % limit == 0);
        let waits = back.delay || back.failed && features.backs_off();
        let expires = match task.expires {
            _ if back.renews && is_over(task.status) => features.new_life(),
            _ if back.ttl => Some(Time::Future),
            expires if back.delay => expires.map(|_| Time::Future),
            expires => expires,
        };
        let (status, runat) = match (exhausted, waits) {
            (true, _) => ('B', None),
            (false, true) => ('W', Some(Time::Future)),
            (false, false) => ('R', None),
        };
        let has_reason = exhausted || back.error;
        let attempts = if back.unused { (task.attempts - 1).max(0) } else { task.attempts };
        Task { status, owner: None, runat, expires, has_reason, attempts, ..task.clone() }
    }
}

pub fn is_over(status: char) -> bool {
    matches!(status, 'Z' | 'D')
}

/// The way in which a task comes back.
#[derive(Default)]
pub struct Return {
    pub delay: bool,
    pub ttl: bool,
    /// It was taken and not finished.
    pub failed: bool,
    /// It was taken, but the take does not count as an attempt.
    pub unused: bool,
    /// The call gives an error text.
    pub error: bool,
    /// An expired life begins again.
    pub renews: bool,
}

fn change(layer: &mut Layer, key: Key, old: Option<&Task>, new: Option<Task>) {
    let end = |task: Option<&Task>| task.map_or('X', |task| task.status);
    let (from, to) = (end(old), end(new.as_ref()));
    if from != to {
        *layer.counters.entry(format!("{from}-{to}")).or_default() += 1;
    }
    layer.rows.insert(key, new);
}
