//! Direct path: take, ack, put and promotion through the table access method, for tables without triggers, rules or
//! row security of the user's.
//!
//! The rules are those of [`crate::statement::rule`]; changes are recorded as the triggers would record them. What
//! needs more, or meets another transaction at the same task, is left to the statement path.

pub mod subqueue;

use crate::error::Result;
use crate::model::change::{Call, Place};
use crate::model::field::Field;
use crate::model::form::Form;
use crate::model::position::Group;
use crate::model::status::Status;
use crate::parts::leases::session;
use crate::queue::{Arguments, Direct, Queue};
use crate::server::heap::{Bound, Found, Is, Open, Scan};
use crate::server::spi::Rows;
use crate::server::value::Value;
use crate::server::{jsonb, privileges, xact};
use crate::statement::Verb;
use crate::statement::rule::Applies;
use crate::statement::{Parameter, Put};
use crate::trace::{Shortcut, shortcuts};
use crate::transaction;
use crate::write::assign::{Assignments, Values, applies, applies_to_own};
use crate::write::seen::Seen;
use crate::write::{counting, row};
use pgrx::pg_sys::Oid;
use std::rc::Rc;

/// Maximum number of tasks changed one by one; more cost less in a statement, which counts them at once.
const FEW: usize = 32;

/// The result of a take.
pub struct Taken {
    pub rows: Rows<'static>,
    /// Ready tasks were passed over, as other transactions had them.
    pub has_missed: bool,
}

/// Takes up to `count` of the ready tasks of a group, from the mark among the arguments on.
pub fn take(
    queue: &Queue,
    group: Group,
    arguments: &Arguments,
    count: usize,
    form: Form,
) -> Result<Option<Taken>> {
    let is_bulk = is_bulk(queue, count) && !queue.features().has_deadlines();
    if is_bulk || xact::has_fixed_snapshot() || !privileges::may_update_all(queue.table) {
        return Ok(None);
    }
    let Some(direct) = queue.direct() else { return Ok(None) };
    let Some((index, bounds)) = way(queue, &direct, group, arguments) else { return Ok(None) };
    let is_wanted = |oid| oid == index || direct.may_hold(oid, Status::Taken);
    let Some(open) = direct.open(is_wanted) else { return Ok(None) };
    let Some(assignments) = assignments_of_take(queue, arguments) else { return Ok(None) };
    let is_passing = is_passing(queue, &direct);
    let (mut rows, mut has_missed) = (Vec::new(), false);
    open.scan(index, &bounds, |found| {
        if applies(queue, Applies::TO_TAKE, found) {
            let Some(changes) = assignments.values(queue, found) else {
                has_missed = true;
                return Scan::Ends;
            };
            if found.update(&changes) {
                rows.push(found.updated());
                note_move(queue, found, &open, (Status::Ready, Status::Taken), Call::Take);
            } else {
                has_missed = true;
            }
        }
        if rows.len() < count { Scan::GoesOn } else { Scan::Ends }
    });
    // What makes jsonb of a type may write as well.
    if is_passing {
        transaction::note_only_taken();
    }
    let rows = shown(rows, form);
    drop(open);
    counting::note(queue, Call::Take, None, rows.len());
    shortcuts::count(Shortcut::Take, rows.len());
    Ok(Some(Taken { rows, has_missed }))
}

/// Returns whether the writes of a take may be lost in a crash, which ends the session and gives its tasks back. The
/// number of attempts has to last, and so has whatever a check may write.
fn is_passing(queue: &Queue, direct: &Direct) -> bool {
    queue.column_of(Field::Attempts).is_none()
        && !session::outlives_connection()
        && direct.heap.only_looks_at_rows()
        && transaction::has_only_taken()
}

/// Returns the index of the ready tasks of a group in take order, and where to begin.
fn way<'m>(
    queue: &Queue,
    direct: &Direct,
    group: Group,
    arguments: &Arguments<'m>,
) -> Option<(Oid, Vec<Bound<'m>>)> {
    let Group::Ready { tube, priority } = group else { return None };
    let index = if tube.is_some() { direct.tube? } else { direct.ready? };
    let mut bounds = Vec::with_capacity(3);
    let mut bound = |is, value| bounds.push(Bound { is, value });
    if tube.is_some() {
        bound(Is::Equal, arguments.get(Parameter::Tube)?);
    }
    if let Some(priority) = priority {
        bound(Is::Equal, queue.priority_value(priority)?);
    }
    if let Some(mark) = arguments.get(Parameter::Mark) {
        bound(Is::AtLeast, mark);
    }
    Some((index, bounds))
}

fn assignments_of_take<'m>(queue: &Queue, arguments: &Arguments<'m>) -> Option<Assignments<'m>> {
    let ttr = arguments.get(Parameter::Ttr).is_some();
    Assignments::of(queue, queue.sql.on_take(ttr), arguments)
}

/// Deletes, of the tasks with these keys, those up to the first that is not there to be acked by this
/// session.
pub fn ack<'to>(queue: &Queue, keys: &[Vec<Value>], session: [u8; 16], form: Form) -> Rows<'to> {
    let none = || Rows::of(vec![]);
    let is_fixed = xact::has_fixed_snapshot();
    if is_bulk(queue, keys.len()) || is_fixed || !privileges::may_delete_all(queue.table) {
        return none();
    }
    let Some(direct) = queue.direct() else { return none() };
    let Some(index) = direct.key else { return none() };
    let Some(open) = direct.open(|oid| oid == index) else { return none() };
    let delete = |key: &Vec<Value>| {
        let bounds: Vec<_> =
            key.iter().map(|value| Bound { is: Is::Equal, value: *value }).collect();
        let mut row = None;
        open.scan(index, &bounds, |found| {
            if applies_to_own(queue, Verb::Ack.applies(), found, session) {
                row = found.delete();
            }
            if row.is_some() {
                let place = Place { status: Status::Taken, tube: queue.tube_of(found) };
                let old = Some(Seen { place, row: found });
                row::note(queue, old, None::<Seen<Found>>, Some(Call::Ack));
            }
            Scan::Ends
        });
        row
    };
    let rows = shown(keys.iter().map_while(delete).collect(), form);
    drop(open);
    counting::note(queue, Call::Ack, None, rows.len());
    shortcuts::count(Shortcut::Ack, rows.len());
    rows
}

/// Makes up to `limit` waiting tasks ready that are due, of which none is due before `since`, and returns their
/// number. Locked ones are passed over.
pub fn promote(queue: &Queue, now: i64, since: i64, limit: usize) -> Result<Option<usize>> {
    if !privileges::may_update_all(queue.table) {
        return Ok(None);
    }
    let Some(direct) = queue.direct() else { return Ok(None) };
    let Some(index) = direct.due else { return Ok(None) };
    let is_wanted = |oid| oid == index || direct.may_hold(oid, Status::Ready);
    let Some(open) = direct.open(is_wanted) else { return Ok(None) };
    let assignments = Assignments::of(queue, queue.sql.on_promotion(), &Arguments::default());
    let Some(assignments) = assignments else { return Ok(None) };
    let mut promoted = 0;
    open.scan(index, &[Bound { is: Is::AtLeast, value: Value::instant(since) }], |found| {
        let is_due = queue.instant_of(found, Field::Runat).is_some_and(|instant| instant <= now);
        let is_fit = is_due && applies(queue, Applies::TO_PROMOTE, found);
        if is_fit && found.update(assignments.common()) {
            promoted += 1;
            note_move(queue, found, &open, (Status::Waiting, Status::Ready), Call::Delay);
        }
        if is_due && promoted < limit { Scan::GoesOn } else { Scan::Ends }
    });
    drop(open);
    counting::note(queue, Call::Delay, None, promoted);
    shortcuts::count(Shortcut::Promote, promoted);
    Ok(Some(promoted))
}

/// Returns what the direct path of `put` needs, if it can be used.
pub fn writer(queue: &Queue) -> Option<Rc<Direct>> {
    let is_allowed = !xact::has_fixed_snapshot() && privileges::may_insert_all(queue.table);
    queue.direct().filter(|direct| is_allowed && direct.inserts)
}

/// Puts tasks that have values for some columns; the call gives them more, and their state.
pub fn put(
    queue: &Queue,
    direct: &Direct,
    tasks: &[Values],
    put: &Put,
    arguments: &Arguments,
) -> Result<Option<Rows<'static>>> {
    let assignments = Assignments::of(queue, queue.sql.on_put(put), arguments);
    let Some(assignments) = assignments else { return Ok(None) };
    let status = put.status();
    let Some(open) = direct.open(|oid| direct.may_hold(oid, status)) else { return Ok(None) };
    let insert = |task: &Values| {
        let row = open.insert(task.iter().chain(assignments.common()));
        let place = Place { status, tube: queue.tube_of(&open) };
        row::note(queue, None::<Seen<Found>>, Some(Seen { place, row: &open }), Some(Call::Put));
        row
    };
    let rows = shown(tasks.iter().map(insert).collect(), put.form);
    drop(open);
    transaction::note(queue.slot, |delta| delta.counters.call(Call::Put, rows.len()));
    shortcuts::count(Shortcut::Put, rows.len());
    Ok(Some(rows))
}

/// Records that a task has moved from one state to another, as the row written last shows it.
fn note_move(
    queue: &Queue,
    found: &Found,
    written: &Open,
    (from, to): (Status, Status),
    call: Call,
) {
    let tube = queue.tube_of(found);
    let place = |status| Place { status, tube };
    let (old, new) = (place(from), place(to));
    let old = Seen { place: old, row: found };
    row::note(queue, Some(old), Some(Seen { place: new, row: written }), Some(call));
}

/// Returns whether a statement is cheaper: there are many tasks, and none has to be recorded one by one.
fn is_bulk(queue: &Queue, tasks: usize) -> bool {
    tasks > FEW && queue.counts_itself && queue.has_simple_key
}

/// Called while the table is open: a conversion to jsonb may need a snapshot.
fn shown<'m>(rows: Vec<Value<'m>>, form: Form) -> Rows<'m> {
    Rows::of(match form {
        Form::Row => rows,
        Form::Json => rows.into_iter().map(jsonb::of).collect(),
    })
}
