//! The stack of changes against a model that keeps every change with the depth at which it was made. For any sequence
//! of releases and rollbacks, the sum is that of the remaining changes.

mod changes;
mod model;
mod stack;

use crate::change::{CallKind, Counts, OTHER_TUBE, Outcome, StateAndTube};
use crate::level::Level;
use crate::position::{Group, Position, TaskKind};
use crate::slot_id::SlotId;
use crate::status::{Status, Tasks};
use crate::transaction::Delta;
use crate::transaction::Growth;
use crate::transaction::HeldChange;
use crate::transaction::SubqueueChange;
use crate::transaction::stack::Stack;
use crate::transaction::{Ready, TUBES_NOTED};
use changes::{Change, Step, apply, flags, steps};
use model::Model;
use proptest::prelude::*;
use std::collections::BTreeMap;

const JOBS: SlotId = SlotId { index: 3, generation: 1 };
const MAIL: SlotId = SlotId { index: 3, generation: 2 };

fn assert_sum(model: &Model, slot: SlotId, delta: &Delta) -> Result<(), TestCaseError> {
    let (tasks, replaces, tubes) = model.tasks(slot);
    prop_assert_eq!((delta.counters.tasks, delta.counters.replaces), (tasks, replaces));
    let of_tubes = delta.counters.tubes.iter().map(|(tube, change)| (*tube, change.tasks));
    let of_tubes = of_tubes.filter(|(_, tasks)| *tasks != Tasks::default());
    prop_assert_eq!(of_tubes.collect::<BTreeMap<_, _>>(), tubes);
    let mut transitions = BTreeMap::new();
    let of_tubes =
        delta.counters.tubes.iter().map(|(tube, change)| (Some(*tube), &change.transitions));
    for (of, table) in of_tubes.chain([(None, &delta.counters.transitions)]) {
        for (from, row) in table.iter().enumerate() {
            let counted = row.iter().enumerate().filter(|(_, count)| **count != 0);
            transitions.extend(counted.map(|(to, count)| ((of, from, to), *count)));
        }
    }
    prop_assert_eq!(transitions, model.transitions(slot));
    let of_ready = |ready: &Ready| ready.by_tube().collect::<BTreeMap<_, _>>();
    prop_assert_eq!(of_ready(&delta.waiters.made_ready), model.ready(slot, true));
    prop_assert_eq!(of_ready(&delta.waiters.unmade_ready), model.ready(slot, false));
    for subqueue in 0..4 {
        prop_assert_eq!(
            delta.subqueues.get(subqueue),
            model.subqueue(slot, subqueue),
            "sub-queue {}",
            subqueue
        );
    }
    prop_assert_eq!(delta.leases.held, model.held(slot));
    let lowest =
        delta.marks.lowest.by_group().map(|(group, at)| (format!("{group:?}"), (group, at)));
    prop_assert_eq!(lowest.collect::<BTreeMap<_, _>>(), model.lowest(slot));
    let calls = CallKind::ALL.map(|call| {
        model.sum(slot, |change| match change {
            Change::Called(of, tasks) if *of == call => *tasks as i64,
            _ => 0,
        })
    });
    prop_assert_eq!(delta.counters.calls, calls);
    let due = model.of(slot).filter_map(|change| match change {
        Change::Due(instant) => Some(*instant),
        _ => None,
    });
    prop_assert_eq!(delta.schedule.due, due.min());
    let ended = model.of(slot).filter_map(|change| match change {
        Change::Ended(key, outcome) => Some((*key, *outcome)),
        _ => None,
    });
    prop_assert_eq!(&delta.waiters.ended, &ended.collect::<Vec<_>>());
    let mut given = Vec::new();
    for change in model.of(slot) {
        let Change::Given(session) = change else { continue };
        if !given.contains(&[*session; 16]) {
            given.push([*session; 16]);
        }
    }
    prop_assert_eq!(delta.leases.given.sessions().collect::<Vec<_>>(), given);
    let reserved = |change: &Change| if let Change::Reserved(tasks) = change { *tasks } else { 0 };
    prop_assert_eq!(delta.capacity.reserved, model.sum(slot, reserved));
    let taken =
        |change: &Change| if let Change::Taken(tasks) = change { i64::from(*tasks) } else { 0 };
    prop_assert_eq!(i64::from(delta.leases.taken), model.sum(slot, taken));
    let capacity =
        |change: &Change| if let Change::Capacity(to) = change { Some(*to) } else { None };
    prop_assert_eq!(delta.capacity.limit, model.last(slot, capacity));
    let tracked =
        |change: &Change| if let Change::Tracked(tracked) = change { Some(*tracked) } else { None };
    prop_assert_eq!(delta.counters.tracked, model.last(slot, tracked));
    let paused = |change: &Change| if let Change::Paused(is) = change { Some(*is) } else { None };
    prop_assert_eq!(delta.table.paused, model.last(slot, paused));
    let dropped = |change: &Change| if let Change::Dropped(is) = change { Some(*is) } else { None };
    prop_assert_eq!(delta.table.dropped, model.last(slot, dropped));
    let digs = |change: &Change| match change {
        Change::Task { old: Some(old), new, .. } => {
            old.status == Status::Buried && new.is_none_or(|new| new.status != Status::Buried)
        }
        _ => false,
    };
    prop_assert_eq!(delta.marks.unmade_buried, model.of(slot).any(digs));
    for (flag, is_set) in flags(&mut delta.clone()).into_iter().enumerate() {
        let sets = |change: &Change| matches!(change, Change::Flag(of) if *of == flag);
        prop_assert_eq!(*is_set, model.of(slot).any(sets), "flag {}", flag);
    }
    Ok(())
}

/// The answers of the stack follow from its total.
fn assert_questions(stack: &Stack, slot: SlotId) -> Result<(), TestCaseError> {
    let total = stack.total(slot);
    prop_assert_eq!(stack.transitions(slot), (total.counters.transitions, total.schedule.due));
    let growth = Growth {
        tasks: total.counters.tasks.iter().sum(),
        replaces: total.counters.replaces,
        reserved: total.capacity.reserved,
        redefines: total.capacity.limit.is_some(),
    };
    prop_assert_eq!(stack.growth(slot), growth);
    prop_assert_eq!(growth.lacking(growth.reserved), growth.tasks);
    let may_hide = total.marks.moved || total.counters.replaces || total.table.redefined;
    prop_assert_eq!(
        stack.hides(slot, TaskKind::Ready),
        may_hide || !total.waiters.unmade_ready.is_empty()
    );
    prop_assert_eq!(stack.hides(slot, TaskKind::Buried), may_hide || total.marks.unmade_buried);
    let has_redefined = total.table.redefined || total.counters.recount || total.counters.replaces;
    prop_assert_eq!(stack.has_redefined(slot), has_redefined);
    for kind in [TaskKind::Ready, TaskKind::Buried] {
        let of_kind = total.marks.lowest.by_group().filter(|(group, _)| match kind {
            TaskKind::Ready => *group != Group::Buried,
            TaskKind::Buried => *group == Group::Buried || *group == Group::ALL,
        });
        prop_assert_eq!(stack.lowest(slot, kind), of_kind.map(|(_, position)| position).min());
    }
    let subqueues = stack.subqueues(slot);
    for subqueue in 0..4 {
        prop_assert_eq!(subqueues.get(subqueue), total.subqueues.get(subqueue));
        prop_assert_eq!(stack.subqueue(slot, subqueue), total.subqueues.get(subqueue));
    }
    prop_assert_eq!(stack.dropped().contains(&slot), total.table.dropped == Some(true));
    Ok(())
}

proptest! {
    #[test]
    fn what_is_left_of_a_transaction_is_its_sum(steps in steps()) {
        let (mut stack, mut model, mut depth) = (Stack::new(), Model::default(), 1);
        for step in steps {
            match step {
                Step::Change(slot, change) => {
                    let is_possible = match change {
                        Change::Claim(subqueue) => model.may_claim(slot, subqueue),
                        Change::Unclaim(subqueue) => model.unclaim(slot, subqueue, depth),
                        _ => true,
                    };
                    if is_possible {
                        apply(stack.at(depth, slot), &change);
                        model.0.push((depth, slot, change));
                    }
                }
                Step::Savepoint => depth += 1,
                Step::Release if depth > 1 => {
                    stack.commit_subtransaction(depth);
                    model.release(depth);
                    depth -= 1;
                }
                Step::Rollback if depth > 1 => {
                    let expected = model.roll_back(depth);
                    let mut undone = Vec::new();
                    stack.abort_subtransaction(depth, |slot, delta| undone.push((slot, delta.clone())));
                    for slot in [JOBS, MAIL] {
                        let of_slot = undone.iter().filter(|(of, _)| *of == slot);
                        let deltas: Vec<&Delta> = of_slot.map(|(_, delta)| delta).collect();
                        prop_assert!(deltas.len() <= 1, "undone twice");
                        assert_sum(&expected, slot, deltas.first().copied().unwrap_or(&Delta::default()))?;
                    }
                    depth -= 1;
                }
                Step::Release | Step::Rollback => {}
            }
        }
        let mut held = HeldChange::default();
        [JOBS, MAIL].iter().for_each(|slot| held.absorb(stack.total(*slot).leases.held));
        prop_assert_eq!(stack.held(), held);
        for slot in [JOBS, MAIL] {
            assert_questions(&stack, slot)?;
        }
        // At the end of the transaction the open subtransactions are released.
        for depth in (2..=depth).rev() {
            stack.commit_subtransaction(depth);
        }
        let mut applied = BTreeMap::new();
        stack.for_each(|slot, delta| {
            assert!(applied.insert(slot.generation, delta.clone()).is_none(), "applied twice");
        });
        for slot in [JOBS, MAIL] {
            assert_sum(&model, slot, applied.get(&slot.generation).unwrap_or(&Delta::default()))?;
        }
        stack.clear();
        prop_assert!(stack.is_empty() && stack.total(JOBS) == Delta::default());
        // The stack reuses its memory for the next transaction, which sees no old changes.
        stack.at(1, JOBS);
        prop_assert!(stack.total(JOBS) == Delta::default() && stack.total(MAIL) == Delta::default());
    }

    /// With more tubes and groups than are recorded separately, all tasks are counted. No task stands before the
    /// position recorded for its group or a wider one.
    #[test]
    fn of_more_than_are_noted_nothing_is_lost(
        added in prop::collection::vec((0..400u64, 0..3i64, 0..9u128), 0..500), cut in any::<prop::sample::Index>()
    ) {
        let (outer, inner) = added.split_at(cut.index(added.len() + 1));
        let mut deltas = [outer, inner].map(|added| {
            let mut delta = Delta::default();
            for (tube, priority, position) in added {
                delta.waiters.made_ready.add(Some(*tube), 1);
                let group = Group::Ready { tube: Some(*tube), priority: Some(*priority) };
                delta.marks.lowest.add(group, *position);
            }
            delta
        });
        let later = std::mem::take(&mut deltas[1]);
        deltas[0].absorb(&later);
        let sum = &deltas[0];
        let counts: Vec<_> = sum.waiters.made_ready.by_tube().collect();
        prop_assert!(counts.len() <= TUBES_NOTED + 1);
        prop_assert_eq!(counts.iter().map(|(_, count)| *count).sum::<u32>(), added.len() as u32);
        let lowest: Vec<_> = sum.marks.lowest.by_group().collect();
        prop_assert!(lowest.len() <= 2 * TUBES_NOTED + 1);
        for (tube, priority, position) in added {
            let group = Group::Ready { tube: Some(tube), priority: Some(priority) };
            let groups = [group, group.wider(), Group::ALL];
            prop_assert!(lowest.iter().any(|(noted, at)| groups.contains(noted) && *at <= position));
        }
    }
}
