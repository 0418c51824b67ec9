//! Low-water marks of a queue: positions before which no task is ready, so that a take does not walk over the index
//! entries of all earlier tasks.
//!
//! The whole queue has a mark, and so has each group that takes have used recently: a tube, a priority, or both. A group
//! without a mark of its own begins at the mark of a wider one. One more mark is the position before which no task is
//! buried.
//!
//! Invariant: every task that is ready and visible to all is at its marks or behind them. The only exception is the
//! moment between the visibility of a commit and its callback. Buried tasks relate to their mark in the same way. The
//! invariant survives these races:
//!
//! 1. A commit makes tasks ready: its callback lowers the marks to them.
//! 2. A commit overlaps the raise of a mark. Only one process at a time raises a mark, to the first task that its scan
//!    finds. The scan's snapshot sees earlier commits; later ones lower `floor`, which bounds the raise.
//! 3. Another transaction has taken a task and is then rolled back: until it commits, the scan still sees the task as
//!    ready, so a rollback need not lower anything.
//! 4. A raise is abandoned, or its mark is replaced meanwhile: `end_raise` compares the start of the raise and has no
//!    effect.

use crate::marks::mark::{Mark, Start};
use crate::marks::priorities::{KnownPriorities, LIMIT, Priorities, State};
use crate::marks::table::{Entries, Table};
use crate::position::{Group, LAST, Position};

/// The marks that every queue has.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Whole {
    all: Mark,
    buried: Mark,
    priorities: State,
    /// Number of groups with marks of their own.
    count: usize,
}

/// The marks of groups, and the known priorities. They are stored apart because few queues have them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Grouped {
    entries: Entries,
    priorities: [i64; LIMIT],
}

/// Mutable view of a queue's marks.
pub struct Marks<'q> {
    all: &'q mut Mark,
    buried: &'q mut Mark,
    table: Table<'q>,
    priorities: Priorities<'q>,
}

/// A copy of a queue's marks.
#[derive(Clone, Copy, Default)]
pub struct Copied {
    whole: Whole,
    grouped: Grouped,
}

impl Whole {
    /// Copies these marks and the grouped marks. An empty set of grouped marks is not touched.
    pub fn copy(&self, grouped: &Grouped) -> Copied {
        let is_grouped = self.count > 0 || self.priorities.is_used();
        let grouped = if is_grouped { *grouped } else { Grouped::default() };
        Copied { whole: *self, grouped }
    }
}

impl Copied {
    pub fn marks(&mut self) -> Marks<'_> {
        Marks::of(&mut self.whole, &mut self.grouped)
    }
}

impl<'q> Marks<'q> {
    pub fn of(whole: &'q mut Whole, grouped: &'q mut Grouped) -> Marks<'q> {
        let Whole { all, buried, priorities, count } = whole;
        let table = Table { entries: &mut grouped.entries, count };
        let priorities = Priorities { state: priorities, known: &mut grouped.priorities };
        Marks { all, buried, table, priorities }
    }

    /// Resets all marks.
    pub fn forget(&mut self) {
        (*self.all, *self.buried, *self.table.count) = Default::default();
        *self.priorities.state = State::default();
    }

    /// Lowers the marks of a group to a task that has become ready at this position.
    pub fn lower(&mut self, group: Group, position: Position) {
        if matches!(group, Group::Buried | Group::ALL) {
            self.buried.lower(position);
        }
        let Group::Ready { priority, .. } = group else { return };
        self.all.lower(position);
        self.table.lower(group, position);
        self.priorities.add(priority, |known| self.table.is_empty(of_priority(known)));
    }

    /// Returns where a take of this many tasks starts its scan, see [`Mark::start`]. A group without a mark gets one.
    pub fn start(&mut self, group: Group, tasks: u32, may_raise: bool, now: i64) -> Start {
        let mark = match group {
            Group::Buried => &mut *self.buried,
            Group::ALL => &mut *self.all,
            _ => {
                let at = self.marked(group);
                self.table.use_mark(group, at, now)
            }
        };
        mark.start(tasks, may_raise, now)
    }

    /// Records that a take skips its first scan of a group, see [`Mark::pass_by`].
    pub fn pass_by(&mut self, group: Group) -> bool {
        self.mark(group).is_some_and(Mark::pass_by)
    }

    /// Ends the raise that `start` began at `since`. Does nothing if the mark has been replaced since.
    pub fn end_raise(&mut self, group: Group, since: i64, found: Option<Position>) {
        if let Some(mark) = self.mark(group) {
            mark.end_raise(since, found);
        }
    }

    /// Returns the position before which no task of a group is known to be ready, or buried.
    pub fn marked(&mut self, group: Group) -> Position {
        if let Group::Ready { priority: Some(priority), .. } = group
            && self.priorities.complete().is_some_and(|known| !known.contains(&priority))
        {
            return LAST;
        }
        match self.mark(group) {
            Some(mark) => mark.at,
            None => self.marked(group.wider()),
        }
    }

    /// Returns the priorities that ready tasks can have, of a tube or of the whole queue. `into` is an empty list with
    /// room for all of them. With `may_scan` the caller can be asked for a priority scan.
    pub fn known_priorities(
        &mut self,
        tube: Option<u64>,
        mut into: Vec<i64>,
        may_scan: bool,
        now: i64,
    ) -> KnownPriorities {
        let Some(known) = self.priorities.complete() else {
            return match self.priorities.begin_scan(may_scan, now) {
                true => KnownPriorities::PriorityScan,
                false => KnownPriorities::Some,
            };
        };
        into.extend(known);
        self.table.use_empty(now, |group| {
            let Group::Ready { tube: of, priority: Some(empty) } = group else { return false };
            let is_in = of.is_none() || of == tube;
            if is_in {
                into.retain(|priority| *priority != empty);
            }
            is_in
        });
        KnownPriorities::All(into)
    }

    /// Ends a priority scan, see [`Priorities::end_scan`].
    pub fn end_priority_scan(&mut self, since: i64, found: Option<&[i64]>) {
        let is_empty = |known| self.table.is_empty(of_priority(known));
        self.priorities.end_scan(since, found, is_empty);
    }

    /// Returns a group's own mark.
    fn mark(&mut self, group: Group) -> Option<&mut Mark> {
        match group {
            Group::Buried => Some(self.buried),
            Group::ALL => Some(self.all),
            _ => self.table.get(group),
        }
    }
}

fn of_priority(priority: i64) -> Group {
    Group::Ready { tube: None, priority: Some(priority) }
}

#[cfg(test)]
mod tests;
