//! The stack of changes, case by case.

use super::*;
use crate::change::{Counts, NOWHERE, OTHER_TUBE, StateAndTube, Tube};
use crate::status::Status;
use crate::transaction::SUBQUEUES_NOTED;
use crate::transaction::{Ready, TUBES_NOTED};

const JOBS: SlotId = SlotId { index: 3, generation: 1 };
const MAIL: SlotId = SlotId { index: 4, generation: 1 };

fn put(stack: &mut Stack, depth: i32, slot: SlotId) {
    stack.at(depth, slot).change(None, at(Status::Ready));
}

fn at(status: Status) -> Option<StateAndTube> {
    Some(StateAndTube { status, tube: None })
}

fn in_tube(status: Status, index: usize) -> Option<StateAndTube> {
    let tube = Tube {
        hash: index as u64 + 10,
        counted: Some(index),
        is_subqueue: false,
        is_strict: false,
    };
    Some(StateAndTube { status, tube: Some(tube) })
}

#[test]
fn of_very_many_tubes_some_are_noted_and_all_are_counted() {
    let mut ready = Ready::default();
    for tube in (0..1000).chain(0..10) {
        ready.add(Some(tube), 2);
    }
    let noted: Vec<_> = ready.by_tube().collect();
    assert_eq!(noted.len(), TUBES_NOTED + 1);
    assert_eq!((noted[0], noted[TUBES_NOTED]), ((Some(0), 4), (None, 2 * (1000 - 256))));
}

#[test]
fn a_rolled_back_savepoint_leaves_the_outer_changes() {
    let mut stack = Stack::new();
    put(&mut stack, 1, JOBS);
    put(&mut stack, 2, JOBS);
    put(&mut stack, 3, MAIL);
    stack.commit_subtransaction(3);
    let mut undone = Vec::new();
    stack.abort_subtransaction(2, |slot, delta| undone.push((slot, delta.counters.tasks[0])));
    assert_eq!(undone, [(JOBS, 1), (MAIL, 1)]);
    assert_eq!(stack.total(JOBS).counters.tasks[0], 1);
    assert_eq!(stack.total(MAIL), Delta::default());
}

#[test]
fn a_released_savepoint_becomes_its_parents_even_without_a_parent_record() {
    let mut stack = Stack::new();
    put(&mut stack, 4, JOBS);
    stack.commit_subtransaction(4);
    stack.commit_subtransaction(3);
    assert_eq!(ready(&stack.total(JOBS).waiters.made_ready), [(None, 1)]);
    stack.abort_subtransaction(2, |_, _| {});
    assert_eq!(stack.total(JOBS), Delta::default());
}

#[test]
fn truncate_replaces_what_came_before_and_can_be_rolled_back() {
    let mut stack = Stack::new();
    put(&mut stack, 1, JOBS);
    stack.at(2, JOBS).replace(&Counts::default());
    put(&mut stack, 2, JOBS);
    put(&mut stack, 2, JOBS);
    assert_eq!(stack.total(JOBS).counters.tasks[0], 2);
    assert!(stack.total(JOBS).counters.replaces);
    stack.abort_subtransaction(2, |_, _| {});
    assert_eq!(stack.total(JOBS).counters.tasks[0], 1);
    assert!(!stack.total(JOBS).counters.replaces);
    stack.at(2, JOBS).replace(&Counts::default());
    stack.commit_subtransaction(2);
    assert_eq!(stack.total(JOBS).counters.tasks[0], 0);
    assert!(stack.total(JOBS).counters.replaces);
}

#[test]
fn a_task_put_and_taken_in_one_transaction_counts_once() {
    let mut stack = Stack::new();
    put(&mut stack, 1, JOBS);
    stack.at(1, JOBS).change(at(Status::Ready), at(Status::Taken));
    let total = stack.total(JOBS);
    assert_eq!(total.counters.tasks, [0, 1, 0, 0, 0, 0]);
    assert_eq!(ready(&total.waiters.made_ready), [(None, 1)]);
    assert_eq!(ready(&total.waiters.unmade_ready), [(None, 1)]);
    assert_eq!(total.counters.transitions[NOWHERE][0], 1);
    assert_eq!(total.counters.transitions[0][1], 1);
}

fn ready(ready: &Ready) -> Vec<(Option<u64>, u32)> {
    ready.by_tube().collect()
}

#[test]
fn a_task_that_moves_leaves_one_tube_and_enters_another() {
    let mut delta = Delta::default();
    delta.change(None, in_tube(Status::Ready, 0));
    delta.change(in_tube(Status::Ready, 0), in_tube(Status::Waiting, 1));
    delta.change(in_tube(Status::Waiting, 1), in_tube(Status::Ready, 1));
    let [(0, first), (1, second)] = &delta.counters.tubes[..] else {
        panic!("{:?}", delta.counters.tubes)
    };
    assert_eq!((first.tasks, second.tasks[0]), ([0; 6], 1));
    assert_eq!(first.transitions[0][OTHER_TUBE], 1);
    assert_eq!(second.transitions[OTHER_TUBE][2], 1);
    assert_eq!(second.transitions[2][0], 1);
    assert_eq!(delta.counters.tasks, [1, 0, 0, 0, 0, 0]);
    assert_eq!(ready(&delta.waiters.made_ready), [(Some(10), 1), (Some(11), 1)]);
}

#[test]
fn truncate_replaces_the_tubes_too() {
    let mut stack = Stack::new();
    stack.at(1, JOBS).change(None, in_tube(Status::Ready, 3));
    stack.at(2, JOBS).replace(&Counts::default());
    stack.commit_subtransaction(2);
    let total = stack.total(JOBS);
    assert!(total.counters.tubes.iter().all(|(_, tube)| tube.tasks == [0; 6]));
    assert_eq!(total.counters.tubes[0].1.transitions[NOWHERE][0], 1);
}

#[test]
fn what_was_deleted_is_room_until_that_is_rolled_back() {
    let mut stack = Stack::new();
    stack.at(1, JOBS).change(at(Status::Ready), None);
    assert_eq!(stack.growth(JOBS).lacking(1), 0);
    put(&mut stack, 2, JOBS);
    assert_eq!(stack.growth(JOBS).lacking(1), 1);
    stack.at(2, JOBS).capacity.reserved = 3;
    assert_eq!((stack.growth(JOBS).lacking(1), stack.growth(JOBS).surplus()), (-2, 3));
    stack.at(3, JOBS).replace(&Counts::default());
    put(&mut stack, 3, JOBS);
    let growth = stack.growth(JOBS);
    assert_eq!((growth.tasks, growth.replaces, growth.surplus()), (1, true, 2));
    stack.abort_subtransaction(2, |_, _| {});
    assert_eq!(stack.growth(JOBS), Growth { tasks: -1, ..Growth::default() });
}

#[test]
fn what_was_dropped_may_be_there_again() {
    let mut stack = Stack::new();
    stack.at(1, JOBS).table.dropped = Some(true);
    stack.at(2, JOBS).table.dropped = Some(false);
    assert_eq!(stack.total(JOBS).table.dropped, Some(false));
    stack.abort_subtransaction(2, |_, _| {});
    assert_eq!(stack.total(JOBS).table.dropped, Some(true));
}

#[test]
fn the_first_owner_is_the_one_before_the_transaction() {
    let mut stack = Stack::new();
    stack.at(2, JOBS).table.owner_before = Some(7);
    stack.at(3, JOBS).table.owner_before = Some(8);
    stack.commit_subtransaction(3);
    assert_eq!(stack.owners_before(), [(JOBS, 7)]);
    stack.abort_subtransaction(2, |_, _| {});
    assert_eq!(stack.owners_before(), []);
    stack.at(1, MAIL).table.owner_before = Some(9);
    stack.at(2, MAIL).table.owner_before = Some(7);
    assert_eq!(stack.owners_before(), [(MAIL, 9)]);
}

/// Leaving a session is not undone with a savepoint, but the tasks taken for the session are.
#[test]
fn a_session_that_is_left_stays_noted_for_the_changes_that_stay() {
    let mut stack = Stack::new();
    put(&mut stack, 1, JOBS);
    put(&mut stack, 2, MAIL);
    stack.note_left([7; 16]);
    stack.abort_subtransaction(2, |_, _| {});
    assert!(stack.total(JOBS).leases.given.knows([7; 16]));
    assert!(!stack.total(MAIL).leases.given.knows([7; 16]));
}

#[test]
fn a_look_in_vain_stays_known_beside_changes_of_other_subqueues() {
    let mut stack = Stack::new();
    stack.at(1, JOBS).subqueues.exhaust(7);
    put(&mut stack, 2, JOBS);
    assert!(stack.subqueue(JOBS, 7).exhausted);
}

#[test]
fn a_look_in_vain_is_not_known_beside_changes_that_are_not_noted() {
    let put = |stack: &mut Stack, depth, subqueue| {
        let tube = Tube { hash: subqueue, counted: None, is_subqueue: true, is_strict: false };
        let place = Some(StateAndTube { status: Status::Ready, tube: Some(tube) });
        stack.at(depth, JOBS).subqueues.change(None, place, (5, 0));
    };
    let mut stack = Stack::new();
    stack.at(1, JOBS).subqueues.exhaust(7);
    stack.at(1, JOBS).subqueues.exhaust(8);
    put(&mut stack, 2, 8);
    stack.at(2, JOBS).subqueues.exhaust(8);
    (0..SUBQUEUES_NOTED as u64).for_each(|subqueue| put(&mut stack, 2, 100 + subqueue));
    assert!(stack.total(JOBS).subqueues.more);
    put(&mut stack, 2, 7);
    let known = |stack: &Stack| [7, 8].map(|subqueue| stack.subqueue(JOBS, subqueue).exhausted);
    let summed =
        |stack: &Stack| [7, 8].map(|subqueue| stack.subqueues(JOBS).get(subqueue).exhausted);
    assert_eq!((known(&stack), summed(&stack)), ([false, true], [false, true]));
    stack.commit_subtransaction(2);
    assert_eq!((known(&stack), summed(&stack)), ([false, true], [false, true]));
    stack.at(1, JOBS).subqueues.exhaust(7);
    assert_eq!(known(&stack), [true, true]);
}

#[test]
fn the_earliest_instant_wins() {
    let mut stack = Stack::new();
    stack.at(1, JOBS).schedule.due_at(50);
    stack.at(2, JOBS).schedule.due_at(20);
    stack.commit_subtransaction(2);
    assert_eq!(stack.total(JOBS).schedule.due, Some(20));
}
