//! Low-water marks of a queue: positions before which no task is ready, so that a take does not walk over the index
//! entries of all earlier tasks.
//!
//! There is one for the whole queue and one for each of some tubes; with priorities one for each priority, in the
//! whole queue and in each of some tubes; and one before which no task is buried, for which the same holds.
//! Invariant: every task that is ready and visible to all is at its marks or behind them, but for the moment between
//! the visibility of a commit and its callback. A commit lowers the marks to the tasks that it made ready. One
//! process at a time raises a mark, to what a look finds there: commits before the look's snapshot are in what it
//! finds, later ones are in `floor`. Tasks that other transactions have taken and not committed are still ready for
//! the look, so that a rollback needs nothing. Pure.

use crate::model::position::{FIRST, Group, LAST, Position};
use crate::parts::marks::by_tube::ByTube;
use crate::parts::marks::mark::{Mark, Start};
use crate::parts::marks::priorities::{KnownPriorities, LIMIT, Priorities, State};
use crate::parts::marks::table::{Scope, Table};

/// Maximum number of tubes with marks.
const TUBES: usize = 16;
const WHOLE: Scope = 0;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Marks {
    all: Mark,
    buried: Mark,
    tubes: ByTube<Tube, TUBES>,
    priorities: State,
    /// The marks by priority, of the whole queue and of tubes.
    table: Table,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Tube {
    mark: Mark,
    priorities: State,
}

impl Marks {
    /// Lowers the marks of a group to a task that has become ready at this position.
    pub fn lower(&mut self, group: Group, position: Position) {
        if matches!(group, Group::Buried | Group::ALL) {
            self.buried.lower(position);
        }
        let Group::Ready { tube, priority } = group else { return };
        self.all.lower(position);
        self.lower_priority(WHOLE, priority, position);
        for place in self.tubes.concerning(tube) {
            self.tubes.at(place).mark.lower(position);
            self.lower_priority(scope(place), priority, position);
        }
    }

    fn lower_priority(&mut self, scope: Scope, priority: Option<i64>, position: Position) {
        let Some(priority) = priority else { return self.within(scope).lower_all(position) };
        let records = self.within(scope).state.records();
        if records && !self.table.knows(scope, priority) {
            self.make_room(scope, 1);
        }
        self.within(scope).lower(priority, position);
    }

    /// Returns where to begin to look for this many tasks, see [`Mark::start`].
    pub fn start(&mut self, group: Group, tasks: u32, may_raise: bool, now: i64) -> Start {
        if let Group::Ready { tube, priority: Some(priority) } = group {
            let priorities = self.priorities(tube);
            return priorities
                .map(|mut known| known.start(priority, tasks, may_raise, now))
                .unwrap_or_default();
        }
        if let Group::Ready { tube: Some(tube), .. } = group {
            self.place_of(tube);
        }
        let mark = self.mark(group);
        mark.map(|mark| mark.start(tasks, may_raise, now)).unwrap_or_default()
    }

    /// Ends the raise that `start` began at `since`. A mark that has been evicted is not made again.
    pub fn end_raise(&mut self, group: Group, since: i64, found: Option<Position>) {
        if let Some(mark) = self.mark(group) {
            mark.end_raise(since, found);
        }
    }

    /// Returns the position before which no task of a group is ready, or buried, as far as known.
    pub fn marked(&mut self, group: Group) -> Position {
        match group {
            Group::Ready { tube, priority: Some(priority) } => {
                self.priorities(tube).map_or(FIRST, |mut known| known.marked(priority))
            }
            _ => self.mark(group).map_or(FIRST, |mark| mark.at),
        }
    }

    /// Returns the priorities that ready tasks, of a tube if one is given, may have, see [`Priorities::known_priorities`].
    pub fn known_priorities(
        &mut self,
        tube: Option<u64>,
        into: Vec<i64>,
        may_scan: bool,
        now: i64,
    ) -> KnownPriorities {
        let scope = tube.map_or(WHOLE, |tube| scope(self.place_of(tube)));
        if self.priorities.is_complete() && !self.within(scope).state.is_complete() {
            self.learn(scope);
        }
        self.within(scope).known_priorities(into, may_scan, now)
    }

    /// Ends a survey, see [`Priorities::end_priority_scan`]. The priorities of an evicted tube are not made again.
    pub fn end_priority_scan(
        &mut self,
        tube: Option<u64>,
        since: i64,
        found: Option<&[(i64, Position)]>,
    ) {
        let Some(scope) = self.scope_of(tube) else { return };
        let news = found.unwrap_or_default().iter();
        let news = news.filter(|(priority, _)| !self.table.knows(scope, *priority)).count();
        self.make_room(scope, news);
        self.within(scope).end_priority_scan(since, found);
    }

    /// Returns the marks of all ready and of all buried tasks.
    pub fn whole(&self) -> (Mark, Mark) {
        (self.all, self.buried)
    }

    /// Returns whether a tube has marks.
    pub fn knows(&self, tube: u64) -> bool {
        self.tubes.place(tube).is_some()
    }

    /// Gives a tube the marks of the whole queue's priorities, if there is room for them.
    fn learn(&mut self, scope: Scope) {
        let mut known = [(0, FIRST); LIMIT];
        let whole = self.table.of(WHOLE).iter().filter(|known| known.mark.at != LAST);
        let count = whole.zip(&mut known).map(|(of, to)| *to = (of.priority, of.mark.at)).count();
        self.table.clear(scope);
        self.make_room(scope, count);
        self.within(scope).learn(&known[..count]);
    }

    /// Evicts the priorities of other tubes until there is room for more marks, or no tube is left.
    fn make_room(&mut self, scope: Scope, marks: usize) {
        for place in self.tubes.in_turn() {
            if self.table.room() >= marks {
                return;
            }
            if self::scope(place) != scope {
                self.evict(place);
            }
        }
    }

    fn evict(&mut self, place: usize) {
        self.table.clear(scope(place));
        self.tubes.at(place).priorities = State::default();
    }

    fn mark(&mut self, group: Group) -> Option<&mut Mark> {
        match group {
            Group::Buried => Some(&mut self.buried),
            Group::ALL => Some(&mut self.all),
            Group::Ready { tube, priority: Some(priority) } => {
                self.table.get(self.scope_of(tube)?, priority)
            }
            Group::Ready { tube: Some(tube), .. } => {
                let place = self.tubes.place(tube)?;
                Some(&mut self.tubes.at(place).mark)
            }
        }
    }

    /// Returns the place of a tube, which gets one if it has none.
    fn place_of(&mut self, tube: u64) -> usize {
        self.tubes.place(tube).unwrap_or_else(|| {
            // No task of any tube stands before the whole queue's mark.
            let new = Tube { mark: Mark::new(self.all.at), ..Tube::default() };
            let place = self.tubes.add(tube, new);
            self.table.clear(scope(place));
            place
        })
    }

    fn scope_of(&self, tube: Option<u64>) -> Option<Scope> {
        tube.map_or(Some(WHOLE), |tube| self.tubes.place(tube).map(scope))
    }

    /// Returns the marks by priority, of a tube or of the whole queue.
    fn priorities(&mut self, tube: Option<u64>) -> Option<Priorities<'_>> {
        self.scope_of(tube).map(|scope| self.within(scope))
    }

    fn within(&mut self, scope: Scope) -> Priorities<'_> {
        let state = match scope.checked_sub(1) {
            None => &mut self.priorities,
            Some(place) => &mut self.tubes.at(place).priorities,
        };
        Priorities { state, table: &mut self.table, scope }
    }
}

/// Returns the scope of the tube at a place.
fn scope(place: usize) -> Scope {
    place + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::marks::mark::RAISE_AFTER;

    fn of(tube: impl Into<Option<u64>>, priority: impl Into<Option<i64>>) -> Group {
        Group::Ready { tube: tube.into(), priority: priority.into() }
    }

    /// Takes until a survey is asked for, and ends it.
    fn priority_scan(marks: &mut Marks, tube: Option<u64>, found: &[(i64, Position)]) {
        let take = |_: &u32| {
            matches!(marks.known_priorities(tube, vec![], true, 7), KnownPriorities::PriorityScan)
        };
        assert_eq!((0..1000).find(take), Some(RAISE_AFTER));
        marks.end_priority_scan(tube, 7, Some(found));
    }

    fn known_priorities(marks: &mut Marks, tube: impl Into<Option<u64>>) -> Option<Vec<i64>> {
        match marks.known_priorities(tube.into(), vec![], false, 7) {
            KnownPriorities::All(known) => Some(known),
            KnownPriorities::Some | KnownPriorities::PriorityScan => None,
        }
    }

    /// Takes until the mark is to be raised, and ends that.
    fn raise(marks: &mut Marks, group: Group, found: Position) {
        assert!(marks.start(group, RAISE_AFTER + 1, true, 9).raises);
        marks.end_raise(group, 9, Some(found));
    }

    #[test]
    fn a_task_of_a_tube_and_a_priority_concerns_these() {
        let mut marks = Marks::default();
        priority_scan(&mut marks, Some(1), &[(5, 100), (6, 100)]);
        priority_scan(&mut marks, Some(2), &[(5, 100)]);
        priority_scan(&mut marks, None, &[(5, 100), (6, 100)]);
        marks.lower(of(1, 5), 70);
        assert_eq!([of(1, 5), of(1, 6), of(2, 5)].map(|group| marks.marked(group)), [70, 100, 100]);
        assert_eq!([of(None, 5), of(None, 6)].map(|group| marks.marked(group)), [70, 100]);
        marks.lower(of(2, 4), 60);
        assert_eq!(known_priorities(&mut marks, 1), Some(vec![5, 6]));
        assert_eq!(known_priorities(&mut marks, 2), Some(vec![4, 5]));
        assert_eq!(known_priorities(&mut marks, None), Some(vec![4, 5, 6]));
    }

    #[test]
    fn a_task_of_some_tube_concerns_all() {
        let mut marks = Marks::default();
        priority_scan(&mut marks, Some(1), &[(5, 100)]);
        priority_scan(&mut marks, Some(2), &[]);
        assert_eq!(known_priorities(&mut marks, 2), Some(vec![]));
        marks.lower(of(None, 5), 70);
        assert_eq!([of(1, 5), of(2, 5)].map(|group| marks.marked(group)), [70, 70]);
        assert_eq!(known_priorities(&mut marks, 2), Some(vec![5]));
        // Its priority is unknown.
        marks.lower(Group::ALL, 60);
        assert_eq!(
            (known_priorities(&mut marks, 1), known_priorities(&mut marks, 2)),
            (None, None)
        );
        assert_eq!([of(1, 5), of(2, 5)].map(|group| marks.marked(group)), [FIRST, FIRST]);
    }

    #[test]
    fn a_task_of_a_tube_with_an_unknown_priority_concerns_all_of_that() {
        let mut marks = Marks::default();
        priority_scan(&mut marks, Some(1), &[(5, 100)]);
        priority_scan(&mut marks, Some(2), &[(5, 100)]);
        marks.lower(of(1, None), 70);
        assert_eq!(
            (known_priorities(&mut marks, 1), known_priorities(&mut marks, 2)),
            (None, Some(vec![5]))
        );
        assert_eq!(known_priorities(&mut marks, None), None);
    }

    #[test]
    fn tubes_without_priorities() {
        let mut marks = Marks::default();
        raise(&mut marks, of(1, None), 100);
        raise(&mut marks, of(2, None), 200);
        raise(&mut marks, Group::ALL, 90);
        marks.lower(of(2, None), 150);
        let marked = [of(1, None), of(2, None), Group::ALL].map(|group| marks.marked(group));
        assert_eq!(marked, [100, 150, 90]);
        marks.lower(Group::ALL, 10);
        let marked = [of(1, None), of(2, None), Group::ALL].map(|group| marks.marked(group));
        assert_eq!(marked, [10, 10, 10]);
        // No task of any tube stands before the whole queue's mark.
        assert_eq!(marks.start(of(3, None), 1, false, 9).from, 10);
    }

    #[test]
    fn what_has_given_way_to_another_tube_is_not_made_anew() {
        let mut marks = Marks::default();
        for _ in 0..=RAISE_AFTER {
            known_priorities(&mut marks, 1);
        }
        assert!(matches!(
            marks.known_priorities(Some(1), vec![], true, 7),
            KnownPriorities::PriorityScan
        ));
        (2..=17).for_each(|tube| priority_scan(&mut marks, Some(tube), &[(5, 100)]));
        assert!(!marks.knows(1));
        marks.end_priority_scan(Some(1), 7, Some(&[]));
        assert!(!marks.knows(1) && (2..=17).all(|tube| marks.knows(tube)));
        // It begins anew, beside a survey of before.
        assert_eq!(known_priorities(&mut marks, 1), None);
        marks.end_priority_scan(Some(1), 7, Some(&[]));
        assert_eq!(known_priorities(&mut marks, 1), None);
        assert!(!marks.knows(2));
        marks.end_raise(of(2, 5), 9, Some(LAST));
        marks.end_raise(of(2, None), 9, Some(LAST));
        assert!(!marks.knows(2));
    }

    #[test]
    fn what_is_known_of_all_tubes_is_true_of_each() {
        let mut marks = Marks::default();
        priority_scan(&mut marks, None, &[(5, 100), (6, 50)]);
        assert_eq!(known_priorities(&mut marks, 1), Some(vec![5, 6]));
        assert_eq!(marks.marked(of(1, 6)), 50);
        raise(&mut marks, of(1, 6), LAST);
        assert_eq!(
            (known_priorities(&mut marks, 1), known_priorities(&mut marks, None)),
            (Some(vec![5]), Some(vec![5, 6]))
        );
        // Also of one that has lost count of its own.
        marks.lower(of(1, None), 40);
        priority_scan(&mut marks, None, &[(7, 30)]);
        assert_eq!(known_priorities(&mut marks, 1), Some(vec![7]));
        assert_eq!(marks.marked(of(1, 7)), 30);
    }

    #[test]
    fn what_is_buried_concerns_no_ready_ones() {
        let mut marks = Marks::default();
        priority_scan(&mut marks, Some(1), &[(5, 100)]);
        raise(&mut marks, Group::Buried, 100);
        marks.lower(Group::Buried, 70);
        marks.lower(of(1, 5), 60);
        assert_eq!((marks.marked(Group::Buried), marks.marked(of(1, 5))), (70, 60));
        marks.lower(Group::ALL, 50);
        assert_eq!(marks.marked(Group::Buried), 50);
    }

    #[test]
    fn the_priorities_of_tubes_give_way_to_each_other() {
        let mut marks = Marks::default();
        let many: Vec<_> = (0..LIMIT as i64).map(|priority| (priority, 100)).collect();
        (1..=4).for_each(|tube| priority_scan(&mut marks, Some(tube), &many));
        assert!((1..=4).all(|tube| known_priorities(&mut marks, tube) == Some((0..16).collect())));
        priority_scan(&mut marks, Some(5), &[(5, 100)]);
        assert_eq!(
            (known_priorities(&mut marks, 1), known_priorities(&mut marks, 5)),
            (None, Some(vec![5]))
        );
        // Its place is that of the tube evicted, which does not make the others give way.
        assert!((2..=4).all(|tube| known_priorities(&mut marks, tube).is_some()));
        marks.lower(of(5, 7), 60);
        assert_eq!(known_priorities(&mut marks, 5), Some(vec![5, 7]));
        // The whole queue's are made room for too.
        priority_scan(&mut marks, None, &many);
        assert_eq!(known_priorities(&mut marks, None), Some((0..16).collect()));
        assert_eq!(marks.marked(of(4, 3)), 100);
        marks.lower(of(4, 3), 40);
        assert_eq!([of(4, 3), of(None, 3)].map(|group| marks.marked(group)), [40, 40]);
    }
}
