//! Compares acknowledged calls with the final tables. Knows neither clients nor servers.

use std::collections::{BTreeMap, HashMap};

use crate::event::Token;
use crate::history::{History, Lease, Outcome, Task};
use crate::queues::Spec;

/// The rows of the tables when all activity has ended.
#[derive(Default)]
pub struct Remains {
    /// The state of each row, by token. More than one row for a token is a violation.
    pub rows: HashMap<Token, Vec<char>>,
    /// The number of times that the effect of an ack was written.
    pub effects: HashMap<Token, u32>,
    /// The time of the read.
    pub at: u64,
}

/// A broken promise, and the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub kind: &'static str,
    pub case: String,
}

impl Violation {
    pub fn new(kind: &'static str, case: String) -> Violation {
        Violation { kind, case }
    }
}

pub fn violations(history: &History, remains: &Remains, queues: &[Spec]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut subqueues: BTreeMap<(usize, u32), Vec<Lease>> = BTreeMap::new();
    for (&token, task) in &history.tasks {
        let rows = remains.rows.get(&token).map_or(&[][..], Vec::as_slice);
        let effects = remains.effects.get(&token).copied().unwrap_or(0);
        let spec = &queues[task.queue];
        let problems = [
            presence(task, rows, remains.at),
            acks(task),
            spec.has("on_task_change").then(|| effect(task, effects)).flatten(),
            overlap(&mut task.leases.clone()).then_some("two leases of one task"),
        ];
        for kind in problems.into_iter().flatten() {
            let name = spec.name;
            let case = format!("{name}: token {token}, rows {rows:?}, effects {effects}, {task:?}");
            found.push(Violation::new(kind, case));
        }
        if spec.has("utube") {
            subqueues.entry((task.queue, task.item.tube)).or_default().extend(&task.leases);
        }
    }
    for token in remains.rows.keys().filter(|token| !history.tasks.contains_key(token)) {
        found.push(Violation::new("a task that was never put", format!("token {token}")));
    }
    for ((queue, tube), mut leases) in subqueues {
        if overlap(&mut leases) {
            let case = format!("{}: tube {tube}", queues[queue].name);
            found.push(Violation::new("two tasks of one sub-queue in flight", case));
        }
    }
    found.extend(order(history, queues));
    found
}

fn presence(task: &Task, rows: &[char], at: u64) -> Option<&'static str> {
    let may_be_acked = !task.acks.is_empty() || task.uncertain_acks > 0;
    let has_died = task.item.dies > 0 && task.item.dies < at;
    match (task.put, rows) {
        _ if !task.was_meant => Some("a task that was never put"),
        (Outcome::Refused, [_, ..]) => Some("a refused put is there"),
        (Outcome::Refused, []) if !task.leases.is_empty() => Some("a refused put was taken"),
        (Outcome::Done(..), []) if !may_be_acked && !has_died => Some("lost"),
        (_, [_, _, ..]) => Some("doubled"),
        (_, ['T']) => Some("taken by a session that is gone"),
        (_, ['Z' | 'D']) if !may_be_acked => Some("done without an ack"),
        (_, ['R' | 'W' | 'B']) if !task.acks.is_empty() => Some("acked, but still there"),
        _ => None,
    }
}

fn acks(task: &Task) -> Option<&'static str> {
    let first = task.acks.iter().map(|(_, end)| *end).min();
    match first {
        _ if task.acks.len() > 1 => Some("acked twice"),
        _ if task.settled_without_lease => Some("settled without a lease"),
        Some(end) if task.leases.iter().any(|l| l.begin > end) => Some("taken after its ack"),
        _ => None,
    }
}

/// Compares the acks with the rows that `on_task_change` wrote in their transactions.
fn effect(task: &Task, effects: u32) -> Option<&'static str> {
    let may_be_acked = !task.acks.is_empty() || task.uncertain_acks > 0;
    match effects {
        0 if !task.acks.is_empty() => Some("an ack without its effect"),
        1 if !may_be_acked => Some("an effect without its ack"),
        2.. => Some("an effect twice"),
        _ => None,
    }
}

/// Returns whether two of the leases were live at one instant: both were held, or one was held throughout the call that
/// took the other. Sorts the leases.
fn overlap(leases: &mut [Lease]) -> bool {
    leases.sort_by_key(|lease| lease.taken);
    // The earlier lease that was held longest: a lease that does not overlap it overlaps no earlier one.
    let mut longest: Option<(u64, u64)> = None;
    for lease in leases {
        if let Some((taken, until)) = longest {
            let is_inside = lease.begin >= taken && lease.taken <= until;
            let is_held = lease.held_until.is_some_and(|end| lease.taken < end.min(until));
            if is_inside || is_held {
                return true;
            }
        }
        if let Some(end) = lease.held_until.filter(|end| *end > lease.taken)
            && longest.is_none_or(|(_, until)| end > until)
        {
            longest = Some((lease.taken, end));
        }
    }
    false
}

/// Finds takes by a single consumer that overtook a ready task with a smaller key.
fn order(history: &History, queues: &[Spec]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, spec) in queues.iter().enumerate().filter(|(_, spec)| spec.has_single_consumer()) {
        let mut turns: Vec<_> = history.turns.iter().filter(|t| t.queue == index).collect();
        turns.sort_by_key(|turn| turn.begin);
        // A task with an uncertain ack is exempt: a transaction whose end the client did not see can have taken and
        // acked it.
        let is_known = |task: &Task| task.queue == index && task.uncertain_acks == 0;
        for (token, task) in history.tasks.iter().filter(|(_, task)| is_known(task)) {
            let Outcome::Done(_, put) = task.put else { continue };
            let first = task.leases.iter().map(|l| l.begin).min().unwrap_or(u64::MAX);
            let from = turns.partition_point(|turn| turn.begin <= put);
            let passed = |turn: &&&crate::history::Turn| {
                turn.end < first && turn.greatest_key > task.item.key
            };
            let until = turns.partition_point(|turn| turn.begin < first);
            if let Some(turn) = turns.get(from..until).unwrap_or(&[]).iter().find(passed) {
                let (name, key) = (spec.name, turn.greatest_key);
                let case = format!("{name}: token {token}, {task:?}, passed over by {key}");
                found.push(Violation::new("out of order", case));
            }
        }
    }
    found
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
