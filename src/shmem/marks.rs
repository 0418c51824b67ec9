//! Low-water marks: places in a queue before which no task is ready, so that a take need not walk
//! over the index entries of all the tasks that were there.
//!
//! One for the whole queue, and one for each of some tubes. Invariant: every task that is ready and
//! visible to all stands at its marks or behind them, but for the moment between the visibility of
//! a commit and its callback. A commit lowers the marks to the tasks that it made ready. One process
//! at a time raises a mark, to what it finds there by a look: commits before the snapshot of that
//! are in what it finds, those after it are in `floor`. Tasks that others have taken and not
//! committed are still ready for it, so that a rollback needs nothing.

use super::queues::QueueGuard;
use crate::delta::Delta;
use crate::model::position::{FIRST, LAST, Position};

/// How many tubes of a queue have marks.
const TUBES_MARKED: usize = 16;
/// After so many takes a mark is raised.
const RAISE_AFTER: u32 = 128;
/// Who has begun to raise a mark and not ended it after so many microseconds never will.
const LOST_AFTER: i64 = 10_000_000;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Marks {
    all: Mark,
    tubes: [Mark; TUBES_MARKED],
    /// The next tube's mark to give way to another's.
    next: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Mark {
    /// The tube, by the number that stands for it.
    tube: u64,
    at: Position,
    /// The first place in which a task came to be ready while somebody looks.
    floor: Position,
    /// When somebody began to look; 0 if nobody does.
    raised_since: i64,
    takes: u32,
}

/// What a take that begins to look is told.
pub struct Start {
    /// No task is ready before this place.
    pub from: Position,
    /// This process is to find out where the first one is, and to tell by `end_raise`.
    pub raises: bool,
}

impl Mark {
    fn lower(&mut self, position: Position) {
        self.floor = self.floor.min(position);
        if position >= self.at {
            return;
        }
        // Tasks further on were known: once this one is taken, the way to them is long again.
        if self.at != LAST {
            self.takes = RAISE_AFTER - 1;
        }
        self.at = position;
    }
}

impl QueueGuard {
    /// Where a take, of one tube or of all, begins to look. With `may_raise` it may be asked to
    /// raise the mark.
    pub fn start(&mut self, tube: Option<u64>, may_raise: bool, now: i64) -> Start {
        let may_raise = may_raise && !self.is_prepared();
        let mark = self.mark(tube);
        mark.takes += 1;
        let is_free = mark.raised_since == 0 || now - mark.raised_since > LOST_AFTER;
        let raises = may_raise && mark.takes > RAISE_AFTER && is_free;
        if raises {
            (mark.takes, mark.raised_since, mark.floor) = (0, now, LAST);
        }
        mark.takes = mark.takes.min(RAISE_AFTER);
        Start { from: mark.at, raises }
    }

    /// Ends what `start` began at `since`. `found`: the place of the first task that is ready; None
    /// if the look has failed.
    pub fn end_raise(&mut self, tube: Option<u64>, since: i64, found: Option<Position>) {
        let is_held = self.is_prepared();
        let mark = self.mark(tube);
        if mark.raised_since != since {
            return;
        }
        mark.raised_since = 0;
        if let Some(found) = found.filter(|_| !is_held) {
            mark.at = found.min(mark.floor);
        }
    }

    /// Where the mark is, of one tube or of all.
    pub fn marked(&self, tube: Option<u64>) -> Position {
        match tube {
            None => self.marks.all.at,
            Some(tube) => {
                let known = self.marks.tubes.iter().find(|mark| mark.tube == tube);
                known.map_or(FIRST, |mark| mark.at)
            }
        }
    }

    /// Forgets the marks: something may have happened that nobody has told of.
    pub fn forget_marks(&mut self) {
        self.marks = Marks::default();
    }

    pub(super) fn lower_marks(&mut self, delta: &Delta) {
        if delta.redefined || delta.recount {
            return self.forget_marks();
        }
        for (tube, position) in delta.lowest.by_tube() {
            self.marks.all.lower(position);
            let tubes = self.marks.tubes.iter_mut();
            let concerned = tubes.filter(|mark| tube.is_none_or(|tube| mark.tube == tube));
            concerned.for_each(|mark| mark.lower(position));
        }
    }

    fn mark(&mut self, tube: Option<u64>) -> &mut Mark {
        let marks = &mut self.marks;
        let Some(tube) = tube else { return &mut marks.all };
        let known = marks.tubes.iter().position(|mark| mark.tube == tube);
        let index = known.unwrap_or_else(|| {
            let index = marks.next as usize % TUBES_MARKED;
            marks.next = marks.next.wrapping_add(1);
            // What is before all tubes' first task is before this one's.
            marks.tubes[index] = Mark { tube, at: marks.all.at, ..Mark::default() };
            index
        });
        &mut marks.tubes[index]
    }
}
