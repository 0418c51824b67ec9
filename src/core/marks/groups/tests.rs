//! The effect of a task that becomes ready on the marks of its groups.

use super::*;
use crate::marks::mark::RAISE_AFTER;

fn of(tube: impl Into<Option<u64>>, priority: impl Into<Option<i64>>) -> Group {
    Group::Ready { tube: tube.into(), priority: priority.into() }
}

/// Takes until a priority scan is asked for, and ends it.
fn priority_scan(marks: &mut Copied, tube: Option<u64>, found: &[(i64, Position)]) {
    let take = |_: &u32| {
        matches!(
            marks.marks().known_priorities(tube, vec![], true, 7),
            KnownPriorities::PriorityScan
        )
    };
    assert_eq!((0..1000).find(take), Some(RAISE_AFTER));
    marks.marks().end_priority_scan(tube, 7, Some(found));
}

fn known_priorities(marks: &mut Copied, tube: impl Into<Option<u64>>) -> Option<Vec<i64>> {
    match marks.marks().known_priorities(tube.into(), vec![], false, 7) {
        KnownPriorities::All(known) => Some(known),
        KnownPriorities::Some | KnownPriorities::PriorityScan => None,
    }
}

/// Takes until a raise is asked for, and ends it.
fn raise(marks: &mut Copied, group: Group, found: Position) {
    assert!(marks.marks().start(group, RAISE_AFTER + 1, true, 9).raises);
    marks.marks().end_raise(group, 9, Some(found));
}

#[test]
fn a_task_of_a_tube_and_a_priority_concerns_these() {
    let mut marks = Copied::default();
    priority_scan(&mut marks, Some(1), &[(5, 100), (6, 100)]);
    priority_scan(&mut marks, Some(2), &[(5, 100)]);
    priority_scan(&mut marks, None, &[(5, 100), (6, 100)]);
    marks.marks().lower(of(1, 5), 70);
    assert_eq!(
        [of(1, 5), of(1, 6), of(2, 5)].map(|group| marks.marks().marked(group)),
        [70, 100, 100]
    );
    assert_eq!([of(None, 5), of(None, 6)].map(|group| marks.marks().marked(group)), [70, 100]);
    marks.marks().lower(of(2, 4), 60);
    assert_eq!(known_priorities(&mut marks, 1), Some(vec![5, 6]));
    assert_eq!(known_priorities(&mut marks, 2), Some(vec![4, 5]));
    assert_eq!(known_priorities(&mut marks, None), Some(vec![4, 5, 6]));
}

#[test]
fn a_task_of_some_tube_concerns_all() {
    let mut marks = Copied::default();
    priority_scan(&mut marks, Some(1), &[(5, 100)]);
    priority_scan(&mut marks, Some(2), &[]);
    assert_eq!(known_priorities(&mut marks, 2), Some(vec![]));
    marks.marks().lower(of(None, 5), 70);
    assert_eq!([of(1, 5), of(2, 5)].map(|group| marks.marks().marked(group)), [70, 70]);
    assert_eq!(known_priorities(&mut marks, 2), Some(vec![5]));
    // A task of unknown tube and priority.
    marks.marks().lower(Group::ALL, 60);
    assert_eq!((known_priorities(&mut marks, 1), known_priorities(&mut marks, 2)), (None, None));
    assert_eq!([of(1, 5), of(2, 5)].map(|group| marks.marks().marked(group)), [FIRST, FIRST]);
}

#[test]
fn a_task_of_a_tube_with_an_unknown_priority_concerns_all_of_that() {
    let mut marks = Copied::default();
    priority_scan(&mut marks, Some(1), &[(5, 100)]);
    priority_scan(&mut marks, Some(2), &[(5, 100)]);
    marks.marks().lower(of(1, None), 70);
    assert_eq!(
        (known_priorities(&mut marks, 1), known_priorities(&mut marks, 2)),
        (None, Some(vec![5]))
    );
    assert_eq!(known_priorities(&mut marks, None), None);
}

#[test]
fn tubes_without_priorities() {
    let mut marks = Copied::default();
    raise(&mut marks, of(1, None), 100);
    raise(&mut marks, of(2, None), 200);
    raise(&mut marks, Group::ALL, 90);
    marks.marks().lower(of(2, None), 150);
    let marked = [of(1, None), of(2, None), Group::ALL].map(|group| marks.marks().marked(group));
    assert_eq!(marked, [100, 150, 90]);
    marks.marks().lower(Group::ALL, 10);
    let marked = [of(1, None), of(2, None), Group::ALL].map(|group| marks.marks().marked(group));
    assert_eq!(marked, [10, 10, 10]);
    // The whole queue's mark holds for every tube.
    assert_eq!(marks.marks().start(of(3, None), 1, false, 9).from, 10);
}

#[test]
fn what_has_given_way_to_another_tube_is_not_made_anew() {
    let mut marks = Copied::default();
    for _ in 0..=RAISE_AFTER {
        known_priorities(&mut marks, 1);
    }
    assert!(matches!(
        marks.marks().known_priorities(Some(1), vec![], true, 7),
        KnownPriorities::PriorityScan
    ));
    (2..=17).for_each(|tube| priority_scan(&mut marks, Some(tube), &[(5, 100)]));
    assert!(!marks.marks().knows(1));
    marks.marks().end_priority_scan(Some(1), 7, Some(&[]));
    assert!(!marks.marks().knows(1) && (2..=17).all(|tube| marks.marks().knows(tube)));
    // The tube starts without priorities, and the earlier priority scan has no effect on it.
    assert_eq!(known_priorities(&mut marks, 1), None);
    marks.marks().end_priority_scan(Some(1), 7, Some(&[]));
    assert_eq!(known_priorities(&mut marks, 1), None);
    assert!(!marks.marks().knows(2));
    marks.marks().end_raise(of(2, 5), 9, Some(LAST));
    marks.marks().end_raise(of(2, None), 9, Some(LAST));
    assert!(!marks.marks().knows(2));
}

#[test]
fn what_is_known_of_all_tubes_is_true_of_each() {
    let mut marks = Copied::default();
    priority_scan(&mut marks, None, &[(5, 100), (6, 50)]);
    assert_eq!(known_priorities(&mut marks, 1), Some(vec![5, 6]));
    assert_eq!(marks.marks().marked(of(1, 6)), 50);
    raise(&mut marks, of(1, 6), LAST);
    assert_eq!(
        (known_priorities(&mut marks, 1), known_priorities(&mut marks, None)),
        (Some(vec![5]), Some(vec![5, 6]))
    );
    // A tube whose list of priorities is incomplete learns them from the whole queue too.
    marks.marks().lower(of(1, None), 40);
    priority_scan(&mut marks, None, &[(7, 30)]);
    assert_eq!(known_priorities(&mut marks, 1), Some(vec![7]));
    assert_eq!(marks.marks().marked(of(1, 7)), 30);
}

#[test]
fn what_is_buried_concerns_no_ready_ones() {
    let mut marks = Copied::default();
    priority_scan(&mut marks, Some(1), &[(5, 100)]);
    raise(&mut marks, Group::Buried, 100);
    marks.marks().lower(Group::Buried, 70);
    marks.marks().lower(of(1, 5), 60);
    assert_eq!((marks.marks().marked(Group::Buried), marks.marks().marked(of(1, 5))), (70, 60));
    marks.marks().lower(Group::ALL, 50);
    assert_eq!(marks.marks().marked(Group::Buried), 50);
}

#[test]
fn the_priorities_of_tubes_give_way_to_each_other() {
    let mut marks = Copied::default();
    let many: Vec<_> = (0..LIMIT as i64).map(|priority| (priority, 100)).collect();
    (1..=4).for_each(|tube| priority_scan(&mut marks, Some(tube), &many));
    assert!((1..=4).all(|tube| known_priorities(&mut marks, tube) == Some((0..16).collect())));
    priority_scan(&mut marks, Some(5), &[(5, 100)]);
    assert_eq!(
        (known_priorities(&mut marks, 1), known_priorities(&mut marks, 5)),
        (None, Some(vec![5]))
    );
    // The tube uses the entries of the evicted tube, so the others stay.
    assert!((2..=4).all(|tube| known_priorities(&mut marks, tube).is_some()));
    marks.marks().lower(of(5, 7), 60);
    assert_eq!(known_priorities(&mut marks, 5), Some(vec![5, 7]));
    // The whole queue's priorities evict the priorities of tubes too.
    priority_scan(&mut marks, None, &many);
    assert_eq!(known_priorities(&mut marks, None), Some((0..16).collect()));
    assert_eq!(marks.marks().marked(of(4, 3)), 100);
    marks.marks().lower(of(4, 3), 40);
    assert_eq!([of(4, 3), of(None, 3)].map(|group| marks.marks().marked(group)), [40, 40]);
}
