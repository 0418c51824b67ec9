//! What the open transaction has changed, per subtransaction and queue.
//!
//! Modelled on the stack of PostgreSQL's own statistics (pgstat): a level for each nesting depth
//! at which something changed; a released savepoint is added to its parent, a rolled back one is
//! dropped, a TRUNCATE replaces what was there before it.

use crate::model::status::{Call, Calls, Status, Tasks};

/// Names a queue's slot in shared memory. The generation tells a slot from its reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId {
    pub index: u32,
    pub generation: u64,
}

/// Changes of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    pub tasks: Tasks,
    pub calls: Calls,
    /// `tasks` is not a change but the whole count, as after TRUNCATE.
    pub replaces: bool,
    /// Tasks that came to be ready: so many waiting consumers are woken at commit.
    pub made_ready: u32,
    /// Tasks that ceased to be ready: so many waiting consumers are woken at rollback.
    pub unmade_ready: u32,
    /// Tasks taken by this session.
    pub taken: u32,
    /// The earliest instant at which the worker has to act, in microseconds.
    pub due: Option<i64>,
    /// The definition or the table has changed.
    pub redefined: bool,
    /// The counters have to be counted anew.
    pub recount: bool,
    /// The slot is there because of this transaction.
    pub created: bool,
    /// The table or the definition is gone (true), or there again (false).
    pub dropped: Option<bool>,
}

impl Delta {
    pub fn change(&mut self, old: Option<Status>, new: Option<Status>) {
        if let Some(status) = old {
            self.tasks[status as usize] -= 1;
        }
        if let Some(status) = new {
            self.tasks[status as usize] += 1;
        }
        let (was_ready, is_ready) = (old == Some(Status::Ready), new == Some(Status::Ready));
        if is_ready && !was_ready {
            self.made_ready = self.made_ready.saturating_add(1);
        }
        if was_ready && !is_ready {
            self.unmade_ready = self.unmade_ready.saturating_add(1);
        }
    }

    pub fn call(&mut self, call: Call, tasks: usize) {
        self.calls[call as usize] += tasks as i64;
    }

    pub fn due_at(&mut self, instant: i64) {
        self.due = Some(self.due.map_or(instant, |due| due.min(instant)));
    }

    /// From here on the queue holds exactly `tasks`.
    pub fn replace(&mut self, tasks: Tasks) {
        self.tasks = tasks;
        self.replaces = true;
    }

    fn absorb(&mut self, later: &Delta) {
        if later.replaces {
            self.replace(later.tasks);
        } else {
            add(&mut self.tasks, &later.tasks);
        }
        add(&mut self.calls, &later.calls);
        self.made_ready = self.made_ready.saturating_add(later.made_ready);
        self.unmade_ready = self.unmade_ready.saturating_add(later.unmade_ready);
        self.taken = self.taken.saturating_add(later.taken);
        if let Some(instant) = later.due {
            self.due_at(instant);
        }
        self.redefined |= later.redefined;
        self.recount |= later.recount;
        self.created |= later.created;
        self.dropped = later.dropped.or(self.dropped);
    }
}

pub fn add<const N: usize>(sum: &mut [i64; N], change: &[i64; N]) {
    for (total, part) in sum.iter_mut().zip(change) {
        *total += part;
    }
}

struct Level {
    depth: i32,
    deltas: Vec<(SlotId, Delta)>,
}

/// The changes of the open transaction. Levels are ordered by depth, outermost first.
#[derive(Default)]
pub struct Stack {
    levels: Vec<Level>,
}

impl Stack {
    /// The changes of `slot` at nesting depth `depth`, to be added to.
    pub fn at(&mut self, depth: i32, slot: SlotId) -> &mut Delta {
        if self.levels.last().is_none_or(|level| level.depth < depth) {
            self.levels.push(Level { depth, deltas: Vec::with_capacity(4) });
        }
        let last = self.levels.len() - 1;
        let deltas = &mut self.levels[last].deltas;
        let position = deltas.iter().position(|(known, _)| *known == slot).unwrap_or_else(|| {
            deltas.push((slot, Delta::default()));
            deltas.len() - 1
        });
        &mut deltas[position].1
    }

    /// The subtransaction at `depth` has committed: its changes become its parent's.
    pub fn commit_subtransaction(&mut self, depth: i32) {
        let Some(mut level) = self.levels.pop_if(|level| level.depth >= depth) else { return };
        match self.levels.last_mut() {
            Some(parent) if parent.depth >= depth - 1 => {
                for (slot, delta) in &level.deltas {
                    match parent.deltas.iter_mut().find(|(known, _)| known == slot) {
                        Some((_, into)) => into.absorb(delta),
                        None => parent.deltas.push((*slot, *delta)),
                    }
                }
            }
            _ => {
                level.depth = depth - 1;
                self.levels.push(level);
            }
        }
    }

    /// The subtransaction at `depth` is rolled back: `undone` sees what it had changed.
    pub fn abort_subtransaction(&mut self, depth: i32, mut undone: impl FnMut(SlotId, &Delta)) {
        while let Some(level) = self.levels.pop_if(|level| level.depth >= depth) {
            level.deltas.iter().for_each(|(slot, delta)| undone(*slot, delta));
        }
    }

    /// All changes of the transaction, outermost first. Allocates nothing.
    pub fn for_each(&self, mut see: impl FnMut(SlotId, &Delta)) {
        for level in &self.levels {
            level.deltas.iter().for_each(|(slot, delta)| see(*slot, delta));
        }
    }

    /// The change of one queue by the whole open transaction.
    pub fn total(&self, slot: SlotId) -> Delta {
        let mut total = Delta::default();
        self.for_each(|known, delta| {
            if known == slot {
                total.absorb(delta);
            }
        });
        total
    }

    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    pub fn clear(&mut self) {
        self.levels.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: SlotId = SlotId { index: 3, generation: 1 };
    const MAIL: SlotId = SlotId { index: 4, generation: 1 };

    fn put(stack: &mut Stack, depth: i32, slot: SlotId) {
        stack.at(depth, slot).change(None, Some(Status::Ready));
    }

    #[test]
    fn a_rolled_back_savepoint_leaves_the_outer_changes() {
        let mut stack = Stack::default();
        put(&mut stack, 1, JOBS);
        put(&mut stack, 2, JOBS);
        put(&mut stack, 3, MAIL);
        stack.commit_subtransaction(3);
        let mut undone = Vec::new();
        stack.abort_subtransaction(2, |slot, delta| undone.push((slot, delta.tasks[0])));
        assert_eq!(undone, [(JOBS, 1), (MAIL, 1)]);
        assert_eq!(stack.total(JOBS).tasks[0], 1);
        assert_eq!(stack.total(MAIL), Delta::default());
    }

    #[test]
    fn a_released_savepoint_becomes_its_parents_even_without_a_parent_record() {
        let mut stack = Stack::default();
        put(&mut stack, 4, JOBS);
        stack.commit_subtransaction(4);
        stack.commit_subtransaction(3);
        assert_eq!(stack.total(JOBS).made_ready, 1);
        stack.abort_subtransaction(2, |_, _| {});
        assert_eq!(stack.total(JOBS), Delta::default());
    }

    #[test]
    fn truncate_replaces_what_came_before_and_can_be_rolled_back() {
        let mut stack = Stack::default();
        put(&mut stack, 1, JOBS);
        stack.at(2, JOBS).replace([0; 6]);
        put(&mut stack, 2, JOBS);
        put(&mut stack, 2, JOBS);
        assert_eq!(stack.total(JOBS).tasks[0], 2);
        assert!(stack.total(JOBS).replaces);
        stack.abort_subtransaction(2, |_, _| {});
        assert_eq!(stack.total(JOBS).tasks[0], 1);
        assert!(!stack.total(JOBS).replaces);
        stack.at(2, JOBS).replace([0; 6]);
        stack.commit_subtransaction(2);
        assert_eq!(stack.total(JOBS).tasks[0], 0);
        assert!(stack.total(JOBS).replaces);
    }

    #[test]
    fn a_task_put_and_taken_in_one_transaction_counts_once() {
        let mut stack = Stack::default();
        put(&mut stack, 1, JOBS);
        stack.at(1, JOBS).change(Some(Status::Ready), Some(Status::Taken));
        let total = stack.total(JOBS);
        assert_eq!(total.tasks, [0, 1, 0, 0, 0, 0]);
        assert_eq!((total.made_ready, total.unmade_ready), (1, 1));
    }

    #[test]
    fn what_was_dropped_may_be_there_again() {
        let mut stack = Stack::default();
        stack.at(1, JOBS).dropped = Some(true);
        stack.at(2, JOBS).dropped = Some(false);
        assert_eq!(stack.total(JOBS).dropped, Some(false));
        stack.abort_subtransaction(2, |_, _| {});
        assert_eq!(stack.total(JOBS).dropped, Some(true));
    }

    #[test]
    fn the_earliest_instant_wins() {
        let mut stack = Stack::default();
        stack.at(1, JOBS).due_at(50);
        stack.at(2, JOBS).due_at(20);
        stack.commit_subtransaction(2);
        assert_eq!(stack.total(JOBS).due, Some(20));
    }
}
