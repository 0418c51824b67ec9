//! The low-water marks of a queue in shared memory, see [`crate::marks::queue`]. They are not raised while a
//! prepared transaction may have changed the table: nobody is told when that ends.

use super::queues::QueueGuard;
use crate::delta::Delta;
use crate::marks::mark::Start;
use crate::marks::priorities::Sight;
use crate::marks::queue::Marks;
use crate::model::position::{Group, Position};

impl QueueGuard {
    /// Where to begin to look for so many tasks. With `may_raise` the caller may be asked to raise the
    /// mark.
    pub fn start(&mut self, group: Group, tasks: u32, may_raise: bool, now: i64) -> Start {
        let may_raise = may_raise && !self.is_prepared();
        self.marks.start(group, tasks, may_raise, now)
    }

    /// Ends what `start` began at `since`. `found`: the place of the first task of the group; None
    /// if the look has failed.
    pub fn end_raise(&mut self, group: Group, since: i64, found: Option<Position>) {
        let found = found.filter(|_| !self.is_prepared());
        self.marks.end_raise(group, since, found);
    }

    /// Where the mark is; at the first place if there is none.
    pub fn marked(&mut self, group: Group) -> Position {
        self.marks.marked(group)
    }

    /// All of them, as they are now.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// The priorities that ready tasks, of a tube if one is given, may have. `into`: an empty list with
    /// room for all. With `may_survey` the caller may be asked to find them out.
    pub fn sight(
        &mut self,
        tube: Option<u64>,
        into: Vec<i64>,
        may_survey: bool,
        now: i64,
    ) -> Sight {
        let may_survey = may_survey && !self.is_prepared();
        self.marks.sight(tube, into, may_survey, now)
    }

    /// Ends a survey begun at `since`. `found`: the priorities, and where the first task of each stands;
    /// None if the survey has failed.
    pub fn end_survey(&mut self, tube: Option<u64>, since: i64, found: Option<&[(i64, Position)]>) {
        let found = found.filter(|_| !self.is_prepared());
        self.marks.end_survey(tube, since, found);
    }

    /// Forgets the marks: something may have happened that nobody has told of.
    pub fn forget_marks(&mut self) {
        self.marks = Marks::default();
    }

    pub(super) fn lower_marks(&mut self, delta: &Delta) {
        if delta.redefined || delta.recount {
            return self.forget_marks();
        }
        let places = delta.lowest.by_group();
        places.for_each(|(group, position)| self.marks.lower(group, position));
    }
}
