//! A take that tries tasks one by one, wherever they were found: among candidates or in the index.

use crate::queue::{Direct, Queue};
use crate::server::heap::{Fired, FoundRow, Holder, Open};
use crate::server::value::Value;
use crate::write::assign::{Assignments, Values, applies};
use crate::write::direct::taken;
use crate::write::passed::Passed;
use crate::write::row;
use crate::write::row::note_move;
use crate::write::seen::Seen;
use std::collections::HashSet;
use xqueue_core::change::{CallKind, StateAndTube};
use xqueue_core::field::Field;
use xqueue_core::row_id::RowId;
use xqueue_core::statement::rule::Applies;
use xqueue_core::status::Status;

/// The result of an attempt to take a task.
pub enum Attempt {
    Taken,
    /// The task must not be taken.
    Unfit,
    /// Another transaction holds the task.
    Held(Holder),
    /// The task cannot be taken, or cannot be delivered.
    Refused,
    /// Only a statement can take the task.
    Impossible,
}

/// A take of up to `count` tasks.
pub struct Attempts<'take, 'call, 'passed> {
    pub queue: &'take Queue,
    pub direct: &'take Direct,
    pub assignments: Assignments<'call>,
    pub passed: &'take mut Passed<'passed>,
    pub count: usize,
    /// The take fires row triggers.
    pub fires: bool,
    /// A trigger has done something that only a statement handles, so the take must be undone.
    pub is_to_undo: bool,
    /// The rows that a take with triggers has replaced; it still sees them.
    pub replaced: HashSet<RowId>,
    /// The tasks taken; in the form that the caller wants, unless triggers were fired.
    pub rows: Vec<Value<'static>>,
}

impl Attempts<'_, '_, '_> {
    /// Returns whether no further task is to be tried.
    pub fn is_over(&self) -> bool {
        self.rows.len() >= self.count || self.passed.is_exhausted() || self.is_to_undo
    }

    /// Takes a task if possible. A task that cannot be converted is passed over.
    pub fn attempt(&mut self, found: &FoundRow) -> Attempt {
        let (queue, passed) = (self.queue, &mut *self.passed);
        if !applies(queue, Applies::TO_TAKE, found) {
            return Attempt::Unfit;
        }
        if passed.passes_over_resting(found) {
            return Attempt::Refused;
        }
        if !self.fires && queue.fires_again(found) {
            return Attempt::Impossible;
        }
        let Some(changes) = self.assignments.values(queue, found) else {
            return Attempt::Impossible;
        };
        if self.fires {
            return self.attempt_and_fire(found, &changes);
        }
        let locks_first = !passed.only_looks_at_rows();
        let mut delivered = None;
        let see = |task: Value<'static>| {
            delivered = Some(passed.converted(task)?);
            Ok(())
        };
        match found.update_unless_refused(&changes, locks_first, see) {
            Ok(true) => {
                passed.end_rest_of(found);
                self.rows.extend(delivered);
            }
            Ok(false) => return Attempt::Held(found.holder()),
            Err(refusal) => {
                passed.pass_over(self.direct, found, refusal);
                return Attempt::Refused;
            }
        }
        taken::keep(queue, found.written());
        note_move(queue, found, (Status::Ready, Status::Taken), CallKind::Take);
        Attempt::Taken
    }

    /// Takes a task and fires the table's row triggers. A BEFORE trigger can change any column, so the change is
    /// recorded by the row that was written. The indexes that are open are those of taken tasks, so the state must be
    /// right.
    fn attempt_and_fire(&mut self, found: &FoundRow, changes: &Values) -> Attempt {
        let queue = self.queue;
        let status = |row: &Open| queue.status_read(queue.value_of(row, Field::Status));
        match found.update_and_fire(changes, |row| status(row) == Some(Status::Taken)) {
            Fired::Written(task) => self.rows.push(task),
            Fired::Held => return Attempt::Held(found.holder()),
            Fired::Changed if self.replaced.contains(&found.id()) => return Attempt::Unfit,
            Fired::Changed | Fired::Unfit => {
                self.is_to_undo = true;
                return Attempt::Impossible;
            }
        }
        self.replaced.insert(found.id());
        self.passed.end_rest_of(found);
        taken::keep(queue, found.written());
        note_fired(queue, found);
        Attempt::Taken
    }
}

/// Records a take that has fired row triggers, by the row that was written.
pub fn note_fired(queue: &Queue, found: &FoundRow) {
    let old = StateAndTube { status: Status::Ready, tube: queue.tube_of(found) };
    let new = StateAndTube { status: Status::Taken, tube: queue.tube_of(found.written()) };
    let old = Seen { place: old, row: found };
    let new = Seen { place: new, row: found.written() };
    row::note(queue, Some(old), Some(new), Some(CallKind::Take));
}
