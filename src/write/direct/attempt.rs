//! A take that tries tasks one by one, wherever they were found: among candidates or in the index.

use crate::queue::{Direct, Queue};
use crate::server::heap::{FoundRow, Holder};
use crate::server::value::Value;
use crate::write::assign::{Assignments, applies};
use crate::write::direct::{note_move, taken};
use crate::write::passed::Passed;
use xqueue_core::change::CallKind;
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
    /// The tasks taken, in the form that the caller wants.
    pub rows: Vec<Value<'static>>,
}

impl Attempts<'_, '_, '_> {
    /// Returns whether no further task is to be tried.
    pub fn is_over(&self) -> bool {
        self.rows.len() >= self.count || self.passed.is_exhausted()
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
        if queue.fires_again(found) {
            return Attempt::Impossible;
        }
        let Some(changes) = self.assignments.values(queue, found) else {
            return Attempt::Impossible;
        };
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
}
