//! A bounded table of marks by priority, shared by the whole queue and its tubes. The marks are stored apart from their
//! count and are not touched while the table is empty.

use crate::marks::mark::Mark;
use std::ops::Range;

/// Maximum number of marks by priority in a queue.
pub const MARKS: usize = 64;

/// Owner of a set of priorities: 0 for the whole queue, else the position of a tube plus one.
pub type Scope = usize;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Entry {
    scope: Scope,
    pub priority: i64,
    pub mark: Mark,
}

/// Sorted by scope and priority.
pub type Entries = [Entry; MARKS];

/// Mutable view of a table.
pub struct Table<'q> {
    pub entries: &'q mut Entries,
    pub count: &'q mut usize,
}

impl Table<'_> {
    pub fn borrowed(&mut self) -> Table<'_> {
        Table { entries: self.entries, count: self.count }
    }

    /// Returns the marks of a scope, by priority.
    pub fn of(&self, scope: Scope) -> &[Entry] {
        &self.entries[self.range(scope)]
    }

    pub fn of_mut(&mut self, scope: Scope) -> &mut [Entry] {
        let range = self.range(scope);
        &mut self.entries[range]
    }

    pub fn get(&mut self, scope: Scope, priority: i64) -> Option<&mut Mark> {
        let place = self.place(scope, priority).ok()?;
        Some(&mut self.entries[place].mark)
    }

    pub fn knows(&self, scope: Scope, priority: i64) -> bool {
        self.place(scope, priority).is_ok()
    }

    /// Adds the mark of a new priority; false if the table is full or has the priority already.
    pub fn add(&mut self, scope: Scope, priority: i64, mark: Mark) -> bool {
        let Err(place) = self.place(scope, priority) else { return false };
        if self.room() == 0 {
            return false;
        }
        self.entries.copy_within(place..*self.count, place + 1);
        self.entries[place] = Entry { scope, priority, mark };
        *self.count += 1;
        true
    }

    /// Removes the first mark of a scope for which a condition holds; false if no mark fulfils it.
    pub fn remove(&mut self, scope: Scope, is_it: impl Fn(&Mark) -> bool) -> bool {
        let range = self.range(scope);
        let found = self.entries[range.clone()].iter().position(|entry| is_it(&entry.mark));
        let Some(index) = found else { return false };
        self.cut(range.start + index..range.start + index + 1);
        true
    }

    /// Removes all marks of a scope.
    pub fn clear(&mut self, scope: Scope) {
        self.cut(self.range(scope));
    }

    /// Returns the number of marks that can be added.
    pub fn room(&self) -> usize {
        MARKS - *self.count
    }

    fn cut(&mut self, range: Range<usize>) {
        self.entries.copy_within(range.end..*self.count, range.start);
        *self.count -= range.len();
    }

    fn range(&self, scope: Scope) -> Range<usize> {
        let known = &self.entries[..*self.count];
        let begin = known.partition_point(|entry| entry.scope < scope);
        begin..begin + known[begin..].partition_point(|entry| entry.scope == scope)
    }

    fn place(&self, scope: Scope, priority: i64) -> Result<usize, usize> {
        let known = &self.entries[..*self.count];
        known.binary_search_by_key(&(scope, priority), |entry| (entry.scope, entry.priority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priorities(table: &Table, scope: Scope) -> Vec<i64> {
        table.of(scope).iter().map(|entry| entry.priority).collect()
    }

    struct Own(Entries, usize);

    impl Own {
        fn new() -> Own {
            Own([Entry::default(); MARKS], 0)
        }

        fn table(&mut self) -> Table<'_> {
            Table { entries: &mut self.0, count: &mut self.1 }
        }
    }

    #[test]
    fn each_scope_has_its_marks_in_order() {
        let mut own = Own::new();
        let mut table = own.table();
        for (scope, priority) in [(2, 5), (0, 9), (2, 1), (1, 7), (0, -3)] {
            assert!(table.add(scope, priority, Mark::new(10)));
        }
        assert!(!table.add(2, 5, Mark::new(11)), "it is there");
        let of = |table: &Table| [0, 1, 2, 3].map(|scope| priorities(table, scope));
        assert_eq!(of(&table), [vec![-3, 9], vec![7], vec![1, 5], vec![]]);
        table.get(2, 5).unwrap().lower(4);
        assert!(table.remove(2, |mark| mark.at == 4) && !table.remove(1, |mark| mark.at == 4));
        table.clear(0);
        assert_eq!(of(&table), [vec![], vec![7], vec![1], vec![]]);
        assert!(table.knows(2, 1) && !table.knows(2, 5) && table.get(1, 1).is_none());
    }

    #[test]
    fn it_is_bounded() {
        let mut own = Own::new();
        let mut table = own.table();
        assert!((0..MARKS as i64).all(|priority| table.add(3, priority, Mark::default())));
        assert!(table.room() == 0 && !table.add(1, 0, Mark::default()));
        table.clear(3);
        assert!(table.room() == MARKS && table.add(1, 0, Mark::default()));
    }
}
