//! Changes of the open transaction, by nesting depth and queue.
//!
//! Modelled on the stack of PostgreSQL's own statistics (pgstat), with one level for each nesting depth at which
//! something changed. A released savepoint is added to its parent, and one that is rolled back is dropped. A TRUNCATE
//! replaces the counts before it.

use crate::change::Transitions;
use crate::position::{Position, TaskKind};
use crate::slot_id::SlotId;
use crate::transaction::Delta;
use crate::transaction::Growth;
use crate::transaction::HeldChange;
use crate::transaction::counters::add_all;
use crate::transaction::{SubqueueChange, SubqueueChanges};

/// Number of queues whose memory is kept for the next transaction.
const SPARE: usize = 8;

struct Level {
    depth: i32,
    deltas: Vec<(SlotId, Delta)>,
}

/// Changes of the open transaction. Levels are ordered by depth, outermost first.
#[derive(Default)]
pub struct Stack {
    levels: Vec<Level>,
    /// Memory of the previous transaction.
    spare: Vec<(SlotId, Delta)>,
}

impl Stack {
    pub const fn new() -> Stack {
        Stack { levels: Vec::new(), spare: Vec::new() }
    }

    /// Returns the changes of `slot` at nesting depth `depth` for the caller to add to.
    pub fn at(&mut self, depth: i32, slot: SlotId) -> &mut Delta {
        if self.levels.last().is_none_or(|level| level.depth < depth) {
            self.levels.push(Level { depth, deltas: std::mem::take(&mut self.spare) });
        }
        let last = self.levels.len() - 1;
        let deltas = &mut self.levels[last].deltas;
        let position = deltas.iter().position(|(known, _)| *known == slot).unwrap_or_else(|| {
            deltas.push((slot, Delta::default()));
            deltas.len() - 1
        });
        &mut deltas[position].1
    }

    /// Adds the changes of the subtransaction at `depth`, which has committed, to its parent.
    pub fn commit_subtransaction(&mut self, depth: i32) {
        let Some(mut level) = self.levels.pop_if(|level| level.depth >= depth) else { return };
        match self.levels.last_mut() {
            Some(parent) if parent.depth >= depth - 1 => {
                for (slot, delta) in &level.deltas {
                    match parent.deltas.iter_mut().find(|(known, _)| known == slot) {
                        Some((_, into)) => into.absorb(delta),
                        None => parent.deltas.push((*slot, delta.clone())),
                    }
                }
            }
            _ => {
                level.depth = depth - 1;
                self.levels.push(level);
            }
        }
    }

    /// Drops the changes of the subtransaction at `depth`, which is rolled back, and passes them to `undone`.
    pub fn abort_subtransaction(&mut self, depth: i32, mut undone: impl FnMut(SlotId, &Delta)) {
        while let Some(level) = self.levels.pop_if(|level| level.depth >= depth) {
            level.deltas.iter().for_each(|(slot, delta)| undone(*slot, delta));
        }
    }

    /// Passes all changes to `see`, outermost first. Allocates nothing.
    pub fn for_each(&self, mut see: impl FnMut(SlotId, &Delta)) {
        for level in &self.levels {
            level.deltas.iter().for_each(|(slot, delta)| see(*slot, delta));
        }
    }

    /// Records in all changed queues that a session is left. Each change carries its own record, so a rollback to a
    /// savepoint drops only the records of changes that it undoes.
    pub fn note_left(&mut self, session: [u8; 16]) {
        for level in &mut self.levels {
            level.deltas.iter_mut().for_each(|(_, delta)| delta.leases.given.add(session));
        }
    }

    /// Returns how many leases, in all queues, the connection's own session has got and lost.
    pub fn held(&self) -> HeldChange {
        let mut held = HeldChange::default();
        self.for_each(|_, delta| held.absorb(delta.leases.held));
        held
    }

    /// Returns whether a sub-queue of any queue is claimed, or has a task that was taken.
    pub fn holds_subqueue(&self) -> bool {
        let mut holds = false;
        self.for_each(|_, delta| holds = holds || delta.subqueues.holds_any());
        holds
    }

    /// Returns the queues that were dropped and not created again.
    pub fn dropped(&self) -> Vec<SlotId> {
        let mut dropped = Vec::new();
        self.for_each(|slot, delta| {
            if let Some(is_dropped) = delta.table.dropped {
                dropped.retain(|known| *known != slot);
                dropped.extend(is_dropped.then_some(slot));
            }
        });
        dropped
    }

    /// Returns the previous owners of queues whose tables have been altered.
    pub fn owners_before(&self) -> Vec<(SlotId, u32)> {
        let mut owners: Vec<(SlotId, u32)> = Vec::new();
        self.for_each(|slot, delta| {
            let is_known = owners.iter().any(|(known, _)| *known == slot);
            owners
                .extend(delta.table.owner_before.filter(|_| !is_known).map(|owner| (slot, owner)));
        });
        owners
    }

    /// Returns whether a role that is not a superuser has altered the queue's table.
    pub fn is_altered_by_user(&self, slot: SlotId) -> bool {
        self.of(slot).any(|delta| delta.table.altered_by_user)
    }

    /// Returns the changes of one queue by the whole transaction.
    pub fn total(&self, slot: SlotId) -> Delta {
        let mut total = Delta::default();
        self.for_each(|known, delta| {
            if known == slot {
                total.absorb(delta);
            }
        });
        total
    }

    /// Returns the transitions of one queue's tasks, and the earliest instant at which the worker has to act.
    pub fn transitions(&self, slot: SlotId) -> (Transitions, Option<i64>) {
        let mut total = Transitions::default();
        self.of(slot).for_each(|delta| add_all(&mut total, &delta.counters.transitions));
        (total, self.of(slot).filter_map(|delta| delta.schedule.due).min())
    }

    /// Returns the effect on the number of a queue's tasks.
    pub fn growth(&self, slot: SlotId) -> Growth {
        let mut growth = Growth::default();
        self.of(slot).for_each(|delta| growth.absorb(&delta.counters, &delta.capacity));
        growth
    }

    /// Returns whether other transactions can see tasks of this kind that this one does not see.
    pub fn hides(&self, slot: SlotId, kind: TaskKind) -> bool {
        let hides = |delta: &Delta| {
            let has_changed = match kind {
                TaskKind::Ready => !delta.waiters.unmade_ready.is_empty(),
                TaskKind::Buried => delta.marks.unmade_buried,
            };
            has_changed || delta.marks.moved || delta.counters.replaces || delta.table.redefined
        };
        self.of(slot).any(hides)
    }

    /// Returns whether the transaction has made changes that are not reported row by row.
    pub fn has_redefined(&self, slot: SlotId) -> bool {
        self.of(slot)
            .any(|delta| delta.table.redefined || delta.counters.recount || delta.counters.replaces)
    }

    /// Returns the first position at which the transaction has made a task ready, or buried one.
    pub fn lowest(&self, slot: SlotId, kind: TaskKind) -> Option<Position> {
        let places = self.of(slot).flat_map(|delta| delta.marks.lowest.by_group());
        places.filter(|(group, _)| kind.may_be_in(*group)).map(|(_, position)| position).min()
    }

    fn of(&self, slot: SlotId) -> impl Iterator<Item = &Delta> {
        let changes = self.levels.iter().flat_map(|level| &level.deltas);
        changes.filter(move |(known, _)| *known == slot).map(|(_, delta)| delta)
    }

    /// Returns the changes of a queue's sub-queues.
    pub fn subqueues(&self, slot: SlotId) -> SubqueueChanges {
        let mut total = SubqueueChanges::default();
        self.of(slot).for_each(|delta| total.absorb(&delta.subqueues));
        total
    }

    /// Returns whether the changes of all the queue's sub-queues are recorded.
    pub fn has_all_subqueues(&self, slot: SlotId) -> bool {
        self.of(slot).all(|delta| !delta.subqueues.more)
    }

    /// Returns the changes of one sub-queue.
    pub fn subqueue(&self, slot: SlotId, subqueue: u64) -> SubqueueChange {
        let mut total = SubqueueChange::default();
        self.of(slot).for_each(|delta| delta.subqueues.add_to(&mut total, subqueue));
        total
    }

    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    pub fn clear(&mut self) {
        let first = self.levels.drain(..).next();
        if let Some(Level { mut deltas, .. }) = first.filter(|level| level.deltas.len() <= SPARE) {
            deltas.clear();
            self.spare = deltas;
        }
    }
}
