//! Direct path of a take of the first task of a sub-queue.

use crate::error::Result;
use crate::parts::shortcuts::{self, Shortcut};
use crate::queue::{Arguments, Queue, Start};
use crate::server::heap::{Bound, Is, ScanStep};
use crate::server::spi::Rows;
use crate::server::trigger::Event;
use crate::server::value::Value;
use crate::server::{privileges, xact};
use crate::transaction;
use crate::write::assign::{is_alive, is_in_state};
use crate::write::direct::{assignments_of_take, is_passing};
use crate::write::passed::Passed;
use crate::write::row::note_move;
use xqueue_core::change::CallKind;
use xqueue_core::level::{self, Level};
use xqueue_core::statement::rule::Applies;
use xqueue_core::status::Status;

/// The result of an attempt to take the first task of a sub-queue.
pub enum First {
    /// The task has been taken. No later task has a lesser level than this; None if earlier tasks were passed over.
    Taken(Rows<'static>, Option<Level>),
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
) -> Result<Option<First>> {
    if transaction::has_redefined(queue.slot) || xact::has_fixed_snapshot() {
        return Ok(None);
    }
    let direct = queue.direct(Event::Update).filter(|_| privileges::may_update_all(queue.table));
    let Some(direct) = direct else { return Ok(None) };
    let Some(index) = direct.subqueue else { return Ok(None) };
    let Some(open) = direct.open(&[Status::Taken]) else { return Ok(None) };
    let Some(assignments) = assignments_of_take(queue, arguments) else { return Ok(None) };
    let is_passing = is_passing(queue, &direct, passed);
    let locks_first = !passed.only_looks_at_rows();
    let of_subqueue = Bound { is: Is::Equal, value: Value::int8(subqueue as i64) };
    let mark = arguments.mark().into_iter().flat_map(Start::at_least);
    let bounds: Vec<_> = [of_subqueue].into_iter().chain(mark).collect();
    let mut first = Some(First::Missing);
    let mut row = None;
    let mut has_passed = false;
    let has_levels = queue.has_levels();
    let mut next_level = if has_levels { level::LAST } else { level::UNKNOWN };
    open.scan(index, &bounds, |found| {
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
            return ScanStep::Ends;
        }
        let mut delivered = None;
        let see = |task: Value<'static>| {
            delivered = Some(passed.converted(task)?);
            Ok(())
        };
        first = match assignments.values(queue, found) {
            _ if !is_in_state(queue, Applies::TO_TAKE, found) => Some(First::Waits),
            _ if level > limit => Some(First::Later(level)),
            _ if queue.fires_again(found) => None,
            None => None,
            Some(changes) => match found.update_unless_refused(&changes, locks_first, see) {
                Ok(true) => {
                    passed.end_rest_of(found);
                    note_move(queue, found, (Status::Ready, Status::Taken), CallKind::Take);
                    row = delivered;
                    None
                }
                Ok(false) => Some(First::Locked),
                Err(refusal) => {
                    passed.pass_over(&direct, found, refusal);
                    has_passed = true;
                    return ScanStep::GoesOn;
                }
            },
        };
        if row.is_some() && has_levels { ScanStep::GoesOn } else { ScanStep::Ends }
    });
    let Some(row) = row else {
        // The tasks that were passed over are still there.
        let is_missing = has_passed && matches!(first, Some(First::Missing));
        return Ok(if is_missing { Some(First::Locked) } else { first });
    };
    if is_passing {
        transaction::note_only_taken();
    }
    shortcuts::count(Shortcut::TakeInSubqueue, 1);
    Ok(Some(First::Taken(Rows::of(vec![row]), (!has_passed).then_some(next_level))))
}
