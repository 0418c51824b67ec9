//! Direct path of a take of the first task of a sub-queue.

use crate::error::Result;
use crate::parts::shortcuts::{self, Shortcut};
use crate::queue::{Arguments, Direct, Fired, Queue, Start};
use crate::server::heap::{Bound, Fired as FiredRow, FoundRow, Is, Open, ScanStep};
use crate::server::value::Value;
use crate::server::{privileges, xact};
use crate::transaction;
use crate::write::assign::{Assignments, Values, is_alive, is_in_state};
use crate::write::direct::attempt::note_fired;
use crate::write::direct::{assignments_of_take, is_passing};
use crate::write::passed::Passed;
use crate::write::row::note_move;
use crate::write::unchanged;
use pgrx::pg_sys::Oid;
use xqueue_core::change::{CallKind, StateAndTube};
use xqueue_core::level::{self, Level};
use xqueue_core::statement::rule::Applies;
use xqueue_core::status::Status;

/// The result of an attempt to take the first task of a sub-queue.
pub enum First {
    /// The task has been taken. No later task has a lesser level than this; None if earlier tasks were passed over.
    Taken(Option<Level>),
    /// The task has this level, which is beyond the limit.
    Later(Level),
    /// Another transaction has locked the task, or changed it since.
    Locked,
    /// The task waits for its time.
    Waits,
    Missing,
}

/// Takes the first task of a sub-queue that this transaction has claimed and that has no taken task, from the mark in the
/// arguments on, unless its level is beyond `limit`. Returns None if a statement has to do it.
pub fn take(
    queue: &Queue,
    subqueue: u64,
    arguments: &Arguments,
    limit: Level,
    passed: &mut Passed,
) -> Result<Option<(Vec<Value<'static>>, First)>> {
    if transaction::has_redefined(queue.slot) || xact::has_fixed_snapshot() {
        return Ok(None);
    }
    let direct = queue.direct_and_firing(queue.fires.at_take());
    let direct = direct.filter(|_| privileges::may_update_all(queue.table));
    let Some(direct) = direct else { return Ok(None) };
    let Some(index) = direct.subqueue else { return Ok(None) };
    let Some(assignments) = assignments_of_take(queue, arguments) else { return Ok(None) };
    let of_subqueue = Bound { is: Is::Equal, value: Value::int8(subqueue as i64) };
    let mark = arguments.mark().into_iter().flat_map(Start::at_least);
    let bounds: Vec<_> = [of_subqueue].into_iter().chain(mark).collect();
    let look =
        Look { queue, subqueue, direct: &direct, index, assignments, bounds: &bounds, limit };
    let taken = match queue.fires.at_take() {
        Fired::RowTriggers if direct.heap.is_in_use() => None,
        Fired::RowTriggers => passed.take_and_fire(|passed| look.take(passed, true))?,
        _ => look.take(passed, false),
    };
    if matches!(taken, Some((_, First::Taken(_)))) {
        shortcuts::count(Shortcut::TakeInSubqueue, 1);
    }
    Ok(taken)
}

/// The result of an attempt to change the task.
enum Tried {
    Taken(Value<'static>),
    /// Another transaction holds the task.
    Held,
    /// The task cannot be taken, or cannot be delivered.
    Refused,
    /// Only a statement can take the task.
    Impossible,
}

/// A look at the first task of a sub-queue.
struct Look<'look, 'call> {
    queue: &'look Queue,
    subqueue: u64,
    direct: &'look Direct,
    /// The index of the sub-queue's tasks.
    index: Oid,
    assignments: Assignments<'call>,
    bounds: &'look [Bound<'look>],
    limit: Level,
}

impl Look<'_, '_> {
    /// Takes the task if possible. `fires`: its update fires row triggers. Returns None if a statement has to take it;
    /// what triggers have done must then be undone.
    fn take(&self, passed: &mut Passed, fires: bool) -> Option<(Vec<Value<'static>>, First)> {
        let Look { queue, direct, limit, .. } = *self;
        let mut open = match fires {
            true => direct.open_and_fire(&[Status::Taken], &self.assignments.columns(queue)),
            false => direct.open(&[Status::Taken]),
        }?;
        let is_passing = is_passing(queue, passed);
        // Only triggers and casts can take another task meanwhile.
        let taken = (fires || !passed.only_looks_at_rows()).then(|| self.taken());
        let mut first = Some(First::Missing);
        let mut row = None;
        let mut has_passed = false;
        let has_levels = queue.has_levels();
        let mut next_level = if has_levels { level::LAST } else { level::UNKNOWN };
        open.scan(self.index, self.bounds, |found| {
            if !is_alive(queue, Applies::TO_TAKE, found) {
                return ScanStep::GoesOn;
            }
            let level = queue.level_of(found);
            if row.is_some() {
                next_level = level;
                return ScanStep::Ends;
            }
            if is_in_state(queue, Applies::TO_TAKE, found)
                && level <= limit
                && passed.passes_over_resting(found)
            {
                has_passed = true;
                return ScanStep::GoesOn;
            }
            if passed.is_exhausted() {
                // Nobody has tried this task: the sub-queue is not to count as one without tasks.
                has_passed = true;
                return ScanStep::Ends;
            }
            first = match self.assignments.values(queue, found) {
                _ if !is_in_state(queue, Applies::TO_TAKE, found) => Some(First::Waits),
                _ if level > limit => Some(First::Later(level)),
                _ if !fires && queue.fires_again(found) => None,
                None => None,
                Some(changes) => match self.attempt(found, &changes, passed, fires, taken) {
                    Tried::Taken(task) => {
                        row = Some(task);
                        None
                    }
                    Tried::Held => Some(First::Locked),
                    Tried::Impossible => None,
                    Tried::Refused => {
                        has_passed = true;
                        return if self.has_still(taken) {
                            ScanStep::GoesOn
                        } else {
                            ScanStep::Ends
                        };
                    }
                },
            };
            if row.is_some() && has_levels { ScanStep::GoesOn } else { ScanStep::Ends }
        });
        let Some(row) = row else {
            // The tasks that were passed over are still there.
            let is_missing = has_passed && matches!(first, Some(First::Missing));
            let first = if is_missing { Some(First::Locked) } else { first }?;
            open.fire_after();
            return Some((vec![], first));
        };
        if is_passing && !open.has_lasting_effect() {
            transaction::note_only_taken();
        }
        open.fire_after();
        Some((vec![row], First::Taken((!has_passed).then_some(next_level))))
    }

    /// Returns how many tasks of the sub-queue the transaction has taken, less those that it has settled. A trigger or
    /// a cast can take one under this claim.
    fn taken(&self) -> i32 {
        transaction::pending_subqueue(self.queue.slot, self.subqueue).taken
    }

    fn has_still(&self, taken: Option<i32>) -> bool {
        taken.is_none_or(|taken| taken == self.taken())
    }

    /// Takes a task that was found. Its triggers can change any column but the state and the tube: the sub-queue is
    /// claimed, another one is not.
    fn attempt(
        &self,
        found: &FoundRow,
        changes: &Values,
        passed: &mut Passed,
        fires: bool,
        taken: Option<i32>,
    ) -> Tried {
        let queue = self.queue;
        if fires {
            let place = StateAndTube { status: Status::Taken, tube: queue.tube_of(found) };
            let is_there = |row: &Open| {
                queue.place_of(row).is_ok_and(|written| written == place) && self.has_still(taken)
            };
            return match found.update_and_fire(changes, is_there) {
                FiredRow::Written(task) => {
                    passed.end_rest_of(found);
                    note_fired(queue, found);
                    Tried::Taken(task)
                }
                FiredRow::Held => Tried::Held,
                FiredRow::Changed | FiredRow::Unfit => Tried::Impossible,
            };
        }
        let locks_first = !passed.only_looks_at_rows();
        let mut delivered = None;
        let see = |task: Value<'static>| {
            delivered = Some(passed.converted(task)?);
            match self.has_still(taken) {
                true => Ok(()),
                false => Err(unchanged::failure(&queue.key_text_of(found)).into()),
            }
        };
        match found.update_unless_refused(changes, locks_first, see) {
            Ok(true) => {
                passed.end_rest_of(found);
                note_move(queue, found, (Status::Ready, Status::Taken), CallKind::Take);
                delivered.map_or(Tried::Impossible, Tried::Taken)
            }
            Ok(false) => Tried::Held,
            Err(refusal) => {
                passed.pass_over(self.direct, found, refusal);
                Tried::Refused
            }
        }
    }
}
