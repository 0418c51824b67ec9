//! Low-water marks of a queue in shared memory, see [`crate::parts::marks::groups`]. They are not raised while a
//! prepared transaction may have changed the table, as its end is not told.

use crate::model::position::{Group, Position};
use crate::parts::marks::change::Change;
use crate::parts::marks::groups::Marks;
use crate::parts::marks::mark::Start;
use crate::parts::marks::priorities::KnownPriorities;
use crate::parts::marks::traced;
use crate::parts::slot::{QueueGuard, SharedQueue};
use crate::server::allocator;
use crate::trace;
use serde_json::{Value, json};

impl QueueGuard {
    /// Returns where to begin to look for this many tasks. With `may_raise` the caller may be asked to raise the
    /// mark.
    pub fn start(&mut self, group: Group, tasks: u32, may_raise: bool, now: i64) -> Start {
        let may_raise = may_raise && !self.is_prepared();
        self.change_marks(
            |queue| queue.marks.start(group, tasks, may_raise, now),
            |start, _| start.raises.then(|| traced::raise_begins(group, now)).flatten(),
        )
    }

    /// Ends the raise that `start` began at `since`. `found`: the position of the first task of the group; None if
    /// the look has failed.
    pub fn end_raise(&mut self, group: Group, since: i64, found: Option<Position>) {
        let believed = found.filter(|_| !self.is_prepared());
        self.change_marks(
            |queue| queue.marks.end_raise(group, since, believed),
            |_, _| traced::raise_ends(group, since, found),
        );
    }

    /// Returns the mark; the first position if there is none.
    pub fn marked(&mut self, group: Group) -> Position {
        self.marks.marked(group)
    }

    /// Returns a copy of all marks.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Returns the priorities that ready tasks, of a tube if one is given, may have. `into`: an empty list with room
    /// for all. With `may_scan` the caller may be asked for a survey.
    pub fn known_priorities(
        &mut self,
        tube: Option<u64>,
        into: Vec<i64>,
        may_scan: bool,
        now: i64,
    ) -> KnownPriorities {
        let may_scan = may_scan && !self.is_prepared();
        self.marks.known_priorities(tube, into, may_scan, now)
    }

    /// Ends a survey begun at `since`. `found`: the priorities with the position of the first task of each; None if
    /// the survey has failed.
    pub fn end_priority_scan(
        &mut self,
        tube: Option<u64>,
        since: i64,
        found: Option<&[(i64, Position)]>,
    ) {
        let found = found.filter(|_| !self.is_prepared());
        self.marks.end_priority_scan(tube, since, found);
    }

    /// Forgets the marks, after changes that may not have been reported.
    pub fn forget_marks(&mut self) {
        self.change_marks(
            |queue| queue.marks = Marks::default(),
            |_, has_changed| has_changed.then(|| json!({ "do": "Forget" })),
        );
    }

    /// Applies what a transaction has committed. `forgets`: it has done what is not reported row by row.
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

    /// Changes the marks, or whether they may be raised, and traces the step. `step` describes it, told whether
    /// anything has changed.
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
        // Allocates in spite of the lock, in builds that trace.
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
