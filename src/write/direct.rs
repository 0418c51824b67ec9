//! Direct path: put, take, ack and the worker's changes through the table access method, for tables without row
//! security and for changes that fire nothing of a user's. Puts, takes and acks can fire row triggers.
//!
//! It follows the rules of [`xqueue_core::statement::rule`] and records changes as the triggers would record them. The
//! statement path handles everything else, including an ack that meets another transaction at its task.

mod ahead;
mod attempt;
mod search;
pub mod subqueue;
mod taken;
pub mod upkeep;

use crate::error::Result;
use crate::parts::leases::session;
use crate::parts::shortcuts::{self, Shortcut};
use crate::queue::{Arguments, Direct, Fired, Queue, Start};
use crate::server::heap::{Bound, FoundRow, Is, Open, ScanStep};
use crate::server::spi::Rows;
use crate::server::value::Value;
use crate::server::xact::Verdict;
use crate::server::{privileges, xact};
use crate::transaction;
use crate::write::assign::{Assignments, Values, applies_to_own};
use crate::write::direct::ahead::{Search, bounds};
use crate::write::direct::attempt::Attempts;
use crate::write::passed::Passed;
use crate::write::seen::Seen;
use crate::write::{counting, inserted, row};
use pgrx::pg_sys::Oid;
use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;
use xqueue_core::change::{CallKind, StateAndTube};
use xqueue_core::field::Field;
use xqueue_core::position::Group;
use xqueue_core::statement::Verb;
use xqueue_core::statement::{Parameter, Put};
use xqueue_core::status::Status;

/// Maximum number of tasks of a take for which candidates are read ahead.
const FEW: usize = 200;

/// The result of a take.
pub struct TakenTasks {
    pub tasks: Vec<Value<'static>>,
    /// There can be more tasks, which only a statement can find.
    pub needs_statement: bool,
}

/// How to find the tasks of a group.
struct Way {
    direct: Rc<Direct>,
    /// The index of the group's ready tasks, in take order.
    index: Oid,
}

/// Takes up to `count` ready tasks of a group: first candidates that were read ahead, then tasks from the mark in the
/// arguments on.
pub fn take(
    queue: &Queue,
    group: Group,
    arguments: &Arguments,
    count: usize,
    passed: &mut Passed,
) -> Result<Option<TakenTasks>> {
    if xact::has_fixed_snapshot() || !privileges::may_update_all(queue.table) {
        return Ok(None);
    }
    if passed.is_exhausted() {
        return Ok(Some(TakenTasks { tasks: vec![], needs_statement: false }));
    }
    let Some(way) = way(queue, group) else { return Ok(None) };
    let fires = queue.fires.at_take() == Fired::RowTriggers;
    if fires && way.direct.heap.is_in_use() {
        return Ok(None);
    }
    let mark = arguments.mark().into_iter().flat_map(Start::at_least);
    let Some(bounds) = bounds(queue, group, arguments, mark) else { return Ok(None) };
    let Some(assignments) = assignments_of_take(queue, arguments) else { return Ok(None) };
    let take = |passed: &mut Passed| {
        let ahead = (count <= FEW).then(|| ahead::begin(queue, group, count)).flatten();
        let mut open = match fires {
            true => way.direct.open_and_fire(&[Status::Taken], &assignments.columns(queue)),
            false => way.direct.open(&[Status::Taken]),
        }?;
        let is_passing = is_passing(queue, passed);
        let mut attempts = Attempts {
            queue,
            direct: &way.direct,
            assignments,
            passed,
            count,
            fires,
            is_to_undo: false,
            replaced: HashSet::new(),
            rows: Vec::new(),
        };
        let is_to_search = ahead.is_none_or(|ahead| {
            let search = Search { group, index: way.index, arguments, tasks: count };
            ahead::take(search, &mut open, ahead, &mut attempts)
        });
        let needs_statement =
            is_to_search && search::take(&open, way.index, &bounds, &mut attempts);
        if is_passing && !open.has_lasting_effect() {
            transaction::note_only_taken();
        }
        let tasks = (!attempts.is_to_undo).then_some(attempts.rows)?;
        open.fire_after();
        drop(open);
        Some((tasks, needs_statement))
    };
    let taken = if fires { passed.take_and_fire(take)? } else { take(passed) };
    let Some((tasks, needs_statement)) = taken else { return Ok(None) };
    counting::note(queue, CallKind::Take, tasks.len());
    shortcuts::count(Shortcut::Take, tasks.len());
    Ok(Some(TakenTasks { tasks, needs_statement }))
}

/// Returns whether a crash is allowed to lose the writes of a take: a crash ends the session, so the tasks are given
/// back anyway. The number of attempts must survive, and so must anything that a user's conversion to jsonb or a trigger
/// writes. A trigger can count attempts too; a time that it sets, such as that of the change, means nothing
/// without the take.
fn is_passing(queue: &Queue, passed: &Passed) -> bool {
    queue.column_of(Field::Attempts).is_none()
        && !session::outlives_connection()
        && passed.only_looks_at_rows()
        && transaction::has_only_taken()
}

fn way(queue: &Queue, group: Group) -> Option<Way> {
    let Group::Ready { tube, .. } = group else { return None };
    let direct = queue.direct_and_firing(queue.fires.at_take())?;
    let index = if tube.is_some() { direct.tube? } else { direct.ready? };
    Some(Way { direct, index })
}

fn assignments_of_take<'m>(queue: &Queue, arguments: &Arguments<'m>) -> Option<Assignments<'m>> {
    let ttr = arguments.get(Parameter::Ttr).is_some();
    Assignments::of(queue, queue.sql.on_take(ttr), arguments)
}

/// Deletes the tasks with these keys, up to the first one that this session cannot ack.
pub fn ack<'to>(queue: &Queue, keys: &[Vec<Value>], session: [u8; 16]) -> Rows<'to> {
    let none = || Rows::of(vec![]);
    let is_fixed = xact::has_fixed_snapshot();
    if is_fixed || !privileges::may_delete_all(queue.table) {
        return none();
    }
    let Some(direct) = queue.direct_and_firing(queue.fires.at_ack()) else { return none() };
    let Some(index) = direct.key else { return none() };
    let rows = match queue.fires.at_ack() {
        Fired::RowTriggers => ack_and_fire(queue, &direct, index, keys, session),
        _ => direct.open(&[]).map(|open| delete(queue, open, index, keys, session)),
    };
    let rows = Rows::of(rows.unwrap_or_default());
    counting::note(queue, CallKind::Ack, rows.len());
    shortcuts::count(Shortcut::Ack, rows.len());
    rows
}

/// Deletes the tasks and fires row triggers. Returns None, and undoes that, unless all tasks are deleted; a statement
/// then acks them, or finds out the reason. If no BEFORE trigger can keep the row of a single task, there is nothing to
/// undo, and no subtransaction: many of them in one transaction slow down the snapshots of all sessions.
fn ack_and_fire(
    queue: &Queue,
    direct: &Direct,
    index: Oid,
    keys: &[Vec<Value>],
    session: [u8; 16],
) -> Option<Vec<Value<'static>>> {
    if direct.heap.is_in_use() {
        return None;
    }
    let ack = || {
        let open = direct.open_and_fire(&[], &[]);
        let delete = |open| delete(queue, open, index, keys, session);
        let rows = transaction::doing(queue.slot, CallKind::Ack, || open.map(delete));
        rows.filter(|rows| rows.len() == keys.len())
    };
    match keys.len() == 1 && !queue.fires.may_keep_rows() {
        true => ack(),
        false => xact::in_subtransaction(|| ack().map_or(Verdict::Undo, Verdict::Keep)),
    }
}

/// Deletes tasks, up to the first one that this session cannot ack. The index is opened only for a task that is not
/// where this session wrote it.
fn delete(
    queue: &Queue,
    mut open: Open,
    index: Oid,
    keys: &[Vec<Value>],
    session: [u8; 16],
) -> Vec<Value<'static>> {
    let fires = open.fires();
    let is_kept = Cell::new(false);
    let delete_found = |found: &FoundRow| {
        let is_own = applies_to_own(queue, Verb::Ack.applies(), found, session);
        let delete = || if fires { found.delete_and_fire() } else { found.delete() };
        let row = is_own.then(delete).flatten();
        is_kept.set(fires && row.is_none());
        let row = row?;
        let place = StateAndTube { status: Status::Taken, tube: queue.tube_of(found) };
        let old = Some(Seen { place, row: found });
        row::note(queue, old, None::<Seen<FoundRow>>, Some(CallKind::Ack));
        Some(row)
    };
    let delete = |key: &Vec<Value>| {
        let mut row = None;
        if let Some((number, place)) = taken::row(queue, key) {
            open.see_at(place, |found| {
                let is_it = queue.key_number_of(found) == Some(number);
                row = is_it.then(|| delete_found(found)).flatten();
            });
            shortcuts::count(Shortcut::AckInPlace, usize::from(row.is_some()));
        }
        if row.is_none() && !is_kept.get() {
            let bounds: Vec<_> =
                key.iter().map(|value| Bound { is: Is::Equal, value: *value }).collect();
            open.scan(index, &bounds, |found| {
                row = delete_found(found);
                ScanStep::Ends
            });
        }
        row
    };
    let rows: Vec<_> = keys.iter().map_while(delete).collect();
    // Without a deletion there is no event, and nothing that a caller has to undo.
    if rows.len() == keys.len() || rows.is_empty() {
        open.fire_after();
    }
    rows
}

/// Returns the direct path for `put`, if it can be used.
pub fn writer(queue: &Queue) -> Option<Rc<Direct>> {
    let is_allowed = !xact::has_fixed_snapshot() && privileges::may_insert_all(queue.table);
    queue.direct_and_firing(queue.fires.at_put()).filter(|direct| is_allowed && direct.inserts)
}

/// Puts tasks that have values for some columns; the call adds further values, and the state.
pub fn put(
    queue: &Queue,
    direct: &Direct,
    tasks: &[Values],
    put: &Put,
    arguments: &Arguments,
) -> Result<Option<Rows<'static>>> {
    let assignments = Assignments::of(queue, queue.sql.on_put(put), arguments);
    let Some(assignments) = assignments else { return Ok(None) };
    let states = [put.status()];
    let fires = queue.fires.at_put() == Fired::RowTriggers;
    let open = match fires {
        true if queue.fires.may_change_new_rows() => direct.open_and_fire(&Status::ALL, &[]),
        true => direct.open_and_fire(&states, &[]),
        false => direct.open(&states),
    };
    let Some(mut open) = open else { return Ok(None) };
    let rows = transaction::doing(queue.slot, CallKind::Put, || {
        let insert = |task| insert(queue, &open, task, &assignments).transpose();
        let rows = tasks.iter().filter_map(insert).collect::<Result<Vec<_>>>()?;
        open.fire_after();
        Ok(rows)
    })?;
    // The table is still open, because a conversion to jsonb can need a snapshot.
    let rows = queue.in_form(rows.into_iter(), put.form);
    drop(open);
    shortcuts::count(Shortcut::Put, rows.len());
    Ok(Some(rows))
}

/// Inserts a task and records it; None if a trigger refuses it.
fn insert<'to>(
    queue: &Queue,
    open: &Open,
    task: &Values,
    assignments: &Assignments,
) -> Result<Option<Value<'to>>> {
    let Some(row) = open.insert(task.iter().chain(assignments.common())) else { return Ok(None) };
    let new = Seen { place: queue.place_of(open)?, row: open };
    inserted::note(queue, new, Some(CallKind::Put))?;
    Ok(Some(row))
}
