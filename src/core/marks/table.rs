//! A bounded table from a group to its mark. A new group replaces the group that takes have not used for the longest
//! time. Entries are stored apart from their count and are not touched while the table is empty.

use crate::marks::mark::Mark;
use crate::position::{Group, LAST, Position};

/// Maximum number of groups with marks of their own.
pub const MARKS: usize = 60;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entries {
    groups: [Group; MARKS],
    marks: [Mark; MARKS],
    /// Time of the last take that used the mark.
    used: [i64; MARKS],
}

/// Mutable view of a table.
pub struct Table<'q> {
    pub entries: &'q mut Entries,
    pub count: &'q mut usize,
}

impl Default for Entries {
    fn default() -> Self {
        Entries { groups: [Group::ALL; MARKS], marks: [Mark::default(); MARKS], used: [0; MARKS] }
    }
}

impl Table<'_> {
    pub fn get(&mut self, group: Group) -> Option<&mut Mark> {
        let place = self.place(group)?;
        Some(&mut self.entries.marks[place])
    }

    /// Returns the mark of a group for a take. A new mark stands at `at`.
    pub fn use_mark(&mut self, group: Group, at: Position, now: i64) -> &mut Mark {
        let place = self.place(group).unwrap_or_else(|| {
            let place = self.free_place();
            (self.entries.groups[place], self.entries.marks[place]) = (group, Mark::new(at));
            place
        });
        self.entries.used[place] = now;
        &mut self.entries.marks[place]
    }

    /// Lowers the marks of all groups that a task of this group can be in.
    pub fn lower(&mut self, group: Group, position: Position) {
        for place in 0..*self.count {
            if self.entries.groups[place].meets(group) {
                self.entries.marks[place].lower(position);
            }
        }
    }

    /// Returns whether the marks show that a group has no ready task.
    pub fn is_empty(&self, group: Group) -> bool {
        self.place(group).is_some_and(|place| self.entries.marks[place].at == LAST)
    }

    /// Passes each group whose mark shows that it has no ready task to `see`. The mark counts as used if `see` returns
    /// true.
    pub fn use_empty(&mut self, now: i64, mut see: impl FnMut(Group) -> bool) {
        for place in 0..*self.count {
            if self.entries.marks[place].at == LAST && see(self.entries.groups[place]) {
                self.entries.used[place] = now;
            }
        }
    }

    fn place(&self, group: Group) -> Option<usize> {
        self.entries.groups[..*self.count].iter().position(|known| *known == group)
    }

    /// Returns an unused place, or the one that takes have not used for the longest time.
    fn free_place(&mut self) -> usize {
        if *self.count < MARKS {
            *self.count += 1;
            return *self.count - 1;
        }
        (0..MARKS).min_by_key(|place| self.entries.used[*place]).unwrap_or(0)
    }
}
