//! Leases of this connection's own session. When the session ends, the worker looks for these tasks by key, and for
//! none if there are none, however many tasks the session has acked. The index of taken tasks, in which acked tasks
//! leave entries until VACUUM, is scanned only for sessions whose leases are not known.
//!
//! The list may contain more than is held: a task given back by another session stays listed until this one takes it
//! again. It must never contain less: code that takes tasks without recording them calls [`forget`] or
//! [`crate::parts::leases::sessions::distrust`].

use crate::model::position::Position;
use crate::parts::leases::change::{HeldChange, HeldChanges, TASKS_NOTED};
use crate::parts::leases::departed::HeldLease;
use crate::parts::leases::sessions;
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::server::allocator::staying;
use std::cell::{Cell, RefCell};

thread_local! {
    static HELD: RefCell<Vec<(SlotId, HeldLock)>> = const { RefCell::new(Vec::new()) };
    /// The session may hold unrecorded tasks.
    static UNKNOWN: Cell<bool> = const { Cell::new(false) };
}

/// Number of queues whose memory is kept from one transaction to the next.
const QUEUES_KEPT: usize = 8;

/// Leases on the tasks of one queue.
#[derive(Debug)]
struct HeldLock {
    /// Has the capacity for `TASKS_NOTED`.
    places: Vec<Position>,
    /// Number of leases at unrecorded positions.
    others: u64,
}

impl Default for HeldLock {
    fn default() -> HeldLock {
        HeldLock { places: Vec::with_capacity(TASKS_NOTED), others: 0 }
    }
}

impl HeldLock {
    /// Must neither allocate nor fail.
    fn apply(&mut self, changes: &HeldChanges) {
        // A statement's triggers fire at its end, so a call within it is recorded before: a task may be recorded as
        // lost before it is recorded as taken, or as taken twice.
        let mut has_twice = false;
        for change in changes.iter() {
            match change {
                HeldChange::Got(position) => {
                    has_twice |= self.places.contains(&position);
                    self.get(position);
                }
                HeldChange::Count { got, .. } => self.others += got,
                HeldChange::Lost(_) => {}
            }
        }
        for change in changes.iter() {
            match change {
                HeldChange::Lost(position) => self.lose(position),
                HeldChange::Count { lost, .. } if lost > 0 => self.lose_some(lost),
                HeldChange::Count { .. } | HeldChange::Got(_) => {}
            }
        }
        if has_twice {
            self.places.sort_unstable();
            self.places.dedup();
        }
    }

    fn get(&mut self, position: Position) {
        match self.places.len() < TASKS_NOTED {
            true => self.places.push(position),
            false => self.others += 1,
        }
    }

    fn lose(&mut self, position: Position) {
        match self.places.iter().position(|place| *place == position) {
            Some(index) => drop(self.places.swap_remove(index)),
            None => self.others = self.others.saturating_sub(1),
        }
    }

    /// Removes a number of leases at unknown positions; the others are only counted from then on.
    fn lose_some(&mut self, tasks: u64) {
        self.others += self.places.len() as u64;
        self.places.clear();
        self.others = self.others.saturating_sub(tasks);
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty() && self.others == 0
    }

    /// Returns whether a task at this position may be held.
    fn may_hold(&self, position: Position) -> bool {
        self.others > 0 || self.places.contains(&position)
    }
}

/// Allocates what `commit` needs for a queue.
pub fn prepare(slot: SlotId) {
    staying(|| {
        HELD.with_borrow_mut(|held| {
            if held.iter().all(|(known, _)| *known != slot) {
                held.push((slot, HeldLock::default()));
            }
        })
    });
}

/// Applies what a transaction has committed. Must neither allocate nor fail.
pub fn commit(slot: SlotId, changes: &HeldChanges) {
    if changes.is_empty() {
        return;
    }
    HELD.with_borrow_mut(|held| match held.iter_mut().find(|(known, _)| *known == slot) {
        Some((_, held)) => held.apply(changes),
        None => forget(),
    });
}

/// Records that the session may hold unrecorded tasks.
pub fn forget() {
    UNKNOWN.set(true);
}

/// Frees entries of queues without leases if there are many. Must neither allocate nor fail.
pub(super) fn transaction_ended() {
    HELD.with_borrow_mut(|held| {
        if held.len() > QUEUES_KEPT {
            held.retain(|(_, held)| !held.is_empty());
        }
    });
}

/// Returns the leases on tasks of existing queues; None if they are not known.
pub(super) fn tasks() -> Option<Vec<HeldLease>> {
    let mut tasks = Vec::new();
    HELD.with_borrow(|held| {
        for (slot, held) in held.iter().filter(|(slot, _)| slot::lock(*slot).is_some()) {
            if held.others > 0 {
                return None;
            }
            let places = held.places.iter();
            tasks.extend(places.map(|position| HeldLease { slot: *slot, position: *position }));
        }
        (!UNKNOWN.get()).then_some(tasks)
    })
}

/// Returns the maximum number of leases; None if it is not known.
pub fn count() -> Option<u64> {
    let count = |held: &HeldLock| held.places.len() as u64 + held.others;
    let sum = HELD.with_borrow(|held| held.iter().map(|(_, held)| count(held)).sum());
    (!UNKNOWN.get()).then_some(sum)
}

/// Discards the leases of a session that has ended.
pub(super) fn clear() {
    UNKNOWN.set(false);
    HELD.with_borrow_mut(Vec::clear);
}

/// Returns whether the end of the session will lead the worker to this task: it is recorded, or the leases are not
/// known.
pub fn may_hold(slot: SlotId, position: Position) -> bool {
    let epoch = slot::lock(slot).map(|slot| slot.epoch());
    let is_sure = sessions::own_is_sure_since() >= epoch && epoch.is_some() && !UNKNOWN.get();
    let is_noted = |(known, held): &(SlotId, HeldLock)| *known == slot && held.may_hold(position);
    !is_sure || HELD.with_borrow(|held| held.iter().any(is_noted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the leases after transactions that each take, or lose (false), the tasks at these positions.
    fn after(transactions: &[&[(bool, Position)]]) -> HeldLock {
        let mut held = HeldLock::default();
        for transaction in transactions {
            let mut changes = HeldChanges::default();
            for (got, position) in *transaction {
                if *got { changes.get(Some(*position)) } else { changes.lose(Some(*position)) }
            }
            held.apply(&changes);
        }
        held
    }

    fn counted(held: &mut HeldLock, got: u64, lost: u64) {
        let mut changes = HeldChanges::default();
        changes.count(got, lost);
        held.apply(&changes);
    }

    #[test]
    fn what_is_acked_is_held_no_more() {
        let held = after(&[&[(true, 3), (true, 1), (true, 2)], &[(false, 3)]]);
        assert!(!held.may_hold(3) && held.may_hold(1) && held.may_hold(2));
        assert!(after(&[&[(true, 3), (false, 3)], &[(true, 1)], &[(false, 1)]]).is_empty());
    }

    #[test]
    fn a_task_that_comes_back_is_noted_once() {
        // It was given back in between, unreported.
        assert!(after(&[&[(true, 3)], &[(true, 3)], &[(false, 3)]]).is_empty());
    }

    #[test]
    fn a_task_that_is_got_again_before_its_loss_is_noted() {
        let held = after(&[&[(true, 3), (true, 4)], &[(true, 3), (false, 3)]]);
        assert!(held.may_hold(3) && held.may_hold(4) && held.places.len() == 2);
    }

    #[test]
    fn a_loss_that_is_noted_before_its_gain() {
        let mut held = after(&[&[(true, 1), (true, 2)], &[(false, 3), (true, 3)]]);
        assert!(held.may_hold(1) && held.may_hold(2) && !held.may_hold(3));
        let mut changes = HeldChanges::default();
        changes.count(0, 1);
        changes.get(Some(3));
        held.apply(&changes);
        held.lose(1);
        assert!(held.may_hold(2));
    }

    #[test]
    fn of_what_is_only_counted_all_must_go() {
        let mut held = after(&[&[(true, 7)]]);
        counted(&mut held, 3, 0);
        held.lose(7);
        held.lose(1);
        counted(&mut held, 0, 1);
        assert_eq!((held.others, held.may_hold(9)), (1, true));
        counted(&mut held, 0, 1);
        assert!(held.is_empty());
    }

    #[test]
    fn an_unknown_number_of_lost_tasks() {
        let mut held = after(&[&[(true, 1), (true, 2)]]);
        counted(&mut held, 2, 2);
        assert!(held.places.is_empty() && held.others == 2);
        counted(&mut held, 0, 2);
        assert!(held.is_empty());
    }

    #[test]
    fn of_very_many_the_rest_is_counted() {
        let mut held = after(&[&(0..300).map(|position| (true, position)).collect::<Vec<_>>()]);
        assert_eq!((held.places.len(), held.others), (TASKS_NOTED, 300 - 256));
        assert_eq!(held.places.capacity(), TASKS_NOTED);
        (0..299).for_each(|position| held.lose(position));
        assert!(!held.is_empty() && held.may_hold(299));
        held.lose(299);
        assert!(held.is_empty());
    }
}
