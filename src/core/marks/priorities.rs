//! Low-water marks of a queue with priorities, or of one of its tubes: one for each priority, as a task of a later
//! priority may stand before those of an earlier one.
//!
//! That every ready task has one of the known priorities is established by a priority scan, which treats concurrent
//! transactions as the raise of a mark does: those that commit before the look at a priority are in what it finds,
//! later ones lower `floor` or add their priority; if that is impossible, the priority scan fails.

use crate::marks::mark::{LOST_AFTER, Mark, RAISE_AFTER, Start};
use crate::marks::table::{Scope, Table};
use crate::position::{FIRST, LAST, Position};

/// Maximum number of priorities with marks, of a queue or of a tube.
pub const LIMIT: usize = 16;

/// What is known of the priorities of a scope.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct State {
    /// Every ready task has one of the known priorities.
    complete: bool,
    /// Start of the priority scan in progress; 0: none.
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

/// What is known of priorities.
pub enum KnownPriorities {
    /// All priorities of ready tasks, in order; last, in order too, those that seem to be empty.
    All(Vec<i64>),
    /// Not all.
    Some,
    /// Not all: the caller has to do a priority scan and report it by `end_priority_scan`.
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

    /// Returns where to begin to look for this many tasks of a priority, see [`Mark::start`].
    pub fn start(&mut self, priority: i64, tasks: u32, may_raise: bool, now: i64) -> Start {
        let mark = if self.state.complete { self.mark(priority) } else { None };
        mark.map(|mark| mark.start(tasks, may_raise, now)).unwrap_or_default()
    }

    /// Returns the position before which no task of a priority is ready, as far as known.
    pub fn marked(&mut self, priority: i64) -> Position {
        match self.mark(priority).map(|mark| mark.at) {
            _ if !self.state.complete => FIRST,
            Some(at) => at,
            None => LAST,
        }
    }

    /// Begins with these marks, of all tubes: what holds for all tubes holds for each.
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

    /// Records that a task of an unrecorded priority has become ready.
    pub fn lower_all(&mut self, position: Position) {
        self.lose();
        self.table.of_mut(self.scope).iter_mut().for_each(|known| known.mark.lower(position));
    }

    /// Discards the list of priorities, and the priority scan in progress.
    fn lose(&mut self) {
        (self.state.complete, self.state.scanned_since) = (false, 0);
    }

    /// Adds a priority; false if there is no room.
    fn insert(&mut self, priority: i64, position: Position) -> bool {
        let is_full = self.table.of(self.scope).len() == LIMIT || self.table.room() == 0;
        // A priority without ready tasks is evicted.
        let may_evict = self.state.scanned_since == 0;
        if is_full && !(may_evict && self.table.remove(self.scope, |mark| mark.at == LAST)) {
            return false;
        }
        self.table.add(self.scope, priority, Mark::new(position))
    }

    /// Returns the priorities that ready tasks may have. `into`: an empty list with room for all. With `may_scan`
    /// the caller may be asked for a priority scan.
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
        // The clock may have been set back since.
        let is_scanning = since != 0 && now.abs_diff(since) <= LOST_AFTER.unsigned_abs();
        if is_looked_at || is_scanning {
            return false;
        }
        known.iter_mut().for_each(|known| known.mark.watch());
        (self.state.scanned_since, self.state.takes) = (now, 0);
        true
    }

    /// Ends the priority scan begun at `since`. `found`: the priorities of ready tasks with the position of the first
    /// task of each; None if the priority scan has failed or found too many.
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

    /// Returns whether the priority scan has seen it is unknown.
    #[test]
    fn a_priority_scan_has_come_to_nothing_beside_a_priority_that_is_not_noted() {
        let mut priorities = Own::new();
        assert!(priorities.all().begin_priority_scan(7));
        priorities.all().lower_all(5);
        priorities.all().end_priority_scan(7, Some(&[]));
        assert!(!priorities.state.complete);
        // The same where there is no room for it.
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
        // Its own priority scan comes too late, and no raise of its own is in progress.
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
        // One that is idle gives way, none other.
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
