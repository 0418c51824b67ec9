//! Low-water marks of a queue with priorities, or of one of its tubes. Each priority has its own mark, because a task
//! with a later priority can stand before the tasks with an earlier one.
//!
//! Invariant: while the list is `complete`, every ready task has one of the known priorities. A priority scan
//! establishes this. The invariant survives these races:
//!
//! 1. A transaction commits before the scan reads a priority: the scan finds its tasks.
//! 2. A transaction commits later: it lowers the `floor` of the priority's mark, or adds its priority.
//! 3. A transaction cannot add its priority, because the table is full or the priority is unknown: the priority scan
//!    fails.

use crate::marks::mark::{LOST_AFTER, Mark, RAISE_AFTER, Start};
use crate::marks::table::{Scope, Table};
use crate::position::{FIRST, LAST, Position};

/// Maximum number of priorities with marks, of a queue or of a tube.
pub const LIMIT: usize = 16;

/// State of the priorities of a scope.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct State {
    /// Every ready task has one of the known priorities.
    complete: bool,
    /// Start of the priority scan in progress; 0: not in progress.
    scanned_since: i64,
    /// Tasks taken since the last priority scan.
    takes: u32,
}

/// The priorities of a scope, and their marks.
pub struct Priorities<'a> {
    pub state: &'a mut State,
    pub table: Table<'a>,
    pub scope: Scope,
}

/// The known priorities of ready tasks.
pub enum KnownPriorities {
    /// All priorities that ready tasks can have, in ascending order.
    All(Vec<i64>),
    /// The list is not complete.
    Some,
    /// The list is not complete, and the caller has to do a priority scan and report it by `end_priority_scan`.
    PriorityScan,
}

impl State {
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns whether the priority of a new task has to be recorded.
    pub fn records(&self) -> bool {
        self.complete || self.scanned_since != 0
    }
}

impl Priorities<'_> {
    /// Returns the mark of a known priority.
    pub fn mark(&mut self, priority: i64) -> Option<&mut Mark> {
        self.table.get(self.scope, priority)
    }

    /// Returns where a take of this many tasks of a priority starts its scan, see [`Mark::start`].
    pub fn start(&mut self, priority: i64, tasks: u32, may_raise: bool, now: i64) -> Start {
        let mark = if self.state.complete { self.mark(priority) } else { None };
        mark.map(|mark| mark.start(tasks, may_raise, now)).unwrap_or_default()
    }

    /// Returns the position before which no task of a priority is known to be ready.
    pub fn marked(&mut self, priority: i64) -> Position {
        match self.mark(priority).map(|mark| mark.at) {
            _ if !self.state.complete => FIRST,
            Some(at) => at,
            None => LAST,
        }
    }

    /// Copies the marks of the whole queue, which hold for each tube.
    pub fn learn(&mut self, of_all_tubes: &[(i64, Position)]) {
        self.table.clear(self.scope);
        let (scope, mut table) = (self.scope, self.table.borrowed());
        let mut each = of_all_tubes.iter();
        let complete = each.all(|(priority, at)| table.add(scope, *priority, Mark::new(*at)));
        *self.state = State { complete, ..State::default() };
    }

    /// Records that a task of this priority has become ready.
    pub fn lower(&mut self, priority: i64, position: Position) {
        if let Some(mark) = self.mark(priority) {
            mark.lower(position);
        } else if self.state.records() && !self.insert(priority, position) {
            self.lose();
        }
    }

    /// Records that a task of an unknown priority has become ready.
    pub fn lower_all(&mut self, position: Position) {
        self.lose();
        self.table.of_mut(self.scope).iter_mut().for_each(|known| known.mark.lower(position));
    }

    /// Marks the list of priorities as incomplete and abandons the priority scan in progress.
    fn lose(&mut self) {
        (self.state.complete, self.state.scanned_since) = (false, 0);
    }

    /// Adds a priority; false if there is no room.
    fn insert(&mut self, priority: i64, position: Position) -> bool {
        let is_full = self.table.of(self.scope).len() == LIMIT || self.table.room() == 0;
        // A priority without ready tasks can be evicted, except during a priority scan.
        let may_evict = self.state.scanned_since == 0;
        if is_full && !(may_evict && self.table.remove(self.scope, |mark| mark.at == LAST)) {
            return false;
        }
        self.table.add(self.scope, priority, Mark::new(position))
    }

    /// Returns the priorities that ready tasks can have. `into` is an empty list with room for all of them. With
    /// `may_scan` the caller can be asked for a priority scan.
    pub fn known_priorities(
        &mut self,
        mut into: Vec<i64>,
        may_scan: bool,
        now: i64,
    ) -> KnownPriorities {
        if self.state.complete {
            let known = self.table.of(self.scope).iter();
            let ready = known.filter(|known| known.mark.at != LAST);
            into.extend(ready.map(|known| known.priority));
            return KnownPriorities::All(into);
        }
        self.state.takes = self.state.takes.saturating_add(1);
        match may_scan && self.state.takes > RAISE_AFTER && self.begin_priority_scan(now) {
            true => KnownPriorities::PriorityScan,
            false => KnownPriorities::Some,
        }
    }

    /// Begins a priority scan, unless a raise or a priority scan is in progress.
    fn begin_priority_scan(&mut self, now: i64) -> bool {
        let known = self.table.of_mut(self.scope);
        let is_looked_at = known.iter().any(|known| known.mark.is_being_raised(now));
        let since = self.state.scanned_since;
        // Tolerates a clock that was set back.
        let is_scanning = since != 0 && now.abs_diff(since) <= LOST_AFTER.unsigned_abs();
        if is_looked_at || is_scanning {
            return false;
        }
        known.iter_mut().for_each(|known| known.mark.watch());
        (self.state.scanned_since, self.state.takes) = (now, 0);
        true
    }

    /// Ends the priority scan begun at `since`. `found` has the priorities of ready tasks and the position of the first
    /// task of each. It is None if the priority scan has failed or found too many.
    pub fn end_priority_scan(&mut self, since: i64, found: Option<&[(i64, Position)]>) {
        if self.state.scanned_since != since {
            return;
        }
        self.state.scanned_since = 0;
        let Some(found) = found else { return };
        for known in self.table.of_mut(self.scope) {
            let place = found.iter().find(|(found, _)| *found == known.priority);
            let first = place.map_or(LAST, |(_, position)| *position);
            known.mark.at = first.min(known.mark.floor);
        }
        let (scope, mut found) = (self.scope, found.iter());
        self.state.complete = found.all(|(priority, position)| {
            self.table.knows(scope, *priority) || self.insert(*priority, *position)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::table::{Entries, Entry, MARKS};

    struct Own {
        state: State,
        entries: Entries,
        count: usize,
    }

    impl Own {
        fn new() -> Own {
            Own { state: State::default(), entries: [Entry::default(); MARKS], count: 0 }
        }

        fn table(&mut self) -> Table<'_> {
            Table { entries: &mut self.entries, count: &mut self.count }
        }

        fn all(&mut self) -> Priorities<'_> {
            let table = Table { entries: &mut self.entries, count: &mut self.count };
            Priorities { state: &mut self.state, table, scope: 0 }
        }
    }

    fn scanned(found: &[(i64, Position)]) -> Own {
        let mut priorities = Own::new();
        assert!(priorities.all().begin_priority_scan(7));
        priorities.all().end_priority_scan(7, Some(found));
        priorities
    }

    fn at(priorities: &mut Own) -> Vec<(i64, Position)> {
        priorities.table().of(0).iter().map(|known| (known.priority, known.mark.at)).collect()
    }

    #[test]
    fn a_priority_scan_makes_them_known() {
        let mut priorities = scanned(&[(1, 10), (5, 3)]);
        assert!(priorities.state.complete);
        priorities.all().lower(3, 8);
        priorities.all().lower(5, 2);
        priorities.all().lower(1, 99);
        assert!(priorities.state.complete);
        assert_eq!(at(&mut priorities), [(1, 10), (3, 8), (5, 2)]);
        priorities.all().lower_all(4);
        assert!(!priorities.state.complete);
        assert_eq!(at(&mut priorities), [(1, 4), (3, 4), (5, 2)]);
    }

    #[test]
    fn what_comes_while_it_is_scanned_is_not_missed() {
        let mut priorities = scanned(&[(1, 10), (5, 3)]);
        priorities.all().lower_all(100);
        assert!(priorities.all().begin_priority_scan(9));
        assert!(!priorities.all().begin_priority_scan(10), "one at a time");
        priorities.all().lower(1, 6);
        priorities.all().lower(2, 7);
        priorities.all().end_priority_scan(8, Some(&[]));
        priorities.all().end_priority_scan(9, Some(&[(1, 20), (4, 1)]));
        assert!(priorities.state.complete);
        assert_eq!(at(&mut priorities), [(1, 6), (2, 7), (4, 1), (5, LAST)]);
    }

    /// It is not known whether the scan saw the task of that priority.
    #[test]
    fn a_priority_scan_has_come_to_nothing_beside_a_priority_that_is_not_noted() {
        let mut priorities = Own::new();
        assert!(priorities.all().begin_priority_scan(7));
        priorities.all().lower_all(5);
        priorities.all().end_priority_scan(7, Some(&[]));
        assert!(!priorities.state.complete);
        // The priority scan fails also if there is no room for the priority.
        let all: Vec<(i64, Position)> = (0..16).map(|priority| (priority, 1)).collect();
        let mut priorities = scanned(&all);
        priorities.all().lower_all(5);
        assert!(priorities.all().begin_priority_scan(9));
        priorities.all().lower(40, 5);
        priorities.all().end_priority_scan(9, Some(&[(1, 8)]));
        assert!(!priorities.state.complete);
        assert!(priorities.all().begin_priority_scan(9));
    }

    #[test]
    fn a_raise_that_takes_too_long_is_abandoned() {
        let mut priorities = scanned(&[(1, 10)]);
        assert!(priorities.all().start(1, RAISE_AFTER + 1, true, 20).raises);
        priorities.all().lower_all(8);
        assert!(!priorities.all().begin_priority_scan(LOST_AFTER));
        assert!(priorities.all().begin_priority_scan(30 + LOST_AFTER));
        priorities.all().lower(1, 6);
        priorities.all().mark(1).unwrap().end_raise(20, Some(50));
        priorities.all().end_priority_scan(30 + LOST_AFTER, Some(&[(1, 60)]));
        assert_eq!(at(&mut priorities), [(1, 6)]);
    }

    #[test]
    fn nothing_is_marked_until_all_are_known() {
        let mut priorities = Own::new();
        priorities.all().lower(1, 10);
        assert_eq!((priorities.all().marked(1), priorities.all().marked(2)), (FIRST, FIRST));
        assert_eq!(priorities.all().start(1, 1, true, 7).from, FIRST);
        let mut priorities = scanned(&[(1, 10)]);
        assert_eq!((priorities.all().marked(1), priorities.all().marked(2)), (10, LAST));
        assert_eq!(priorities.all().start(1, 1, true, 7).from, 10);
    }

    #[test]
    fn a_tube_begins_with_what_is_known_of_all() {
        let mut tube = Own::new();
        assert!(tube.all().begin_priority_scan(9));
        let mut all = scanned(&[(1, 10), (5, 3)]);
        assert!(all.all().start(5, RAISE_AFTER + 1, true, 20).raises);
        tube.all().learn(&at(&mut all));
        assert!(tube.state.complete);
        assert_eq!(at(&mut tube), at(&mut all));
        // The tube's own priority scan ends too late, and it has no raise in progress.
        tube.all().end_priority_scan(9, Some(&[]));
        tube.all().mark(5).unwrap().end_raise(20, Some(50));
        assert_eq!(at(&mut tube), [(1, 10), (5, 3)]);
        assert!(tube.all().start(5, RAISE_AFTER + 1, true, 21).raises);
        tube.all().mark(5).unwrap().end_raise(21, Some(50));
        assert_eq!(at(&mut tube), [(1, 10), (5, 50)]);
    }

    #[test]
    fn there_may_be_too_many() {
        let many: Vec<(i64, Position)> = (0..17).map(|priority| (priority, 1)).collect();
        assert!(!scanned(&many).state.complete);
        let mut priorities = scanned(&many[..16]);
        assert!(priorities.state.complete);
        // A priority without ready tasks is evicted; a priority with ready tasks is not.
        priorities.table().get(0, 3).unwrap().at = LAST;
        priorities.all().lower(40, 5);
        assert!(priorities.state.complete && priorities.all().mark(3).is_none());
        priorities.all().lower(41, 5);
        assert!(!priorities.state.complete);
        assert_eq!(priorities.table().of(0).len(), LIMIT);
    }

    #[test]
    fn a_priority_scan_that_fails_changes_nothing() {
        let mut priorities = Own::new();
        assert!(priorities.all().begin_priority_scan(7));
        priorities.all().end_priority_scan(7, None);
        assert!(!priorities.state.complete && priorities.state.scanned_since == 0);
    }
}
