//! The marks of a queue against a model that knows every task. For any order of commits, takes, scans and priority
//! scans, no task stands before a mark of its group.

use crate::marks::groups::Copied;
use crate::marks::mark::{LOST_AFTER, RAISE_AFTER};
use crate::marks::priorities::{self, KnownPriorities};
use crate::marks::table::MARKS;
use crate::position::{FIRST, Group, LAST, Position};
use proptest::option;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A ready task: its tube, priority and position. Buried tasks have no tube.
type Task = (u64, i64, Position);

/// More groups than have marks, and more priorities than are known, so that some are replaced.
const TUBES: u64 = 20;
const PRIORITIES: i64 = 20;
/// Marks for these groups.
const FEW: u64 = 6;

#[derive(Clone, Debug)]
enum Step {
    /// A commit; the flags say whether tube and priority of its task were recorded.
    Put(Task, bool, bool),
    Bury(Position),
    /// A commit that takes a ready task, or digs out a buried one.
    Take(prop::sample::Index),
    Dig(prop::sample::Index),
    /// A take that starts its scan, and can be asked to raise the mark.
    Start(Group, u32),
    /// The scan of a raise, and the end of the raise.
    Look(prop::sample::Index),
    EndRaise(prop::sample::Index, bool),
    KnownPriorities(Option<u64>, u32),
    PriorityScan(prop::sample::Index),
    EndPriorityScan(prop::sample::Index, bool),
    Wait,
}

fn group() -> impl Strategy<Value = Group> {
    let ready = (option::of(0..TUBES), option::of(0..PRIORITIES))
        .prop_map(|(tube, priority)| Group::Ready { tube, priority });
    prop_oneof![8 => ready, 1 => Just(Group::ALL), 1 => Just(Group::Buried)]
}

/// Any group that covers all priorities.
fn group_at_once() -> impl Strategy<Value = Group> {
    let ready = option::of(0..TUBES).prop_map(|tube| Group::Ready { tube, priority: None });
    prop_oneof![3 => ready, 1 => Just(Group::Buried)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>;
    // Mostly few tubes and priorities, so that they meet.
    let tube = || prop_oneof![4 => 0..2u64, 1 => 0..TUBES];
    let priority = || prop_oneof![4 => 0..3i64, 1 => 0..PRIORITIES];
    let few = (option::of(tube()), option::of(priority()))
        .prop_map(|(tube, priority)| Group::Ready { tube, priority });
    let group = prop_oneof![3 => few, 1 => group()];
    let task = (tube(), priority(), 0..60u128);
    let noted = || prop::bool::weighted(0.9);
    let takes = || prop_oneof![Just(1u32), Just(RAISE_AFTER + 1)];
    let step = prop_oneof![
        6 => (task, noted(), noted()).prop_map(|(task, tube, priority)| Step::Put(task, tube, priority)),
        1 => (0..60u128).prop_map(Step::Bury),
        5 => index().prop_map(Step::Take),
        1 => index().prop_map(Step::Dig),
        5 => (group, takes()).prop_map(|(group, takes)| Step::Start(group, takes)),
        4 => index().prop_map(Step::Look),
        4 => (index(), noted()).prop_map(|(index, found)| Step::EndRaise(index, found)),
        4 => (option::of(tube()), takes()).prop_map(|(tube, takes)| Step::KnownPriorities(tube, takes)),
        3 => index().prop_map(Step::PriorityScan),
        3 => (index(), noted()).prop_map(|(index, found)| Step::EndPriorityScan(index, found)),
        1 => Just(Step::Wait),
    ];
    prop::collection::vec(step, 0..60)
}

/// A raise in progress: its group, its start, and the first task that its scan found.
type Raise = (Group, i64, Option<Position>);
/// A priority scan in progress: its start, and its result.
type PriorityScan = (i64, Option<Vec<i64>>);

#[derive(Default)]
struct Model {
    ready: Vec<Task>,
    buried: Vec<Position>,
    raises: Vec<Raise>,
    priority_scans: Vec<PriorityScan>,
}

impl Model {
    /// Returns the position of a group's first task.
    fn first(&self, group: Group) -> Position {
        let Group::Ready { tube, priority } = group else {
            return self.buried.iter().copied().min().unwrap_or(LAST);
        };
        let is_of = |task: &&Task| {
            tube.is_none_or(|tube| tube == task.0)
                && priority.is_none_or(|priority| priority == task.1)
        };
        self.ready.iter().filter(is_of).map(|task| task.2).min().unwrap_or(LAST)
    }

    /// Returns the priorities of the ready tasks.
    fn priorities(&self, of: Option<u64>) -> BTreeSet<i64> {
        let of_tube = self.ready.iter().filter(|task| of.is_none_or(|of| of == task.0));
        of_tube.map(|task| task.1).collect()
    }
}

fn pick<T>(from: &[T], index: &prop::sample::Index) -> Option<usize> {
    (!from.is_empty()).then(|| index.index(from.len()))
}

proptest! {
    #[test]
    fn no_task_stands_before_its_marks(steps in steps()) {
        let (mut marks, mut model, mut now) = (Copied::default(), Model::default(), 0);
        // Other tubes, which are never replaced, leave few marks.
        for tube in TUBES..TUBES + MARKS as u64 - FEW {
            marks.marks().start(Group::Ready { tube: Some(tube), priority: None }, 1, false, i64::MAX);
        }
        for step in steps {
            now += 1;
            match step {
                Step::Put(task, has_tube, has_priority) => {
                    let (tube, priority, position) = task;
                    let noted = Group::Ready {
                        tube: has_tube.then_some(tube),
                        priority: has_priority.then_some(priority),
                    };
                    model.ready.push(task);
                    marks.marks().lower(noted, position);
                }
                Step::Bury(position) => {
                    model.buried.push(position);
                    marks.marks().lower(Group::Buried, position);
                }
                Step::Take(index) => {
                    pick(&model.ready, &index).map(|at| model.ready.swap_remove(at));
                }
                Step::Dig(index) => {
                    pick(&model.buried, &index).map(|at| model.buried.swap_remove(at));
                }
                Step::Start(group, takes) => {
                    let start = marks.marks().start(group, takes, true, now);
                    prop_assert!(start.from <= model.first(group), "{:?} at {}", group, start.from);
                    if start.raises {
                        model.raises.push((group, now, None));
                    }
                }
                Step::Look(index) => {
                    if let Some(at) = pick(&model.raises, &index) {
                        model.raises[at].2 = Some(model.first(model.raises[at].0));
                    }
                }
                Step::EndRaise(index, succeeds) => {
                    if let Some(at) = pick(&model.raises, &index) {
                        let (group, since, found) = model.raises.swap_remove(at);
                        marks.marks().end_raise(group, since, found.filter(|_| succeeds));
                    }
                }
                Step::KnownPriorities(tube, takes) => {
                    for _ in 0..takes {
                        match marks.marks().known_priorities(tube, vec![], true, now) {
                            KnownPriorities::All(known) => {
                                let ready = model.priorities(tube);
                                prop_assert!(ready.iter().all(|priority| known.contains(priority)));
                                prop_assert!(known.is_sorted() && known.len() <= priorities::LIMIT);
                                break;
                            }
                            KnownPriorities::Some => {}
                            KnownPriorities::PriorityScan => model.priority_scans.push((now, None)),
                        }
                    }
                }
                Step::PriorityScan(index) => {
                    if let Some(at) = pick(&model.priority_scans, &index) {
                        model.priority_scans[at].1 = Some(model.priorities(None).into_iter().collect());
                    }
                }
                Step::EndPriorityScan(index, succeeds) => {
                    if let Some(at) = pick(&model.priority_scans, &index) {
                        let (since, found) = model.priority_scans.swap_remove(at);
                        let found = found.filter(|found| succeeds && found.len() <= priorities::LIMIT);
                        marks.marks().end_priority_scan(since, found.as_deref());
                    }
                }
                Step::Wait => now += LOST_AFTER + 1,
            }
            prop_assert!(marks.marks().marked(Group::Buried) <= model.first(Group::Buried));
            for (tube, priority, position) in &model.ready {
                for group in [
                    Group::ALL,
                    Group::Ready { tube: Some(*tube), priority: None },
                    Group::Ready { tube: None, priority: Some(*priority) },
                    Group::Ready { tube: Some(*tube), priority: Some(*priority) },
                ] {
                    prop_assert!(marks.marks().marked(group) <= *position, "{:?} at {}", group, position);
                }
            }
        }
    }

    /// With the queue at rest, a scan raises each mark to the first task: otherwise takes would stay slow.
    #[test]
    fn a_look_at_rest_raises_a_mark_to_the_first_task(
        before in prop::collection::vec((group(), 0..60u128), 0..20), first in 0..60u128, group in group_at_once()
    ) {
        let mut marks = Copied::default();
        before.iter().for_each(|(group, position)| marks.marks().lower(*group, *position));
        let start = marks.marks().start(group, RAISE_AFTER + 1, true, 7);
        prop_assert!(start.raises && start.from == FIRST);
        prop_assert!(!marks.marks().start(group, RAISE_AFTER + 1, true, 8).raises, "one at a time");
        marks.marks().end_raise(group, 7, Some(first));
        prop_assert_eq!(marks.marks().marked(group), first);
    }
}
