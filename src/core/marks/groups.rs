//! Low-water marks of a queue: positions before which no task is ready, so that a take does not walk over the index
//! entries of all earlier tasks.
//!
//! The whole queue has a mark, and so have the tubes used most recently. With priorities, each priority has a mark of
//! its own, in the whole queue and in each of these tubes. One more mark is the position before which no task is
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
//! 4. A raise is abandoned, or its mark is evicted meanwhile: `end_raise` compares the start of the raise and has no
//!    effect.

use crate::marks::by_tube::{self, ByTube, Values};
use crate::marks::mark::{Mark, Start};
use crate::marks::priorities::{KnownPriorities, LIMIT, Priorities, State};
use crate::marks::table::{Entries, Entry, MARKS, Scope, Table};
use crate::position::{FIRST, Group, LAST, Position};

/// Maximum number of tubes with marks.
const TUBES: usize = 16;
const WHOLE: Scope = 0;

/// The marks that every queue has.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Whole {
    all: Mark,
    buried: Mark,
    priorities: State,
    tubes: by_tube::Head,
    /// Number of marks by priority.
    count: usize,
}

/// The marks of tubes and priorities. They are stored apart because few queues have them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Grouped {
    tubes: Values<Tube, TUBES>,
    /// The marks by priority, of the whole queue and of tubes.
    priorities: Entries,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Tube {
    mark: Mark,
    priorities: State,
}

/// Mutable view of a queue's marks.
pub struct Marks<'q> {
    all: &'q mut Mark,
    buried: &'q mut Mark,
    tubes: ByTube<'q, Tube, TUBES>,
    priorities: &'q mut State,
    table: Table<'q>,
}

/// A copy of a queue's marks.
#[derive(Clone, Copy, Default)]
pub struct Copied {
    whole: Whole,
    grouped: Grouped,
}

impl Default for Grouped {
    fn default() -> Self {
        Grouped { tubes: Values::default(), priorities: [Entry::default(); MARKS] }
    }
}

impl Whole {
    /// Copies these marks and the grouped marks. An empty set of grouped marks is not touched.
    pub fn copy(&self, grouped: &Grouped) -> Copied {
        let is_grouped = self.count > 0 || self.tubes.is_used();
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
        let Whole { all, buried, priorities, tubes, count } = whole;
        let tubes = ByTube { head: tubes, values: &mut grouped.tubes };
        let table = Table { entries: &mut grouped.priorities, count };
        Marks { all, buried, tubes, priorities, table }
    }

    /// Resets all marks.
    pub fn forget(&mut self) {
        (*self.all, *self.buried, *self.priorities) = Default::default();
        (*self.tubes.head, *self.table.count) = Default::default();
    }

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

    /// Returns where a take of this many tasks starts its scan, see [`Mark::start`].
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

    /// Records that a take skips its first scan of a group, see [`Mark::pass_by`].
    pub fn pass_by(&mut self, group: Group) -> bool {
        self.mark(group).is_some_and(Mark::pass_by)
    }

    /// Ends the raise that `start` began at `since`. Does nothing if the mark has been evicted since.
    pub fn end_raise(&mut self, group: Group, since: i64, found: Option<Position>) {
        if let Some(mark) = self.mark(group) {
            mark.end_raise(since, found);
        }
    }

    /// Returns the position before which no task of a group is known to be ready, or buried.
    pub fn marked(&mut self, group: Group) -> Position {
        match group {
            Group::Ready { tube, priority: Some(priority) } => {
                self.priorities(tube).map_or(FIRST, |mut known| known.marked(priority))
            }
            _ => self.mark(group).map_or(FIRST, |mark| mark.at),
        }
    }

    /// Returns the priorities that ready tasks can have, of a tube or of the whole queue, see
    /// [`Priorities::known_priorities`].
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

    /// Ends a priority scan, see [`Priorities::end_priority_scan`]. Does nothing if the tube has been evicted since.
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

    /// Returns whether a tube has marks.
    pub fn knows(&self, tube: u64) -> bool {
        self.tubes.place(tube).is_some()
    }

    /// Copies the marks of the whole queue's priorities to a tube, if there is room for them.
    fn learn(&mut self, scope: Scope) {
        let mut known = [(0, FIRST); LIMIT];
        let whole = self.table.of(WHOLE).iter().filter(|known| known.mark.at != LAST);
        let count = whole.zip(&mut known).map(|(of, to)| *to = (of.priority, of.mark.at)).count();
        self.table.clear(scope);
        self.make_room(scope, count);
        self.within(scope).learn(&known[..count]);
    }

    /// Evicts the priorities of other tubes until this many marks can be added, or no other tube has any.
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
            Group::Buried => Some(self.buried),
            Group::ALL => Some(self.all),
            Group::Ready { tube, priority: Some(priority) } => {
                self.table.get(self.scope_of(tube)?, priority)
            }
            Group::Ready { tube: Some(tube), .. } => {
                let place = self.tubes.place(tube)?;
                Some(&mut self.tubes.at(place).mark)
            }
        }
    }

    /// Returns the position of a tube, which is added if necessary.
    fn place_of(&mut self, tube: u64) -> usize {
        self.tubes.place(tube).unwrap_or_else(|| {
            // The whole queue's mark holds for every tube.
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
            None => &mut *self.priorities,
            Some(place) => &mut self.tubes.at(place).priorities,
        };
        Priorities { state, table: self.table.borrowed(), scope }
    }
}

/// Returns the scope of the tube at a position.
fn scope(place: usize) -> Scope {
    place + 1
}

#[cfg(test)]
mod tests;
