//! Low-water marks: places in a queue before which no task is ready, so that a take need not walk
//! over the index entries of all the tasks that were there.
//!
//! One for the whole queue and one for each of some tubes, or one for each priority; and one before which
//! no task is buried, of which the same is true. Invariant:
//! every task that is ready and visible to all stands at its marks or behind them, but for the
//! moment between the visibility of a commit and its callback. A commit lowers the marks to the
//! tasks that it made ready. One process at a time raises a mark, to what it finds there by a look:
//! commits before the snapshot of that are in what it finds, those after it are in `floor`. Tasks
//! that others have taken and not committed are still ready for it, so that a rollback needs nothing.

use super::queues::QueueGuard;
use crate::delta::Delta;
use crate::marks::mark::{Mark, Start};
use crate::marks::priorities::{Priorities, Sight};
use crate::model::position::{FIRST, Group, Position};

/// How many tubes of a queue have marks.
const TUBES_MARKED: usize = 16;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Marks {
    all: Mark,
    tubes: [Mark; TUBES_MARKED],
    /// The tubes of these, by the numbers that stand for them.
    names: [u64; TUBES_MARKED],
    /// The next tube's mark to give way to another's.
    next: u32,
    priorities: Priorities,
    buried: Mark,
}

impl QueueGuard {
    /// Where to begin to look for so many tasks. With `may_raise` the caller may be asked to raise the
    /// mark.
    pub fn start(&mut self, group: Group, tasks: u32, may_raise: bool, now: i64) -> Start {
        let may_raise = may_raise && !self.is_prepared();
        self.mark(group).map(|mark| mark.start(tasks, may_raise, now)).unwrap_or_default()
    }

    /// Ends what `start` began at `since`. `found`: the place of the first task of the group; None
    /// if the look has failed.
    pub fn end_raise(&mut self, group: Group, since: i64, found: Option<Position>) {
        let found = found.filter(|_| !self.is_prepared());
        if let Some(mark) = self.mark(group) {
            mark.end_raise(since, found);
        }
    }

    /// Where the mark is; at the first place if there is none.
    pub fn marked(&mut self, group: Group) -> Position {
        self.mark(group).map_or(FIRST, |mark| mark.at)
    }

    /// The priorities that ready tasks may have, see [`Priorities::sight`].
    pub fn priorities(&mut self, into: Vec<i64>, may_survey: bool, now: i64) -> Sight {
        let may_survey = may_survey && !self.is_prepared();
        self.marks.priorities.sight(into, may_survey, now)
    }

    /// Ends a survey, see [`Priorities::end_survey`].
    pub fn end_survey(&mut self, since: i64, found: Option<&[(i64, Position)]>) {
        let found = found.filter(|_| !self.is_prepared());
        self.marks.priorities.end_survey(since, found);
    }

    /// Forgets the marks: something may have happened that nobody has told of.
    pub fn forget_marks(&mut self) {
        self.marks = Marks::default();
    }

    pub(super) fn lower_marks(&mut self, delta: &Delta) {
        if delta.redefined || delta.recount {
            return self.forget_marks();
        }
        for (group, position) in delta.lowest.by_group() {
            let marks = &mut self.marks;
            let tubes = marks.tubes.iter_mut().zip(marks.names);
            match group {
                Group::All => {
                    tubes.for_each(|(mark, _)| mark.lower(position));
                    marks.priorities.lower_all(position);
                    marks.buried.lower(position);
                }
                Group::Tube(tube) => {
                    let concerned = tubes.filter(|(_, name)| *name == tube);
                    concerned.for_each(|(mark, _)| mark.lower(position));
                }
                Group::Priority(priority) => marks.priorities.lower(priority, position),
                Group::Buried => {
                    marks.buried.lower(position);
                    continue;
                }
            }
            marks.all.lower(position);
        }
    }

    fn mark(&mut self, group: Group) -> Option<&mut Mark> {
        let marks = &mut self.marks;
        let tube = match group {
            Group::All => return Some(&mut marks.all),
            Group::Buried => return Some(&mut marks.buried),
            Group::Priority(priority) => return marks.priorities.mark(priority),
            Group::Tube(tube) => tube,
        };
        let known = marks.names.iter().position(|name| *name == tube);
        let index = known.unwrap_or_else(|| {
            let index = marks.next as usize % TUBES_MARKED;
            marks.next = marks.next.wrapping_add(1);
            // What is before all tubes' first task is before this one's.
            (marks.names[index], marks.tubes[index]) = (tube, Mark::new(marks.all.at));
            index
        });
        Some(&mut marks.tubes[index])
    }
}
