//! The priorities that ready tasks of a queue can have. A take searches them in turn, each from its own mark, because a
//! task with a later priority can stand before the tasks with an earlier one.
//!
//! Invariant: while the list is complete, every ready task has one of the known priorities. A priority scan establishes
//! this. The invariant survives these races:
//!
//! 1. A transaction commits before the scan reads a priority: the scan finds its tasks.
//! 2. A transaction commits later: its callback adds the priority.
//! 3. The callback cannot add the priority, because the list is full or the priority is unknown: the list becomes
//!    incomplete, and a scan in progress has no effect.

use crate::marks::mark::{LOST_AFTER, RAISE_AFTER};

/// Maximum number of known priorities of a queue.
pub const LIMIT: usize = 16;

/// State of the list, without the priorities.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct State {
    is_complete: bool,
    count: u32,
    /// Tasks taken since the last priority scan.
    takes: u32,
    /// Start of the priority scan in progress; 0: not in progress.
    scanned_since: i64,
}

/// Mutable view of the list.
pub struct Priorities<'q> {
    pub state: &'q mut State,
    /// In ascending order.
    pub known: &'q mut [i64; LIMIT],
}

/// The known priorities of ready tasks.
pub enum KnownPriorities {
    /// All priorities that ready tasks can have, in ascending order.
    All(Vec<i64>),
    /// The list is not complete.
    Some,
    /// The list is not complete, and the caller has to do a priority scan and report it by `end_scan`.
    PriorityScan,
}

impl State {
    /// Returns whether the list is complete, or becomes complete at the end of a scan.
    pub fn is_used(&self) -> bool {
        self.is_complete || self.scanned_since != 0
    }
}

impl Priorities<'_> {
    /// Returns the priorities if the list is complete.
    pub fn complete(&self) -> Option<&[i64]> {
        self.state.is_complete.then(|| self.known())
    }

    /// Records that a task of this priority has become ready; None: the priority is unknown. A full list replaces a
    /// priority without ready tasks.
    pub fn add(&mut self, priority: Option<i64>, is_empty: impl Fn(i64) -> bool) {
        if !self.state.is_used() {
            return;
        }
        if !priority.is_some_and(|priority| self.insert(priority, is_empty)) {
            (self.state.is_complete, self.state.scanned_since) = (false, 0);
        }
    }

    /// Returns whether the caller has to do a priority scan, which begins now.
    pub fn begin_scan(&mut self, may_scan: bool, now: i64) -> bool {
        self.state.takes = self.state.takes.saturating_add(1);
        let since = self.state.scanned_since;
        // Tolerates a clock that was set back.
        let is_scanning = since != 0 && now.abs_diff(since) <= LOST_AFTER.unsigned_abs();
        let begins = may_scan && self.state.takes > RAISE_AFTER && !is_scanning;
        if begins {
            *self.state = State { scanned_since: now, ..State::default() };
        }
        begins
    }

    /// Ends the priority scan begun at `since`. `found`: the priorities of ready tasks; None if the scan has failed or
    /// found too many.
    pub fn end_scan(&mut self, since: i64, found: Option<&[i64]>, is_empty: impl Fn(i64) -> bool) {
        if self.state.scanned_since != since {
            return;
        }
        self.state.scanned_since = 0;
        if let Some(found) = found {
            let mut found = found.iter();
            self.state.is_complete = found.all(|priority| self.insert(*priority, &is_empty));
        }
    }

    fn known(&self) -> &[i64] {
        &self.known[..self.state.count as usize]
    }

    /// Adds a priority unless it is known; false if there is no room.
    fn insert(&mut self, priority: i64, is_empty: impl Fn(i64) -> bool) -> bool {
        if self.known().contains(&priority) {
            return true;
        }
        let count = self.known().len();
        let place = match count < LIMIT {
            true => Some(count),
            false => self.known().iter().position(|known| is_empty(*known)),
        };
        let Some(place) = place else { return false };
        self.known[place] = priority;
        self.state.count = self.state.count.max(place as u32 + 1);
        self.known[..self.state.count as usize].sort_unstable();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Own(State, [i64; LIMIT]);

    impl Own {
        fn all(&mut self) -> Priorities<'_> {
            Priorities { state: &mut self.0, known: &mut self.1 }
        }

        fn begins_scan(&mut self, now: i64) -> bool {
            self.0.takes = RAISE_AFTER;
            self.all().begin_scan(true, now)
        }

        fn add(&mut self, priority: impl Into<Option<i64>>) {
            self.all().add(priority.into(), |_| false);
        }

        fn end_scan(&mut self, since: i64, found: &[i64]) {
            self.all().end_scan(since, Some(found), |_| false);
        }

        fn complete(&mut self) -> Option<Vec<i64>> {
            self.all().complete().map(<[i64]>::to_vec)
        }
    }

    fn scanned(found: impl IntoIterator<Item = i64>) -> Own {
        let mut own = Own::default();
        assert!(own.begins_scan(7));
        own.end_scan(7, &found.into_iter().collect::<Vec<_>>());
        own
    }

    #[test]
    fn a_priority_scan_makes_them_known() {
        let mut own = Own::default();
        own.add(1);
        assert_eq!(own.complete(), None);
        let mut own = scanned([1, 5]);
        own.add(3);
        own.add(5);
        assert_eq!(own.complete(), Some(vec![1, 3, 5]));
        own.add(None);
        assert_eq!(own.complete(), None);
    }

    #[test]
    fn a_scan_is_due_after_many_takes() {
        let mut own = Own::default();
        let begins = (0..1000).find(|_| own.all().begin_scan(true, 7));
        assert_eq!(begins, Some(RAISE_AFTER));
    }

    #[test]
    fn what_comes_while_it_is_scanned_is_not_missed() {
        let mut own = scanned([1, 5]);
        own.add(None);
        assert!(own.begins_scan(9) && !own.begins_scan(10), "one at a time");
        own.add(2);
        own.end_scan(8, &[]);
        own.end_scan(9, &[1, 4]);
        assert_eq!(own.complete(), Some(vec![1, 2, 4]));
    }

    /// It is not known whether the scan saw the task of that priority.
    #[test]
    fn a_scan_has_no_effect_if_a_priority_could_not_be_added_meanwhile() {
        let mut own = Own::default();
        assert!(own.begins_scan(7));
        own.add(None);
        own.end_scan(7, &[]);
        assert_eq!(own.complete(), None);
        assert!(own.begins_scan(9));
        (0..=16).for_each(|priority| own.add(priority));
        own.end_scan(9, &[1]);
        assert_eq!(own.complete(), None);
    }

    #[test]
    fn a_scan_that_fails_or_takes_too_long_changes_nothing() {
        let mut own = Own::default();
        assert!(own.begins_scan(7));
        own.all().end_scan(7, None, |_| false);
        assert_eq!(own.complete(), None);
        assert!(own.begins_scan(9) && !own.begins_scan(9 + LOST_AFTER));
        assert!(own.begins_scan(10 + LOST_AFTER));
        own.end_scan(9, &[1]);
        assert_eq!(own.complete(), None);
        own.end_scan(10 + LOST_AFTER, &[2]);
        assert_eq!(own.complete(), Some(vec![2]));
    }

    #[test]
    fn there_may_be_too_many() {
        assert_eq!(scanned(0..17).complete(), None);
        let mut own = scanned(0..16);
        // A priority without ready tasks is replaced; a priority with ready tasks is not.
        own.all().add(Some(40), |priority| priority == 3);
        let known = (0..16).filter(|priority| *priority != 3).chain([40]);
        assert_eq!(own.complete(), Some(known.collect()));
        own.add(41);
        assert_eq!(own.complete(), None);
    }
}
