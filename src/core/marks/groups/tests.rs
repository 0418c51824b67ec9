//! The effect of a task that becomes ready on the marks of its groups.

use super::*;
use crate::marks::mark::RAISE_AFTER;
use crate::marks::table::MARKS;
use crate::position::FIRST;

fn of(tube: impl Into<Option<u64>>, priority: impl Into<Option<i64>>) -> Group {
    Group::Ready { tube: tube.into(), priority: priority.into() }
}

/// Takes until a priority scan is asked for, and ends it.
fn priority_scan(marks: &mut Copied, found: &[i64]) {
    let take = |_: &u32| {
        let known = marks.marks().known_priorities(None, vec![], true, 7);
        matches!(known, KnownPriorities::PriorityScan)
    };
    assert_eq!((0..1000).find(take), Some(RAISE_AFTER));
    marks.marks().end_priority_scan(7, Some(found));
}

fn known_priorities(marks: &mut Copied, tube: impl Into<Option<u64>>) -> Option<Vec<i64>> {
    match marks.marks().known_priorities(tube.into(), Vec::with_capacity(LIMIT), false, 7) {
        KnownPriorities::All(known) => Some(known),
        KnownPriorities::Some | KnownPriorities::PriorityScan => None,
    }
}

/// Takes until a raise is asked for, and ends it.
fn raise(marks: &mut Copied, group: Group, found: Position) {
    raise_at(marks, group, found, 9);
}

fn raise_at(marks: &mut Copied, group: Group, found: Position, now: i64) {
    assert!(marks.marks().start(group, RAISE_AFTER + 1, true, now).raises);
    marks.marks().end_raise(group, now, Some(found));
}

fn marked<const COUNT: usize>(marks: &mut Copied, groups: [Group; COUNT]) -> [Position; COUNT] {
    groups.map(|group| marks.marks().marked(group))
}

#[test]
fn a_task_of_a_tube_and_a_priority_concerns_these() {
    let mut marks = Copied::default();
    priority_scan(&mut marks, &[5, 6]);
    let groups = [of(1, 5), of(1, 6), of(2, 5), of(None, 5), of(None, 6)];
    groups.iter().for_each(|group| raise(&mut marks, *group, 100));
    marks.marks().lower(of(1, 5), 70);
    assert_eq!(marked(&mut marks, groups), [70, 100, 100, 70, 100]);
    // Each priority can occur in any tube.
    marks.marks().lower(of(2, 4), 60);
    assert_eq!(known_priorities(&mut marks, 1), Some(vec![4, 5, 6]));
    assert_eq!(known_priorities(&mut marks, None), Some(vec![4, 5, 6]));
}

#[test]
fn a_task_of_some_tube_concerns_all() {
    let mut marks = Copied::default();
    priority_scan(&mut marks, &[5]);
    let groups = [of(1, 5), of(2, 5)];
    groups.iter().for_each(|group| raise(&mut marks, *group, 100));
    marks.marks().lower(of(None, 5), 70);
    assert_eq!(marked(&mut marks, groups), [70, 70]);
    // A task of unknown tube and priority.
    marks.marks().lower(Group::ALL, 60);
    assert_eq!((known_priorities(&mut marks, 1), known_priorities(&mut marks, None)), (None, None));
    assert_eq!(marked(&mut marks, groups), [60, 60]);
}

#[test]
fn a_task_of_a_tube_with_an_unknown_priority_concerns_all_of_that() {
    let mut marks = Copied::default();
    priority_scan(&mut marks, &[5]);
    let groups = [of(1, 5), of(2, 5), of(None, 5)];
    groups.iter().for_each(|group| raise(&mut marks, *group, 100));
    marks.marks().lower(of(1, None), 70);
    assert_eq!(known_priorities(&mut marks, 2), None);
    assert_eq!(marked(&mut marks, groups), [70, 100, 70]);
}

#[test]
fn tubes_without_priorities() {
    let mut marks = Copied::default();
    let groups = [of(1, None), of(2, None), Group::ALL];
    raise(&mut marks, of(1, None), 100);
    raise(&mut marks, of(2, None), 200);
    raise(&mut marks, Group::ALL, 90);
    marks.marks().lower(of(2, None), 150);
    assert_eq!(marked(&mut marks, groups), [100, 150, 90]);
    marks.marks().lower(Group::ALL, 10);
    assert_eq!(marked(&mut marks, groups), [10, 10, 10]);
}

#[test]
fn a_group_begins_at_the_mark_of_a_wider_one_and_is_raised_soon() {
    let mut marks = Copied::default();
    raise(&mut marks, of(None, 5), 90);
    raise(&mut marks, Group::ALL, 30);
    assert_eq!(marked(&mut marks, [of(3, 5), of(3, None), of(None, 6)]), [90, 30, 30]);
    let start = marks.marks().start(of(3, 5), 1, true, 10);
    assert_eq!((start.from, start.raises), (90, false));
    assert!(marks.marks().start(of(3, 5), 1, true, 11).raises);
    marks.marks().end_raise(of(3, 5), 11, Some(95));
    assert_eq!(marked(&mut marks, [of(3, 5), of(None, 5)]), [95, 90]);
}

#[test]
fn a_group_that_takes_have_not_used_for_long_is_replaced() {
    let mut marks = Copied::default();
    let tubes = 1..=MARKS as u64;
    tubes.clone().for_each(|tube| raise_at(&mut marks, of(tube, None), 100, tube as i64));
    assert!(tubes.clone().all(|tube| marks.marks().marked(of(tube, None)) == 100));
    let now = 2 * MARKS as i64;
    assert!(!marks.marks().start(of(1, None), 1, true, now).raises);
    let raise = marks.marks().start(of(2, None), RAISE_AFTER + 1, true, 3);
    marks.marks().start(of(99, None), 1, true, now + 1);
    assert_eq!(marked(&mut marks, [of(1, None), of(2, None), of(99, None)]), [100, FIRST, FIRST]);
    // The raise of the mark that was replaced has no effect.
    assert!(raise.raises);
    marks.marks().start(of(2, None), 1, true, now + 2);
    marks.marks().end_raise(of(2, None), 3, Some(200));
    assert_eq!(marked(&mut marks, [of(1, None), of(2, None), of(3, None)]), [100, FIRST, FIRST]);
}

#[test]
fn priorities_without_tasks_are_passed_over() {
    let mut marks = Copied::default();
    priority_scan(&mut marks, &[5, 6]);
    raise(&mut marks, of(1, 6), LAST);
    assert_eq!(known_priorities(&mut marks, 1), Some(vec![5]));
    assert_eq!(known_priorities(&mut marks, 2), Some(vec![5, 6]));
    raise(&mut marks, of(None, 5), LAST);
    assert_eq!(known_priorities(&mut marks, 1), Some(vec![]));
    assert_eq!(known_priorities(&mut marks, None), Some(vec![6]));
    marks.marks().lower(of(1, 5), 70);
    assert_eq!(known_priorities(&mut marks, 1), Some(vec![5]));
}

#[test]
fn a_priority_that_no_task_has_is_replaced_in_a_full_list() {
    let mut marks = Copied::default();
    let all: Vec<i64> = (0..LIMIT as i64).collect();
    priority_scan(&mut marks, &all);
    raise(&mut marks, of(None, 3), LAST);
    marks.marks().lower(of(None, 40), 60);
    let known: Vec<i64> = all.into_iter().filter(|priority| *priority != 3).chain([40]).collect();
    assert_eq!(known_priorities(&mut marks, None), Some(known));
    assert_eq!(marked(&mut marks, [of(None, 40), of(None, 3)]), [FIRST, LAST]);
    marks.marks().lower(of(None, 3), 60);
    assert_eq!(known_priorities(&mut marks, None), None);
    assert_eq!(marked(&mut marks, [of(None, 3)]), [60]);
}

#[test]
fn what_is_buried_concerns_no_ready_ones() {
    let mut marks = Copied::default();
    raise(&mut marks, of(1, 5), 100);
    raise(&mut marks, Group::Buried, 100);
    marks.marks().lower(Group::Buried, 70);
    marks.marks().lower(of(1, 5), 60);
    assert_eq!(marked(&mut marks, [Group::Buried, of(1, 5)]), [70, 60]);
    marks.marks().lower(Group::ALL, 50);
    assert_eq!(marks.marks().marked(Group::Buried), 50);
}
