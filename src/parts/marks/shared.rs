//! The low-water marks of a queue in shared memory, see [`crate::parts::marks::groups`]. They are not raised while a
//! prepared transaction may have changed the table: nobody is told when that ends.

use crate::model::position::{Group, Position};
use crate::parts::marks::change::Change;
use crate::parts::marks::groups::Marks;
use crate::parts::marks::mark::Start;
use crate::parts::marks::priorities::Sight;
use crate::parts::marks::traced;
use crate::parts::slot::{QueueGuard, SharedQueue};
use crate::server::allocator;
use crate::trace;
use serde_json::{Value, json};

impl QueueGuard {
    /// Where to begin to look for so many tasks. With `may_raise` the caller may be asked to raise the
    /// mark.
    pub fn start(&mut self, group: Group, tasks: u32, may_raise: bool, now: i64) -> Start {
        let may_raise = may_raise && !self.is_prepared();
        self.change_marks(
            |queue| queue.marks.start(group, tasks, may_raise, now),
            |start, _| start.raises.then(|| traced::raise_begins(group, now)).flatten(),
        )
    }

    /// Ends what `start` began at `since`. `found`: the place of the first task of the group; None
    /// if the look has failed.
    pub fn end_raise(&mut self, group: Group, since: i64, found: Option<Position>) {
        let believed = found.filter(|_| !self.is_prepared());
        self.change_marks(
            |queue| queue.marks.end_raise(group, since, believed),
            |_, _| traced::raise_ends(group, since, found),
        );
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
        self.change_marks(
            |queue| queue.marks = Marks::default(),
            |_, has_changed| has_changed.then(|| json!({ "do": "Forget" })),
        );
    }

    /// Takes over what a transaction has committed. `forgets`: it is not known what it has done.
    pub(in crate::parts) fn lower_marks(&mut self, change: &Change, forgets: bool) {
        let places = || change.lowest.by_group();
        let lower = |queue: &mut SharedQueue| match forgets {
            true => queue.marks = Marks::default(),
            false => places().for_each(|(group, position)| queue.marks.lower(group, position)),
        };
        self.change_marks(lower, |_, has_changed| {
            let tells = has_changed || places().next().is_some();
            tells.then(|| traced::lowered(places(), forgets))
        });
    }

    /// Does what may change the marks, or whether they may be raised, and traces the step that it was, if it was one: `step`
    /// is told whether anything has changed.
    #[inline]
    pub(in crate::parts) fn change_marks<T>(
        &mut self,
        change: impl FnOnce(&mut SharedQueue) -> T,
        step: impl FnOnce(&T, bool) -> Option<Value>,
    ) -> T {
        if !trace::is_on() {
            return change(self);
        }
        let before = self.seen_marks();
        let done = change(self);
        let after = self.seen_marks();
        // Apart from what the lock forbids.
        let step = allocator::apart(|| step(&done, before != after));
        if let Some(step) = step {
            traced::step(self.id().generation, (before, after), || step);
        }
        done
    }

    fn seen_marks(&self) -> traced::Seen {
        traced::Seen::of(self.marks.whole(), self.prepared.may_change, self.prepared.is_looked_for)
    }
}
