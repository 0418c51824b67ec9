//! Low-water marks of a queue with priorities, or of one of its tubes: one for each priority, as a task of a later
//! priority may stand before those of an earlier one.
//!
//! That every ready task has one of the known priorities is established by a survey, which treats concurrent
//! transactions as the raise of a mark does: those that commit before the look at a priority are in what it finds,
//! later ones lower `floor` or add their priority; if that is impossible, the survey fails. Pure.

use crate::model::position::{FIRST, LAST, Position};
use crate::parts::marks::mark::{LOST_AFTER, Mark, RAISE_AFTER, Start};

/// Maximum number of priorities with marks, of a queue or of a tube.
pub const LIMIT: usize = 16;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Priorities {
    /// In order of priority.
    known: [(i64, Mark); LIMIT],
    count: usize,
    /// Every ready task has one of the known priorities.
    complete: bool,
    /// Start of the survey in progress; 0: none.
    surveyed_since: i64,
    /// Tasks taken since the last survey.
    takes: u32,
}

/// What is known of priorities.
pub enum Sight {
    /// All priorities of ready tasks, in order.
    All(Vec<i64>),
    /// Not all.
    Some,
    /// Not all: the caller has to do a survey and report it by `end_survey`.
    Survey,
}

impl Priorities {
    /// Returns the mark of a known priority.
    pub fn mark(&mut self, priority: i64) -> Option<&mut Mark> {
        let place = self.place(priority).ok()?;
        Some(&mut self.known[place].1)
    }

    /// Returns where to begin to look for this many tasks of a priority, see [`Mark::start`].
    pub fn start(&mut self, priority: i64, tasks: u32, may_raise: bool, now: i64) -> Start {
        let mark = if self.complete { self.mark(priority) } else { None };
        mark.map(|mark| mark.start(tasks, may_raise, now)).unwrap_or_default()
    }

    /// Returns the position before which no task of a priority is ready, as far as known.
    pub fn marked(&self, priority: i64) -> Position {
        match self.place(priority) {
            _ if !self.complete => FIRST,
            Ok(place) => self.known[place].1.at,
            Err(_) => LAST,
        }
    }

    /// Returns the initial marks of a tube: what holds for all tubes holds for each.
    pub fn learn(&mut self, of_all_tubes: &Priorities) {
        if !self.complete && of_all_tubes.complete {
            let known = of_all_tubes.known.map(|(priority, mark)| (priority, Mark::new(mark.at)));
            *self = Priorities { known, takes: 0, ..*of_all_tubes };
        }
    }

    /// Records that a task of this priority has become ready.
    pub fn lower(&mut self, priority: i64, position: Position) {
        if let Some(mark) = self.mark(priority) {
            mark.lower(position);
        } else if !self.insert(priority, position) {
            self.lose();
        }
    }

    /// Records that a task of an unrecorded priority has become ready.
    pub fn lower_all(&mut self, position: Position) {
        self.lose();
        self.known[..self.count].iter_mut().for_each(|(_, mark)| mark.lower(position));
    }

    /// Discards the list of priorities, and the survey in progress.
    fn lose(&mut self) {
        (self.complete, self.surveyed_since) = (false, 0);
    }

    fn place(&self, priority: i64) -> Result<usize, usize> {
        self.known[..self.count].binary_search_by_key(&priority, |(known, _)| *known)
    }

    /// Adds a priority; false if there is no room.
    fn insert(&mut self, priority: i64, position: Position) -> bool {
        if self.count == LIMIT {
            // A priority without ready tasks is evicted.
            let idle = self.known.iter().position(|(_, mark)| mark.at == LAST);
            let Some(idle) = idle.filter(|_| self.surveyed_since == 0) else { return false };
            self.known.copy_within(idle + 1.., idle);
            self.count -= 1;
        }
        let place = self.place(priority).unwrap_or_else(|place| place);
        self.known.copy_within(place..self.count, place + 1);
        self.known[place] = (priority, Mark::new(position));
        self.count += 1;
        true
    }

    /// Returns the priorities that ready tasks may have. `into`: an empty list with room for all. With `may_survey`
    /// the caller may be asked for a survey.
    pub fn sight(&mut self, mut into: Vec<i64>, may_survey: bool, now: i64) -> Sight {
        if self.complete {
            let known = self.known[..self.count].iter();
            let ready = known.filter(|(_, mark)| mark.at != LAST);
            into.extend(ready.map(|(priority, _)| *priority));
            return Sight::All(into);
        }
        self.takes = self.takes.saturating_add(1);
        match may_survey && self.takes > RAISE_AFTER && self.begin_survey(now) {
            true => Sight::Survey,
            false => Sight::Some,
        }
    }

    /// Begins a survey, unless a raise or a survey is in progress.
    fn begin_survey(&mut self, now: i64) -> bool {
        let known = &mut self.known[..self.count];
        let is_looked_at = known.iter().any(|(_, mark)| mark.is_being_raised(now));
        if is_looked_at || self.surveyed_since != 0 && now - self.surveyed_since <= LOST_AFTER {
            return false;
        }
        known.iter_mut().for_each(|(_, mark)| mark.watch());
        (self.surveyed_since, self.takes) = (now, 0);
        true
    }

    /// Ends the survey begun at `since`. `found`: the priorities of ready tasks with the position of the first task
    /// of each; None if the survey has failed or found too many.
    pub fn end_survey(&mut self, since: i64, found: Option<&[(i64, Position)]>) {
        if self.surveyed_since != since {
            return;
        }
        self.surveyed_since = 0;
        let Some(found) = found else { return };
        for (priority, mark) in &mut self.known[..self.count] {
            let place = found.iter().find(|(found, _)| found == priority);
            mark.at = place.map_or(LAST, |(_, position)| *position).min(mark.floor);
        }
        self.complete = found.iter().all(|(priority, position)| {
            self.place(*priority).is_ok() || self.insert(*priority, *position)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surveyed(found: &[(i64, Position)]) -> Priorities {
        let mut priorities = Priorities::default();
        assert!(priorities.begin_survey(7));
        priorities.end_survey(7, Some(found));
        priorities
    }

    fn at(priorities: &Priorities) -> Vec<(i64, Position)> {
        let known = priorities.known[..priorities.count].iter();
        known.map(|(priority, mark)| (*priority, mark.at)).collect()
    }

    #[test]
    fn a_survey_makes_them_known() {
        let mut priorities = surveyed(&[(1, 10), (5, 3)]);
        assert!(priorities.complete);
        priorities.lower(3, 8);
        priorities.lower(5, 2);
        priorities.lower(1, 99);
        assert!(priorities.complete);
        assert_eq!(at(&priorities), [(1, 10), (3, 8), (5, 2)]);
        priorities.lower_all(4);
        assert!(!priorities.complete);
        assert_eq!(at(&priorities), [(1, 4), (3, 4), (5, 2)]);
    }

    #[test]
    fn what_comes_while_it_is_surveyed_is_not_missed() {
        let mut priorities = surveyed(&[(1, 10), (5, 3)]);
        priorities.lower_all(100);
        assert!(priorities.begin_survey(9));
        assert!(!priorities.begin_survey(10), "one at a time");
        priorities.lower(1, 6);
        priorities.lower(2, 7);
        priorities.end_survey(8, Some(&[]));
        priorities.end_survey(9, Some(&[(1, 20), (4, 1)]));
        assert!(priorities.complete);
        assert_eq!(at(&priorities), [(1, 6), (2, 7), (4, 1), (5, LAST)]);
    }

    /// Whether the survey has seen it is unknown.
    #[test]
    fn a_survey_has_come_to_nothing_beside_a_priority_that_is_not_noted() {
        let mut priorities = Priorities::default();
        assert!(priorities.begin_survey(7));
        priorities.lower_all(5);
        priorities.end_survey(7, Some(&[]));
        assert!(!priorities.complete);
        // The same where there is no room for it.
        let all: Vec<(i64, Position)> = (0..16).map(|priority| (priority, 1)).collect();
        let mut priorities = surveyed(&all);
        priorities.lower_all(5);
        assert!(priorities.begin_survey(9));
        priorities.lower(40, 5);
        priorities.end_survey(9, Some(&[(1, 8)]));
        assert!(!priorities.complete);
        assert!(priorities.begin_survey(9));
    }

    #[test]
    fn who_raises_a_mark_for_too_long_has_come_to_nothing() {
        let mut priorities = surveyed(&[(1, 10)]);
        assert!(priorities.start(1, RAISE_AFTER + 1, true, 20).raises);
        priorities.lower_all(8);
        assert!(!priorities.begin_survey(LOST_AFTER));
        assert!(priorities.begin_survey(30 + LOST_AFTER));
        priorities.lower(1, 6);
        priorities.mark(1).unwrap().end_raise(20, Some(50));
        priorities.end_survey(30 + LOST_AFTER, Some(&[(1, 60)]));
        assert_eq!(at(&priorities), [(1, 6)]);
    }

    #[test]
    fn nothing_is_marked_until_all_are_known() {
        let mut priorities = Priorities::default();
        priorities.lower(1, 10);
        assert_eq!((priorities.marked(1), priorities.marked(2)), (FIRST, FIRST));
        assert_eq!(priorities.start(1, 1, true, 7).from, FIRST);
        let mut priorities = surveyed(&[(1, 10)]);
        assert_eq!((priorities.marked(1), priorities.marked(2)), (10, LAST));
        assert_eq!(priorities.start(1, 1, true, 7).from, 10);
    }

    #[test]
    fn a_tube_begins_with_what_is_known_of_all() {
        let mut tube = Priorities::default();
        tube.learn(&Priorities::default());
        assert!(!tube.complete);
        assert!(tube.begin_survey(9));
        let mut all = surveyed(&[(1, 10), (5, 3)]);
        assert!(all.start(5, RAISE_AFTER + 1, true, 20).raises);
        tube.learn(&all);
        assert!(tube.complete);
        assert_eq!(at(&tube), at(&all));
        // Its own survey comes too late, and no raise of its own is in progress.
        tube.end_survey(9, Some(&[]));
        tube.mark(5).unwrap().end_raise(20, Some(50));
        assert_eq!(at(&tube), [(1, 10), (5, 3)]);
        assert!(tube.start(5, RAISE_AFTER + 1, true, 21).raises);
        tube.mark(5).unwrap().end_raise(21, Some(50));
        tube.learn(&all);
        assert_eq!(at(&tube), [(1, 10), (5, 50)]);
    }

    #[test]
    fn there_may_be_too_many() {
        let many: Vec<(i64, Position)> = (0..17).map(|priority| (priority, 1)).collect();
        assert!(!surveyed(&many).complete);
        let mut priorities = surveyed(&many[..16]);
        assert!(priorities.complete);
        // One that is idle gives way, none other.
        priorities.known[3].1.at = LAST;
        priorities.lower(40, 5);
        assert!(priorities.complete && priorities.mark(3).is_none());
        priorities.lower(41, 5);
        assert!(!priorities.complete);
        assert_eq!(priorities.count, LIMIT);
    }

    #[test]
    fn a_survey_that_fails_changes_nothing() {
        let mut priorities = Priorities::default();
        assert!(priorities.begin_survey(7));
        priorities.end_survey(7, None);
        assert!(!priorities.complete && priorities.surveyed_since == 0);
    }
}
